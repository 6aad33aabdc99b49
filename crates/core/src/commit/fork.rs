//! Forking a session: the decisions before, between and after the copying of its events.
//!
//! Events are copied a bounded piece at a time into a session that is not visible. It is listed for removal until the last decision makes
//! it visible, so that a fork that is never finished leaves nothing behind.

use super::{
    CopiedEvents, Fork, ForkSession, KeyRow, PastState, Refusal, ScopeChange, SessionState,
    WorkingSet, entry_bytes,
    overlay::Transaction,
    session::{check, insert},
};
use crate::domain::{limits::APPEND_BYTES, prelude::*};

/// Seconds for which the sweep leaves an unfinished fork alone. Each piece renews them: a caller takes milliseconds between two pieces.
pub const FORK_LEASE_SECS: i64 = 60;

pub fn begin(tx: &mut Transaction<'_>, fork: &ForkSession) -> Result<Fork, Refusal> {
    let source = fork.source.clone();
    check(tx, &source, &fork.precondition)?;
    let SessionInfo { incarnation: source_incarnation, last_sequence, .. } =
        tx.loaded.session(&source)?.info;
    let up_to = fork.up_to.unwrap_or(last_sequence);
    if up_to > last_sequence {
        Err(Error::BeyondLastSequence { asked: up_to, last_sequence })?;
    }
    let target = SessionKey { session_id: fork.session_id.clone(), ..source.clone() };
    check_free(tx.loaded, &target)?;
    let target_incarnation = Incarnation(tx.loaded.take_id());
    tx.changes.begun_forks.push((target_incarnation, target.clone()));
    Ok(Fork { source, source_incarnation, target, target_incarnation, up_to })
}

fn check_free(loaded: &WorkingSet, target: &SessionKey) -> Result<(), Refusal> {
    match loaded.at(target)? {
        Some(_) => Err(Error::SessionExists(target.clone()))?,
        None => Ok(()),
    }
}

/// Copies the next piece. Returns the last event that has been copied.
pub fn copy(tx: &mut Transaction<'_>, fork: &Fork, after: Sequence) -> Result<Sequence, Refusal> {
    source(tx.loaded, fork)?;
    let (from, to) = (fork.source_incarnation, fork.target_incarnation);
    let end = tx.loaded.pieces.get(&(from, after)).ok_or(Refusal::LoadAgain)?;
    let up_to = *end.min(&fork.up_to);
    *tx.work += usize::try_from(up_to - after).unwrap_or_default() * APPEND_BYTES;
    tx.changes.copied.push(CopiedEvents { from, to, after, up_to });
    Ok(up_to)
}

/// The source of a fork in progress. It may have been deleted, and created anew, since the fork began. A fork that took longer than its
/// lease may have been removed in part.
fn source<'l>(loaded: &'l WorkingSet, fork: &Fork) -> Result<&'l SessionState, Refusal> {
    let session = loaded.session(&fork.source)?;
    if session.info.incarnation != fork.source_incarnation {
        Err(Error::not_found(&fork.source))?;
    }
    if !loaded.forks.contains(&fork.target_incarnation) {
        Err(Error::StoreUnavailable(Cause::new("the fork took longer than its lease")))?;
    }
    Ok(session)
}

/// Makes the copy a session: its own state as of the last event taken over, name, labels, expiry and markers of the source, a creation
/// time of now.
pub fn finish(tx: &mut Transaction<'_>, fork: &Fork) -> Result<(SessionInfo, State), Refusal> {
    let Fork { source: from, source_incarnation, target, target_incarnation, up_to } = fork;
    let source = source(tx.loaded, fork)?;
    check_free(tx.loaded, target)?;
    tx.loaded.complete(&Scope::Session(from.clone()))?;
    let now = tx.loaded.now;
    let past = tx.loaded.past.get(&(*source_incarnation, *up_to)).ok_or(Refusal::LoadAgain)?;
    *tx.work += past.bytes();
    let PastState { state, times } = past;
    let info = SessionInfo {
        key: target.clone(),
        incarnation: *target_incarnation,
        last_sequence: *up_to,
        create_time: now,
        // Not before what it takes over, so that the times of its commits never go back.
        update_time: times.map_or(now, |(_, commit_time)| now.max(commit_time)),
        last_event_time: times.map_or(now, |(event_time, _)| event_time),
        expire_time: source.info.expire_time,
        display_name: source.info.display_name.clone(),
        labels: source.info.labels.clone(),
        forked_from: Some(ForkOrigin { key: from.clone(), sequence: *up_to }),
        // Its past is the source's, from the beginning on.
        created_versions: source.info.created_versions,
    };
    let markers = source.markers.iter().filter(|marker| marker.sequence <= *up_to);
    let set = |(value, version): &(Json, Version)| KeyRow {
        is_new: true,
        value: Some(value.clone()),
        version: *version,
    };
    let own = ScopeChange {
        before: *up_to,
        base: 0,
        version: *up_to,
        state_bytes: state.iter().map(|(name, (value, _))| entry_bytes(name, value)).sum(),
        state: state.iter().map(|(name, it)| (name.clone(), set(it))).collect(),
        log: Vec::new(),
    };
    let changes = [ScopeChange::default(), ScopeChange::default(), own];
    insert(tx, info.clone(), markers.copied().collect(), changes);
    tx.changes.finished_forks.push(*target_incarnation);
    Ok((info, tx.state(&Scope::Session(target.clone()))?))
}
