//! The rows that a group has locked, as the database has them: what its changes replace.

use std::collections::HashMap;

use super::super::{
    prelude::*,
    row::{Found, Snapshots},
};
use sessiond_core::commit::ScopeKey;

/// Keys without a value, each with the version that removed it.
pub(super) type Removed = Vec<(Box<str>, Version)>;

#[derive(Default)]
pub(super) struct Stored {
    /// Sessions that were loaded.
    pub(super) sessions: HashMap<Incarnation, Found>,
    /// Applications and users that are locked.
    pub(super) scopes: HashMap<ScopeKey, Snapshots>,
    /// Keys that sources of forks had removed as of an event, with the version that removed each.
    pub(super) removed: HashMap<(Incarnation, Sequence), Removed>,
    /// The tombstone of the piece that a sweep removes.
    pub(super) tombstone: Option<Node>,
    /// Instead of one, a removed application or user whose rows up to a version follow.
    pub(super) ended: Option<(Node, Version)>,
}

impl Stored {
    /// The session that was at an address.
    pub(super) fn at(&self, key: &SessionKey) -> Option<&Found> {
        self.sessions.values().find(|found| found.info.key == *key)
    }
}

/// A node as decisions name it.
pub(super) fn scope_key(node: &Node) -> ScopeKey {
    match node.kind() {
        ScopeKind::Application => ScopeKey::Application(node.app_name.clone()),
        ScopeKind::User => ScopeKey::User(node.app_name.clone(), node.user_id.clone()),
        ScopeKind::Session => ScopeKey::Session(node.incarnation),
    }
}
