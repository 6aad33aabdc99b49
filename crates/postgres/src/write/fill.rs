//! The rows that were read for a group, as what its decisions read.

use std::sync::Arc;

use super::{
    super::{
        prelude::*,
        row::{self, Snapshots, Value, asked, bytes, number},
        schema::SHARED,
    },
    needed::{Asked, Needed, NodeAddress},
    stored::Stored,
};
use sessiond_core::{
    commit::{ScopeKey, ScopeState, SessionState, StoredEvent, WorkingSet},
    read::SessionRecord,
};

/// The scope at an address. Of a session: `None` if there is none, and also if it was made after the address was locked.
fn scope_at(address: &NodeAddress, loaded: &WorkingSet) -> Option<ScopeKey> {
    match (address.user_id.as_str(), address.session_id.as_str()) {
        ("", _) => Some(ScopeKey::Application(address.app_name.clone())),
        (_, "") => Some(ScopeKey::User(address.app_name.clone(), address.user_id.clone())),
        _ => loaded.addresses.get(address).copied().flatten().map(ScopeKey::Session),
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

/// What a row was asked for, and the first request that needs it if it does not fit.
fn found<'n, T>(
    row: &Row,
    asked_for: &'n Asked<T>,
    fits: usize,
) -> Result<(&'n T, Option<usize>), Error> {
    let not_asked = || Error::internal("the database answered what was not asked");
    let at = asked(row, asked_for.len())?;
    let (key, request) = asked_for.get_index(at).ok_or_else(not_asked)?;
    let fits: bool = row.try_get(fits)?;
    Ok((key, (!fits).then_some(*request)))
}

/// The earlier of two ends of a group.
fn earlier(end: Option<usize>, other: Option<usize>) -> Option<usize> {
    end.into_iter().chain(other).min()
}

/// Keys that were read one by one. Returns the first request that needs one that does not fit.
pub(super) fn keys(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<Option<usize>, Error> {
    for (address, name) in needed.keys.keys() {
        let state = scope_at(address, loaded).and_then(|key| loaded.scope_mut(&key));
        state.map(|state| state.keys.insert((*name).into(), None));
    }
    let mut end = None;
    for row in rows {
        let ((address, name), beyond) = found(row, &needed.keys, 3)?;
        end = earlier(end, beyond);
        let value: Option<Value> = row.try_get(1)?;
        let version = number(row, 2)?;
        let state = scope_at(address, loaded).and_then(|key| loaded.scope_mut(&key));
        let value = value.map(|Value(json)| (json, version));
        state.map(|state| state.keys.insert((*name).into(), value));
    }
    Ok(end)
}

/// Scopes of which every key was read. The versions of those that are not locked have risen if others have written meanwhile. Returns the
/// first request that needs one that does not fit.
pub(super) fn whole(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<Option<usize>, Error> {
    for address in needed.whole.keys() {
        if let Some(state) = scope_at(address, loaded).and_then(|key| loaded.scope_mut(&key)) {
            state.complete = true;
        }
    }
    let mut end = None;
    for row in rows {
        let (address, beyond) = found(row, &needed.whole, 4)?;
        end = earlier(end, beyond);
        let key = scope_at(address, loaded);
        let Some(state) = key.and_then(|key| loaded.scope_mut(&key)) else { continue };
        match (row.try_get::<Option<&str>>(1)?, row.try_get::<Option<i64>>(3)?) {
            (Some(name), _) => {
                state.keys.insert(name.into(), Some((row::value(row, 2)?, number(row, 3)?)));
            }
            (None, Some(version)) => state.version = version.cast_unsigned(),
            // A session, whose row was read before.
            (None, None) => {}
        }
    }
    Ok(end)
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

/// Events by id: whole if they have the fingerprint that is asked for. Returns the first request that needs one that does not fit.
pub(super) fn events(
    rows: &[Row],
    needed: &Needed<'_>,
    loaded: &mut WorkingSet,
) -> Result<Option<usize>, Error> {
    for (at, id, _) in needed.events.keys() {
        let session = loaded.addresses.get(at).copied().flatten();
        loaded.events.extend(session.map(|session| ((session, (*id).clone()), None)));
    }
    let mut end = None;
    for row in rows {
        let ((at, id, _), beyond) = found(row, &needed.events, 2)?;
        end = earlier(end, beyond.filter(|request| *request > 0));
        let Some(session) = loaded.addresses.get(at).copied().flatten() else { continue };
        let is_whole = row.try_get::<Option<i64>>(3)?.is_some();
        let event = is_whole.then(|| row::event(row, 3)).transpose()?.map(Arc::new);
        let known = loaded.events.entry((session, (*id).clone())).or_default();
        // Another request may have asked for another fingerprint.
        if known.as_ref().is_none_or(|known| known.event.is_none()) {
            *known = Some(StoredEvent { fingerprint: row::fingerprint(row, 1)?, event });
        }
    }
    Ok(end)
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
