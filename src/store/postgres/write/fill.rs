//! The rows that were read for a group, as what its decisions read.

use std::collections::BTreeSet;

use super::{
    super::{
        node::Node,
        prelude::*,
        row::{self, Found, Snapshots, number},
        schema::WIDE,
    },
    cache::Cache,
    needed::{Locks, Reads},
    stored::Stored,
};
use crate::commit::{EventRow, Loaded, ScopeKey, ScopeState, SessionState};

/// The place among the rows of the statement's columns that a row is about.
fn place(row: &Row, at: usize) -> Result<usize> {
    Ok(usize::try_from(number(row, at)?).unwrap_or(usize::MAX))
}

fn no_place() -> Error {
    Error::internal("the database answered what was not asked")
}

/// Sessions that were locked, each with what the cache has of its version. Returns those that it has nothing of.
pub(super) fn sessions(
    rows: &[Row],
    locks: &Locks<'_>,
    cache: &mut Cache,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<Vec<Node>, Error> {
    let mut unknown = Vec::new();
    loaded.addresses.extend(locks.sessions.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let found = row::session(row, 0)?;
        let Found { info, state_bytes, .. } = &found;
        let incarnation = info.incarnation;
        let (own, markers) = match cache.take(&ScopeKey::Session(incarnation), info.last_sequence) {
            Some(known) => (known.state, known.markers),
            None => {
                unknown.push(Node::session(&info.key, incarnation));
                (ScopeState::new(info.last_sequence, *state_bytes), Vec::new())
            }
        };
        loaded.addresses.insert(info.key.clone(), Some(incarnation));
        loaded.sessions.insert(incarnation, SessionState { info: info.clone(), own, markers });
        stored.sessions.insert(incarnation, found);
    }
    Ok(unknown)
}

/// Applications and users, each with what the cache has of its version.
pub(super) fn scopes(
    rows: &[Row],
    locks: &Locks<'_>,
    cache: &mut Cache,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<(), Error> {
    let without_row = locks.visible.iter().map(|node| (node.key(), ScopeState::new(0, 0)));
    loaded.scopes.extend(without_row);
    for row in rows {
        let (app_name, user_id, incarnation) = (row.try_get(0)?, row.try_get(1)?, WIDE);
        let node = Node { app_name, user_id, incarnation };
        let (scope, version) = (node.key(), number(row, 2)?);
        let state_bytes = usize::try_from(number(row, 3)?).unwrap_or(usize::MAX);
        let state = match cache.take(&scope, version) {
            Some(known) => ScopeState { state_bytes, ..known.state },
            None => ScopeState::new(version, state_bytes),
        };
        let state = ScopeState { base: number(row, 6)?, ..state };
        if locks.scopes.contains(&node) {
            let snapshots = Snapshots { newest: number(row, 4)?, changed_bytes: number(row, 5)? };
            stored.scopes.insert(scope.clone(), snapshots);
        }
        loaded.scopes.insert(scope, state);
    }
    Ok(())
}

/// Keys, and the versions of what is `unlocked`, which have risen if others have written meanwhile. `keys` are those that were read one
/// by one.
pub(super) fn state(
    rows: &[Row],
    reads: &Reads<'_>,
    keys: &[(&Node, &str)],
    unlocked: &[&Node],
    loaded: &mut Loaded,
) -> Result<(), Error> {
    for (node, name) in keys {
        if let Some(state) = loaded.scope_mut(&node.key()) {
            state.keys.insert((*name).into(), None);
        }
    }
    for node in &reads.whole {
        if let Some(state) = loaded.scope_mut(&node.key()) {
            state.keys.clear();
            state.complete = true;
        }
    }
    let nodes: Vec<&Node> = reads.whole.iter().chain(keys.iter().map(|(node, _)| *node)).collect();
    for row in rows {
        let (at, name, value) =
            (place(row, 0)?, row.try_get::<_, Option<&str>>(1)?, row.try_get(2)?);
        let value: Option<row::Value> = value;
        let version = number(row, 3)?;
        let of = if name.is_some() { &nodes[..] } else { unlocked };
        let node = of.get(at).ok_or_else(no_place)?;
        let Some(state) = loaded.scope_mut(&node.key()) else { continue };
        match name {
            Some(name) => {
                state.keys.insert(name.into(), value.map(|row::Value(json)| (json, version)));
            }
            None => state.version = version,
        }
    }
    Ok(())
}

pub(super) fn markers(rows: &[Row], loaded: &mut Loaded) -> Result<(), Error> {
    for row in rows {
        let marker = Marker { sequence: number(row, 1)?, to: number(row, 2)? };
        if let Some(session) = loaded.sessions.get_mut(&Incarnation(number(row, 0)?)) {
            session.markers.push(marker);
        }
    }
    Ok(())
}

/// Events, with the time before each. Without any event there is one row, which has the time only.
pub(super) fn events(
    rows: &[Row],
    asked: &BTreeSet<(Incarnation, &EventId)>,
    loaded: &mut Loaded,
) -> Result<(), Error> {
    let keys: Vec<(Incarnation, EventId)> =
        asked.iter().map(|(incarnation, id)| (*incarnation, (*id).clone())).collect();
    loaded.events.extend(keys.iter().map(|key| (key.clone(), None)));
    for row in rows {
        if row.try_get::<_, Option<i64>>(1)?.is_none() {
            continue;
        }
        let key = keys.get(place(row, 1)?).ok_or_else(no_place)?;
        let (event, fingerprint) = (row::event(row, 2, false)?, row::event_fingerprint(row, 2)?);
        let found = EventRow { incarnation: key.0, event: event.into(), fingerprint };
        loaded.events.insert(key.clone(), Some(found));
    }
    Ok(())
}

pub(super) fn requests(rows: &[Row], reads: &Reads<'_>, loaded: &mut Loaded) -> Result<(), Error> {
    let keys = reads.requests.iter().map(|(node, id)| (node.key(), (*id).clone()));
    let keys: Vec<(ScopeKey, RequestId)> = keys.collect();
    loaded.requests.extend(keys.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let key = keys.get(place(row, 0)?).ok_or_else(no_place)?;
        loaded.requests.insert(key.clone(), Some(row::fingerprint(row, 1)?));
    }
    Ok(())
}
