//! The data loaded for a group of requests, kept up to date with the changes of the group.
//!
//! A store that has its database for itself keeps a `WorkingSet` from group to group as a cache. The events, requests and past states in it
//! belong to one group. A decision that reads what was not loaded ends with [`Refusal::LoadAgain`].

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::{HashMap, HashSet};

use super::{EventRow, Refusal, RequestKey, ScopeKey};
use crate::domain::{json::text_bytes, prelude::*};

/// Sessions, scopes, and what else decisions read.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// The store's clock.
    pub now: Time,
    /// The next number for a session, or for what else the store numbers. Never reused.
    pub next_id: u64,
    /// Greater than every version of the applications and users that were removed. Those that begin anew go on from here.
    pub version_floor: Version,
    /// `None`: no session has the address.
    pub addresses: HashMap<SessionKey, Option<Incarnation>>,
    pub sessions: HashMap<Incarnation, SessionState>,
    /// Of applications and users.
    pub scopes: HashMap<ScopeKey, ScopeState>,
    /// Of this group: sessions that it created. They have no events and requests but those of this group.
    pub created: HashSet<Incarnation>,
    /// Of this group; `None`: the session has no such event.
    pub events: HashMap<(Incarnation, EventId), Option<StoredEvent>>,
    /// Of this group; `None`: the scope has seen no such request.
    pub requests: HashMap<(ScopeKey, RequestId), Option<Fingerprint>>,
    /// Of this group.
    pub past: HashMap<(Incarnation, Sequence), PastState>,
    /// Of this group: how far a piece of copied events behind an event goes.
    pub pieces: HashMap<(Incarnation, Sequence), Sequence>,
    /// Of this group: targets of forks whose lease has not passed.
    pub forks: HashSet<Incarnation>,
    /// Of this group: sessions that have expired.
    pub expired: Vec<SessionInfo>,
    /// Of this group: sessions that are gone and still have rows.
    pub tombstones: Vec<Incarnation>,
    /// Of this group: applications and users that may be empty.
    pub emptied: Vec<Emptied>,
}

/// An event that a session has under an id.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    pub fingerprint: Fingerprint,
    /// `None`: nobody asked for this fingerprint, or it is beyond [`REPLAY_BYTES`](super::REPLAY_BYTES) of its request.
    pub event: Option<Arc<Event>>,
}

impl From<EventRow> for StoredEvent {
    fn from(EventRow { incarnation: _, event, fingerprint }: EventRow) -> Self {
        Self { fingerprint, event: Some(event) }
    }
}

/// An application or a user that lost state or a session since it was last looked at. Its scope is loaded.
#[derive(Clone, Debug)]
pub struct Emptied {
    pub key: ScopeKey,
    /// It has a session, or an application a user.
    pub is_used: bool,
    /// Rows name it that have to be cleared before it is removed.
    pub is_named: bool,
}

/// A session that is there, expired or not.
#[derive(Debug)]
pub struct SessionState {
    pub info: SessionInfo,
    pub own: ScopeState,
    /// Of its rewinds, in order.
    pub markers: Vec<Marker>,
}

/// The state of one scope, as far as it was loaded.
#[derive(Clone, Debug, Default)]
pub struct ScopeState {
    /// The number of the scope in a store that numbers its rows; 0: it has no row yet.
    pub row: u64,
    /// Of an application or a user: 0 before the first change of its life.
    pub version: Version,
    /// Of an application or a user: the version from which its life went on. It tells its lives apart.
    pub base: Version,
    /// The sum of names and values, whatever was loaded of them.
    pub state_bytes: usize,
    /// Names without prefix; `None`: the key has no value.
    pub keys: BTreeMap<Box<str>, Option<(Json, Version)>>,
    /// A key that is not in `keys` has no value.
    pub complete: bool,
}

/// A session's own state as of an event.
#[derive(Clone, Debug)]
pub struct PastState {
    /// By name, without prefix.
    pub state: BTreeMap<Box<str>, (Json, Version)>,
    /// Event time and commit time of that event; `None` for sequence 0.
    pub times: Option<(Time, Time)>,
}

/// The scopes that are visible from one, from wide to narrow; `None` for a kind that it does not have.
pub type VisibleScopes<'l> = [Option<&'l ScopeState>; 3];

impl WorkingSet {
    /// Nothing. `next_id` is a number that was never used.
    pub fn new(now: Time, next_id: u64) -> Self {
        Self { now, next_id, ..Self::default() }
    }

    /// Forgets what belongs to one group.
    pub fn end_group(&mut self) {
        self.created.clear();
        self.events.clear();
        self.requests.clear();
        self.past.clear();
        self.pieces.clear();
        self.forks.clear();
        self.expired.clear();
        self.tombstones.clear();
        self.emptied.clear();
    }

    /// A number that was never used.
    pub fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The session at an address, unless it has expired.
    pub fn live(&self, key: &SessionKey) -> Option<&SessionState> {
        self.at(key).ok()?
    }

    /// As [`WorkingSet::live`], for a decision.
    pub fn at(&self, key: &SessionKey) -> Result<Option<&SessionState>, Refusal> {
        let found = self.addresses.get(key).ok_or(Refusal::LoadAgain)?;
        let session = found.and_then(|incarnation| self.sessions.get(&incarnation));
        Ok(session.filter(|session| !session.info.expired(self.now)))
    }

    /// The live session at an address. Errors: [`Error::SessionNotFound`].
    pub fn session(&self, key: &SessionKey) -> Result<&SessionState, Refusal> {
        Ok(self.at(key)?.ok_or_else(|| Error::not_found(key))?)
    }

    /// The event that a session has under an id.
    pub fn event(
        &self,
        incarnation: Incarnation,
        id: &EventId,
    ) -> Result<Option<&StoredEvent>, Refusal> {
        match self.events.get(&(incarnation, id.clone())) {
            None if !self.created.contains(&incarnation) => Err(Refusal::LoadAgain),
            found => Ok(found.and_then(Option::as_ref)),
        }
    }

    /// Whether a scope has seen a request. Errors: [`Error::RequestIdReused`].
    pub fn has_seen(
        &self,
        scope: &ScopeKey,
        request: Option<&RequestKey>,
    ) -> Result<bool, Refusal> {
        let Some(RequestKey { id, fingerprint }) = request else {
            return Ok(false);
        };
        let is_new = matches!(scope, ScopeKey::Session(it) if self.created.contains(it));
        match self.requests.get(&(scope.clone(), id.clone())) {
            None if !is_new => Err(Refusal::LoadAgain),
            None | Some(None) => Ok(false),
            Some(Some(seen)) if seen == fingerprint => Ok(true),
            Some(Some(_)) => Err(Error::RequestIdReused(id.clone()))?,
        }
    }

    pub fn scope(&self, key: &ScopeKey) -> Option<&ScopeState> {
        match key {
            ScopeKey::Session(incarnation) => Some(&self.sessions.get(incarnation)?.own),
            shared => self.scopes.get(shared),
        }
    }

    /// As [`WorkingSet::scope`], to be written to. An application or a user that is missing is made.
    pub fn scope_mut(&mut self, key: &ScopeKey) -> Option<&mut ScopeState> {
        match key {
            ScopeKey::Session(incarnation) => Some(&mut self.sessions.get_mut(incarnation)?.own),
            shared => Some(self.scopes.entry_ref(shared).or_default()),
        }
    }

    /// The scopes that are visible from one.
    pub fn visible(&self, scope: &Scope) -> Result<VisibleScopes<'_>, Refusal> {
        let shared = |kind| {
            let key = ScopeKey::of(kind, scope, None)?;
            Some(self.scopes.get(&key).ok_or(Refusal::LoadAgain))
        };
        let (application, user) = (shared(ScopeKind::Application), shared(ScopeKind::User));
        let own = match scope {
            Scope::Session(key) => self.live(key).map(|session| &session.own),
            Scope::Application(_) | Scope::User(..) => None,
        };
        Ok([application.transpose()?, user.transpose()?, own])
    }

    /// As [`WorkingSet::visible`], each with all of its keys.
    pub fn complete(&self, scope: &Scope) -> Result<VisibleScopes<'_>, Refusal> {
        let scopes = self.visible(scope)?;
        let complete = scopes.iter().flatten().all(|scope| scope.complete);
        complete.then_some(scopes).ok_or(Refusal::LoadAgain)
    }

    /// The life of an application or a user; `None`: nothing was ever written to it, or nothing since it was removed.
    pub fn life(&self, scope: &Scope) -> Option<Life> {
        let key = ScopeKey::of(scope.kind(), scope, None)?;
        let found = self.scopes.get(&key).filter(|found| found.version > 0)?;
        Some(Life::of_scope(scope, found.base))
    }

    /// Everything that is visible from a scope.
    pub fn state(&self, scope: &Scope) -> Result<State, Refusal> {
        let parts = ScopeKind::ALL.into_iter().zip(self.complete(scope)?);
        let parts = parts.filter_map(|(kind, scope)| Some(scope?.entries(kind)));
        Ok(State(parts.flatten().collect()))
    }
}

impl PastState {
    /// In memory, about.
    pub fn bytes(&self) -> usize {
        self.state.iter().map(|(name, (value, _))| ENTRY_BYTES + name.len() + value.len()).sum()
    }
}

impl ScopeState {
    /// Without keys.
    pub fn new(version: Version, state_bytes: usize) -> Self {
        Self { version, state_bytes, complete: state_bytes == 0, ..Self::default() }
    }

    /// A key's value and version.
    pub fn get(&self, name: &str) -> Option<(&Json, Version)> {
        let (value, version) = self.keys.get(name)?.as_ref()?;
        Some((value, *version))
    }

    /// Whether it is known what a key is.
    pub fn covers(&self, name: &str) -> bool {
        self.complete || self.keys.contains_key(name)
    }

    /// Notes what a key became.
    pub fn put(&mut self, name: &str, value: Option<(Json, Version)>) {
        match self.keys.get_mut(name) {
            Some(known) => *known = value,
            None => drop(self.keys.insert(name.into(), value)),
        }
    }

    /// Every key with a value, by name.
    pub fn entries(&self, kind: ScopeKind) -> impl Iterator<Item = StateEntry> {
        self.keys.iter().filter_map(move |(name, value)| {
            let (value, version) = value.clone()?;
            Some(StateEntry { key: StateKey::in_scope(kind, name), value, version })
        })
    }
}

/// Sessions that one sweep ends, and sessions that are gone whose rows it removes: a few milliseconds of the writer. One commit of them
/// is hardly shorter for fewer.
pub const SWEPT_SESSIONS: usize = 256;

/// What a key counts towards the size of its scope: its name, as JSON writes it, and its value.
pub fn entry_bytes(name: &str, value: &Json) -> usize {
    text_bytes(name) + value.len()
}
