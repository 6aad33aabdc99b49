//! Writes. Each first works out all that it does, and may be refused meanwhile; from its first change on it cannot fail.

use std::{collections::HashMap, mem};

use super::{
    draft::Draft,
    session::Session,
    wide::{Source, Stamp},
    world::World,
};
use crate::{
    domain::{
        Sequence,
        delta::{self, Delta, KeyResult},
        error::Error,
        event::{BatchSize, Event, Fingerprint, NewEvent},
        id::{Branch, RequestId},
        json::Json,
        scope::SessionKey,
        time::Time,
    },
    store::{
        Append, Appended, AppendedEvent, Request, RewindSession, StateUpdate, StateUpdated,
        tails::Tails,
    },
};

/// An event that nothing speaks against any more.
struct Accepted {
    event: NewEvent,
    /// What its delta does.
    results: Vec<KeyResult>,
    /// Set for the marker of a rewind.
    rewind_to: Option<Sequence>,
}

/// Where an event of a request is in the log, and whether it was there before.
type Place = (Sequence, bool);

impl World {
    pub(super) fn append(&mut self, append: Append, tails: &Tails) -> Result<Appended, Error> {
        let now = append.now;
        let session = self.sessions.find(&append.session, now)?;
        let key = session.info.key.clone();
        if carried_out(&session.requests, append.request.as_ref())? {
            let mut appended = self.appended(session, &[], append.return_state);
            appended.request_replayed = true;
            return Ok(appended);
        }
        let known = |event: &NewEvent| {
            let known = session.event_ids.get(&event.event_id);
            known.is_some_and(|(_, fingerprint)| *fingerprint == event.fingerprint)
        };
        let sight = self.sight_of(session);
        if !append.events.iter().all(known) {
            sight.check(&append.precondition, session.info.last_sequence)?;
        }
        let mut draft = Draft::new(sight);
        let mut size = BatchSize::default();
        let mut new_ids = HashMap::new();
        let mut places = Vec::with_capacity(append.events.len());
        let mut accepted = Vec::new();
        for (at, mut event) in append.events.into_iter().enumerate() {
            let known = session.event_ids.get(&event.event_id);
            match known.or_else(|| new_ids.get(&event.event_id)) {
                Some(&(_, fingerprint)) if fingerprint != event.fingerprint => {
                    return Err(Error::EventIdReused(event.event_id));
                }
                Some(&(sequence, _)) => {
                    let (body, bytes) = match session.event(sequence) {
                        Some(event) => (event.body.as_ref(), event.changes.bytes()),
                        None => accepted_size(&accepted, sequence - session.info.last_sequence),
                    };
                    size.add(body, bytes)?;
                    places.push((sequence, true));
                }
                None => {
                    if let Some(refusal) = event.refusal {
                        return Err(refusal);
                    }
                    let delta = mem::take(&mut event.delta);
                    let results = draft.apply(delta, &format!("events[{at}].state_delta"))?;
                    size.add(event.body.as_ref(), delta::results_bytes(&results))?;
                    let sequence = session.info.last_sequence + new_ids.len() as Sequence + 1;
                    new_ids.insert(event.event_id.clone(), (sequence, event.fingerprint));
                    places.push((sequence, false));
                    accepted.push(Accepted { event, results, rewind_to: None });
                }
            }
        }
        self.commit(&key, accepted, append.request, now, tails)?;
        let session = self.sessions.live(&key, now)?;
        Ok(self.appended(session, &places, append.return_state))
    }

    pub(super) fn rewind(
        &mut self,
        rewind: RewindSession,
        tails: &Tails,
    ) -> Result<Appended, Error> {
        let now = rewind.now;
        let session = self.sessions.live(&rewind.key, now)?;
        match session.event_ids.get(&rewind.event_id) {
            Some(&(sequence, fingerprint)) if fingerprint == rewind.fingerprint => {
                return Ok(self.appended(session, &[(sequence, true)], true));
            }
            Some(_) => return Err(Error::EventIdReused(rewind.event_id)),
            None => {}
        }
        let to = session.past(Some(rewind.to))?;
        let last_sequence = session.info.last_sequence;
        let sight = self.sight_of(session);
        sight.check(&rewind.precondition, last_sequence)?;
        let marker = Accepted {
            event: NewEvent {
                event_id: rewind.event_id,
                invocation_id: None,
                author: rewind.author,
                branch: Branch::from_stored(""),
                event_time: None,
                delta: Delta::default(),
                body: None,
                fingerprint: rewind.fingerprint,
                refusal: None,
            },
            results: session.keys.way_back(to),
            rewind_to: Some(to),
        };
        self.commit(&rewind.key, vec![marker], None, now, tails)?;
        let session = self.sessions.live(&rewind.key, now)?;
        Ok(self.appended(session, &[(last_sequence + 1, false)], true))
    }

    /// Puts events into a session's log and what they change into the scopes.
    fn commit(
        &mut self,
        key: &SessionKey,
        accepted: Vec<Accepted>,
        request: Option<Request>,
        now: Time,
        tails: &Tails,
    ) -> Result<(), Error> {
        let session = self.sessions.live_mut(key, now)?;
        let scope = session.scope();
        let before = self.wides.versions(&scope);
        if let Some(request) = request {
            session.requests.insert(request.id, request.fingerprint);
        }
        if accepted.is_empty() {
            return Ok(());
        }
        let commit_time = now.max(session.info.update_time);
        for Accepted { event, results, rewind_to } in accepted {
            let sequence = session.info.last_sequence + 1;
            let changes = delta::changes(&results);
            let stamp = Stamp {
                commit_time,
                author: event.author.clone(),
                source: Some(Source {
                    session: key.clone(),
                    incarnation: session.info.incarnation,
                    sequence,
                }),
            };
            for (key, value) in self.wides.record(&scope, results, &stamp) {
                session.keys.put(key.name(), value, sequence);
            }
            let fingerprint = event.fingerprint;
            let event = Event {
                event_id: event.event_id,
                sequence,
                invocation_id: event.invocation_id,
                author: event.author,
                branch: event.branch,
                event_time: event.event_time.unwrap_or(commit_time),
                commit_time,
                changes,
                body: event.body,
                rewind_to,
                rewound: false,
                versions: self.wides.versions(&scope),
            };
            session.push(event, fingerprint);
        }
        let last_sequence = session.info.last_sequence;
        self.announce(tails, &scope, Some(last_sequence), before);
        Ok(())
    }

    fn appended(&self, session: &Session, places: &[Place], with_state: bool) -> Appended {
        // An event that is new shows, and the marker of a rewind never does: only of a replay one has to see.
        let replays = places.iter().any(|(_, replayed)| *replayed);
        let visible = replays.then(|| session.visible(session.info.last_sequence));
        let event = |&(sequence, replayed): &Place| {
            let mut event = Event::clone(session.event(sequence)?);
            event.rewound = match &visible {
                Some(visible) => !visible.contains(sequence),
                None => event.rewind_to.is_some(),
            };
            Some(AppendedEvent { event, replayed })
        };
        Appended {
            info: session.info.clone(),
            events: places.iter().filter_map(event).collect(),
            state: with_state.then(|| self.sight_of(session).state()),
            request_replayed: false,
        }
    }

    pub(super) fn update_state(
        &mut self,
        update: StateUpdate,
        tails: &Tails,
    ) -> Result<StateUpdated, Error> {
        let StateUpdate { scope, delta, precondition, author, request, now } = update;
        let Some(wide) = self.wides.get(&scope, scope.kind()) else {
            return Err(Error::Internal("a session's state is changed by events".to_owned()));
        };
        let sight = self.sight(&scope, None);
        if carried_out(&wide.requests, request.as_ref())? {
            return Ok(StateUpdated { state: sight.state(), replayed: true });
        }
        sight.check(&precondition, wide.version())?;
        let results = Draft::new(sight).apply(delta, "delta")?;
        let before = self.wides.versions(&scope);
        let stamp = Stamp { commit_time: now, author, source: None };
        self.wides.record(&scope, results, &stamp);
        if let Some(request) = request
            && let Some(wide) = self.wides.get_mut(&scope, scope.kind())
        {
            wide.requests.insert(request.id, request.fingerprint);
        }
        self.announce(tails, &scope, None, before);
        let state = self.sight(&scope, None).state();
        Ok(StateUpdated { state, replayed: false })
    }
}

/// Body and size of the delta of the n-th accepted event, from 1.
fn accepted_size(accepted: &[Accepted], nth: Sequence) -> (Option<&Json>, usize) {
    let at = usize::try_from(nth - 1).unwrap_or(usize::MAX);
    accepted.get(at).map_or((None, 0), |accepted| {
        (accepted.event.body.as_ref(), delta::results_bytes(&accepted.results))
    })
}

/// Whether a request had been carried out before.
fn carried_out(
    requests: &HashMap<RequestId, Fingerprint>,
    request: Option<&Request>,
) -> Result<bool, Error> {
    let Some(request) = request else {
        return Ok(false);
    };
    match requests.get(&request.id) {
        None => Ok(false),
        Some(fingerprint) if *fingerprint == request.fingerprint => Ok(true),
        Some(_) => Err(Error::RequestIdReused(request.id.clone())),
    }
}
