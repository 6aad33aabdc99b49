//! The rows that were read for a group, as what its decisions read.

use super::{
    super::{
        prelude::*,
        row::{self, Snapshots, Value, asked, bytes, number},
        schema::SHARED,
    },
    needed::{Needed, NodeAddress},
    stored::Stored,
};
use sessiond_core::{
    commit::{EventRow, ScopeKey, ScopeState, SessionState, WorkingSet},
    read::SessionRecord,
};

/// The scope at an address. Of a session: `None` if there is none, and also if it was made after the address was locked.
fn scope_at(place: &NodeAddress, loaded: &WorkingSet) -> Option<ScopeKey> {
    match (place.user_id.as_str(), place.session_id.as_str()) {
        ("", _) => Some(ScopeKey::Application(place.app_name.clone())),
        (_, "") => Some(ScopeKey::User(place.app_name.clone(), place.user_id.clone())),
        _ => loaded.addresses.get(place).copied().flatten().map(ScopeKey::Session),
    }
}

/// Sessions that were locked.
pub(super) fn sessions(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
    stored: &mut Stored,
) -> Result<(), Error> {
    loaded.addresses.extend(needed.sessions.iter().map(|key| (key.clone(), None)));
    for row in rows {
        let found = row::session(row)?;
        let SessionRecord { info, state_bytes } = &found.record;
        let own = ScopeState::new(info.last_sequence, *state_bytes);
        let session = SessionState { info: info.clone(), own, markers: Vec::new() };
        loaded.addresses.insert(info.key.clone(), Some(info.incarnation));
        loaded.sessions.insert(info.incarnation, session);
        stored.sessions.insert(info.incarnation, found);
    }
    Ok(())
}

/// Applications and users.
pub(super) fn scopes(
    rows: [&[Row]; 2],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
    stored: &mut Stored,
) -> Result<(), Error> {
    let without_row = needed.visible.iter().map(|node| (node.key(), ScopeState::new(0, 0)));
    loaded.scopes.extend(without_row);
    for row in rows.into_iter().flatten() {
        let (app_name, user_id, incarnation) = (row.try_get(0)?, row.try_get(1)?, SHARED);
        let node = Node { app_name, user_id, incarnation };
        let state = ScopeState::new(number(row, 2)?, bytes(row, 3)?);
        if needed.scopes.contains(&node) {
            let snapshots = Snapshots { newest: number(row, 4)?, changed_bytes: number(row, 5)? };
            stored.scopes.insert(node.key(), snapshots);
        }
        loaded.scopes.insert(node.key(), ScopeState { base: number(row, 6)?, ..state });
    }
    Ok(())
}

/// Keys that were read one by one.
pub(super) fn keys(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<(), Error> {
    let keys: Vec<&(NodeAddress, &str)> = needed.keys.iter().collect();
    for (place, name) in &keys {
        let state = scope_at(place, loaded).and_then(|key| loaded.scope_mut(&key));
        state.map(|state| state.keys.insert((*name).into(), None));
    }
    for row in rows {
        let (place, name) = keys[asked(row, keys.len())?];
        let value: Option<Value> = row.try_get(2)?;
        let version = number(row, 3)?;
        let state = scope_at(place, loaded).and_then(|key| loaded.scope_mut(&key));
        let value = value.map(|Value(json)| (json, version));
        state.map(|state| state.keys.insert((*name).into(), value));
    }
    Ok(())
}

/// Scopes of which every key was read. The versions of those that are not locked have risen if others have written meanwhile.
pub(super) fn whole(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<(), Error> {
    let places: Vec<&NodeAddress> = needed.whole.iter().collect();
    for place in &places {
        if let Some(state) = scope_at(place, loaded).and_then(|key| loaded.scope_mut(&key)) {
            state.complete = true;
        }
    }
    for row in rows {
        let key = scope_at(places[asked(row, places.len())?], loaded);
        let Some(state) = key.and_then(|key| loaded.scope_mut(&key)) else { continue };
        let version = number(row, 3)?;
        match row.try_get::<Option<&str>>(1)? {
            None => state.version = version,
            Some(name) => {
                state.keys.insert(name.into(), Some((row::value(row, 2)?, version)));
            }
        }
    }
    Ok(())
}

pub(super) fn markers(rows: &[Row], loaded: &mut WorkingSet) -> Result<(), Error> {
    for row in rows {
        let marker = Marker { sequence: number(row, 1)?, to: number(row, 2)? };
        if let Some(session) = loaded.sessions.get_mut(&Incarnation(number(row, 0)?)) {
            session.markers.push(marker);
        }
    }
    Ok(())
}

pub(super) fn events(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<(), Error> {
    let key = |(at, id): &(SessionKey, &EventId)| {
        Some((loaded.addresses.get(at).copied()??, (*id).clone()))
    };
    let keys: Vec<Option<(Incarnation, EventId)>> = needed.events.iter().map(key).collect();
    loaded.events.extend(keys.iter().flatten().map(|key| (key.clone(), None)));
    for row in rows {
        let Some(key) = &keys[asked(row, keys.len())?] else { continue };
        let (event, fingerprint) = (row::event(row, 1)?, row::event_fingerprint(row, 1)?);
        let found = EventRow { incarnation: key.0, event: event.into(), fingerprint };
        loaded.events.insert(key.clone(), Some(found));
    }
    Ok(())
}

pub(super) fn requests(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<(), Error> {
    let key = |(at, id): &(NodeAddress, &RequestId)| Some((scope_at(at, loaded)?, (*id).clone()));
    let keys: Vec<Option<(ScopeKey, RequestId)>> = needed.requests.iter().map(key).collect();
    loaded.requests.extend(keys.iter().flatten().map(|key| (key.clone(), None)));
    for row in rows {
        let Some(key) = &keys[asked(row, keys.len())?] else { continue };
        loaded.requests.insert(key.clone(), Some(row::fingerprint(row, 1)?));
    }
    Ok(())
}
