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
    pub(super) removed: HashMap<(SessionKey, Sequence), Removed>,
    /// The tombstones of the piece that a sweep removes.
    pub(super) tombstones: Vec<Node>,
    /// Instead of one, a removed application or user whose rows up to a version follow.
    pub(super) ended: Option<(Node, Version)>,
}
