//! Appending events, rewinding, and changing state without a session.

use std::{collections::BTreeMap, sync::Arc};

use sessiond::{
    domain::{
        Sequence,
        delta::KeyResult,
        error::{Error, Reason},
        event::{Event, Fingerprint, NewEvent, ScopeVersions},
        field::FieldPath,
        id::{Branch, RequestId},
        limits::BATCH_BYTES,
        scope::{Scope, ScopeKind, SessionKey, StateKey},
        time::Time,
        token::Life,
    },
    store::{
        Append, Appended, AppendedEvent, RequestKey, RewindSession, StateUpdate, StateUpdated,
    },
};

use super::{
    Naive, Values, check, put, state,
    values::{changes, entry_bytes, evaluate},
};

impl Naive {
    pub(super) fn append(&mut self, append: &Append<SessionKey>) -> Result<Appended, Error> {
        let key = append.session.clone();
        let session = self.live(&key)?;
        if replayed(&session.requests, append.request.as_ref())? {
            let mut answer = self.appended(&key, &[], append.return_state)?;
            answer.request_replayed = true;
            return Ok(answer);
        }
        let is_known = |event: &NewEvent| {
            let known = session.event_ids.get(&event.event_id);
            known.is_some_and(|(_, fingerprint)| *fingerprint == event.fingerprint)
        };
        if !append.events.iter().all(is_known) {
            let visible = self.visible(&Scope::Session(key.clone()));
            check(&append.precondition, session.info.last_sequence, &visible)?;
        }
        let mut answers = Vec::new();
        let mut bytes = 0;
        for event in &append.events {
            let session = self.live(&key)?;
            let (sequence, replayed) = match session.event_ids.get(&event.event_id) {
                Some((_, fingerprint)) if *fingerprint != event.fingerprint => {
                    return Err(Error::EventIdReused(event.event_id.clone()));
                }
                Some((sequence, _)) => (*sequence, true),
                None => (self.append_event(&key, event)?, false),
            };
            bytes += self.live(&key)?.past[sequence as usize].bytes;
            if bytes > BATCH_BYTES {
                return Err(Error::invalid("events", Reason::BatchTooLarge, ""));
            }
            answers.push((sequence, replayed));
        }
        if let Some(request) = &append.request {
            let requests = &mut self.live_mut(&key)?.requests;
            requests.insert(request.id.clone(), request.fingerprint);
        }
        self.appended(&key, &answers, append.return_state)
    }

    fn append_event(&mut self, key: &SessionKey, event: &NewEvent) -> Result<Sequence, Error> {
        if let Some(refusal) = &event.refusal {
            return Err(refusal.clone());
        }
        let visible = self.visible(&Scope::Session(key.clone()));
        let current = |key: &StateKey| visible.get(key).map(|(value, _)| value.clone());
        let results = evaluate(&event.delta, &event.field, current)?;
        let commit_time = self.commit_time(key)?;
        let stored = Event {
            event_id: event.event_id.clone(),
            sequence: 0,
            invocation_id: event.invocation_id.clone(),
            author: event.author.clone(),
            branch: event.branch.clone(),
            event_time: event.event_time.unwrap_or(commit_time),
            commit_time,
            changes: changes(&results),
            body: event.body.clone(),
            rewind_to: None,
            rewound: false,
            versions: ScopeVersions::default(),
            trace_id: None,
        };
        self.log(key, stored, event.fingerprint, &results)
    }

    /// Commit times of a session never go back, whatever the clock does.
    fn commit_time(&self, key: &SessionKey) -> Result<Time, Error> {
        Ok(self.now.max(self.live(key)?.info.update_time))
    }

    /// Applies what an event's delta resulted in and puts the event behind the others.
    fn log(
        &mut self,
        key: &SessionKey,
        mut event: Event,
        fingerprint: Fingerprint,
        results: &[KeyResult],
    ) -> Result<Sequence, Error> {
        let scope = Scope::Session(key.clone());
        let info = self.live(key)?.info.clone();
        let sequence = info.last_sequence + 1;
        let source = Some((info, sequence));
        self.change_wide(&scope, results, &event.author, event.commit_time, source)?;
        event.sequence = sequence;
        event.versions = self.versions(&scope);
        let session = self.live_mut(key)?;
        let own = results.iter().filter(|(key, _)| key.scope() == Some(ScopeKind::Session));
        let own: Vec<KeyResult> = own.cloned().collect();
        put(&mut session.own, &own, sequence, ScopeKind::Session)?;
        let visible = match event.rewind_to {
            Some(to) => session.past[to as usize].visible.clone(),
            None => [&session.past[sequence as usize - 1].visible[..], &[sequence]].concat(),
        };
        let resolved = results.iter().map(|(key, value)| entry_bytes(key.as_str(), value.as_ref()));
        let bytes =
            event.body.as_ref().map_or(0, |body| body.as_str().len()) + resolved.sum::<usize>();
        session.info.last_sequence = sequence;
        session.info.last_event_time = event.event_time;
        session.info.update_time = event.commit_time;
        session.event_ids.insert(event.event_id.clone(), (sequence, fingerprint));
        session.log.push(event);
        self.remember(key, visible, bytes)?;
        Ok(sequence)
    }

    pub(super) fn rewind(&mut self, rewind: &RewindSession) -> Result<Appended, Error> {
        let key = &rewind.key;
        let session = self.live(key)?;
        if let Some((sequence, fingerprint)) = session.event_ids.get(&rewind.event_id) {
            return match *fingerprint == rewind.fingerprint {
                true => self.appended(key, &[(*sequence, true)], true),
                false => Err(Error::EventIdReused(rewind.event_id.clone())),
            };
        }
        let last_sequence = session.info.last_sequence;
        if rewind.to > last_sequence {
            return Err(Error::BeyondLastSequence { asked: rewind.to, last_sequence });
        }
        let visible = self.visible(&Scope::Session(key.clone()));
        check(&rewind.precondition, last_sequence, &visible)?;
        let results = differences(&session.own, &session.past[rewind.to as usize].own);
        let commit_time = self.commit_time(key)?;
        let marker = Event {
            event_id: rewind.event_id.clone(),
            sequence: 0,
            invocation_id: None,
            author: rewind.author.clone(),
            branch: Branch::new("").unwrap(),
            event_time: commit_time,
            commit_time,
            changes: changes(&results),
            body: None,
            rewind_to: Some(rewind.to),
            rewound: false,
            versions: ScopeVersions::default(),
            trace_id: None,
        };
        let sequence = self.log(key, marker, rewind.fingerprint, &results)?;
        self.appended(key, &[(sequence, false)], true)
    }

    /// An answer with some of a session's events, each with whether it was there before.
    fn appended(
        &self,
        key: &SessionKey,
        events: &[(Sequence, bool)],
        with_state: bool,
    ) -> Result<Appended, Error> {
        let session = self.live(key)?;
        let visible = &session.past.last().unwrap().visible;
        let event = |&(sequence, replayed): &(Sequence, bool)| {
            let mut event = session.log[sequence as usize - 1].clone();
            event.rewound = !visible.contains(&sequence);
            AppendedEvent { event: Arc::new(event), replayed }
        };
        Ok(Appended {
            info: session.info.clone(),
            events: events.iter().map(event).collect(),
            state: with_state.then(|| state(self.visible(&Scope::Session(key.clone())))),
            request_replayed: false,
        })
    }

    pub(super) fn update_state(&mut self, update: &StateUpdate) -> Result<StateUpdated, Error> {
        let scope = update.delta.scope();
        let user = scope.user_id().cloned();
        let wide = self.wide(scope.app_name(), user.as_ref());
        if replayed(&wide.requests, update.request.as_ref())? {
            return Ok(self.updated(scope, true));
        }
        let visible = self.visible(scope);
        check(&update.precondition, wide.version, &visible)?;
        let current = |key: &StateKey| visible.get(key).map(|(value, _)| value.clone());
        let results = evaluate(update.delta.delta(), &FieldPath::from("delta"), current)?;
        self.change_wide(scope, &results, &update.author, self.now, None)?;
        if let Some(request) = &update.request {
            let wide = self.wide.entry((scope.app_name().clone(), user)).or_default();
            Arc::make_mut(wide).requests.insert(request.id.clone(), request.fingerprint);
        }
        Ok(self.updated(scope, false))
    }

    fn updated(&self, scope: &Scope, replayed: bool) -> StateUpdated {
        let wide = self.wide(scope.app_name(), scope.user_id());
        let life = (wide.version > 0).then(|| Life::of_scope(scope, wide.base));
        StateUpdated { state: state(self.visible(scope)), replayed, life }
    }
}

/// The changes that take values back to an earlier state.
fn differences(now: &Values, then: &Values) -> Vec<KeyResult> {
    let value = |values: &Values, key| values.get(key).map(|(value, _)| value.clone());
    let keys: std::collections::BTreeSet<&StateKey> = now.keys().chain(then.keys()).collect();
    let differing = keys.into_iter().filter(|key| value(now, key) != value(then, key));
    differing.map(|key| (key.clone(), value(then, key))).collect()
}

/// Whether a scope has carried a request out before.
fn replayed(
    requests: &BTreeMap<RequestId, Fingerprint>,
    request: Option<&RequestKey>,
) -> Result<bool, Error> {
    let known = request.and_then(|request| Some((request, requests.get(&request.id)?)));
    match known {
        None => Ok(false),
        Some((request, fingerprint)) if *fingerprint == request.fingerprint => Ok(true),
        Some((request, _)) => Err(Error::RequestIdReused(request.id.clone())),
    }
}
