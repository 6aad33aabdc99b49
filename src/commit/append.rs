//! Appending events to a session.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    Append, Appended, AppendedEvent, ChangeSet, EventRow, Loaded, RequestKey, RequestRow, ScopeKey,
    SessionState, Source, StoredEvent,
    overlay::{Effects, Overlay, Stamp, put_session},
};
use crate::domain::{
    delta::{changes, results_bytes},
    error::Error,
    event::{BatchSize, Event, NewEvent},
    scope::{Scope, ScopeKind},
    session::Incarnation,
    time::Time,
    visible::{Marker, Visible},
};

/// Appends events in one commit. An event whose id the session has with the same fingerprint is answered as stored and changes
/// nothing. Unless every event is such a replay, the precondition is checked first.
pub(super) fn append(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    append: &Append,
) -> Result<Appended, Error> {
    let session = loaded.find(&append.session)?;
    let incarnation = session.info.incarnation;
    let scope = ScopeKey::Session(incarnation);
    if is_replayed(loaded, &scope, append.request.as_ref())? {
        let mut answer = appended(loaded, incarnation, Vec::new(), append.return_state);
        answer.request_replayed = true;
        return Ok(answer);
    }
    let mut batch = Batch::new(loaded, session);
    let replayed =
        |event| batch.stored(event).is_some_and(|it| it.fingerprint == event.fingerprint);
    if !append.events.iter().all(replayed) {
        batch.overlay.check(&append.precondition, ScopeKind::Session)?;
    }
    for event in &append.events {
        batch.add(event)?;
    }
    let (effects, answers, accepted) = batch.finish();
    accept(loaded, changes, incarnation, effects, accepted);
    if let Some(request) = &append.request {
        put_request(loaded, changes, scope, request);
    }
    Ok(appended(loaded, incarnation, answers, append.return_state))
}

/// The events of one request, decided one after the other.
struct Batch<'l> {
    loaded: &'l Loaded,
    session: &'l SessionState,
    overlay: Overlay<'l>,
    commit_time: Time,
    /// The events that rewinds leave visible; computed for the first replay.
    visible: Option<Visible>,
    answers: Vec<AppendedEvent>,
    accepted: Vec<EventRow>,
    /// Accepted events by id, as places in `accepted`.
    ids: HashMap<&'l str, usize>,
    size: BatchSize,
}

impl<'l> Batch<'l> {
    fn new(loaded: &'l Loaded, session: &'l SessionState) -> Self {
        let scope = Scope::Session(session.info.key.clone());
        Self {
            loaded,
            session,
            overlay: Overlay::new(loaded, &scope, Some(session.info.incarnation)),
            commit_time: commit_time(loaded, session),
            visible: None,
            answers: Vec::new(),
            accepted: Vec::new(),
            ids: HashMap::new(),
            size: BatchSize::default(),
        }
    }

    /// The event that the session has under an event's id.
    fn stored(&self, event: &NewEvent) -> Option<&'l StoredEvent> {
        let id = (self.session.info.incarnation, event.event_id.clone());
        self.loaded.events.get(&id)?.as_ref()
    }

    fn finish(self) -> (Effects, Vec<AppendedEvent>, Vec<EventRow>) {
        (self.overlay.into_effects(), self.answers, self.accepted)
    }

    fn add(&mut self, event: &'l NewEvent) -> Result<(), Error> {
        let (known, fingerprint) = match self.stored(event) {
            Some(stored) => (Arc::clone(&stored.event), stored.fingerprint),
            None => match self.ids.get(event.event_id.as_str()) {
                Some(&at) => (Arc::clone(&self.accepted[at].event), self.accepted[at].fingerprint),
                None => return self.add_new(event),
            },
        };
        if fingerprint != event.fingerprint {
            return Err(Error::EventIdReused(event.event_id.clone()));
        }
        self.size.add(known.body.as_ref(), known.changes.bytes())?;
        let session = self.session;
        let visible = self
            .visible
            .get_or_insert_with(|| Visible::new(&session.markers, session.info.last_sequence));
        let is_new = known.sequence > session.info.last_sequence;
        let rewound = !is_new && !visible.contains(known.sequence);
        self.answers.push(AppendedEvent { event: with_rewound(known, rewound), replayed: true });
        Ok(())
    }

    fn add_new(&mut self, event: &'l NewEvent) -> Result<(), Error> {
        if let Some(refusal) = &event.refusal {
            return Err(refusal.clone());
        }
        let info = &self.session.info;
        let sequence = info.last_sequence + self.accepted.len() as u64 + 1;
        let stamp = Stamp {
            commit_time: self.commit_time,
            author: &event.author,
            source: Some(Source { key: info.key.clone(), incarnation: info.incarnation, sequence }),
        };
        let results = self.overlay.apply(&event.delta, &event.field, sequence, &stamp)?;
        self.size.add(event.body.as_ref(), results_bytes(&results))?;
        let row = EventRow {
            incarnation: info.incarnation,
            fingerprint: event.fingerprint,
            event: Arc::new(Event {
                event_id: event.event_id.clone(),
                sequence,
                invocation_id: event.invocation_id.clone(),
                author: event.author.clone(),
                branch: event.branch.clone(),
                event_time: event.event_time.unwrap_or(self.commit_time),
                commit_time: self.commit_time,
                changes: changes(results.iter()),
                body: event.body.clone(),
                rewind_to: None,
                rewound: false,
                versions: self.overlay.versions(),
            }),
        };
        self.ids.insert(event.event_id.as_str(), self.accepted.len());
        self.answers.push(AppendedEvent { event: Arc::clone(&row.event), replayed: false });
        self.accepted.push(row);
        Ok(())
    }
}

/// Never earlier than the session's last update, so that the times of its commits never go back.
pub(super) fn commit_time(loaded: &Loaded, session: &SessionState) -> Time {
    loaded.now.max(session.info.update_time)
}

/// Merges what events changed, and puts the events behind the session's others.
pub(super) fn accept(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    incarnation: Incarnation,
    effects: Effects,
    events: Vec<EventRow>,
) {
    if events.is_empty() {
        return;
    }
    let Some(session) = loaded.sessions.get_mut(&incarnation) else { return };
    for row in &events {
        let event = &row.event;
        session.info.last_sequence = event.sequence;
        session.info.last_event_time = event.event_time;
        session.info.update_time = event.commit_time;
        if let Some(to) = event.rewind_to {
            session.markers.push(Marker { sequence: event.sequence, to });
        }
    }
    let key = session.info.key.clone();
    effects.merge(loaded, changes, |kind| ScopeKey::of(kind, &key, incarnation));
    put_session(loaded, changes, incarnation, false);
    for row in &events {
        let stored = StoredEvent { event: Arc::clone(&row.event), fingerprint: row.fingerprint };
        loaded.events.insert((incarnation, row.event.event_id.clone()), Some(stored));
    }
    changes.events.extend(events);
}

/// An event with the mark that readers see: whether a rewind hides it.
pub(super) fn with_rewound(event: Arc<Event>, rewound: bool) -> Arc<Event> {
    if event.rewound == rewound {
        return event;
    }
    Arc::new(Event { rewound, ..Arc::unwrap_or_clone(event) })
}

pub(super) fn appended(
    loaded: &Loaded,
    incarnation: Incarnation,
    events: Vec<AppendedEvent>,
    with_state: bool,
) -> Appended {
    let info = loaded.sessions[&incarnation].info.clone();
    let state = with_state.then(|| loaded.state(&Scope::Session(info.key.clone())));
    Appended { info, events, state, request_replayed: false }
}

/// Whether a scope has seen a request. Errors: [`Error::RequestIdReused`].
pub(super) fn is_replayed(
    loaded: &Loaded,
    scope: &ScopeKey,
    request: Option<&RequestKey>,
) -> Result<bool, Error> {
    let Some(request) = request else {
        return Ok(false);
    };
    match loaded.requests.get(&(scope.clone(), request.id.clone())) {
        None | Some(None) => Ok(false),
        Some(Some(fingerprint)) if *fingerprint == request.fingerprint => Ok(true),
        Some(Some(_)) => Err(Error::RequestIdReused(request.id.clone())),
    }
}

/// Remembers a request for as long as its scope lives.
pub(super) fn put_request(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    scope: ScopeKey,
    request: &RequestKey,
) {
    let RequestKey { id, fingerprint } = request.clone();
    loaded.requests.insert((scope.clone(), id.clone()), Some(fingerprint));
    changes.requests.push(RequestRow { scope, id, fingerprint });
}
