//! The rows that a group of requests leaves. A store writes them, and nothing else decides what it writes.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;

use super::ScopeKey;
use crate::domain::{
    Sequence, Version,
    event::{Changes, Event, Fingerprint},
    id::{Author, RequestId},
    json::Json,
    scope::SessionKey,
    session::{Incarnation, SessionInfo},
    time::Time,
};

/// The changes of a transaction that are not yet applied.
#[derive(Debug, Default)]
pub struct ChangeSet {
    /// Sessions to insert or to update, as the last request of the group left them.
    pub sessions: HashMap<Incarnation, SessionRow>,
    /// Deleted sessions. Their rows are removed later, piece by piece.
    pub removed: Vec<SessionInfo>,
    /// In commit order.
    pub events: Vec<EventRow>,
    pub scopes: HashMap<ScopeKey, ScopeChange>,
    pub requests: Vec<RequestRow>,
    /// Targets of forks that have begun: listed for removal until [`ChangeSet::finished_forks`] has them.
    pub begun_forks: Vec<Incarnation>,
    pub copied: Vec<CopiedEvents>,
    pub finished_forks: Vec<Incarnation>,
    /// A removed session of which a piece is to be deleted, and the tombstone with the last piece.
    pub purged: Option<Incarnation>,
}

/// A session's row.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// It is not in the database yet.
    pub is_new: bool,
    /// More of it changed than what an event changes: name, labels or expiry.
    pub metadata: bool,
    pub info: SessionInfo,
    /// Of its own state: the sum of names and values.
    pub state_bytes: usize,
    /// The state it was created with, if it is new.
    pub initial: Vec<(Box<str>, Json)>,
}

#[derive(Clone, Debug)]
pub struct EventRow {
    pub incarnation: Incarnation,
    pub event: Arc<Event>,
    pub fingerprint: Fingerprint,
}

/// The changes of a group to the state of one scope.
#[derive(Debug, Default)]
pub struct ScopeChange {
    /// The version before the group.
    pub before: Version,
    pub version: Version,
    /// Of the scope's state after the group: the sum of names and values.
    pub state_bytes: usize,
    /// Keys that changed, with their value after the group and its version; `None`: it was removed by that version.
    pub state: BTreeMap<Box<str>, (Option<Json>, Version)>,
    /// For an application or a user, one row a version. A session's log is its events.
    pub log: Vec<ScopeLogRow>,
}

/// A change of an application or a user.
#[derive(Clone, Debug)]
pub struct ScopeLogRow {
    pub version: Version,
    pub commit_time: Time,
    /// Empty for a creation.
    pub author: Author,
    /// The event that made it; `None`: a request without a session, or a creation.
    pub source: Option<Source>,
    /// The part of this scope.
    pub changes: Changes,
    /// Of the scope's state after it: the sum of names and values.
    pub state_bytes: usize,
}

/// The event that made a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub key: SessionKey,
    pub incarnation: Incarnation,
    pub sequence: Sequence,
}

#[derive(Clone, Debug)]
pub struct RequestRow {
    pub scope: ScopeKey,
    pub id: RequestId,
    pub fingerprint: Fingerprint,
}

/// Events to copy from one session into another that is not visible yet: those in `(after, up_to]`.
#[derive(Clone, Copy, Debug)]
pub struct CopiedEvents {
    pub from: Incarnation,
    pub to: Incarnation,
    pub after: Sequence,
    pub up_to: Sequence,
}

impl ChangeSet {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Self {
            sessions,
            removed,
            events,
            scopes,
            requests,
            begun_forks,
            copied,
            finished_forks,
            purged,
        } = self;
        sessions.is_empty()
            && removed.is_empty()
            && events.is_empty()
            && scopes.is_empty()
            && requests.is_empty()
            && begun_forks.is_empty()
            && copied.is_empty()
            && finished_forks.is_empty()
            && purged.is_none()
    }
}
