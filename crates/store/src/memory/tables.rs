//! The data of the store: a map for each table. Decisions are made on copies of rows, and change sets are applied as they are.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Instant,
};

use super::scope::ScopeRecord;
use crate::group::{Backend, Failure};
use sessiond_core::{
    commit::{
        Address, ChangeSet, CopiedEvents, Emptied, EventRow, FORK_LEASE_SECS, PastState, ReadSet,
        SWEPT_SESSIONS, ScopeChange, ScopeKey, ScopeState, SessionState, WorkingSet,
    },
    domain::prelude::*,
};

/// Events that are copied at a time into a fork, so that others need not wait long.
const PIECE_EVENTS: u64 = 1_000;

#[derive(Default)]
pub struct Tables {
    /// Set with every access.
    pub now: Time,
    /// Expired sessions stay until they are swept.
    pub sessions: BTreeMap<SessionKey, SessionInfo>,
    /// Their addresses, by session id.
    bare: BTreeSet<(SessionId, SessionKey)>,
    /// Of sessions, and of forks that are not finished.
    logs: HashMap<Incarnation, Log>,
    /// Of those with a log, and of applications and users that were written to.
    pub scopes: HashMap<ScopeKey, ScopeRecord>,
    /// Targets of forks that are not finished, with the time at which they are given up. No read finds them.
    pub forks: BTreeMap<Incarnation, Time>,
    /// Applications and users that may have become empty.
    emptied: BTreeSet<ScopeKey>,
    version_floor: Version,
    /// Loaded for the current request.
    loaded: WorkingSet,
    pub closed: bool,
}

/// The events of a session, that of sequence 1 first.
#[derive(Default)]
pub struct Log {
    pub events: Vec<EventRow>,
    pub ids: HashMap<EventId, Sequence>,
    pub markers: Vec<Marker>,
}

impl Tables {
    /// Every address with a session id.
    pub fn with_id(&self, id: &SessionId) -> impl Iterator<Item = &SessionKey> {
        let first = (id.clone(), before_all(AppName::from_stored(""), None));
        self.bare.range(first..).take_while(move |(it, _)| it == id).map(|(_, key)| key)
    }

    pub fn log(&self, incarnation: Incarnation) -> &Log {
        &self.logs[&incarnation]
    }

    fn push(&mut self, row: EventRow) {
        let EventRow { incarnation, event, .. } = &row;
        let own = self.scopes.entry(ScopeKey::Session(*incarnation)).or_default();
        own.put_changes(&event.changes, ScopeKind::Session, event.sequence);
        let log = self.logs.entry(*incarnation).or_default();
        let marker = event.rewind_to.map(|to| Marker { sequence: event.sequence, to });
        log.markers.extend(marker);
        log.ids.insert(event.event_id.clone(), event.sequence);
        log.events.push(row);
    }

    /// Copies events into a fork, with what they changed. With the first piece comes the state at creation, which has version 0.
    fn copy(&mut self, piece: &CopiedEvents) {
        let CopiedEvents { from, to, after, up_to } = *piece;
        if let Some(source) = self.scopes.get(&ScopeKey::Session(from)).filter(|_| after == 0) {
            let mut own = ScopeRecord::default();
            source.entries(0).for_each(|(name, value, _)| own.put(name, Some(value.clone()), 0));
            self.scopes.insert(ScopeKey::Session(to), own);
        }
        for row in self.log(from).between(after, up_to).to_vec() {
            self.push(EventRow { incarnation: to, ..row });
        }
    }

    fn remove_log(&mut self, incarnation: Incarnation) {
        self.logs.remove(&incarnation);
        self.scopes.remove(&ScopeKey::Session(incarnation));
    }
}

/// A key before all of an application or of one of its users, because no id is empty.
pub fn before_all(app_name: AppName, user_id: Option<UserId>) -> SessionKey {
    let user_id = user_id.unwrap_or_else(|| UserId::from_stored(""));
    SessionKey { app_name, user_id, session_id: SessionId::from_stored("") }
}

impl Log {
    pub fn event(&self, sequence: Sequence) -> Option<&EventRow> {
        self.events.get(usize::try_from(sequence.checked_sub(1)?).ok()?)
    }

    /// The event of an id.
    pub fn stored(&self, id: &EventId) -> Option<&EventRow> {
        self.event(*self.ids.get(id)?)
    }

    /// The events in `(after, up_to]`.
    pub fn between(&self, after: Sequence, up_to: Sequence) -> &[EventRow] {
        let place = |sequence| usize::try_from(sequence).unwrap_or(usize::MAX);
        self.events.get(place(after)..place(up_to)).unwrap_or_default()
    }
}

/// Copies of what decisions need.
impl Tables {
    /// Everything that one request needs.
    fn load_request(&self, needs: &ReadSet<'_>, loaded: &mut WorkingSet) {
        match needs.address {
            None => {}
            Some(Address::Shared(scope)) => self.load_scopes(scope, None, needs, loaded),
            Some(Address::Session(key)) => self.load_session(key, needs, loaded),
        }
        loaded.forks.extend(needs.fork.filter(|fork| self.forks.contains_key(fork)));
        if needs.sweep {
            let now = loaded.now;
            let expired = self.sessions.values().filter(|info| info.expired(now));
            loaded.expired = expired.take(SWEPT_SESSIONS).cloned().collect();
            let abandoned = self.forks.iter().filter(|(_, lease_end)| **lease_end <= now);
            loaded.tombstones = abandoned.map(|(fork, _)| *fork).take(SWEPT_SESSIONS).collect();
            for key in self.emptied.iter().take(SWEPT_SESSIONS) {
                self.load_emptied(key, loaded);
            }
        }
    }

    fn load_emptied(&self, key: &ScopeKey, loaded: &mut WorkingSet) {
        let Some(scope) = key.shared() else { return };
        self.load_scopes(&scope, None, &ReadSet::default(), loaded);
        let (app, user) = (scope.app_name(), scope.user_id());
        let first = before_all(app.clone(), user.cloned());
        let next = self.sessions.range(first..).next().map(|(key, _)| key);
        let is_in =
            |key: &SessionKey| key.app_name == *app && user.is_none_or(|user| key.user_id == *user);
        let has_users = || {
            let of_app = |key: &ScopeKey| matches!(key, ScopeKey::User(of, _) if of == app);
            user.is_none() && self.scopes.keys().any(of_app)
        };
        let is_used = next.is_some_and(is_in) || has_users();
        loaded.emptied.push(Emptied { key: key.clone(), is_used, is_named: false });
    }

    /// Removes an application or a user, and its name from the changes of others.
    fn end_scope(&mut self, key: &ScopeKey) {
        self.scopes.remove(key);
        let ScopeKey::User(app, user) = key else { return };
        let application = self.scopes.get_mut(&ScopeKey::Application(app.clone()));
        for row in application.into_iter().flat_map(|application| &mut application.log) {
            if row.source.as_ref().is_some_and(|source| source.key.user_id == *user) {
                (row.source, row.author) = (None, Author::from_stored(""));
            }
        }
    }

    /// Everything that is needed at a session's address.
    fn load_session(&self, key: &SessionKey, needs: &ReadSet<'_>, loaded: &mut WorkingSet) {
        if let Some(id) = needs.target {
            let target = SessionKey { session_id: id.clone(), ..key.clone() };
            self.load_address(&target, loaded);
        }
        let session = self.load_address(key, loaded);
        let incarnation = session.map(|info| info.incarnation);
        self.load_scopes(&Scope::Session(key.clone()), incarnation, needs, loaded);
        let Some(SessionInfo { incarnation, last_sequence, .. }) = session else { return };
        let log = self.log(*incarnation);
        for &(id, _) in &needs.events {
            let stored = log.stored(id).cloned().map(Into::into);
            loaded.events.insert((*incarnation, id.clone()), stored);
        }
        if let Some(at) = needs.past.filter(|at| at <= last_sequence) {
            let own = self.scopes.get(&ScopeKey::Session(*incarnation));
            let state = own.into_iter().flat_map(|own| own.entries(at));
            let state = state.map(|(name, value, version)| (name.into(), (value.clone(), version)));
            let times = log.event(at).map(|row| (row.event.event_time, row.event.commit_time));
            loaded.past.insert((*incarnation, at), PastState { state: state.collect(), times });
        }
        if let Some((from, after, up_to)) = needs.copy {
            loaded.pieces.insert((from, after), up_to.min(after.saturating_add(PIECE_EVENTS)));
        }
    }

    /// A session without its state, if the address has one.
    fn load_address(&self, key: &SessionKey, loaded: &mut WorkingSet) -> Option<&SessionInfo> {
        let session = self.sessions.get(key);
        loaded.addresses.insert(key.clone(), session.map(|info| info.incarnation));
        let info = session?;
        loaded.sessions.entry(info.incarnation).or_insert_with(|| SessionState {
            info: info.clone(),
            own: ScopeState::default(),
            markers: self.log(info.incarnation).markers.clone(),
        });
        session
    }

    /// Scopes that are visible from one, and whether it has seen a request.
    fn load_scopes(
        &self,
        scope: &Scope,
        session: Option<Incarnation>,
        needs: &ReadSet<'_>,
        loaded: &mut WorkingSet,
    ) {
        for kind in ScopeKind::ALL {
            let Some(key) = ScopeKey::of(kind, scope, session) else { continue };
            let record = self.scopes.get(&key);
            let Some(state) = loaded.scope_mut(&key) else { continue };
            state.complete = needs.all_state || record.is_none();
            if let Some(record) = record {
                let ScopeRecord { version, base, state_bytes, .. } = record;
                (state.version, state.base, state.state_bytes) = (*version, *base, *state_bytes);
                for key in needs.keys().filter(|key| key.scope() == Some(kind)) {
                    let value = record.get(key.name());
                    state.put(key.name(), value.map(|(value, version)| (value.clone(), version)));
                }
                let all = needs.all_state.then(|| record.entries(u64::MAX));
                for (name, value, version) in all.into_iter().flatten() {
                    state.put(name, Some((value.clone(), version)));
                }
            }
            if let Some(id) = needs.request_id.filter(|_| kind == scope.kind()) {
                let fingerprint = record.and_then(|record| record.requests.get(id).copied());
                loaded.requests.insert((key, id.clone()), fingerprint);
            }
        }
    }
}

impl Backend for Tables {
    fn loaded(&mut self) -> &mut WorkingSet {
        &mut self.loaded
    }

    async fn load(&mut self, needs: &[ReadSet<'_>]) -> Result<usize, Failure> {
        let mut loaded = WorkingSet::new(self.now, self.loaded.next_id.max(1));
        loaded.version_floor = self.version_floor;
        needs.iter().for_each(|needs| self.load_request(needs, &mut loaded));
        self.loaded = loaded;
        Ok(needs.len())
    }

    async fn commit(&mut self, changes: &ChangeSet) -> Result<Option<Instant>, Failure> {
        let lease_end = self.loaded.now.plus(FORK_LEASE_SECS, 0).unwrap_or(Time::LAST);
        for info in &changes.removed {
            self.sessions.remove(&info.key);
            self.bare.remove(&(info.key.session_id.clone(), info.key.clone()));
            self.remove_log(info.incarnation);
        }
        self.forks.extend(changes.begun_forks.iter().map(|(fork, _)| (*fork, lease_end)));
        for piece in &changes.copied {
            self.forks.insert(piece.to, lease_end);
            self.copy(piece);
        }
        for (incarnation, row) in &changes.sessions {
            let key = &row.info.key;
            self.sessions.insert(key.clone(), row.info.clone());
            if row.is_new {
                self.bare.insert((key.session_id.clone(), key.clone()));
                self.logs.entry(*incarnation).or_default();
                let own = self.scopes.entry(ScopeKey::Session(*incarnation)).or_default();
                row.initial.iter().for_each(|(name, it)| own.put(name, Some(it.clone()), 0));
            }
        }
        self.forks.retain(|fork, _| !changes.finished_forks.contains(fork));
        changes.events.iter().for_each(|row| self.push(row.clone()));
        for (key, change) in &changes.scopes {
            // The log tells every change of every key. A session's came with its events.
            let ScopeChange { before: _, base, version, state_bytes, state: _, log } = change;
            let scope = self.scopes.entry(key.clone()).or_default();
            (scope.base, scope.version, scope.state_bytes) = (*base, *version, *state_bytes);
            for row in log {
                scope.put_changes(&row.changes, key.kind(), row.version);
                scope.log.push(row.clone());
            }
        }
        for row in &changes.requests {
            let scope = self.scopes.entry(row.scope.clone()).or_default();
            scope.requests.insert(row.id.clone(), row.fingerprint);
        }
        for fork in &changes.purged {
            self.forks.remove(fork);
            self.remove_log(*fork);
        }
        let ended = changes.ended.iter().map(|(key, _)| key);
        for key in changes.looked_at.iter().chain(ended.clone()) {
            self.emptied.remove(key);
        }
        // Then, because the end of a user lists its application again.
        self.emptied.extend(changes.emptied.iter().cloned());
        ended.for_each(|key| self.end_scope(key));
        self.version_floor = self.loaded.version_floor;
        Ok(None)
    }

    /// Decisions are made on copies: there is nothing to undo.
    async fn roll_back(&mut self, _changed: bool) {}
}
