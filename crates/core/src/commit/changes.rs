//! The rows that a group of requests leaves. A store writes them, and nothing else decides what it writes.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use hashbrown::HashMap;

use crate::domain::prelude::*;

/// A scope as rows refer to it. A session is one of its lives, so that rows of an earlier session of the same id are never mixed up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScopeKey {
    Application(AppName),
    User(AppName, UserId),
    Session(Incarnation),
}

/// For maps, which make a key of a reference only where they lack it.
impl From<&Self> for ScopeKey {
    fn from(key: &Self) -> Self {
        key.clone()
    }
}

impl ScopeKey {
    /// The scope of a kind among those that are visible from one; `session` is the session's life, if the scope is one.
    pub fn of(kind: ScopeKind, scope: &Scope, session: Option<Incarnation>) -> Option<Self> {
        let app = scope.app_name();
        match kind {
            ScopeKind::Application => Some(Self::Application(app.clone())),
            ScopeKind::User => Some(Self::User(app.clone(), scope.user_id()?.clone())),
            ScopeKind::Session => session.map(Self::Session),
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
    pub fn shared(&self) -> Option<Scope> {
        match self {
            Self::Application(app) => Some(Scope::Application(app.clone())),
            Self::User(app, user) => Some(Scope::User(app.clone(), user.clone())),
            Self::Session(_) => None,
        }
    }
}

/// The changes of a transaction that are not yet applied.
#[derive(Debug, Default, PartialEq)]
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
    pub begun_forks: Vec<(Incarnation, SessionKey)>,
    pub copied: Vec<CopiedEvents>,
    pub finished_forks: Vec<Incarnation>,
    /// Removed sessions whose rows are to be deleted, each with its tombstone as the last one, as far as a piece goes.
    pub purged: Vec<Incarnation>,
    /// Applications and users that may have become empty: a sweep looks at them.
    pub emptied: BTreeSet<ScopeKey>,
    /// Those that a sweep has looked at.
    pub looked_at: Vec<ScopeKey>,
    /// Users of whose names a piece is to be removed from where other rows have them.
    pub unnamed: Vec<ScopeKey>,
    /// Applications and users to remove, each with its last version. Their logs follow in pieces.
    pub ended: Vec<(ScopeKey, Version)>,
}

impl ChangeSet {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether anything changes that is watched. The sweep writes what is not.
    pub fn is_watched(&self) -> bool {
        self.watched().next().is_some()
    }

    /// Every scope that changes, as watchers name it.
    pub fn watched(&self) -> impl Iterator<Item = Scope> {
        let sessions = self.sessions.values().map(|row| &row.info).chain(&self.removed);
        let sessions = sessions.map(|info| Scope::Session(info.key.clone()));
        sessions.chain(self.scopes.keys().filter_map(ScopeKey::shared))
    }
}

#[derive(Clone, Debug, PartialEq)]
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

/// An event of a session. `rewound` is not set in it: that depends on the session's markers.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    pub incarnation: Incarnation,
    pub event: Arc<Event>,
    pub fingerprint: Fingerprint,
}

/// The changes of a request, or of a group, to the state of one scope.
#[derive(Debug, Default, PartialEq)]
pub struct ScopeChange {
    /// The version before them.
    pub before: Version,
    pub version: Version,
    /// As [`ScopeState::base`](super::ScopeState::base).
    pub base: Version,
    /// Of the scope's state after them: the sum of names and values.
    pub state_bytes: usize,
    /// Keys that changed, by name.
    pub state: BTreeMap<Box<str>, KeyRow>,
    /// For an application or a user, one row a version. A session's log is its events.
    pub log: Vec<ScopeLogRow>,
}

impl ScopeChange {
    /// Notes a key that changed, possibly again: whether it is new stays as it was the first time.
    pub fn put(&mut self, name: Box<str>, row: KeyRow) {
        match self.state.entry(name) {
            Entry::Vacant(vacant) => drop(vacant.insert(row)),
            Entry::Occupied(mut known) => {
                let is_new = known.get().is_new;
                known.insert(KeyRow { is_new, ..row });
            }
        }
    }

    /// Adds the changes of a later request.
    pub fn append(&mut self, later: Self) {
        let Self { before: _, base: _, version, state_bytes, state, log } = later;
        (self.version, self.state_bytes) = (version, state_bytes);
        state.into_iter().for_each(|(name, row)| self.put(name, row));
        self.log.extend(log);
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyRow {
    /// The scope has no value for it in the database, which is as it was before the group.
    pub is_new: bool,
    /// `None`: it is removed.
    pub value: Option<Json>,
    /// Of the change that set or removed it.
    pub version: Version,
}

/// A change of an application or a user.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeLogRow {
    pub version: Version,
    pub commit_time: Time,
    /// Empty for a creation.
    pub author: Author,
    /// The event that made it; `None`: a request without a session, or a creation.
    pub source: Option<Source>,
    /// The part of this scope.
    pub changes: Changes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub key: SessionKey,
    pub incarnation: Incarnation,
    pub sequence: Sequence,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RequestRow {
    pub scope: ScopeKey,
    pub id: RequestId,
    pub fingerprint: Fingerprint,
}

/// Events to copy from one session into another that is not visible yet: those in `(after, up_to]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CopiedEvents {
    pub from: Incarnation,
    pub to: Incarnation,
    pub after: Sequence,
    pub up_to: Sequence,
}
