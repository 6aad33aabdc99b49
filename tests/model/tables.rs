//! The tables of a store as plain vectors of rows: change sets are applied to them, and what requests need is read from them.

use std::{collections::BTreeMap, sync::Arc};

use sessiond::{
    commit::{
        ChangeSet, EventRow, KeyRow, PastState, RequestRow, ScopeKey, ScopeLogRow, SessionRow,
    },
    domain::{
        Sequence, Version,
        event::Event,
        json::Json,
        scope::{ScopeKind, SessionKey, StateKey},
        session::Incarnation,
        visible::Marker,
    },
};

#[derive(Default)]
pub struct Tables {
    /// The next number that `WorkingSet` gives out.
    pub next_id: u64,
    pub sessions: Vec<SessionRow>,
    /// Own state of sessions as they were created.
    pub initial: Vec<(Incarnation, Box<str>, Json)>,
    pub events: Vec<EventRow>,
    pub scopes: Vec<ScopeRow>,
    pub state: Vec<StateRow>,
    pub log: Vec<(ScopeKey, ScopeLogRow)>,
    pub requests: Vec<RequestRow>,
    /// Sessions whose rows are to be removed.
    pub tombstones: Vec<Incarnation>,
}

pub struct ScopeRow {
    pub scope: ScopeKey,
    pub version: Version,
    pub state_bytes: usize,
}

pub struct StateRow {
    pub scope: ScopeKey,
    pub name: Box<str>,
    pub value: Json,
    pub version: Version,
}

impl Tables {
    pub fn session(&self, incarnation: Incarnation) -> Option<&SessionRow> {
        self.sessions.iter().find(|row| row.info.incarnation == incarnation)
    }

    pub fn incarnation(&self, key: &SessionKey) -> Option<Incarnation> {
        let row = self.sessions.iter().find(|row| row.info.key == *key);
        row.map(|row| row.info.incarnation)
    }

    pub fn scope(&self, scope: &ScopeKey) -> Option<&ScopeRow> {
        self.scopes.iter().find(|row| row.scope == *scope)
    }

    pub fn state(&self, scope: &ScopeKey) -> impl Iterator<Item = &StateRow> {
        self.state.iter().filter(move |row| row.scope == *scope)
    }

    /// A session's events, in order.
    pub fn events(&self, incarnation: Incarnation) -> impl Iterator<Item = &EventRow> {
        self.events.iter().filter(move |row| row.incarnation == incarnation)
    }

    pub fn markers(&self, incarnation: Incarnation) -> Vec<Marker> {
        let marker =
            |event: &Event| Some(Marker { sequence: event.sequence, to: event.rewind_to? });
        self.events(incarnation).filter_map(|row| marker(&row.event)).collect()
    }

    /// A session's own state as of an event, folded from its beginning and its log.
    pub fn past(&self, incarnation: Incarnation, at: Sequence) -> PastState {
        let initial = self.initial.iter().filter(|(session, ..)| *session == incarnation);
        let mut state: BTreeMap<Box<str>, (Json, Version)> =
            initial.map(|(_, name, value)| (name.clone(), (value.clone(), 0))).collect();
        let mut times = None;
        for row in self.events(incarnation).filter(|row| row.event.sequence <= at) {
            let event = &row.event;
            times = Some((event.event_time, event.commit_time));
            for (name, value) in event.changes.set.iter().flat_map(Json::members) {
                if is_own(&StateKey::from_stored(name.as_str())) {
                    state.insert(name.into(), (value, event.sequence));
                }
            }
            for key in event.changes.remove.iter().filter(|key| is_own(key)) {
                state.remove(key.name());
            }
        }
        PastState { state, times }
    }

    /// Writes the rows of a change set. A session that began and ended in one group leaves a tombstone like any other.
    pub fn apply(&mut self, changes: &ChangeSet) {
        let ChangeSet {
            sessions,
            removed,
            events,
            scopes,
            requests,
            begun_forks,
            copied,
            finished_forks,
            purged,
            // Empty applications and users are not loaded here, and so stay.
            emptied: _,
            looked_at,
            unnamed,
            ended,
        } = changes;
        assert!(looked_at.is_empty() && unnamed.is_empty() && ended.is_empty());
        // First, so that an address is free for the next session there.
        for info in removed {
            self.sessions.retain(|row| row.info.incarnation != info.incarnation);
            self.tombstones.push(info.incarnation);
        }
        for (incarnation, row) in sessions {
            let initial = row.initial.iter().cloned();
            self.initial.extend(initial.map(|(name, value)| (*incarnation, name, value)));
            self.sessions.retain(|row| row.info.incarnation != *incarnation);
            self.sessions.push(row.clone());
        }
        self.events.extend(events.iter().cloned());
        for (scope, change) in scopes {
            let (version, state_bytes) = (change.version, change.state_bytes);
            self.scopes.retain(|row| row.scope != *scope);
            self.scopes.push(ScopeRow { scope: scope.clone(), version, state_bytes });
            for (name, KeyRow { is_new, value, version }) in &change.state {
                let rows = self.state.len();
                self.state.retain(|row| row.scope != *scope || row.name != *name);
                assert_eq!(*is_new, self.state.len() == rows, "{scope:?}, {name}");
                self.state.extend(value.clone().map(|value| {
                    let (scope, name, version) = (scope.clone(), name.clone(), *version);
                    StateRow { scope, name, value, version }
                }));
            }
            self.log.extend(change.log.iter().map(|row| (scope.clone(), row.clone())));
        }
        self.requests.extend(requests.iter().cloned());
        for copied in copied {
            self.copy(copied.from, copied.to, copied.after, copied.up_to);
        }
        self.tombstones.extend(begun_forks.iter().map(|(fork, _)| fork));
        self.tombstones.retain(|tombstone| !finished_forks.contains(tombstone));
        purged.iter().for_each(|purged| self.purge(*purged));
    }

    fn copy(&mut self, from: Incarnation, to: Incarnation, after: Sequence, up_to: Sequence) {
        if after == 0 {
            let initial = self.initial.iter().filter(|(session, ..)| *session == from);
            let initial: Vec<_> =
                initial.map(|(_, name, value)| (to, name.clone(), value.clone())).collect();
            self.initial.extend(initial);
        }
        let events = self.events(from).filter(|row| {
            let sequence = row.event.sequence;
            after < sequence && sequence <= up_to
        });
        let copies = events.map(|row| EventRow {
            incarnation: to,
            event: Arc::clone(&row.event),
            fingerprint: row.fingerprint,
        });
        let copies: Vec<EventRow> = copies.collect();
        self.events.extend(copies);
    }

    fn purge(&mut self, purged: Incarnation) {
        let scope = ScopeKey::Session(purged);
        self.initial.retain(|(incarnation, ..)| *incarnation != purged);
        self.events.retain(|row| row.incarnation != purged);
        self.scopes.retain(|row| row.scope != scope);
        self.state.retain(|row| row.scope != scope);
        self.requests.retain(|row| row.scope != scope);
        self.tombstones.retain(|tombstone| *tombstone != purged);
    }
}

fn is_own(key: &StateKey) -> bool {
    key.scope() == Some(ScopeKind::Session)
}
