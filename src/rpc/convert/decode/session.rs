//! Requests of the session service.

use super::{
    address::{BareIds, Keys, session_key, session_ref},
    event::selection,
    fields::{
        count, enumeration, form, labels, name, optional, optional_count, page_size, page_token,
        time, ttl, with_form,
    },
    json::{Source, entries},
    precondition::precondition,
    request::{At, Decoded, Faulted, decode, decoded},
};
use crate::{
    domain::{
        error::{Error, Reason, quoted},
        id::{AppName, Author, DisplayName, EventId, InvocationId, SessionId, UserId},
        scope::{ScopeKind, SessionKey},
        session::{Expiration, Labels},
        token::SessionToken,
    },
    engine::{ForkRequest, GetSession, ListSessions, NewSession, RewindRequest, UpdateRequest},
    proto::v1::{self, create_session_request::StateForm},
    rpc::convert::Form,
    store::SessionOrder,
};
use prost_types::FieldMask;

/// CreateSession.
pub fn create_session(request: v1::CreateSessionRequest) -> Result<(NewSession, Form), Error> {
    decode(|at| {
        let v1::CreateSessionRequest {
            app_name,
            user_id,
            session_id,
            state_form,
            session,
            allow_existing,
            json_form,
        } = request;
        let app_name = name(at.field("app_name"), app_name, AppName::new);
        let user_id = name(at.field("user_id"), user_id, UserId::new);
        let session_id = optional(at.field("session_id"), session_id, SessionId::new);
        let state = match state_form {
            None => Ok(Vec::new()),
            Some(StateForm::State(it)) => {
                entries(at.field("state"), Source::Message(it), Keys::Any)
            }
            Some(StateForm::StateJson(text)) => {
                entries(at.field("state_json"), Source::Text(text), Keys::Any)
            }
        };
        let settings = Settings::read(at.field("session"), session.unwrap_or_default());
        let form = form(at.field("json_form"), json_form)?;
        let (app_name, user_id, session_id) = (app_name?, user_id?, session_id?);
        let (state, Settings { display_name, labels, expiration }) = (state?, settings?);
        #[rustfmt::skip]
        let new = NewSession {
            app_name, user_id, session_id, state, display_name, labels, expiration, allow_existing,
        };
        Ok((new, form))
    })
}

/// GetSession.
pub fn get_session(
    request: v1::GetSessionRequest,
    bare: BareIds,
) -> Result<(GetSession, Form), Error> {
    decode(|at| {
        let v1::GetSessionRequest {
            key,
            events,
            as_of_sequence,
            invocation_id,
            without_state,
            json_form,
        } = request;
        let get = decoded!(GetSession {
            session: session_ref(at.field("key"), key, bare),
            events: events.map(|it| selection(at.field("events"), it)).transpose(),
            as_of: optional_count(at.field("as_of_sequence"), as_of_sequence),
            invocation_id: optional(at.field("invocation_id"), invocation_id, InvocationId::new),
            without_state: Ok(without_state),
        });
        with_form(at, get, json_form)
    })
}

/// ListSessions.
pub fn list_sessions(request: v1::ListSessionsRequest) -> Result<(ListSessions, Form), Error> {
    decode(|at| {
        let v1::ListSessionsRequest {
            app_name,
            user_id,
            page_size: size,
            page_token: token,
            order,
            labels: wanted,
            include_state,
            json_form,
        } = request;
        let list = decoded!(ListSessions {
            app_name: name(at.field("app_name"), app_name, AppName::new),
            user_id: optional(at.field("user_id"), user_id, UserId::new),
            page_size: page_size(at.field("page_size"), size),
            page_token: page_token(at.field("page_token"), &token, SessionToken::decode),
            order: enumeration(at.field("order"), order).map(|order| match order {
                v1::SessionOrder::Unspecified | v1::SessionOrder::LastEventTimeAsc => {
                    SessionOrder::LeastRecent
                }
                v1::SessionOrder::LastEventTimeDesc => SessionOrder::MostRecent,
            }),
            labels: labels(at.field("labels"), wanted),
            include_state: Ok(include_state),
        });
        with_form(at, list, json_form)
    })
}

/// UpdateSession. Settings that the mask does not name are not validated either.
pub fn update_session(request: v1::UpdateSessionRequest) -> Result<UpdateRequest, Error> {
    decode(|at| {
        let v1::UpdateSessionRequest { key, session, update_mask } = request;
        let no_mask = update_mask.is_none();
        let FieldMask { paths } = update_mask.unwrap_or_default();
        let names = |path: &str| no_mask || paths.iter().any(|named| named == path);
        let masks_expiration = names("expire_time") || names("ttl");
        let key = session_key(at.field("key"), key);
        let mut session = session.unwrap_or_default();
        if !names("display_name") {
            session.display_name.clear();
        }
        if !names("labels") {
            session.labels.clear();
        }
        session.expiration = session.expiration.filter(|_| masks_expiration);
        let settings = Settings::read(at.field("session"), session);
        let mask = at.field("update_mask");
        if paths.is_empty() {
            return Err(mask.missing());
        }
        mask.field("paths").each(paths.iter().collect(), |at, path| match path.as_str() {
            "display_name" | "labels" | "expire_time" | "ttl" => Ok(()),
            _ => Err(unknown_path(at, path)),
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
        Ok(UpdateRequest {
            key: key?,
            display_name: names("display_name").then_some(display_name),
            labels: names("labels").then_some(labels),
            expiration: masks_expiration.then_some(expiration),
        })
    })
}

fn unknown_path(at: At<'_>, path: &str) -> Faulted {
    let message = format!(
        "Path '{}' cannot be updated. Use display_name, labels, expire_time or ttl.",
        quoted(path)
    );
    at.fault(Reason::BadMask, message, &[("path", &path)])
}

/// DeleteSession: which one, and whether it may be missing.
pub fn delete_session(request: v1::DeleteSessionRequest) -> Result<(SessionKey, bool), Error> {
    decode(|at| {
        let v1::DeleteSessionRequest { key, allow_missing } = request;
        let key = session_key(at.field("key"), key)?;
        Ok((key, allow_missing))
    })
}

/// ForkSession.
pub fn fork_session(request: v1::ForkSessionRequest) -> Result<(ForkRequest, Form), Error> {
    decode(|at| {
        let v1::ForkSessionRequest { key, up_to_sequence, session_id, json_form } = request;
        let fork = decoded!(ForkRequest {
            key: session_key(at.field("key"), key),
            up_to: optional_count(at.field("up_to_sequence"), up_to_sequence),
            session_id: optional(at.field("session_id"), session_id, SessionId::new),
        });
        with_form(at, fork, json_form)
    })
}

/// RewindSession.
pub fn rewind_session(request: v1::RewindSessionRequest) -> Result<(RewindRequest, Form), Error> {
    decode(|at| {
        let v1::RewindSessionRequest {
            key,
            to_sequence,
            event_id,
            author,
            precondition: must_hold,
            json_form,
        } = request;
        let rewind = decoded!(RewindRequest {
            key: session_key(at.field("key"), key),
            to: match to_sequence {
                Some(to) => count(at.field("to_sequence"), to),
                None => Err(at.field("to_sequence").missing()),
            },
            event_id: optional(at.field("event_id"), event_id, EventId::new),
            author: author_or_system(at.field("author"), author),
            precondition: precondition(at.field("precondition"), must_hold, ScopeKind::Session),
        });
        with_form(at, rewind, json_form)
    })
}

/// An author that may be left out.
pub fn author_or_system(at: At<'_>, author: String) -> Decoded<Author> {
    Ok(optional(at, author, Author::new)?.unwrap_or_else(Author::system))
}

/// The settings of a session, which are not state.
struct Settings {
    display_name: DisplayName,
    labels: Labels,
    expiration: Option<Expiration>,
}

impl Settings {
    fn read(at: At<'_>, session: v1::Session) -> Decoded<Self> {
        let v1::Session {
            key: _,
            state_form: _,
            state_rounded: _,
            last_sequence: _,
            create_time: _,
            update_time: _,
            last_event_time: _,
            expiration,
            display_name,
            labels: given,
            forked_from: _,
        } = session;
        decoded!(Self {
            expiration: match expiration {
                None => Ok(None),
                Some(v1::session::Expiration::ExpireTime(it)) => {
                    time(at.field("expire_time"), it).map(|at| Some(Expiration::At(at)))
                }
                Some(v1::session::Expiration::Ttl(it)) => ttl(at.field("ttl"), it).map(Some),
            },
            display_name: name(at.field("display_name"), display_name, DisplayName::new),
            labels: labels(at.field("labels"), given),
        })
    }
}
