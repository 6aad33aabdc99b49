//! Appending events to a session: those of a request, and the marker of a rewind. Changing state without a session.

use std::{cell::LazyCell, sync::Arc};

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;

use super::{
    Append, Appended, AppendedEvent, EventRow, PastState, REPLAY_BYTES, Refusal, RequestKey,
    RequestRow, RewindSession, ScopeChange, ScopeKey, ScopeState, SessionState, Source,
    StateUpdate, StateUpdated, StoredEvent,
    overlay::{Overlay, Stamp, Transaction},
};
use crate::domain::{
    delta::{changes, results_bytes},
    error::{Reason, Violation},
    field::FieldPath,
    limits::BATCH_BYTES,
    prelude::*,
};

/// Appends events in one commit. An event whose id the session has with the same fingerprint is answered as stored and changes
/// nothing. Unless every event is such a replay, the precondition is checked first; its life always is.
pub fn append(tx: &mut Transaction<'_>, append: &Append<SessionKey>) -> Result<Appended, Refusal> {
    let Append { session, events, precondition, request, return_state } = append;
    let session = tx.loaded.session(session)?;
    precondition.check_session(&session.info)?;
    let incarnation = session.info.incarnation;
    let own = ScopeKey::Session(incarnation);
    let scope = Scope::Session(session.info.key.clone());
    if *return_state {
        tx.loaded.complete(&scope)?;
    }
    if tx.loaded.has_seen(&own, request.as_ref())? {
        let answer = appended(tx, incarnation, Vec::new(), *return_state)?;
        return Ok(Appended { request_replayed: true, ..answer });
    }
    let mut batch = Batch {
        info: &session.info,
        overlay: Overlay::new(tx.loaded, tx.loaded.visible(&scope)?),
        commit_time: session.info.update_time.max(tx.loaded.now),
        answers: Vec::with_capacity(events.len()),
        accepted: IndexMap::default(),
        bytes: 0,
        operated: 0,
        replayed: 0,
        trace_id: tx.trace_id,
    };
    let stored = events.iter().map(|event| tx.loaded.event(incarnation, &event.event_id));
    let stored = stored.collect::<Result<Vec<_>, _>>()?;
    let is_replay = |(event, row): (&NewEvent, &Option<&StoredEvent>)| {
        row.is_some_and(|row| row.fingerprint == event.fingerprint)
    };
    if !events.iter().zip(&stored).all(is_replay) {
        batch.overlay.check(precondition, ScopeKind::Session, tx.work)?;
    }
    let mut stored = events.iter().zip(stored);
    let decided = stored.try_for_each(|(event, stored)| batch.add(event, stored));
    *tx.work += batch.operated + batch.replayed;
    decided?;
    let Batch { overlay: Overlay { changes, .. }, answers, accepted, .. } = batch;
    accept(tx, incarnation, &scope, changes, accepted.into_values());
    if let Some(request) = request {
        put_request(tx, own, request);
    }
    appended(tx, incarnation, answers, *return_state)
}

/// The events of one request, decided one after the other.
struct Batch<'l> {
    info: &'l SessionInfo,
    overlay: Overlay<'l>,
    /// Never earlier than the session's last update, so that the times of its commits never go back.
    commit_time: Time,
    answers: Vec<AppendedEvent>,
    accepted: IndexMap<EventId, EventRow, DefaultHashBuilder>,
    /// Bytes of bodies and resolved deltas. Replays count as well, because they are answered whole.
    bytes: usize,
    /// Bytes that operations have read or written.
    operated: usize,
    /// Bytes of stored events that are answered.
    replayed: usize,
    trace_id: Option<TraceId>,
}

impl Batch<'_> {
    /// Decides an event; `stored` is the one that the session has under its id.
    fn add(&mut self, event: &NewEvent, stored: Option<&StoredEvent>) -> Result<(), Refusal> {
        let accepted = || self.accepted.get(&event.event_id).cloned().map(StoredEvent::from);
        let Some(known) = stored.cloned().or_else(accepted) else {
            return self.add_new(event);
        };
        if known.fingerprint != event.fingerprint {
            Err(Error::EventIdReused(event.event_id.clone()))?;
        }
        let Some(event) = known.event else {
            return Ok(self.count(None, REPLAY_BYTES)?);
        };
        self.replayed += event.bytes();
        self.count(event.body.as_ref(), event.changes.bytes())?;
        self.answers.push(AppendedEvent { event, replayed: true });
        Ok(())
    }

    fn add_new(&mut self, event: &NewEvent) -> Result<(), Refusal> {
        if let Some(refusal) = &event.refusal {
            Err(refusal.clone())?;
        }
        let SessionInfo { key, incarnation, last_sequence, .. } = self.info;
        let sequence = last_sequence + self.accepted.len() as u64 + 1;
        let source = Source { key: key.clone(), incarnation: *incarnation, sequence };
        let author = &event.author;
        let stamp = Stamp { commit_time: self.commit_time, author, source: Some(source) };
        let results = self.overlay.resolve(&event.delta, &event.field, &mut self.operated)?;
        let (changes, bytes) = (changes(results.iter()), results_bytes(&results));
        self.overlay.put(results, sequence, &stamp)?;
        self.count(event.body.as_ref(), bytes)?;
        let versions = self.overlay.versions();
        let stored = event.stored(sequence, self.commit_time, changes, versions, self.trace_id);
        let stored = Arc::new(stored);
        self.answers.push(AppendedEvent { event: Arc::clone(&stored), replayed: false });
        let (incarnation, fingerprint) = (*incarnation, event.fingerprint);
        let row = EventRow { incarnation, event: stored, fingerprint };
        self.accepted.insert(event.event_id.clone(), row);
        Ok(())
    }

    fn count(&mut self, body: Option<&Json>, changes: usize) -> Result<(), Error> {
        self.bytes += body.map_or(0, Json::len) + changes;
        if self.bytes <= BATCH_BYTES {
            return Ok(());
        }
        let message = format!(
            "The events resolve to more than {BATCH_BYTES} bytes of bodies, keys and values. Split them into several calls."
        );
        let violation = Violation::new("events", Reason::BatchTooLarge, message);
        Err(violation.with("bytes", self.bytes).with("limit", BATCH_BYTES).into())
    }
}

/// Appends the marker of a rewind: an event whose changes restore the session's own state as of `to`.
pub fn rewind(tx: &mut Transaction<'_>, rewind: &RewindSession) -> Result<Appended, Refusal> {
    let RewindSession { key, to, event_id, author, fingerprint, precondition } = rewind;
    let session = tx.loaded.session(key)?;
    precondition.check_session(&session.info)?;
    let incarnation = session.info.incarnation;
    let scope = Scope::Session(key.clone());
    let mut overlay = Overlay::new(tx.loaded, tx.loaded.complete(&scope)?);
    if let Some(stored) = tx.loaded.event(incarnation, event_id)? {
        if stored.fingerprint != *fingerprint {
            Err(Error::EventIdReused(event_id.clone()))?;
        }
        let event = stored.event.clone().ok_or(Refusal::LoadAgain)?;
        *tx.work += event.bytes();
        return appended(tx, incarnation, vec![AppendedEvent { event, replayed: true }], true);
    }
    let last_sequence = session.info.last_sequence;
    if *to > last_sequence {
        Err(Error::BeyondLastSequence { asked: *to, last_sequence })?;
    }
    let past = tx.loaded.past.get(&(incarnation, *to)).ok_or(Refusal::LoadAgain)?;
    *tx.work += past.bytes();
    overlay.check(precondition, ScopeKind::Session, tx.work)?;
    let results = restoring(past, &session.own);
    let changes = changes(results.iter());
    let (sequence, commit_time) = (last_sequence + 1, session.info.update_time.max(tx.loaded.now));
    overlay.put(results, sequence, &Stamp { commit_time, author, source: None })?;
    let event = Arc::new(Event {
        event_id: event_id.clone(),
        sequence,
        invocation_id: None,
        author: author.clone(),
        branch: Branch::from_stored(""),
        event_time: commit_time,
        commit_time,
        changes,
        body: None,
        rewind_to: Some(*to),
        rewound: false,
        versions: overlay.versions(),
        trace_id: tx.trace_id,
    });
    let row = EventRow { incarnation, event: Arc::clone(&event), fingerprint: *fingerprint };
    accept(tx, incarnation, &scope, overlay.changes, [row].into_iter());
    appended(tx, incarnation, vec![AppendedEvent { event, replayed: false }], true)
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

/// Puts events behind a session's others, and merges what they changed.
fn accept(
    tx: &mut Transaction<'_>,
    incarnation: Incarnation,
    scope: &Scope,
    changes: [ScopeChange; 3],
    events: impl ExactSizeIterator<Item = EventRow>,
) {
    let Some(session) = tx.loaded.sessions.get_mut(&incarnation) else { return };
    if events.len() == 0 {
        return;
    }
    let SessionState { info, markers, .. } = session;
    for row in events {
        let event = &row.event;
        info.last_sequence = event.sequence;
        info.last_event_time = event.event_time;
        info.update_time = event.commit_time;
        markers.extend(event.rewind_to.map(|to| Marker { sequence: event.sequence, to }));
        let stored = Some(row.clone().into());
        tx.loaded.events.insert((incarnation, event.event_id.clone()), stored);
        tx.changes.events.push(row);
    }
    tx.merge(changes, scope, Some(incarnation));
    tx.put_session(incarnation, false);
}

/// The answer to events that were accepted. Each has the mark that readers see: whether a rewind hides it.
fn appended(
    tx: &mut Transaction<'_>,
    incarnation: Incarnation,
    mut events: Vec<AppendedEvent>,
    with_state: bool,
) -> Result<Appended, Refusal> {
    let SessionState { info, markers, .. } = &tx.loaded.sessions[&incarnation];
    let visible = LazyCell::new(|| Visible::new(markers, info.last_sequence));
    for AppendedEvent { event, replayed } in &mut events {
        // A new event shows, unless it is the marker of a rewind.
        if (*replayed || event.rewind_to.is_some()) && !visible.contains(event.sequence) {
            *event = Arc::new(Event { rewound: true, ..Event::clone(event) });
        }
    }
    let info = info.clone();
    let state = with_state.then(|| tx.state(&Scope::Session(info.key.clone()))).transpose()?;
    Ok(Appended { info, events, state, request_replayed: false })
}

/// Applies a delta. A scope that ends changed gets the next version.
pub fn update_state(
    tx: &mut Transaction<'_>,
    update: &StateUpdate,
) -> Result<StateUpdated, Refusal> {
    let StateUpdate { delta, precondition, author, request } = update;
    let scope = delta.scope();
    let own = ScopeKey::of(scope.kind(), scope, None)
        .ok_or_else(|| Error::internal("a session's state is changed by events"))?;
    let mut overlay = Overlay::new(tx.loaded, tx.loaded.complete(scope)?);
    precondition.check_life(tx.loaded.life(scope), scope)?;
    if tx.loaded.has_seen(&own, request.as_ref())? {
        return updated(tx, scope, true);
    }
    overlay.check(precondition, scope.kind(), tx.work)?;
    let results = overlay.resolve(delta.delta(), &FieldPath::from("delta"), tx.work)?;
    overlay.put(results, 0, &Stamp { commit_time: tx.loaded.now, author, source: None })?;
    tx.merge(overlay.changes, scope, None);
    if let Some(request) = request {
        put_request(tx, own, request);
    }
    updated(tx, scope, false)
}

fn updated(
    tx: &mut Transaction<'_>,
    scope: &Scope,
    replayed: bool,
) -> Result<StateUpdated, Refusal> {
    let life = tx.loaded.life(scope);
    Ok(StateUpdated { state: tx.state(scope)?, replayed, life })
}

/// Remembers a request for as long as its scope lives.
fn put_request(tx: &mut Transaction<'_>, scope: ScopeKey, request: &RequestKey) {
    let RequestKey { id, fingerprint } = request.clone();
    let is_shared = !matches!(scope, ScopeKey::Session(_));
    if is_shared && tx.loaded.scope(&scope).is_none_or(|it| it.state_bytes == 0) {
        tx.changes.emptied.insert(scope.clone());
    }
    tx.loaded.requests.insert((scope.clone(), id.clone()), Some(fingerprint));
    tx.changes.requests.push(RequestRow { scope, id, fingerprint });
}
