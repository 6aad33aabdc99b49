//! Requests of the session service.

use std::collections::HashMap;

use super::{
    address::{BareIds, Keys, session_key, session_ref},
    event::selection,
    faults::{Decoded, Faults, Path, decode},
    fields::{
        count, enumeration, form, labels, name, optional, optional_count, page_size, page_token,
        time, ttl,
    },
    json::{Source, entries},
    precondition::precondition,
};
use crate::{
    domain::{
        error::{Error, Reason, quoted},
        id::{AppName, Author, DisplayName, EventId, InvocationId, SessionId, UserId},
        scope::{ScopeKind, SessionKey},
        token::SessionToken,
    },
    engine::{
        Expiration, ForkRequest, GetSession, ListSessions, NewSession, RewindRequest, UpdateRequest,
    },
    proto::v1::{
        self, CreateSessionRequest, DeleteSessionRequest, ForkSessionRequest, GetSessionRequest,
        ListSessionsRequest, RewindSessionRequest, Session, UpdateSessionRequest,
        create_session_request::StateForm,
    },
    rpc::convert::Form,
    store::SessionOrder,
};
use prost_types::FieldMask;

/// CreateSession.
pub fn create_session(request: CreateSessionRequest) -> Result<(NewSession, Form), Error> {
    decode(|faults| {
        let CreateSessionRequest {
            app_name,
            user_id,
            session_id,
            state_form,
            session,
            allow_existing,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let app_name = name(faults, at.field("app_name"), app_name, AppName::new);
        let user_id = name(faults, at.field("user_id"), user_id, UserId::new);
        let session_id = optional(faults, at.field("session_id"), session_id, SessionId::new);
        let state = match state_form {
            None => Ok(Vec::new()),
            Some(StateForm::State(it)) => {
                entries(faults, at.field("state"), Source::Message(it), Keys::Any)
            }
            Some(StateForm::StateJson(text)) => {
                entries(faults, at.field("state_json"), Source::Text(text), Keys::Any)
            }
        };
        let settings = Settings::read(faults, at.field("session"), session.unwrap_or_default());
        let form = form(faults, at.field("json_form"), json_form)?;
        let Settings { display_name, labels, expiration } = settings?;
        let new = NewSession {
            app_name: app_name?,
            user_id: user_id?,
            session_id: session_id?,
            state: state?,
            display_name,
            labels,
            expiration,
            allow_existing,
        };
        Ok((new, form))
    })
}

/// GetSession.
pub fn get_session(request: GetSessionRequest, bare: BareIds) -> Result<(GetSession, Form), Error> {
    decode(|faults| {
        let GetSessionRequest {
            key,
            events,
            as_of_sequence,
            invocation_id,
            without_state,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let session = session_ref(faults, at.field("key"), key, bare);
        let events = events.map(|it| selection(faults, at.field("events"), it)).transpose();
        let as_of = optional_count(faults, at.field("as_of_sequence"), as_of_sequence);
        let invocation =
            optional(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
        let form = form(faults, at.field("json_form"), json_form)?;
        let get = GetSession {
            session: session?,
            events: events?,
            as_of: as_of?,
            invocation_id: invocation?,
            without_state,
        };
        Ok((get, form))
    })
}

/// ListSessions.
pub fn list_sessions(request: ListSessionsRequest) -> Result<(ListSessions, Form), Error> {
    decode(|faults| {
        let ListSessionsRequest {
            app_name,
            user_id,
            page_size: size,
            page_token: token,
            order,
            labels: wanted,
            include_state,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let app_name = name(faults, at.field("app_name"), app_name, AppName::new);
        let user_id = optional(faults, at.field("user_id"), user_id, UserId::new);
        let size = page_size(faults, at.field("page_size"), size);
        let token = page_token(faults, at.field("page_token"), &token, SessionToken::decode);
        let order = enumeration(faults, at.field("order"), order).map(|order| match order {
            v1::SessionOrder::Unspecified | v1::SessionOrder::LastEventTimeAsc => {
                SessionOrder::LeastRecent
            }
            v1::SessionOrder::LastEventTimeDesc => SessionOrder::MostRecent,
        });
        let labels = labels(faults, at.field("labels"), wanted);
        let form = form(faults, at.field("json_form"), json_form)?;
        let list = ListSessions {
            app_name: app_name?,
            user_id: user_id?,
            labels: labels?,
            order: order?,
            include_state,
            page_size: size?,
            page_token: token?,
        };
        Ok((list, form))
    })
}

/// UpdateSession.
pub fn update_session(request: UpdateSessionRequest) -> Result<UpdateRequest, Error> {
    decode(|faults| {
        let UpdateSessionRequest { key, session, update_mask } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let session = masked(session.unwrap_or_default(), update_mask.as_ref());
        let settings = Settings::read(faults, at.field("session"), session);
        let mask = Mask::read(faults, at.field("update_mask"), update_mask);
        let (Settings { display_name, labels, expiration }, mask) = (settings?, mask?);
        if let Some(path) = mask.mismatch(expiration) {
            let message = format_args!(
                "The mask names {path}, but the session sets the other form of its expiration; name the one that is set."
            );
            return Err(faults.add_with(
                at.field("update_mask"),
                Reason::BadMask,
                message,
                |fault| fault.with("path", path),
            ));
        }
        Ok(UpdateRequest {
            key: key?,
            display_name: mask.display_name.then_some(display_name),
            labels: mask.labels.then_some(labels),
            expiration: (mask.expire_time || mask.ttl).then_some(expiration),
        })
    })
}

/// A session without the settings that a mask does not name: nobody asks for them, whatever they are.
fn masked(session: Session, mask: Option<&FieldMask>) -> Session {
    let names = |path: &str| mask.is_none_or(|mask| mask.paths.iter().any(|named| named == path));
    Session {
        display_name: if names("display_name") { session.display_name } else { String::new() },
        labels: if names("labels") { session.labels } else { HashMap::new() },
        expiration: session.expiration.filter(|_| names("expire_time") || names("ttl")),
        ..Session::default()
    }
}

/// DeleteSession: which one, and whether it may be missing.
pub fn delete_session(request: DeleteSessionRequest) -> Result<(SessionKey, bool), Error> {
    decode(|faults| {
        let DeleteSessionRequest { key, allow_missing } = request;
        let key = session_key(faults, Path::REQUEST.field("key"), key)?;
        Ok((key, allow_missing))
    })
}

/// ForkSession.
pub fn fork_session(request: ForkSessionRequest) -> Result<(ForkRequest, Form), Error> {
    decode(|faults| {
        let ForkSessionRequest { key, up_to_sequence, session_id, json_form } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let up_to = optional_count(faults, at.field("up_to_sequence"), up_to_sequence);
        let session_id = optional(faults, at.field("session_id"), session_id, SessionId::new);
        let form = form(faults, at.field("json_form"), json_form)?;
        Ok((ForkRequest { key: key?, up_to: up_to?, session_id: session_id? }, form))
    })
}

/// RewindSession.
pub fn rewind_session(request: RewindSessionRequest) -> Result<(RewindRequest, Form), Error> {
    decode(|faults| {
        let RewindSessionRequest {
            key,
            to_sequence,
            event_id,
            author,
            precondition: must_hold,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let to = match to_sequence {
            Some(to) => count(faults, at.field("to_sequence"), to),
            None => Err(faults.missing(at.field("to_sequence"))),
        };
        let event_id = optional(faults, at.field("event_id"), event_id, EventId::new);
        let author = author_or_system(faults, at.field("author"), author);
        let precondition =
            precondition(faults, at.field("precondition"), must_hold, ScopeKind::Session);
        let form = form(faults, at.field("json_form"), json_form)?;
        let rewind = RewindRequest {
            key: key?,
            to: to?,
            event_id: event_id?,
            author: author?,
            precondition: precondition?,
        };
        Ok((rewind, form))
    })
}

/// Who writes, where nobody needs to be named.
pub fn author_or_system(faults: &mut Faults, at: Path<'_>, author: String) -> Decoded<Author> {
    Ok(optional(faults, at, author, Author::new)?.unwrap_or_else(Author::system))
}

/// What callers decide about a session that is not state.
struct Settings {
    display_name: DisplayName,
    labels: crate::domain::session::Labels,
    expiration: Option<Expiration>,
}

impl Settings {
    fn read(faults: &mut Faults, at: Path<'_>, session: Session) -> Decoded<Self> {
        let Session {
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
        let expiration = match expiration {
            None => Ok(None),
            Some(v1::session::Expiration::ExpireTime(it)) => {
                time(faults, at.field("expire_time"), it).map(|at| Some(Expiration::At(at)))
            }
            Some(v1::session::Expiration::Ttl(it)) => ttl(faults, at.field("ttl"), it).map(Some),
        };
        let display_name = name(faults, at.field("display_name"), display_name, DisplayName::new);
        let labels = labels(faults, at.field("labels"), given);
        Ok(Self { display_name: display_name?, labels: labels?, expiration: expiration? })
    }
}

/// Which settings a request changes.
#[derive(Default)]
struct Mask {
    display_name: bool,
    labels: bool,
    expire_time: bool,
    ttl: bool,
}

impl Mask {
    fn read(faults: &mut Faults, at: Path<'_>, mask: Option<FieldMask>) -> Decoded<Self> {
        let FieldMask { paths } = mask.unwrap_or_default();
        if paths.is_empty() {
            return Err(faults.missing(at));
        }
        let mut mask = Self::default();
        faults.each(at.field("paths"), paths, |faults, at, path| {
            let named = match path.as_str() {
                "display_name" => &mut mask.display_name,
                "labels" => &mut mask.labels,
                "expire_time" => &mut mask.expire_time,
                "ttl" => &mut mask.ttl,
                _ => return Err(unknown_path(faults, at, &path)),
            };
            *named = true;
            Ok(())
        })?;
        Ok(mask)
    }

    /// The path that names one form of the expiration where the other one is set: taken literally it would clear what the caller
    /// has just sent.
    fn mismatch(&self, expiration: Option<Expiration>) -> Option<&'static str> {
        match expiration {
            Some(Expiration::At(_)) if self.ttl && !self.expire_time => Some("ttl"),
            Some(Expiration::After { .. }) if self.expire_time && !self.ttl => Some("expire_time"),
            _ => None,
        }
    }
}

fn unknown_path(faults: &mut Faults, at: Path<'_>, path: &str) -> super::faults::Faulted {
    let message = format_args!(
        "The path '{}' cannot be updated; name display_name, labels, expire_time or ttl.",
        quoted(path)
    );
    faults.add_with(at, Reason::BadMask, message, |fault| fault.with("path", path))
}
