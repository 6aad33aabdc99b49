//! The data loaded for a group of requests, kept up to date with the changes of the group.
//!
//! A store that has its database for itself keeps a `Loaded` from group to group as a cache. The events, requests and past states in it
//! belong to one group.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::{HashMap, HashSet};

use super::{Address, KeysNeeded, Needs, ScopeKey};
use crate::domain::{
    Sequence, Version,
    error::Error,
    event::{Event, Fingerprint},
    id::{AppName, EventId, RequestId, SessionId, UserId},
    json::{Json, text_bytes},
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::{Incarnation, SessionInfo, State, StateEntry},
    time::Time,
    visible::Marker,
};

/// Sessions, scopes, and what else decisions read.
#[derive(Debug)]
pub struct Loaded {
    /// The store's clock.
    pub now: Time,
    /// The next number for a session, or for what else the store numbers. Never reused.
    pub next_id: u64,
    /// `None`: no session has the address.
    pub addresses: HashMap<SessionKey, Option<Incarnation>>,
    /// Every address with a session id.
    pub bare: HashMap<SessionId, Vec<SessionKey>>,
    pub sessions: HashMap<Incarnation, SessionState>,
    /// Of this group: sessions that it created.
    pub(super) created: Vec<Incarnation>,
    pub applications: HashMap<AppName, ApplicationState>,
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
    /// Of this group: a session that is gone and still has rows.
    pub tombstone: Option<Incarnation>,
}

/// An application and its users.
#[derive(Debug, Default)]
pub struct ApplicationState {
    pub own: ScopeState,
    pub users: HashMap<UserId, ScopeState>,
}

/// A session that is there, expired or not.
#[derive(Debug)]
pub struct SessionState {
    pub info: SessionInfo,
    pub own: ScopeState,
    /// Of its rewinds, in order.
    pub markers: Vec<Marker>,
    /// This group created it: there are no events and requests but those of this group.
    pub is_new: bool,
}

/// The state of one scope, as far as it was loaded.
#[derive(Clone, Debug, Default)]
pub struct ScopeState {
    /// The number of the scope in the store; 0: it has no row yet.
    pub row: i64,
    pub version: Version,
    /// The sum of names and values, whatever was loaded of them.
    pub state_bytes: usize,
    /// Names without prefix; `None`: the key has no value.
    pub keys: BTreeMap<Box<str>, Option<(Json, Version)>>,
    /// A key that is not in `keys` has no value.
    pub complete: bool,
    /// The group that used it last, as the store counts groups.
    pub used: u64,
}

/// An event that a session has.
#[derive(Clone, Debug)]
pub struct StoredEvent {
    /// `rewound` is not set in it: that depends on the session's markers.
    pub event: Arc<Event>,
    pub fingerprint: Fingerprint,
}

/// A session's own state as of an event.
#[derive(Clone, Debug)]
pub struct PastState {
    /// By name, without prefix.
    pub state: BTreeMap<Box<str>, (Json, Version)>,
    /// Event time and commit time of that event; `None` for sequence 0.
    pub times: Option<(Time, Time)>,
    /// The session's newest event when this was read.
    pub last_sequence: Sequence,
}

impl Loaded {
    /// Nothing. `next_id` is a number that was never used.
    pub fn new(now: Time, next_id: u64) -> Self {
        Self {
            now,
            next_id,
            addresses: HashMap::new(),
            bare: HashMap::new(),
            sessions: HashMap::new(),
            created: Vec::new(),
            applications: HashMap::new(),
            events: HashMap::new(),
            requests: HashMap::new(),
            past: HashMap::new(),
            pieces: HashMap::new(),
            forks: HashSet::new(),
            expired: Vec::new(),
            tombstone: None,
        }
    }

    /// Forgets what belongs to one group.
    pub fn end_group(&mut self) {
        self.events.clear();
        self.requests.clear();
        self.past.clear();
        self.pieces.clear();
        self.forks.clear();
        self.expired.clear();
        self.tombstone = None;
        self.bare.clear();
        for incarnation in self.created.drain(..) {
            if let Some(session) = self.sessions.get_mut(&incarnation) {
                session.is_new = false;
            }
        }
    }

    /// A number that was never used.
    pub fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The session at an address, unless it has expired.
    pub fn live(&self, key: &SessionKey) -> Option<&SessionState> {
        let incarnation = (*self.addresses.get(key)?)?;
        self.sessions.get(&incarnation).filter(|session| !session.info.expired(self.now))
    }

    /// The live session that is meant. Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
    pub(super) fn find(&self, session: &SessionRef) -> Result<&SessionState, Error> {
        match session {
            SessionRef::Full(key) => self.live(key).ok_or_else(|| Error::not_found(key)),
            SessionRef::Bare(id) => {
                let keys = self.bare.get(id).into_iter().flatten();
                let mut live = keys.filter_map(|key| self.live(key));
                match (live.next(), live.next()) {
                    (None, _) => Err(Error::not_found_bare(id)),
                    (Some(session), None) => Ok(session),
                    (Some(_), Some(_)) => Err(Error::AmbiguousSessionId(id.clone())),
                }
            }
        }
    }

    pub fn application(&self, app: &AppName) -> Option<&ScopeState> {
        self.applications.get(app).map(|application| &application.own)
    }

    pub fn user(&self, app: &AppName, user: &UserId) -> Option<&ScopeState> {
        self.applications.get(app)?.users.get(user)
    }

    pub fn scope(&self, key: &ScopeKey) -> Option<&ScopeState> {
        match key {
            ScopeKey::Application(app) => self.application(app),
            ScopeKey::User(app, user) => self.user(app, user),
            ScopeKey::Session(incarnation) => Some(&self.sessions.get(incarnation)?.own),
        }
    }

    /// As [`Loaded::scope`], to be written to. An application or a user that is missing is made.
    pub fn scope_mut(&mut self, key: &ScopeKey) -> Option<&mut ScopeState> {
        match key {
            ScopeKey::Application(app) => Some(&mut self.application_mut(app).own),
            ScopeKey::User(app, user) => {
                let users = &mut self.application_mut(app).users;
                if !users.contains_key(user) {
                    users.insert(user.clone(), ScopeState::default());
                }
                users.get_mut(user)
            }
            ScopeKey::Session(incarnation) => {
                self.sessions.get_mut(incarnation).map(|session| &mut session.own)
            }
        }
    }

    fn application_mut(&mut self, app: &AppName) -> &mut ApplicationState {
        self.applications.entry(app.clone()).or_default()
    }

    /// Everything that is visible from a session, or from a wider scope. Its scopes are complete.
    pub(super) fn state(&self, scope: &Scope) -> State {
        let own = match scope {
            Scope::Session(key) => self.live(key).map(|session| &session.own),
            Scope::Application(_) | Scope::User(..) => None,
        };
        let user = scope.user_id().and_then(|user| self.user(scope.app_name(), user));
        let scopes = [self.application(scope.app_name()), user, own];
        let parts = ScopeKind::ALL.into_iter().zip(scopes);
        State(
            parts
                .flat_map(|(kind, scope)| scope.into_iter().flat_map(move |it| it.entries(kind)))
                .collect(),
        )
    }

    /// Whether everything that a decision reads is here.
    pub(super) fn covers(&self, needs: &Needs<'_>) -> bool {
        match needs.address {
            None => true,
            Some(Address::Wide(scope)) => {
                let key = match scope {
                    Scope::User(app, user) => ScopeKey::User(app.clone(), user.clone()),
                    _ => ScopeKey::Application(scope.app_name().clone()),
                };
                self.covers_scopes(scope.app_name(), scope.user_id(), None, needs)
                    && self.covers_request(&key, needs)
            }
            Some(Address::Session(key)) => self.covers_session(key, needs),
            Some(Address::Bare(id)) => match self.bare.get(id) {
                None => false,
                Some(keys) => {
                    let known = |key| matches!(self.addresses.get(key), Some(found) if found.is_none_or(|it| self.sessions.contains_key(&it)));
                    let mut live = keys.iter().filter(|key| self.live(key).is_some());
                    let only = live.next().filter(|_| live.next().is_none());
                    keys.iter().all(known) && only.is_none_or(|key| self.covers_session(key, needs))
                }
            },
        }
    }

    fn covers_session(&self, key: &SessionKey, needs: &Needs<'_>) -> bool {
        let covers_target = needs.target.is_none_or(|id| {
            let target = SessionKey { session_id: id.clone(), ..key.clone() };
            self.addresses
                .get(&target)
                .is_some_and(|found| found.is_none_or(|it| self.sessions.contains_key(&it)))
        });
        let Some(found) = self.addresses.get(key) else {
            return false;
        };
        let session = found.and_then(|incarnation| self.sessions.get(&incarnation));
        let own = session.map(|session| &session.own);
        if !covers_target
            || found.is_some() != session.is_some()
            || !self.covers_scopes(&key.app_name, Some(&key.user_id), own, needs)
        {
            return false;
        }
        session.is_none_or(|session| {
            let incarnation = session.info.incarnation;
            let covers_event = |id: &EventId| self.events.contains_key(&(incarnation, id.clone()));
            let covers_past = |at| {
                let past = self.past.get(&(incarnation, at));
                at > session.info.last_sequence
                    || past.is_some_and(|past| past.last_sequence == session.info.last_sequence)
            };
            (session.is_new
                || needs.event_ids.iter().all(|id| covers_event(id))
                    && self.covers_request(&ScopeKey::Session(incarnation), needs))
                && needs.past.is_none_or(covers_past)
                && needs.copy.is_none_or(|(from, after, up_to)| {
                    from != incarnation
                        || after >= up_to
                        || self.pieces.contains_key(&(from, after))
                })
        })
    }

    fn covers_scopes(
        &self,
        app: &AppName,
        user: Option<&UserId>,
        own: Option<&ScopeState>,
        needs: &Needs<'_>,
    ) -> bool {
        let [of_app, of_user, of_own] = &needs.scopes;
        let covers = |scope: Option<&ScopeState>, needed: &super::needs::ScopeNeeds<'_>| {
            scope.is_some_and(|scope| scope.covers(&needed.keys))
        };
        covers(self.application(app), of_app)
            && user.is_none_or(|user| covers(self.user(app, user), of_user))
            && own.is_none_or(|own| own.covers(&of_own.keys))
    }

    fn covers_request(&self, scope: &ScopeKey, needs: &Needs<'_>) -> bool {
        needs.request_id.is_none_or(|id| self.requests.contains_key(&(scope.clone(), id.clone())))
    }
}

impl ScopeState {
    /// A key's value and version.
    pub fn get(&self, name: &str) -> Option<(&Json, Version)> {
        let (value, version) = self.keys.get(name)?.as_ref()?;
        Some((value, *version))
    }

    /// Whether what these keys are is known.
    pub fn covers(&self, keys: &KeysNeeded<'_>) -> bool {
        self.complete
            || match keys {
                KeysNeeded::All => false,
                KeysNeeded::Some(keys) => {
                    keys.iter().all(|key: &&StateKey| self.keys.contains_key(key.name()))
                }
            }
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

    /// Bytes in memory, about.
    pub fn weight(&self) -> usize {
        let value = |value: &Option<(Json, Version)>| value.as_ref().map_or(0, |(it, _)| it.len());
        let keys = self.keys.iter().map(|(name, it)| KEY_BYTES + name.len() + value(it));
        size_of::<Self>() + keys.sum::<usize>()
    }
}

/// Bytes in memory of a key in the map of its scope, about, without name and value.
pub const KEY_BYTES: usize = 96;

/// What a key counts towards the size of its scope: its name, as JSON writes it, and its value.
pub fn entry_bytes(name: &str, value: &Json) -> usize {
    text_bytes(name) + value.len()
}
