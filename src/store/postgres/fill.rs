//! The rows that were read for a group, as what its decisions read.

use super::{
    needed::{Locks, Reads},
    node::Node,
    prelude::*,
    row::{self, Snapshots, number},
    stored::{Stored, scope_key, scope_state},
};
use crate::commit::{EventRow, Loaded, ScopeKey};

/// The place among the rows of the statement's columns that a row is about.
fn place(row: &Row) -> Result<usize> {
    Ok(usize::try_from(number(row, 0)?).unwrap_or(usize::MAX))
}

fn no_place() -> Error {
    Error::internal("the database answered what was not asked")
}

/// Versions and keys. `keys` are those that were read one by one.
pub(super) fn state(
    rows: &[Row],
    reads: &Reads<'_>,
    keys: &[(&Node, &str)],
    locks: &Locks,
    loaded: &mut Loaded,
    stored: &mut Stored,
) -> Result<(), Error> {
    let scopes: Vec<&Node> = reads.scopes.iter().collect();
    for node in &scopes {
        loaded.scopes.insert(scope_key(node), scope_state(0, 0, 0));
    }
    let (of_scopes, of_keys): (Vec<&Row>, Vec<&Row>) = {
        let is_key = |row: &&Row| row.try_get::<_, Option<&str>>(1).is_ok_and(|it| it.is_some());
        rows.iter().partition(|row| !is_key(row))
    };
    for row in of_scopes {
        let node = scopes.get(place(row)?).ok_or_else(no_place)?;
        let state_bytes = usize::try_from(number(row, 4)?).unwrap_or(usize::MAX);
        loaded.scopes.insert(scope_key(node), scope_state(1, number(row, 3)?, state_bytes));
        if locks.scopes.contains(*node) {
            let snapshots = Snapshots { newest: number(row, 5)?, changed_bytes: number(row, 6)? };
            stored.scopes.insert(scope_key(node), snapshots);
        }
    }
    for (node, name) in keys {
        if let Some(state) = loaded.scope_mut(&scope_key(node)) {
            state.keys.insert((*name).into(), None);
        }
    }
    let nodes: Vec<&Node> = reads.whole.iter().chain(keys.iter().map(|(node, _)| *node)).collect();
    for row in of_keys {
        let node = nodes.get(place(row)?).ok_or_else(no_place)?;
        let (name, value): (&str, Option<Json>) = (row.try_get(1)?, row.try_get(2)?);
        let version = number(row, 3)?;
        if let Some(state) = loaded.scope_mut(&scope_key(node)) {
            state.keys.insert(name.into(), value.map(|value| (value, version)));
        }
    }
    for node in &reads.whole {
        if let Some(state) = loaded.scope_mut(&scope_key(node)) {
            state.complete = true;
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

pub(super) fn events(rows: &[Row], reads: &Reads<'_>, loaded: &mut Loaded) -> Result<(), Error> {
    let keys = reads.events.iter().map(|(node, id)| (node.incarnation, (*id).clone()));
    let keys: Vec<(Incarnation, EventId)> = keys.collect();
    loaded.events.extend(keys.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let key = keys.get(place(row)?).ok_or_else(no_place)?;
        let (event, fingerprint) = (row::event(row, 1, false)?, row::event_fingerprint(row, 1)?);
        let found = EventRow { incarnation: key.0, event: event.into(), fingerprint };
        loaded.events.insert(key.clone(), Some(found));
    }
    Ok(())
}

pub(super) fn requests(rows: &[Row], reads: &Reads<'_>, loaded: &mut Loaded) -> Result<(), Error> {
    let keys = reads.requests.iter().map(|(node, id)| (scope_key(node), (*id).clone()));
    let keys: Vec<(ScopeKey, RequestId)> = keys.collect();
    loaded.requests.extend(keys.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let key = keys.get(place(row)?).ok_or_else(no_place)?;
        loaded.requests.insert(key.clone(), Some(row::fingerprint(row, 1)?));
    }
    Ok(())
}
