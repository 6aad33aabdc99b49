//! Requests of the state service and of the watch service.

use super::{
    fields::{enumeration, too_long},
    request::{Asked, At, Decoded, Read, read},
};
use crate::{
    domain::{
        delta::ScopeDelta,
        error::Reason,
        event::Fingerprint,
        id::{Author, InvocationId},
        limits::{MESSAGE_BYTES, TEMPLATE_BYTES},
        scope::{Scope, ScopeKind, SessionKey},
        token::ChangeToken,
    },
    engine::WatchFrom,
    proto::v1::{self, WatchStart},
    rpc::convert::Form,
    store::{KeyChangeQuery, RequestKey, StateQuery, StateUpdate},
};

/// GetState, with whether to answer versions.
pub fn get_state(
    at: At<'_>,
    request: v1::GetStateRequest,
) -> Decoded<(StateQuery, Option<InvocationId>, bool, Form)> {
    read!(at: v1::GetStateRequest {
        scope, keys, invocation_id, include_versions, json_form
    } = request);
    let keys = Some(keys).filter(|keys: &Vec<_>| !keys.is_empty());
    Ok((StateQuery { scope, keys }, invocation_id, include_versions, json_form))
}

pub fn update_state(at: At<'_>, request: v1::UpdateStateRequest) -> Asked<StateUpdate> {
    read!(at: v1::UpdateStateRequest {
        scope,
        delta = of(at, &scope).field("delta").required(delta),
        precondition = precondition.read(of(at, &scope).field("precondition")),
        author, request_id, json_form
    } = request);
    let delta = ScopeDelta::new(scope, delta).map_err(|key| {
        let message = "A key does not belong to the scope. Use the scope that its prefix names.";
        at.field("delta").fault(Reason::KeyOutsideScope, message, &[("key", &key)])
    })?;
    let author = Option::unwrap_or_else(author, Author::system);
    let fingerprint = Fingerprint(delta.delta().fingerprint());
    let request = Option::map(request_id, |id| RequestKey { id, fingerprint });
    Ok((StateUpdate { delta, precondition, author, request }, json_form))
}

pub fn list_key_changes(
    at: At<'_>,
    request: v1::ListKeyChangesRequest,
) -> Asked<(KeyChangeQuery, Option<ChangeToken>)> {
    read!(at: v1::ListKeyChangesRequest {
        scope,
        key = of(at, &scope).field("key").required((!key.is_empty()).then_some(key)),
        page_size, page_token, json_form
    } = request);
    let (max_items, max_bytes) = (page_size, MESSAGE_BYTES);
    let query = KeyChangeQuery { scope, key, before: None, max_items, max_bytes };
    Ok(((query, page_token), json_form))
}

/// Where only keys of this scope may be named. If the scope itself is at fault, that is every stored key.
fn of<'a>(at: At<'a>, scope: &Decoded<Scope>) -> At<'a> {
    At { keys: Some(scope.as_ref().map_or(ScopeKind::Session, Scope::kind)), ..at }
}

pub fn render_template(
    at: At<'_>,
    request: v1::RenderTemplateRequest,
) -> Decoded<(SessionKey, String, Option<InvocationId>)> {
    let here = at.field("template");
    read!(at: v1::RenderTemplateRequest {
        key,
        template = match template.len() {
            0 => Err(here.missing()),
            1..=TEMPLATE_BYTES => Ok(template),
            bytes => Err(too_long(here, Reason::FieldTooLong, bytes, TEMPLATE_BYTES)),
        },
        invocation_id,
    } = request);
    Ok((key, template, invocation_id))
}

/// EndInvocation: which one of which session.
pub fn end_invocation(
    at: At<'_>,
    request: v1::EndInvocationRequest,
) -> Decoded<(SessionKey, InvocationId)> {
    read!(at: v1::EndInvocationRequest { key, invocation_id } = request);
    Ok((key, invocation_id))
}

/// Watch: the scope and the start.
pub fn watch(at: At<'_>, request: v1::WatchRequest) -> Decoded<(Scope, WatchFrom, Form)> {
    read!(at: v1::WatchRequest {
        scope, start = enumeration(at.field("start"), start), cursor, json_form
    } = request);
    let from = match (cursor, start) {
        (Some(cursor), _) => WatchFrom::Cursor(cursor),
        (None, WatchStart::Unspecified | WatchStart::Snapshot) => WatchFrom::Snapshot,
        (None, WatchStart::Beginning) => WatchFrom::Beginning,
        (None, WatchStart::Now) => WatchFrom::Now,
    };
    Ok((scope, from, json_form))
}
