//! Creating, updating and ending sessions.

use super::{
    ChangeSet, CreateSession, Created, DeleteSession, Loaded, OnExisting, ScopeKey, ScopeState,
    SessionState, SessionUpdate,
    overlay::{Overlay, Stamp, put_session},
};
use crate::domain::{
    delta::KeyResult,
    error::Error,
    id::Author,
    scope::{Scope, SessionKey},
    session::{Expiration, Incarnation, SessionInfo},
};

/// Creates a session with its initial state, which the prefixes sort into the three scopes. An expired session of the same address
/// ends in the same commit.
pub(super) fn create(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    create: &CreateSession,
) -> Result<Created, Error> {
    let (key, now) = (&create.key, loaded.now);
    let scope = Scope::Session(key.clone());
    if let Some(session) = loaded.live(key) {
        return match create.on_existing {
            OnExisting::Refuse => Err(Error::SessionExists(key.clone())),
            OnExisting::Return => {
                let info = session.info.clone();
                Ok(Created { info, state: loaded.state(&scope), created: false })
            }
        };
    }
    let expire_time = create.expiration.map(|at| at.resolve(now)).transpose()?;
    let stored = create.state.iter().filter(|(key, _)| key.scope().is_some());
    let results: Vec<KeyResult> =
        stored.map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let mut overlay = Overlay::new(loaded, &scope, None);
    let author = Author::from_stored("");
    overlay.put(&results, 0, &Stamp { commit_time: now, author: &author, source: None })?;
    let (created_versions, effects) = (overlay.versions(), overlay.into_effects());
    let initial = effects.own_state();
    let info = SessionInfo {
        key: key.clone(),
        incarnation: Incarnation(loaded.take_id()),
        last_sequence: 0,
        create_time: now,
        update_time: now,
        last_event_time: now,
        expire_time,
        display_name: create.display_name.clone(),
        labels: create.labels.clone(),
        forked_from: None,
        created_versions,
    };
    let incarnation = info.incarnation;
    let own = ScopeState { complete: true, ..ScopeState::default() };
    let state = SessionState { info: info.clone(), own, markers: Vec::new(), is_new: true };
    insert(loaded, changes, state);
    effects.merge(loaded, changes, |kind| ScopeKey::of(kind, key, incarnation));
    put_session(loaded, changes, incarnation, true);
    if let Some(row) = changes.sessions.get_mut(&incarnation) {
        (row.is_new, row.initial) = (true, initial);
    }
    Ok(Created { info, state: loaded.state(&scope), created: true })
}

/// Puts a new session at its address, in the place of an expired one.
pub(super) fn insert(loaded: &mut Loaded, changes: &mut ChangeSet, session: SessionState) {
    let key = session.info.key.clone();
    if let Some(Some(expired)) = loaded.addresses.get(&key).copied() {
        end_incarnation(loaded, changes, expired);
    }
    if let Some(addresses) = loaded.bare.get_mut(&key.session_id) {
        addresses.push(key.clone());
    }
    loaded.addresses.insert(key, Some(session.info.incarnation));
    loaded.created.push(session.info.incarnation);
    loaded.sessions.insert(session.info.incarnation, session);
}

pub(super) fn update(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    update: &SessionUpdate,
) -> Result<SessionInfo, Error> {
    let SessionUpdate { key, display_name, labels, expiration } = update;
    let now = loaded.now;
    let resolve = |at: &Option<Expiration>| at.map(|at| at.resolve(now)).transpose();
    let incarnation = live_incarnation(loaded, key)?;
    let expire_time = expiration.as_ref().map(resolve).transpose()?;
    let session = loaded.sessions.get_mut(&incarnation).ok_or_else(|| Error::not_found(key))?;
    let info = &mut session.info;
    info.update_time = info.update_time.max(now);
    if let Some(display_name) = display_name {
        info.display_name.clone_from(display_name);
    }
    if let Some(labels) = labels {
        info.labels.clone_from(labels);
    }
    info.expire_time = expire_time.unwrap_or(info.expire_time);
    let info = info.clone();
    put_session(loaded, changes, incarnation, true);
    Ok(info)
}

/// Whether there was a session. One that has expired is left to the sweep.
pub(super) fn delete(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    delete: &DeleteSession,
) -> Result<bool, Error> {
    let Ok(incarnation) = live_incarnation(loaded, &delete.key) else {
        return Ok(false);
    };
    end_incarnation(loaded, changes, incarnation);
    Ok(true)
}

pub(super) fn live_incarnation(loaded: &Loaded, key: &SessionKey) -> Result<Incarnation, Error> {
    let session = loaded.live(key).ok_or_else(|| Error::not_found(key))?;
    Ok(session.info.incarnation)
}

fn end_incarnation(loaded: &mut Loaded, changes: &mut ChangeSet, incarnation: Incarnation) {
    if let Some(session) = loaded.sessions.get(&incarnation) {
        let info = session.info.clone();
        end(loaded, changes, info);
    }
}

/// Ends a session at once. Its rows are removed later.
pub(super) fn end(loaded: &mut Loaded, changes: &mut ChangeSet, info: SessionInfo) {
    let incarnation = info.incarnation;
    loaded.sessions.remove(&incarnation);
    if let Some(addresses) = loaded.bare.get_mut(&info.key.session_id) {
        addresses.retain(|address| *address != info.key);
    }
    loaded.addresses.insert(info.key.clone(), None);
    changes.sessions.remove(&incarnation);
    changes.scopes.remove(&ScopeKey::Session(incarnation));
    // A fork that this very group finished stays listed for removal.
    changes.finished_forks.retain(|fork| *fork != incarnation);
    changes.removed.push(info);
}
