//! Taking a session back to an earlier event.

use std::sync::Arc;

use super::{
    Appended, AppendedEvent, ChangeSet, EventRow, Loaded, RewindSession, ScopeState,
    append::{accept, appended, commit_time, with_rewound},
    loaded::PastState,
    overlay::{Overlay, Stamp},
    session::live_incarnation,
};
use crate::domain::{
    delta::{KeyResult, changes},
    error::Error,
    event::Event,
    id::Branch,
    scope::{Scope, ScopeKind, StateKey},
    visible::Visible,
};

/// Appends the marker of a rewind: an event whose changes restore the session's own state as of `to`.
pub(super) fn rewind(
    loaded: &mut Loaded,
    change_set: &mut ChangeSet,
    rewind: &RewindSession,
) -> Result<Appended, Error> {
    let RewindSession { key, to, event_id, author, fingerprint, precondition } = rewind;
    let incarnation = live_incarnation(loaded, key)?;
    let session = &loaded.sessions[&incarnation];
    if let Some(Some(stored)) = loaded.events.get(&(incarnation, event_id.clone())) {
        if stored.fingerprint != *fingerprint {
            return Err(Error::EventIdReused(event_id.clone()));
        }
        // The id may be that of an event, and a marker never shows.
        let visible = Visible::new(&session.markers, session.info.last_sequence);
        let rewound = !visible.contains(stored.event.sequence);
        let event = with_rewound(Arc::clone(&stored.event), rewound);
        return Ok(appended(
            loaded,
            incarnation,
            vec![AppendedEvent { event, replayed: true }],
            true,
        ));
    }
    let last_sequence = session.info.last_sequence;
    if *to > last_sequence {
        return Err(Error::BeyondLastSequence { asked: *to, last_sequence });
    }
    let mut overlay = Overlay::new(loaded, &Scope::Session(key.clone()), Some(incarnation));
    overlay.check(precondition, ScopeKind::Session)?;
    let past = loaded.past.get(&(incarnation, *to));
    let results = past.map(|past| restoring(past, &session.own)).unwrap_or_default();
    let (sequence, commit_time) = (last_sequence + 1, commit_time(loaded, session));
    overlay.put(&results, sequence, &Stamp { commit_time, author, source: None })?;
    let event = Event {
        event_id: event_id.clone(),
        sequence,
        invocation_id: None,
        author: author.clone(),
        branch: Branch::from_stored(""),
        event_time: commit_time,
        commit_time,
        changes: changes(results.iter()),
        body: None,
        rewind_to: Some(*to),
        rewound: false,
        versions: overlay.versions(),
    };
    let row = EventRow { incarnation, event: Arc::new(event), fingerprint: *fingerprint };
    let marker = with_rewound(Arc::clone(&row.event), true);
    accept(loaded, change_set, incarnation, overlay.into_effects(), vec![row]);
    let events = vec![AppendedEvent { event: marker, replayed: false }];
    Ok(appended(loaded, incarnation, events, true))
}

/// The changes that restore the state as of an event: keys that differ, by name.
fn restoring(past: &PastState, now: &ScopeState) -> Vec<KeyResult> {
    let key = |name: &str| StateKey::in_scope(ScopeKind::Session, name);
    let then = past
        .state
        .iter()
        .filter(|(name, (value, _))| now.get(name).is_none_or(|(current, _)| current != value));
    let set = then.map(|(name, (value, _))| (key(name), Some(value.clone())));
    let gone =
        now.keys.iter().filter(|(name, value)| value.is_some() && !past.state.contains_key(*name));
    let mut results: Vec<KeyResult> = set.chain(gone.map(|(name, _)| (key(name), None))).collect();
    results.sort_by(|a, b| a.0.cmp(&b.0));
    results
}
