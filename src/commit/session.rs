//! Creating, updating and ending sessions.

use super::{
    ChangeSet, CreateSession, Created, Loaded, OnExisting, Refusal, ScopeKey, ScopeState,
    SessionState, SessionUpdate,
    overlay::{Overlay, Stamp, merge, put_session},
};
use crate::domain::{
    delta::KeyResult,
    error::Error,
    id::Author,
    scope::{Scope, ScopeKind, SessionKey},
    session::{Expiration, Incarnation, SessionInfo},
};

/// Creates a session with its initial state, which the prefixes sort into the three scopes. An expired session of the same address
/// ends in the same commit.
pub(super) fn create(
    loaded: &mut Loaded,
    change_set: &mut ChangeSet,
    create: &CreateSession,
) -> Result<Created, Refusal> {
    let CreateSession { key, state, display_name, labels, expiration, on_existing } = create;
    let now = loaded.now;
    let scope = Scope::Session(key.clone());
    if let Some(session) = loaded.at(key)? {
        return match on_existing {
            OnExisting::Refuse => Err(Error::SessionExists(key.clone()))?,
            OnExisting::Return => {
                let info = session.info.clone();
                Ok(Created { info, state: loaded.state(&scope)?, created: false })
            }
        };
    }
    let expire_time = expiration.map(|at| at.resolve(now)).transpose()?;
    let stored = state.iter().filter(|(key, _)| key.scope().is_some());
    let results: Vec<KeyResult> =
        stored.map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    let mut overlay = Overlay::new(loaded.complete(&scope)?);
    let author = &Author::from_stored("");
    overlay.put(results, 0, &Stamp { commit_time: now, author, source: None })?;
    let (created_versions, changes) = (overlay.versions(), overlay.changes);
    let initial = changes[ScopeKind::Session as usize].state.iter();
    let initial = initial.filter_map(|(name, (value, _))| Some((name.clone(), value.clone()?)));
    let initial = initial.collect();
    let info = SessionInfo {
        key: key.clone(),
        incarnation: Incarnation(loaded.take_id()),
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
    let own = ScopeState { complete: true, ..ScopeState::default() };
    insert(loaded, change_set, SessionState { info: info.clone(), own, markers: Vec::new() });
    loaded.created.insert(info.incarnation);
    merge(changes, loaded, change_set, &scope, Some(info.incarnation));
    let row = put_session(change_set, &loaded.sessions[&info.incarnation], true);
    (row.is_new, row.initial) = (true, initial);
    Ok(Created { info, state: loaded.state(&scope)?, created: true })
}

/// Puts a new session at its address, in the place of an expired one.
pub(super) fn insert(loaded: &mut Loaded, change_set: &mut ChangeSet, session: SessionState) {
    let SessionInfo { key, incarnation, .. } = session.info.clone();
    let expired = loaded.addresses.get(&key).copied().flatten();
    if let Some(expired) = expired.and_then(|it| loaded.sessions.remove(&it)) {
        end(loaded, change_set, expired.info);
    }
    if let Some(addresses) = loaded.bare.get_mut(&key.session_id) {
        addresses.push(key.clone());
    }
    loaded.addresses.insert(key, Some(incarnation));
    loaded.sessions.insert(incarnation, session);
}

pub(super) fn update(
    loaded: &mut Loaded,
    change_set: &mut ChangeSet,
    update: &SessionUpdate,
) -> Result<SessionInfo, Refusal> {
    let SessionUpdate { key, display_name, labels, expiration } = update;
    let mut info = loaded.session(key)?.info.clone();
    let resolve = |at: Expiration| at.resolve(loaded.now);
    if let Some(expiration) = expiration {
        info.expire_time = expiration.map(resolve).transpose()?;
    }
    info.update_time = info.update_time.max(loaded.now);
    if let Some(display_name) = display_name {
        info.display_name.clone_from(display_name);
    }
    if let Some(labels) = labels {
        info.labels.clone_from(labels);
    }
    if let Some(session) = loaded.sessions.get_mut(&info.incarnation) {
        session.info.clone_from(&info);
        put_session(change_set, session, true);
    }
    Ok(info)
}

/// Whether there was a session. One that has expired is left to the sweep.
pub(super) fn delete(
    loaded: &mut Loaded,
    change_set: &mut ChangeSet,
    key: &SessionKey,
) -> Result<bool, Refusal> {
    let found = loaded.at(key)?.map(|session| session.info.clone());
    let deleted = found.is_some();
    found.into_iter().for_each(|info| end(loaded, change_set, info));
    Ok(deleted)
}

/// Ends sessions that have expired, and removes what is left of one that is gone. Whether more may be left to do.
pub(super) fn sweep(loaded: &mut Loaded, change_set: &mut ChangeSet) -> bool {
    let expired = std::mem::take(&mut loaded.expired);
    let tombstone = loaded.tombstone.take();
    let more = !expired.is_empty() || tombstone.is_some();
    change_set.purged = tombstone.or(change_set.purged);
    for info in expired {
        // An earlier request of the group may have ended it.
        let now_there = loaded.addresses.get(&info.key);
        if now_there.is_none_or(|found| *found == Some(info.incarnation)) {
            end(loaded, change_set, info);
        }
    }
    more
}

/// Ends a session at once. Its rows are removed later.
fn end(loaded: &mut Loaded, change_set: &mut ChangeSet, info: SessionInfo) {
    let incarnation = info.incarnation;
    loaded.sessions.remove(&incarnation);
    if let Some(addresses) = loaded.bare.get_mut(&info.key.session_id) {
        addresses.retain(|address| *address != info.key);
    }
    loaded.addresses.insert(info.key.clone(), None);
    change_set.sessions.remove(&incarnation);
    change_set.scopes.remove(&ScopeKey::Session(incarnation));
    // A fork that this very group finished stays listed for removal.
    change_set.finished_forks.retain(|fork| *fork != incarnation);
    change_set.removed.push(info);
}
