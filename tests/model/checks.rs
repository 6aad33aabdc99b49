//! Invariants of every change set, and the comparison of all rows with the model.

use std::collections::BTreeMap;

use sessiond::{
    commit::{ChangeSet, Mode, ReadSet, ScopeChange, ScopeKey, ScopeState, WorkingSet},
    domain::{event::Changes, json::Json, scope::StateKey, session::Incarnation},
};

use crate::{
    naive::{Naive, Session, Values, Wide, changes, entry_bytes},
    requests::Names,
    tables::Tables,
};

/// The change set of a group, before it is applied.
pub fn change_set(tables: &Tables, changes: &ChangeSet, needs: &[ReadSet<'_>]) {
    let mut last: BTreeMap<Incarnation, u64> = BTreeMap::new();
    for row in &changes.events {
        let stored = tables.events(row.incarnation).count() as u64;
        let last = last.entry(row.incarnation).or_insert(stored);
        *last += 1;
        assert_eq!(row.event.sequence, *last, "sequences are dense");
        for key in changed_keys(&row.event.changes) {
            assert_ne!(key.scope(), None, "temp: keys are not stored");
        }
    }
    for (incarnation, row) in &changes.sessions {
        assert_eq!(row.info.incarnation, *incarnation);
        assert_eq!(row.is_new, tables.session(*incarnation).is_none());
        assert!(row.is_new || row.initial.is_empty());
        if let Some(last) = last.get(incarnation) {
            assert_eq!(row.info.last_sequence, *last);
        }
    }
    for (scope, change) in &changes.scopes {
        let stored = tables.scope(scope).map_or(0, |row| row.version);
        scope_change(change);
        match scope {
            ScopeKey::Session(incarnation) => {
                let row = &changes.sessions[incarnation];
                assert_eq!(change.version, row.info.last_sequence);
                assert_eq!(change.state_bytes, row.state_bytes);
                assert!(change.log.is_empty(), "a session's log is its events");
            }
            ScopeKey::Application(_) | ScopeKey::User(..) => {
                assert_eq!(change.before, stored);
                let versions: Vec<u64> = change.log.iter().map(|row| row.version).collect();
                let risen: Vec<u64> = (stored + 1..=change.version).collect();
                assert_eq!(versions, risen, "each version is one change");
                assert!(
                    needs.iter().any(|needs| needs.mode(scope.kind()) == Mode::Write),
                    "{scope:?} is changed, and no request writes it"
                );
            }
        }
    }
    for info in &changes.removed {
        let incarnation = info.incarnation;
        assert!(!changes.sessions.contains_key(&incarnation), "a removed session is not put");
        assert!(!changes.scopes.contains_key(&ScopeKey::Session(incarnation)));
    }
}

fn scope_change(change: &ScopeChange) {
    for (name, row) in &change.state {
        assert!(row.version <= change.version, "{name}");
    }
    for row in &change.log {
        assert!(!row.changes.is_empty(), "a version without a change");
        if let Some(source) = &row.source {
            assert!(source.sequence > 0);
        }
    }
}

fn changed_keys(changes: &Changes) -> Vec<StateKey> {
    let set = changes.set.iter().flat_map(Json::members);
    let set = set.map(|(name, _)| StateKey::from_stored(name));
    set.chain(changes.remove.iter().cloned()).collect()
}

/// `WorkingSet` equals the tables after the decisions, and after their changes were applied.
pub fn loaded(tables: &Tables, loaded: &WorkingSet) {
    for (key, incarnation) in &loaded.addresses {
        assert_eq!(tables.incarnation(key), *incarnation, "{key:?}");
    }
    for (incarnation, session) in &loaded.sessions {
        assert_eq!(tables.session(*incarnation).unwrap().info, session.info);
        assert_eq!(tables.markers(*incarnation), session.markers);
        scope(tables, &ScopeKey::Session(*incarnation), &session.own);
    }
    for (key, state) in &loaded.scopes {
        scope(tables, key, state);
    }
}

fn scope(tables: &Tables, key: &ScopeKey, loaded: &ScopeState) {
    let row = tables.scope(key);
    assert_eq!(loaded.version, row.map_or(0, |row| row.version), "{key:?}");
    assert_eq!(loaded.state_bytes, row.map_or(0, |row| row.state_bytes), "{key:?}");
    let stored: BTreeMap<&str, (&Json, u64)> =
        tables.state(key).map(|row| (&*row.name, (&row.value, row.version))).collect();
    for (name, value) in &loaded.keys {
        let value = value.as_ref().map(|(value, version)| (value, *version));
        assert_eq!(stored.get(&**name).copied(), value, "{key:?} {name}");
    }
    let complete = loaded.keys.values().flatten().count() == stored.len();
    assert!(complete || !loaded.complete, "{key:?}");
}

/// Everything in the tables is as in the model.
pub fn tables(tables: &Tables, model: &Naive, names: &mut [Names; 2]) {
    assert_eq!(tables.sessions.len(), model.sessions.len());
    for row in &tables.sessions {
        let expected = &model.sessions[&row.info.key];
        let (mut found, mut info) = (row.info.clone(), expected.info.clone());
        names[0].rename(&mut found);
        names[1].rename(&mut info);
        assert_eq!(found, info);
        session(tables, row.info.incarnation, expected);
    }
    for ((app, user), expected) in &model.wide {
        let key = match user {
            None => ScopeKey::Application(app.clone()),
            Some(user) => ScopeKey::User(app.clone(), user.clone()),
        };
        values(tables, &key, &expected.values);
        assert_eq!(tables.scope(&key).map_or(0, |row| row.version), expected.version);
        wide_log(tables, &key, expected, names);
        requests(tables, &key, expected.requests.len());
    }
}

fn session(tables: &Tables, incarnation: Incarnation, expected: &Session) {
    let key = ScopeKey::Session(incarnation);
    values(tables, &key, &expected.own);
    let log: Vec<_> = tables.events(incarnation).collect();
    assert!(log.iter().map(|row| &*row.event).eq(&expected.log), "{log:?} {:?}", expected.log);
    for row in log {
        assert_eq!(expected.event_ids[&row.event.event_id], (row.event.sequence, row.fingerprint));
    }
    requests(tables, &key, expected.requests.len());
    let initial = tables.past(incarnation, 0).state.into_iter();
    let initial: Values =
        initial.map(|(name, value)| (StateKey::from_stored(name), value)).collect();
    assert_eq!(initial, expected.past[0].own);
}

/// State and its size.
fn values(tables: &Tables, key: &ScopeKey, expected: &Values) {
    let stored = tables
        .state(key)
        .map(|row| (StateKey::in_scope(key.kind(), &row.name), (row.value.clone(), row.version)));
    assert_eq!(stored.collect::<Values>(), *expected);
    let bytes = expected.iter().map(|(key, (value, _))| entry_bytes(key.name(), Some(value)));
    let bytes: usize = bytes.sum();
    assert_eq!(tables.scope(key).map_or(0, |row| row.state_bytes), bytes, "{key:?}");
    if let ScopeKey::Session(incarnation) = key {
        assert_eq!(tables.session(*incarnation).unwrap().state_bytes, bytes);
    }
}

fn wide_log(tables: &Tables, key: &ScopeKey, expected: &Wide, names: &mut [Names; 2]) {
    let rows: Vec<_> = tables.log.iter().filter(|(scope, _)| scope == key).collect();
    assert_eq!(rows.len(), expected.log.len());
    for ((_, row), change) in rows.into_iter().zip(&expected.log) {
        assert_eq!(row.changes, changes(&change.results));
        assert_eq!((row.commit_time, &row.author), (change.commit_time, &change.author));
        let found = row
            .source
            .as_ref()
            .map(|source| (&source.key, names[0].number(source.incarnation), source.sequence));
        let source = change
            .source
            .as_ref()
            .map(|(info, sequence)| (&info.key, names[1].number(info.incarnation), *sequence));
        assert_eq!(found, source);
    }
}

fn requests(tables: &Tables, key: &ScopeKey, expected: usize) {
    assert_eq!(tables.requests.iter().filter(|row| row.scope == *key).count(), expected);
}

/// Once everything is swept, no rows are left but those of sessions.
pub fn nothing_left_behind(tables: &Tables) {
    let is_there = |incarnation: Incarnation| tables.session(incarnation).is_some();
    let is_known = |scope: &ScopeKey| match scope {
        ScopeKey::Session(incarnation) => is_there(*incarnation),
        ScopeKey::Application(_) | ScopeKey::User(..) => true,
    };
    assert!(tables.tombstones.is_empty());
    assert!(tables.initial.iter().all(|(incarnation, ..)| is_there(*incarnation)));
    assert!(tables.events.iter().all(|row| is_there(row.incarnation)));
    assert!(tables.scopes.iter().all(|row| is_known(&row.scope)));
    assert!(tables.state.iter().all(|row| is_known(&row.scope)));
    assert!(tables.requests.iter().all(|row| is_known(&row.scope)));
}
