//! Requests of the state service.

use super::{
    address::{Keys, scope, session_key},
    delta::{delta, too_many},
    fields::{name, optional, page_size, page_token, state_key, too_long, with_form},
    precondition::precondition,
    request::{At, Decoded, decode, decoded},
    session::author_or_system,
};
use crate::{
    domain::{
        delta::{Delta, ScopeDelta},
        error::{Error, Reason},
        id::{InvocationId, RequestId},
        limits::{DELTA_OPERATIONS, TEMPLATE_BYTES},
        scope::{Scope, ScopeKind, SessionKey},
        token::ChangeToken,
    },
    engine::{GetState, ListKeyChanges, RenderTemplate, UpdateState},
    proto::v1,
    rpc::convert::Form,
};

/// GetState, and whether to answer versions.
pub fn get_state(request: v1::GetStateRequest) -> Result<(GetState, bool, Form), Error> {
    decode(|at| {
        let v1::GetStateRequest { scope: from, keys, invocation_id, include_versions, json_form } =
            request;
        let get = decoded!(GetState {
            scope: scope(at.field("scope"), from),
            keys: match keys.len() {
                0..=DELTA_OPERATIONS => at.field("keys").each(keys, state_key),
                many => Err(too_many(at.field("keys"), many)),
            },
            invocation_id: optional(at.field("invocation_id"), invocation_id, InvocationId::new),
        });
        let (get, form) = with_form(at, get, json_form)?;
        Ok((get, include_versions, form))
    })
}

/// UpdateState.
pub fn update_state(request: v1::UpdateStateRequest) -> Result<(UpdateState, Form), Error> {
    decode(|at| {
        let v1::UpdateStateRequest {
            scope: of,
            delta: changes,
            precondition: must_hold,
            author,
            request_id,
            json_form,
        } = request;
        let scope = scope(at.field("scope"), of);
        let kind = kind(&scope);
        let changes = match changes {
            Some(it) => delta(at.field("delta"), it, Keys::StoredIn(kind)),
            None => Err(at.field("delta").missing()),
        };
        let update = decoded!(UpdateState {
            delta: scope.and_then(|scope| scope_delta(at.field("delta"), scope, changes?)),
            precondition: precondition(at.field("precondition"), must_hold, kind),
            author: author_or_system(at.field("author"), author),
            request_id: optional(at.field("request_id"), request_id, RequestId::new),
        });
        with_form(at, update, json_form)
    })
}

/// ListKeyChanges.
pub fn list_key_changes(
    request: v1::ListKeyChangesRequest,
) -> Result<(ListKeyChanges, Form), Error> {
    decode(|at| {
        let v1::ListKeyChangesRequest {
            scope: from,
            key,
            page_size: size,
            page_token: token,
            json_form,
        } = request;
        let list = decoded!(ListKeyChanges {
            scope: scope(at.field("scope"), from),
            key: match key.as_str() {
                "" => Err(at.field("key").missing()),
                key => Keys::StoredIn(kind(&scope)).read(at.field("key"), key),
            },
            page_size: page_size(at.field("page_size"), size),
            page_token: page_token(at.field("page_token"), &token, ChangeToken::decode),
        });
        with_form(at, list, json_form)
    })
}

/// The kind whose keys a request may name. If the scope itself is at fault, that is every stored key.
fn kind(scope: &Decoded<Scope>) -> ScopeKind {
    scope.as_ref().map_or(ScopeKind::Session, Scope::kind)
}

fn scope_delta(at: At<'_>, scope: Scope, delta: Delta) -> Decoded<ScopeDelta> {
    ScopeDelta::new(scope, delta).map_err(|key| {
        let message = "A key does not belong to the scope. Use the scope that its prefix names.";
        at.fault(Reason::KeyOutsideScope, message, &[("key", &key)])
    })
}

/// RenderTemplate.
pub fn render_template(request: v1::RenderTemplateRequest) -> Result<RenderTemplate, Error> {
    decode(|at| {
        let v1::RenderTemplateRequest { key, template, invocation_id } = request;
        let here = at.field("template");
        decoded!(RenderTemplate {
            key: session_key(at.field("key"), key),
            template: match template.len() {
                0 => Err(here.missing()),
                1..=TEMPLATE_BYTES => Ok(template),
                bytes => Err(too_long(here, Reason::FieldTooLong, bytes, TEMPLATE_BYTES)),
            },
            invocation_id: optional(at.field("invocation_id"), invocation_id, InvocationId::new),
        })
    })
}

/// EndInvocation: which one of which session.
pub fn end_invocation(
    request: v1::EndInvocationRequest,
) -> Result<(SessionKey, InvocationId), Error> {
    decode(|at| {
        let v1::EndInvocationRequest { key, invocation_id } = request;
        let key = session_key(at.field("key"), key);
        let invocation = name(at.field("invocation_id"), invocation_id, InvocationId::new);
        Ok((key?, invocation?))
    })
}
