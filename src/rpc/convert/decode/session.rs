//! Requests of the session service.

use prost_types::FieldMask;

use super::{
    fields::enumeration,
    json::{entries, entries_of_text},
    request::{Asked, At, Decoded, Read, read},
};
use crate::{
    domain::{
        error::{Reason, quoted},
        event::Fingerprint,
        id::{Author, DisplayName, InvocationId},
        limits::MESSAGE_BYTES,
        scope::SessionKey,
        session::{Expiration, Labels},
        token::SessionToken,
    },
    engine::{new_event_id, new_session_id},
    proto::v1::{self, create_session_request::StateForm},
    store::{
        CreateSession, ForkSession, OnExisting, RewindSession, SessionOrder, SessionQuery,
        SessionUpdate, SessionsQuery,
    },
};

pub fn create_session(at: At<'_>, request: v1::CreateSessionRequest) -> Asked<CreateSession> {
    read!(at: v1::CreateSessionRequest {
        app_name, user_id, session_id,
        state_form = match state_form {
            None => Ok(Vec::new()),
            Some(StateForm::State(it)) => entries(at.field("state"), it),
            Some(StateForm::StateJson(text)) => entries_of_text(at.field("state_json"), text),
        },
        session = session.unwrap_or_default().read(at.field("session")),
        allow_existing, json_form
    } = request);
    let Settings { display_name, labels, expiration } = session;
    let session_id = Option::unwrap_or_else(session_id, new_session_id);
    let new = CreateSession {
        key: SessionKey { app_name, user_id, session_id },
        state: state_form,
        display_name,
        labels,
        expiration,
        on_existing: if allow_existing { OnExisting::Return } else { OnExisting::Refuse },
    };
    Ok((new, json_form))
}

pub fn get_session(
    at: At<'_>,
    request: v1::GetSessionRequest,
) -> Asked<(SessionQuery, Option<InvocationId>)> {
    read!(at: v1::GetSessionRequest {
        key, events, as_of_sequence, invocation_id, without_state, json_form
    } = request);
    let (session, as_of, with_state) = (key, as_of_sequence, !without_state);
    Ok(((SessionQuery { session, as_of, with_state, events }, invocation_id), json_form))
}

pub fn list_sessions(
    at: At<'_>,
    request: v1::ListSessionsRequest,
) -> Asked<(SessionsQuery, Option<SessionToken>)> {
    read!(at: v1::ListSessionsRequest {
        app_name, user_id, page_size, page_token,
        order = enumeration(at.field("order"), order),
        labels, include_state, json_form
    } = request);
    let order = match order {
        v1::SessionOrder::LastEventTimeDesc => SessionOrder::MostRecent,
        v1::SessionOrder::Unspecified | v1::SessionOrder::LastEventTimeAsc => {
            SessionOrder::LeastRecent
        }
    };
    let query = SessionsQuery {
        app_name,
        user_id,
        labels,
        order,
        after: None,
        max_items: page_size,
        max_bytes: MESSAGE_BYTES,
        with_state: include_state,
    };
    Ok(((query, page_token), json_form))
}

/// UpdateSession. Settings that the mask does not name are not validated either.
pub fn update_session(at: At<'_>, request: v1::UpdateSessionRequest) -> Decoded<SessionUpdate> {
    let v1::UpdateSessionRequest { key, session, update_mask } = request;
    let no_mask = update_mask.is_none();
    let FieldMask { paths } = update_mask.unwrap_or_default();
    let names = |path: &str| no_mask || paths.iter().any(|named| named == path);
    let masks_expiration = names("expire_time") || names("ttl");
    let key = key.read(at.field("key"));
    let mut session = session.unwrap_or_default();
    session.display_name.retain(|_| names("display_name"));
    session.labels.retain(|_, _| names("labels"));
    session.expiration = session.expiration.filter(|_| masks_expiration);
    let settings = session.read(at.field("session"));
    let mask = at.field("update_mask");
    if paths.is_empty() {
        return Err(mask.missing());
    }
    mask.field("paths").each(paths.iter().collect(), |at, path: &String| match path.as_str() {
        "display_name" | "labels" | "expire_time" | "ttl" => Ok(()),
        _ => {
            let message = format!(
                "Path '{}' cannot be updated. Use display_name, labels, expire_time or ttl.",
                quoted(path)
            );
            Err(at.fault(Reason::BadMask, message, &[("path", path)]))
        }
    })?;
    let Settings { display_name, labels, expiration } = settings?;
    // Taken literally, the other form would clear what the caller has just sent.
    let other_form = match expiration {
        Some(Expiration::At(_)) if !names("expire_time") => Some("ttl"),
        Some(Expiration::After { .. }) if !names("ttl") => Some("expire_time"),
        _ => None,
    };
    if let Some(path) = other_form {
        let message = format!(
            "The mask names {path}, but the session sets the other form of the expiration. Name the form that is set."
        );
        return Err(mask.fault(Reason::BadMask, message, &[("path", &path)]));
    }
    Ok(SessionUpdate {
        key: key?,
        display_name: names("display_name").then_some(display_name),
        labels: names("labels").then_some(labels),
        expiration: masks_expiration.then_some(expiration),
    })
}

/// DeleteSession: which one, and whether it may be missing.
pub fn delete_session(
    at: At<'_>,
    request: v1::DeleteSessionRequest,
) -> Decoded<(SessionKey, bool)> {
    read!(at: v1::DeleteSessionRequest { key, allow_missing } = request);
    Ok((key, allow_missing))
}

pub fn fork_session(at: At<'_>, request: v1::ForkSessionRequest) -> Asked<ForkSession> {
    read!(at: v1::ForkSessionRequest { key, up_to_sequence, session_id, json_form } = request);
    let session_id = Option::unwrap_or_else(session_id, new_session_id);
    Ok((ForkSession { source: key, up_to: up_to_sequence, session_id }, json_form))
}

pub fn rewind_session(at: At<'_>, request: v1::RewindSessionRequest) -> Asked<RewindSession> {
    read!(at: v1::RewindSessionRequest {
        key,
        to_sequence = at.field("to_sequence").required(to_sequence),
        event_id, author, precondition, json_form
    } = request);
    let author = Option::unwrap_or_else(author, Author::system);
    let event_id = Option::unwrap_or_else(event_id, new_event_id);
    let (to, fingerprint) = (to_sequence, Fingerprint::of_rewind(to_sequence, &author));
    Ok((RewindSession { key, to, event_id, author, fingerprint, precondition }, json_form))
}

/// The settings of a session, which are not state.
struct Settings {
    display_name: DisplayName,
    labels: Labels,
    expiration: Option<Expiration>,
}

impl Read<Settings> for v1::Session {
    fn read(self, at: At<'_>) -> Decoded<Settings> {
        use v1::session::Expiration::{ExpireTime, Ttl};
        read!(at: v1::Session {
            expiration = match expiration {
                None => Ok(None),
                Some(ExpireTime(it)) => {
                    it.read(at.field("expire_time")).map(|time| Some(Expiration::At(time)))
                }
                Some(Ttl(it)) => it.read(at.field("ttl")).map(Some),
            },
            display_name, labels;
            // What only answers hold, and state, which has its own requests.
            key, state_form, state_rounded, last_sequence, create_time, update_time,
            last_event_time, forked_from,
        } = self);
        Ok(Settings { display_name, labels, expiration })
    }
}
