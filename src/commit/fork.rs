//! Forking a session: the decisions before, between and after the copying of its events.
//!
//! Events are copied a bounded piece at a time into a session that is not visible. It is listed for removal until the last decision makes
//! it visible, so that a fork that is never finished leaves nothing behind.

use super::{
    ChangeSet, CopiedEvents, CopyEvents, FinishFork, Fork, ForkSession, Loaded, ScopeChange,
    ScopeKey, ScopeState, SessionRow, SessionState,
    loaded::entry_bytes,
    session::{insert, live_incarnation},
};
use crate::domain::{
    Sequence,
    error::{Cause, Error},
    id::DisplayName,
    scope::{Scope, SessionKey},
    session::{ForkOrigin, Incarnation, SessionInfo, State},
    visible::Marker,
};

/// Seconds for which the sweep leaves an unfinished fork alone. Each piece renews them: a caller takes milliseconds between two pieces.
pub const FORK_LEASE_SECS: i64 = 60;

pub(super) fn begin(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    fork: &ForkSession,
) -> Result<Fork, Error> {
    let source_incarnation = live_incarnation(loaded, &fork.source)?;
    let last_sequence = loaded.sessions[&source_incarnation].info.last_sequence;
    let up_to = fork.up_to.unwrap_or(last_sequence);
    if up_to > last_sequence {
        return Err(Error::BeyondLastSequence { asked: up_to, last_sequence });
    }
    let target = SessionKey { session_id: fork.session_id.clone(), ..fork.source.clone() };
    if loaded.live(&target).is_some() {
        return Err(Error::SessionExists(target));
    }
    let target_incarnation = Incarnation(loaded.take_id());
    changes.begun_forks.push(target_incarnation);
    let source = fork.source.clone();
    Ok(Fork { source, source_incarnation, target, target_incarnation, up_to })
}

/// Copies the next piece. Returns the last event that has been copied.
pub(super) fn copy(
    loaded: &Loaded,
    changes: &mut ChangeSet,
    copy: &CopyEvents,
) -> Result<Sequence, Error> {
    let CopyEvents { fork, after } = copy;
    check_fork(loaded, fork)?;
    let (from, to) = (fork.source_incarnation, fork.target_incarnation);
    let up_to = loaded.pieces.get(&(from, *after)).map_or(fork.up_to, |end| *end.min(&fork.up_to));
    changes.copied.push(CopiedEvents { from, to, after: *after, up_to });
    Ok(up_to)
}

/// The source may have been deleted, and created anew, since the fork began. A fork that took longer than its lease may have been
/// removed in part.
fn check_fork(loaded: &Loaded, fork: &Fork) -> Result<(), Error> {
    if live_incarnation(loaded, &fork.source).ok() != Some(fork.source_incarnation) {
        return Err(Error::not_found(&fork.source));
    }
    if !loaded.forks.contains(&fork.target_incarnation) {
        return Err(Error::StoreUnavailable(Cause::new("the fork took longer than its lease")));
    }
    Ok(())
}

/// Makes the copy a session: its own state as of the last event taken over, labels and markers of the source, a creation time of now.
pub(super) fn finish(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    finish: &FinishFork,
) -> Result<(SessionInfo, State), Error> {
    let Fork { source, source_incarnation, target, target_incarnation, up_to } = &finish.fork;
    check_fork(loaded, &finish.fork)?;
    if loaded.live(target).is_some() {
        return Err(Error::SessionExists(target.clone()));
    }
    let now = loaded.now;
    let from = &loaded.sessions[source_incarnation];
    let past = loaded.past.get(&(*source_incarnation, *up_to)).cloned();
    let (state, times) = past.map(|past| (past.state, past.times)).unwrap_or_default();
    let info = SessionInfo {
        key: target.clone(),
        incarnation: *target_incarnation,
        last_sequence: *up_to,
        create_time: now,
        // Not before what it takes over, so that the times of its commits never go back.
        update_time: times.map_or(now, |(_, commit_time)| now.max(commit_time)),
        last_event_time: times.map_or(now, |(event_time, _)| event_time),
        expire_time: None,
        display_name: DisplayName::default(),
        labels: from.info.labels.clone(),
        forked_from: Some(ForkOrigin { key: source.clone(), sequence: *up_to }),
        // Its past is the source's, from the beginning on.
        created_versions: from.info.created_versions,
    };
    let markers: Vec<Marker> =
        from.markers.iter().copied().filter(|marker| marker.sequence <= *up_to).collect();
    let state_bytes = state.iter().map(|(name, (value, _))| entry_bytes(name, value)).sum();
    let own = ScopeState {
        version: *up_to,
        state_bytes,
        keys: state.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect(),
        complete: true,
        ..ScopeState::default()
    };
    insert(loaded, changes, SessionState { info: info.clone(), own, markers, is_new: false });
    changes.finished_forks.push(*target_incarnation);
    let row = SessionRow {
        is_new: true,
        metadata: true,
        info: info.clone(),
        state_bytes,
        initial: Vec::new(),
    };
    changes.sessions.insert(*target_incarnation, row);
    let change = ScopeChange {
        before: *up_to,
        version: *up_to,
        state_bytes,
        state: state
            .into_iter()
            .map(|(name, (value, version))| (name, (Some(value), version)))
            .collect(),
        log: Vec::new(),
    };
    changes.scopes.insert(ScopeKey::Session(*target_incarnation), change);
    Ok((info, loaded.state(&Scope::Session(target.clone()))))
}
