//! Addresses: sessions by their whole key or by their id alone, and scopes.

use std::fmt::Display;

use super::{
    fields::{name, optional, state_key},
    request::{At, Decoded, decoded},
};
use crate::{
    domain::{
        error::{Reason, quoted},
        id::{AppName, SessionId, UserId},
        scope::{Prefix, Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    },
    proto::v1,
};

/// Whether calls that accept a bare session id may be sent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareIds {
    Allowed,
    Refused,
}

/// A session by its whole address.
pub fn session_key(at: At<'_>, key: Option<v1::SessionKey>) -> Decoded<SessionKey> {
    let v1::SessionKey { app_name, user_id, session_id } = key.ok_or_else(|| at.missing())?;
    decoded!(SessionKey {
        app_name: name(at.field("app_name"), app_name, AppName::new),
        user_id: name(at.field("user_id"), user_id, UserId::new),
        session_id: name(at.field("session_id"), session_id, SessionId::new),
    })
}

/// A session by its whole address, or by its id alone. Half an address is neither.
pub fn session_ref(at: At<'_>, key: Option<v1::SessionKey>, bare: BareIds) -> Decoded<SessionRef> {
    match key {
        Some(v1::SessionKey { app_name, user_id, session_id })
            if bare == BareIds::Allowed && app_name.is_empty() && user_id.is_empty() =>
        {
            name(at.field("session_id"), session_id, SessionId::new).map(SessionRef::Bare)
        }
        key => session_key(at, key).map(SessionRef::Full),
    }
}

pub fn scope(at: At<'_>, scope: Option<v1::Scope>) -> Decoded<Scope> {
    let v1::Scope { app_name, user_id, session_id } = scope.ok_or_else(|| at.missing())?;
    let app_name = name(at.field("app_name"), app_name, AppName::new);
    let user_id = if session_id.is_empty() {
        optional(at.field("user_id"), user_id, UserId::new)
    } else {
        name(at.field("user_id"), user_id, UserId::new).map(Some)
    };
    let session_id = optional(at.field("session_id"), session_id, SessionId::new);
    let app_name = app_name?;
    Ok(match (user_id?, session_id?) {
        (Some(user_id), Some(session_id)) => {
            Scope::Session(SessionKey { app_name, user_id, session_id })
        }
        (Some(user_id), None) => Scope::User(app_name, user_id),
        (None, _) => Scope::Application(app_name),
    })
}

/// The keys that a part of a request may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    Any,
    /// Stored keys that can be seen from a scope of this kind.
    StoredIn(ScopeKind),
}

impl Keys {
    /// Reads a key, and refuses one that may not be named here.
    pub fn read(self, at: At<'_>, text: impl Into<Box<str>>) -> Decoded<StateKey> {
        let key = state_key(at, text)?;
        let Self::StoredIn(kind) = self else { return Ok(key) };
        match key.scope() {
            Some(scope) if scope <= kind => Ok(key),
            Some(scope) => {
                let message = format!(
                    "Key '{}' belongs to {scope} state, which a request for the {kind} cannot name. Use a scope of the {scope}.",
                    quoted(key.as_str())
                );
                let metadata: [(_, &dyn Display); 3] =
                    [("key", &key), ("scope", &kind), ("needed", &scope)];
                Err(at.fault(Reason::KeyOutsideScope, message, &metadata))
            }
            None => {
                let message = format!(
                    "Key '{}' has the prefix {}, which is allowed only in an event's delta and in reads of its invocation.",
                    quoted(key.as_str()),
                    Prefix::Temp.as_str()
                );
                Err(at.fault(Reason::KeyOutsideScope, message, &[("key", &key)]))
            }
        }
    }
}
