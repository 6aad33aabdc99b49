//! The scopes of rows.

use crate::domain::{
    id::{AppName, UserId},
    scope::{Scope, ScopeKind, SessionKey},
    session::Incarnation,
};

/// A scope as rows refer to it. A session is one of its lives, so that rows of an earlier session of the same id are never mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKey {
    Application(AppName),
    User(AppName, UserId),
    Session(Incarnation),
}

impl ScopeKey {
    /// The scope of a kind among those that are visible from a session.
    pub fn of(kind: ScopeKind, key: &SessionKey, incarnation: Incarnation) -> Self {
        match kind {
            ScopeKind::Application => Self::Application(key.app_name.clone()),
            ScopeKind::User => Self::User(key.app_name.clone(), key.user_id.clone()),
            ScopeKind::Session => Self::Session(incarnation),
        }
    }

    pub fn kind(&self) -> ScopeKind {
        match self {
            Self::Application(_) => ScopeKind::Application,
            Self::User(..) => ScopeKind::User,
            Self::Session(_) => ScopeKind::Session,
        }
    }

    /// The scope as watchers name it; `None` for a session, whose address is in its row.
    pub fn wide(&self) -> Option<Scope> {
        match self {
            Self::Application(app) => Some(Scope::Application(app.clone())),
            Self::User(app, user) => Some(Scope::User(app.clone(), user.clone())),
            Self::Session(_) => None,
        }
    }
}
