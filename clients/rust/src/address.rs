//! Points in a log, and addresses of sessions and scopes, which are checked on their way to the wire and back.

use adk_core::{
    AdkError, Result,
    identity::{AdkIdentity, AppName, SessionId, UserId},
};

use crate::{
    error::{REPLACED, invalid, unexpected},
    proto::v1::{self, Precondition, SessionKey},
};

/// Whose state: an application's, a user's, or a session's. A read also shows the wider scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Keys with `app:`.
    App(AppName),
    /// Keys with `user:`, and the application's.
    User(AppName, UserId),
    /// Keys without prefix, the user's, and the application's.
    Session(AdkIdentity),
}

impl Scope {
    pub(crate) fn to_wire(&self) -> Result<v1::Scope> {
        Ok(match self {
            Self::App(app_name) => v1::Scope {
                // `new_unchecked` makes ids without a check, and an empty one would name a wider scope.
                app_name: AppName::try_from(app_name.as_str())?.to_string(),
                ..v1::Scope::default()
            },
            Self::User(app_name, user_id) => v1::Scope {
                app_name: AppName::try_from(app_name.as_str())?.to_string(),
                user_id: UserId::try_from(user_id.as_str())?.to_string(),
                session_id: String::new(),
            },
            Self::Session(identity) => {
                let SessionKey { app_name, user_id, session_id } = key(identity)?;
                v1::Scope { app_name, user_id, session_id }
            }
        })
    }
}

/// A session, and which life of its id is meant: one that was deleted and created anew has another `uid`.
///
/// Made from an [`AdkIdentity`], which means any life, or from a [`TrackedSession`](crate::TrackedSession), which means its own: a
/// write to another one is refused with `session.replaced`.
#[derive(Clone, Copy, Debug)]
pub struct SessionRef<'a> {
    identity: &'a AdkIdentity,
    uid: &'a str,
}

impl<'a> SessionRef<'a> {
    /// The life with this uid; empty: any.
    pub fn new(identity: &'a AdkIdentity, uid: &'a str) -> Self {
        Self { identity, uid }
    }

    pub(crate) fn key(self) -> Result<SessionKey> {
        key(self.identity)
    }

    /// None if any life is meant.
    pub(crate) fn precondition(self) -> Option<Precondition> {
        uid_precondition(self.uid)
    }
}

impl<'a> From<&'a AdkIdentity> for SessionRef<'a> {
    fn from(identity: &'a AdkIdentity) -> Self {
        Self { identity, uid: "" }
    }
}

/// None for an unknown life.
pub(crate) fn uid_precondition(uid: &str) -> Option<Precondition> {
    (!uid.is_empty()).then(|| Precondition { uid: uid.into(), ..Precondition::default() })
}

/// Fails if two answers about one address are of different lives. A server of before has none.
pub(crate) fn same_life(meant: &str, found: &str) -> Result<()> {
    if meant.is_empty() || found.is_empty() || meant == found {
        return Ok(());
    }
    Err(invalid(REPLACED, "the session was deleted and created anew"))
}

/// A point in the log of a session: right after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point<'a> {
    /// After the event with this sequence; 0: before the first one.
    Sequence(i64),
    /// After the event with this id, which is looked for from the newest event back.
    Event(&'a str),
}

/// The key of a session with all three parts.
pub(crate) fn key(identity: &AdkIdentity) -> Result<SessionKey> {
    // `new_unchecked` makes ids without a check, and the server reads an empty one as another address.
    Ok(SessionKey {
        app_name: AppName::try_from(identity.app_name.as_str())?.to_string(),
        user_id: UserId::try_from(identity.user_id.as_str())?.to_string(),
        session_id: SessionId::try_from(identity.session_id.as_str())?.to_string(),
    })
}

/// The key that names a session by its id alone. The server refuses it if several sessions have that id.
pub(crate) fn bare_key(session_id: &str) -> Result<SessionKey> {
    let session_id = SessionId::try_from(session_id)?.as_str().into();
    Ok(SessionKey { session_id, ..SessionKey::default() })
}

/// The key of a session that the server has sent.
pub(crate) fn sent_key<K>(key: Option<K>) -> Result<K> {
    key.ok_or_else(|| unexpected("sessiond sent a session without its key"))
}

/// The identity of a session that the server has sent.
pub(crate) fn identity(key: Option<SessionKey>) -> Result<AdkIdentity> {
    let SessionKey { app_name, user_id, session_id } = sent_key(key)?;
    Ok(AdkIdentity::new(
        app_name.try_into().map_err(AdkError::from)?,
        user_id.try_into().map_err(AdkError::from)?,
        session_id.try_into().map_err(AdkError::from)?,
    ))
}
