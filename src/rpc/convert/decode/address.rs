//! Addresses: sessions by their whole key or by their id alone, and scopes.

use super::{
    faults::{Decoded, Faults, Path},
    fields::{name, optional},
};
use crate::domain::error::{Reason, quoted};
use crate::{
    domain::{
        id::{AppName, SessionId, UserId},
        scope::{Prefix, Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    },
    proto::v1,
};

/// Whether a session may be named by its id alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BareIds {
    /// Where the contract says so.
    Allowed,
    /// Nowhere.
    Refused,
}

/// A session by its whole address.
pub fn session_key(
    faults: &mut Faults,
    at: Path<'_>,
    key: Option<v1::SessionKey>,
) -> Decoded<SessionKey> {
    let v1::SessionKey { app_name, user_id, session_id } = key.ok_or_else(|| faults.missing(at))?;
    let app_name = name(faults, at.field("app_name"), app_name, AppName::new);
    let user_id = name(faults, at.field("user_id"), user_id, UserId::new);
    let session_id = name(faults, at.field("session_id"), session_id, SessionId::new);
    Ok(SessionKey { app_name: app_name?, user_id: user_id?, session_id: session_id? })
}

/// A session by its whole address, or by its id alone. Half an address is neither.
pub fn session_ref(
    faults: &mut Faults,
    at: Path<'_>,
    key: Option<v1::SessionKey>,
    bare: BareIds,
) -> Decoded<SessionRef> {
    match key {
        Some(v1::SessionKey { app_name, user_id, session_id })
            if bare == BareIds::Allowed && app_name.is_empty() && user_id.is_empty() =>
        {
            name(faults, at.field("session_id"), session_id, SessionId::new).map(SessionRef::Bare)
        }
        key => session_key(faults, at, key).map(SessionRef::Full),
    }
}

/// A node of the tree.
pub fn scope(faults: &mut Faults, at: Path<'_>, scope: Option<v1::Scope>) -> Decoded<Scope> {
    let v1::Scope { app_name, user_id, session_id } = scope.ok_or_else(|| faults.missing(at))?;
    let app_name = name(faults, at.field("app_name"), app_name, AppName::new);
    let user_id = if session_id.is_empty() {
        optional(faults, at.field("user_id"), user_id, UserId::new)
    } else {
        name(faults, at.field("user_id"), user_id, UserId::new).map(Some)
    };
    let session_id = optional(faults, at.field("session_id"), session_id, SessionId::new);
    let app_name = app_name?;
    Ok(match (user_id?, session_id?) {
        (Some(user_id), Some(session_id)) => {
            Scope::Session(SessionKey { app_name, user_id, session_id })
        }
        (Some(user_id), None) => Scope::User(app_name, user_id),
        (None, _) => Scope::Application(app_name),
    })
}

/// Which keys a part of a request may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// All of them.
    Any,
    /// Those that are stored and seen from a node of this kind.
    StoredIn(ScopeKind),
}

impl Keys {
    /// Lets a key through that may be named here.
    pub fn check(self, faults: &mut Faults, at: Path<'_>, key: StateKey) -> Decoded<StateKey> {
        let Self::StoredIn(kind) = self else {
            return Ok(key);
        };
        match key.scope() {
            Some(scope) if scope <= kind => Ok(key),
            Some(scope) => {
                let message = format_args!(
                    "Key '{}' belongs to the {scope}, which this {kind} does not reach; take a narrower scope, or another key.",
                    quoted(key.as_str())
                );
                Err(faults.add_with(at, Reason::KeyOutsideScope, message, |fault| {
                    fault.with("key", &key).with("scope", kind).with("needed", scope)
                }))
            }
            None => {
                let message = format_args!(
                    "Key '{}' begins with {}, which only an event's delta and the reads of its invocation take; use another key.",
                    quoted(key.as_str()),
                    Prefix::Temp.as_str()
                );
                Err(faults.add_with(at, Reason::KeyOutsideScope, message, |fault| {
                    fault.with("key", &key)
                }))
            }
        }
    }
}
