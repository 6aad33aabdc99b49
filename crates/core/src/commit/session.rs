//! Creating, updating and ending sessions.

use super::{
    CreateSession, Created, DeleteSession, Emptied, OnExisting, Refusal, ScopeChange, ScopeKey,
    ScopeState, SessionRow, SessionState, SessionUpdate,
    overlay::{Overlay, Stamp, Transaction},
};
use crate::domain::prelude::*;

/// Creates a session with its initial state, which the prefixes sort into the three scopes. An expired session of the same address
/// ends in the same commit.
pub fn create(tx: &mut Transaction<'_>, create: &CreateSession) -> Result<Created, Refusal> {
    let CreateSession { key, state, display_name, labels, expiration, on_existing } = create;
    let now = tx.loaded.now;
    let scope = Scope::Session(key.clone());
    if let Some(session) = tx.loaded.at(key)? {
        return match on_existing {
            OnExisting::Refuse => Err(Error::SessionExists(key.clone()))?,
            OnExisting::Return => {
                let info = session.info.clone();
                Ok(Created { info, state: tx.state(&scope)?, created: false })
            }
        };
    }
    let expire_time = expiration.map(|at| at.resolve(now)).transpose()?;
    let stored = state.iter().filter(|(key, _)| key.scope().is_some());
    let results: Vec<KeyResult> =
        stored.map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let mut overlay = Overlay::new(tx.loaded, tx.loaded.complete(&scope)?);
    let author = &Author::from_stored("");
    overlay.put(results, 0, &Stamp { commit_time: now, author, source: None })?;
    let (created_versions, changes) = (overlay.versions(), overlay.changes);
    let initial = changes[ScopeKind::Session as usize].state.iter();
    let initial = initial.filter_map(|(name, row)| Some((name.clone(), row.value.clone()?)));
    let initial = initial.collect();
    let info = SessionInfo {
        key: key.clone(),
        incarnation: Incarnation(tx.loaded.take_id()),
        last_sequence: 0,
        create_time: now,
        update_time: now,
        last_event_time: now,
        expire_time,
        display_name: display_name.clone(),
        labels: labels.clone(),
        forked_from: None,
        created_versions,
    };
    tx.loaded.created.insert(info.incarnation);
    insert(tx, info.clone(), Vec::new(), changes).initial = initial;
    Ok(Created { info, state: tx.state(&scope)?, created: true })
}

/// Puts a new session at its address, in the place of an expired one, with its state and the changes of shared scopes. Returns its row.
pub fn insert<'t>(
    tx: &'t mut Transaction<'_>,
    info: SessionInfo,
    markers: Vec<Marker>,
    changes: [ScopeChange; 3],
) -> &'t mut SessionRow {
    let (key, incarnation) = (info.key.clone(), info.incarnation);
    let expired = tx.loaded.addresses.get(&key).copied().flatten();
    if let Some(expired) = expired.and_then(|it| tx.loaded.sessions.remove(&it)) {
        end(tx, expired.info);
    }
    tx.loaded.addresses.insert(key.clone(), Some(incarnation));
    let own = ScopeState { complete: true, ..ScopeState::default() };
    tx.loaded.sessions.insert(incarnation, SessionState { info, own, markers });
    tx.merge(changes, &Scope::Session(key), Some(incarnation));
    let row = tx.put_session(incarnation, true);
    row.is_new = true;
    row
}

pub fn update(tx: &mut Transaction<'_>, update: &SessionUpdate) -> Result<SessionInfo, Refusal> {
    let SessionUpdate { key, display_name, labels, expiration, precondition } = update;
    check(tx, key, precondition)?;
    let mut info = tx.loaded.session(key)?.info.clone();
    if let Some(expiration) = expiration {
        info.expire_time = expiration.map(|at| at.resolve(tx.loaded.now)).transpose()?;
    }
    info.update_time = info.update_time.max(tx.loaded.now);
    if let Some(display_name) = display_name {
        info.display_name.clone_from(display_name);
    }
    if let Some(labels) = labels {
        info.labels.clone_from(labels);
    }
    if let Some(session) = tx.loaded.sessions.get_mut(&info.incarnation) {
        session.info.clone_from(&info);
        tx.put_session(info.incarnation, true);
    }
    Ok(info)
}

/// The session that was deleted. One that has expired is left to the sweep.
pub fn delete(
    tx: &mut Transaction<'_>,
    delete: &DeleteSession,
) -> Result<Option<Incarnation>, Refusal> {
    let DeleteSession { key, precondition, allow_missing } = delete;
    match check(tx, key, precondition) {
        Err(Refusal::Error(Error::SessionNotFound(_) | Error::Replaced(_))) if *allow_missing => {
            return Ok(None);
        }
        checked => checked?,
    }
    let info = tx.loaded.session(key)?.info.clone();
    let deleted = info.incarnation;
    end(tx, info);
    Ok(Some(deleted))
}

/// Checks the precondition of a request that changes a session, but not its state.
pub fn check(
    tx: &mut Transaction<'_>,
    key: &SessionKey,
    precondition: &Precondition,
) -> Result<(), Refusal> {
    precondition.check_session(&tx.loaded.session(key)?.info)?;
    let overlay = Overlay::new(tx.loaded, tx.loaded.visible(&Scope::Session(key.clone()))?);
    overlay.check(precondition, ScopeKind::Session, tx.work)
}

/// Ends sessions that have expired, removes what is left of one that is gone, and applications and users that are empty. Whether more may
/// be left to do.
pub fn sweep(tx: &mut Transaction<'_>) -> bool {
    let expired = std::mem::take(&mut tx.loaded.expired);
    let tombstones = std::mem::take(&mut tx.loaded.tombstones);
    let emptied = std::mem::take(&mut tx.loaded.emptied);
    let more = !expired.is_empty() || !tombstones.is_empty() || !emptied.is_empty();
    emptied.into_iter().for_each(|emptied| look_at(tx, emptied));
    tx.changes.purged.extend(tombstones);
    for info in expired {
        // An earlier request of the group may have ended it.
        let now_there = tx.loaded.addresses.get(&info.key);
        if now_there.is_none_or(|found| *found == Some(info.incarnation)) {
            end(tx, info);
        }
    }
    more
}

/// Removes an application or a user that has neither state nor sessions: a life of it ends, and another one will not repeat its versions.
/// One that an earlier request of the group has changed is left to the next sweep.
fn look_at(tx: &mut Transaction<'_>, Emptied { key, is_used, is_named }: Emptied) {
    let is_in = |info: &SessionInfo| match &key {
        ScopeKey::Application(app) => info.key.app_name == *app,
        ScopeKey::User(app, user) => info.key.app_name == *app && info.key.user_id == *user,
        ScopeKey::Session(_) => false,
    };
    let sessions = tx.changes.sessions.values().map(|row| &row.info);
    let changed = sessions.chain(&tx.changes.removed).any(is_in);
    let Some(scope) = tx.loaded.scope_mut(&key) else { return };
    if changed || tx.changes.scopes.contains_key(&key) {
        return;
    }
    if is_used || scope.state_bytes > 0 {
        tx.changes.looked_at.push(key);
        return;
    }
    if is_named {
        tx.changes.unnamed.push(key);
        return;
    }
    let version = scope.version;
    *scope = ScopeState { complete: true, ..ScopeState::default() };
    if version > 0 {
        tx.loaded.version_floor = tx.loaded.version_floor.max(version + 1);
    }
    tx.loaded.requests.retain(|(of, _), _| *of != key);
    if let ScopeKey::User(app, _) = &key {
        tx.changes.emptied.insert(ScopeKey::Application(app.clone()));
    }
    tx.changes.ended.push((key, version));
}

/// Ends a session at once. Its rows are removed later.
fn end(tx: &mut Transaction<'_>, info: SessionInfo) {
    let incarnation = info.incarnation;
    tx.loaded.sessions.remove(&incarnation);
    tx.loaded.addresses.insert(info.key.clone(), None);
    tx.changes.sessions.remove(&incarnation);
    tx.changes.scopes.remove(&ScopeKey::Session(incarnation));
    // A fork that this very group finished stays listed for removal.
    tx.changes.finished_forks.retain(|fork| *fork != incarnation);
    let SessionKey { app_name, user_id, .. } = info.key.clone();
    tx.changes.emptied.insert(ScopeKey::User(app_name.clone(), user_id));
    tx.changes.emptied.insert(ScopeKey::Application(app_name));
    tx.changes.removed.push(info);
}
