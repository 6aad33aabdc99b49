//! Requests of the state service.

use super::{
    address::{Keys, scope, session_key},
    delta::{delta, too_many},
    faults::{Path, decode},
    fields::{form, name, optional, page_size, page_token, state_key, too_long},
    precondition::precondition,
    session::author_or_system,
};
use crate::{
    domain::{
        error::{Error, Reason},
        id::{InvocationId, RequestId},
        limits::{DELTA_OPERATIONS, TEMPLATE_BYTES},
        scope::{Scope, ScopeKind, SessionKey},
        token::ChangeToken,
    },
    engine::{GetState, ListKeyChanges, RenderTemplate, UpdateState},
    proto::v1::{
        EndInvocationRequest, GetStateRequest, ListKeyChangesRequest, RenderTemplateRequest,
        UpdateStateRequest,
    },
    rpc::convert::Form,
};

/// GetState, and whether to answer versions.
pub fn get_state(request: GetStateRequest) -> Result<(GetState, bool, Form), Error> {
    decode(|faults| {
        let GetStateRequest { scope: from, keys, invocation_id, include_versions, json_form } =
            request;
        let at = Path::REQUEST;
        let scope = scope(faults, at.field("scope"), from);
        let keys = match keys.len() {
            0..=DELTA_OPERATIONS => faults.each(at.field("keys"), keys, state_key),
            many => Err(too_many(faults, at.field("keys"), many)),
        };
        let invocation =
            optional(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
        let form = form(faults, at.field("json_form"), json_form)?;
        let get = GetState { scope: scope?, keys: keys?, invocation_id: invocation? };
        Ok((get, include_versions, form))
    })
}

/// UpdateState.
pub fn update_state(request: UpdateStateRequest) -> Result<(UpdateState, Form), Error> {
    decode(|faults| {
        let UpdateStateRequest {
            scope: of,
            delta: changes,
            precondition: must_hold,
            author,
            request_id,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let scope = scope(faults, at.field("scope"), of);
        // Where the scope itself is at fault, its keys are only held to what every scope asks.
        let kind = scope.as_ref().map_or(ScopeKind::Session, Scope::kind);
        let delta = match changes {
            Some(it) => delta(faults, at.field("delta"), it, Keys::StoredIn(kind)),
            None => Err(faults.missing(at.field("delta"))),
        };
        let precondition = precondition(faults, at.field("precondition"), must_hold, kind);
        let author = author_or_system(faults, at.field("author"), author);
        let request_id = optional(faults, at.field("request_id"), request_id, RequestId::new);
        let form = form(faults, at.field("json_form"), json_form)?;
        let update = UpdateState {
            scope: scope?,
            delta: delta?,
            precondition: precondition?,
            author: author?,
            request_id: request_id?,
        };
        Ok((update, form))
    })
}

/// ListKeyChanges.
pub fn list_key_changes(request: ListKeyChangesRequest) -> Result<(ListKeyChanges, Form), Error> {
    decode(|faults| {
        let ListKeyChangesRequest {
            scope: from,
            key,
            page_size: size,
            page_token: token,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let scope = scope(faults, at.field("scope"), from);
        let keys = Keys::StoredIn(scope.as_ref().map_or(ScopeKind::Session, Scope::kind));
        let key = if key.is_empty() {
            Err(faults.missing(at.field("key")))
        } else {
            state_key(faults, at.field("key"), key)
                .and_then(|key| keys.check(faults, at.field("key"), key))
        };
        let size = page_size(faults, at.field("page_size"), size);
        let token = page_token(faults, at.field("page_token"), &token, ChangeToken::decode);
        let form = form(faults, at.field("json_form"), json_form)?;
        Ok((
            ListKeyChanges { scope: scope?, key: key?, page_size: size?, page_token: token? },
            form,
        ))
    })
}

/// RenderTemplate.
pub fn render_template(request: RenderTemplateRequest) -> Result<RenderTemplate, Error> {
    decode(|faults| {
        let RenderTemplateRequest { key, template, invocation_id } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let here = at.field("template");
        let template = match template.len() {
            0 => Err(faults.missing(here)),
            1..=TEMPLATE_BYTES => Ok(template),
            bytes => Err(too_long(faults, here, Reason::FieldTooLong, bytes, TEMPLATE_BYTES)),
        };
        let invocation =
            optional(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
        Ok(RenderTemplate { key: key?, template: template?, invocation_id: invocation? })
    })
}

/// EndInvocation: which one of which session.
pub fn end_invocation(request: EndInvocationRequest) -> Result<(SessionKey, InvocationId), Error> {
    decode(|faults| {
        let EndInvocationRequest { key, invocation_id } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let invocation = name(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
        Ok((key?, invocation?))
    })
}
