//! What has state: an application, a user or a session, as rows name it.

use super::{prelude::*, schema::WIDE};
use crate::commit::ScopeKey;

/// The first three columns of the tables of state and logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Node {
    pub(super) app_name: AppName,
    /// Of an application it is empty.
    pub(super) user_id: UserId,
    /// Of an application and a user it is 0.
    pub(super) incarnation: Incarnation,
}

impl Node {
    pub(super) fn application(app_name: &AppName) -> Self {
        let user_id = UserId::from_stored("");
        Self { app_name: app_name.clone(), user_id, incarnation: WIDE }
    }

    pub(super) fn user(app_name: &AppName, user_id: &UserId) -> Self {
        Self { app_name: app_name.clone(), user_id: user_id.clone(), incarnation: WIDE }
    }

    pub(super) fn session(key: &SessionKey, incarnation: Incarnation) -> Self {
        Self { incarnation, ..Self::user(&key.app_name, &key.user_id) }
    }

    /// The node of an application or a user; `None` for a session.
    pub(super) fn wide(key: &ScopeKey) -> Option<Self> {
        match key {
            ScopeKey::Application(app) => Some(Self::application(app)),
            ScopeKey::User(app, user) => Some(Self::user(app, user)),
            ScopeKey::Session(_) => None,
        }
    }

    pub(super) fn kind(&self) -> ScopeKind {
        match (self.incarnation == WIDE, self.user_id.as_str()) {
            (false, _) => ScopeKind::Session,
            (true, "") => ScopeKind::Application,
            (true, _) => ScopeKind::User,
        }
    }
}
