//! Appending events. An append is worked out whole, in memory, before its first row is written, so that one that is refused leaves
//! nothing behind for its neighbours in the commit, and no savepoint is needed.

use std::collections::HashMap;

use rusqlite::OptionalExtension;

use super::{
    cache::Live,
    fault::{Fault, Outcome, Smuggler},
    history::TailEntry,
    log::LogRow,
    node::{Node, Trio, Undo},
    row,
    schema::{LAST_SEQUENCE, NodeId},
    statements::Reads,
    writer::{Writer, lost},
};
use crate::{
    domain::{
        Sequence, Version,
        delta::{KeyResult, changes, changes_in, results_bytes},
        error::{Error, Violation},
        event::{BatchSize, Changes, Event, Fingerprint, NewEvent, ScopeVersions},
        precondition::Precondition,
        scope::ScopeKind,
        session::State,
        time::Time,
    },
    store::{Append, Appended, AppendedEvent, Request},
};

/// What is known of an event before anything is worked out.
enum Slot {
    New,
    /// It is stored already.
    Replay(Box<Event>),
    /// It is the same as an earlier one of its batch.
    Twin(usize),
    /// Another event has its id.
    Reused,
}

/// Rows of an event that has been accepted.
struct Accepted {
    /// Which of the events.
    at: usize,
    fingerprint: Fingerprint,
    own_bytes: usize,
    own_names: Vec<Box<str>>,
    logs: Vec<ScopeRow>,
}

/// What an event changed in a wider scope.
struct ScopeRow {
    kind: ScopeKind,
    version: Version,
    bytes: usize,
    changes: Changes,
    names: Vec<Box<str>>,
}

/// An append that is being worked out.
struct Plan<'a, 'c> {
    reads: &'a mut Reads<'c>,
    trio: Trio<'a>,
    time: Time,
    events: Vec<AppendedEvent>,
    accepted: Vec<Accepted>,
    undo: Vec<Undo>,
    size: BatchSize,
}

impl Writer<'_> {
    pub(super) fn append(&mut self, append: Append) -> Outcome<Appended> {
        let Append { session, events, precondition, request, return_state, now } = append;
        let id = self.find(&session, now)?;
        if let Some(request) = &request
            && self.seen(id, request)?
        {
            let mut appended = self.appended(id, Vec::new(), return_state)?;
            appended.request_replayed = true;
            return Ok(appended);
        }
        let events = self.append_to(id, events, &precondition, now)?;
        if let Some(request) = &request {
            self.remember(id, request)?;
        }
        self.appended(id, events, return_state)
    }

    /// Works out and writes events of a session that is open.
    fn append_to(
        &mut self,
        id: NodeId,
        events: Vec<NewEvent>,
        precondition: &Precondition,
        now: Time,
    ) -> Outcome<Vec<AppendedEvent>> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        let slots = slots(live, &mut self.reads, &events)?;
        if slots.iter().all(|slot| matches!(slot, Slot::Replay(_))) {
            let replays = slots.into_iter().filter_map(|slot| match slot {
                Slot::Replay(event) => Some(AppendedEvent { event: *event, replayed: true }),
                _ => None,
            });
            return Ok(replays.collect());
        }
        let time = now.max(live.found.info.update_time);
        let before = [app.head(), user.head(), live.own.head()];
        let trio = Trio { app, user: Some(user), own: Some(&mut live.own) };
        let mut plan = Plan {
            reads: &mut self.reads,
            trio,
            time,
            events: Vec::with_capacity(events.len()),
            accepted: Vec::with_capacity(events.len()),
            undo: Vec::new(),
            size: BatchSize::default(),
        };
        if let Err(fault) = plan.work_out(events, slots, precondition) {
            let Plan { mut trio, undo, .. } = plan;
            trio.undo(undo);
            let kinds = [ScopeKind::Application, ScopeKind::User, ScopeKind::Session];
            for (kind, (version, bytes)) in kinds.into_iter().zip(before) {
                let node = trio.node(kind);
                (node.version, node.bytes) = (version, bytes);
            }
            return Err(fault);
        }
        let Plan { events, accepted, .. } = plan;
        self.write_events(id, &events, accepted)?;
        Ok(events)
    }

    /// Writes the rows of accepted events, and keeps the session as they leave it.
    fn write_events(
        &mut self,
        id: NodeId,
        events: &[AppendedEvent],
        accepted: Vec<Accepted>,
    ) -> Outcome<()> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        for Accepted { at, fingerprint, own_bytes, own_names, logs } in accepted {
            let event = &events[at].event;
            self.writes.store_event(id, event, fingerprint, own_bytes)?;
            live.count_id(event.event_id.as_str());
            let entry = TailEntry {
                version: event.sequence,
                names: own_names,
                event_id: Some(event.event_id.as_str().into()),
            };
            self.writes.follow(&mut live.own, entry)?;
            for ScopeRow { kind, version, bytes, changes, names } in logs {
                let key = &live.found.info.key;
                let row = LogRow {
                    version,
                    bytes,
                    time: event.commit_time,
                    author: &event.author,
                    source: Some((id, key, event.sequence)),
                    changes: &changes,
                };
                let node: &mut Node = if kind == ScopeKind::User { user } else { app };
                self.writes.store_log(node, &row, names)?;
                self.changed.push(node.id);
            }
            let info = &mut live.found.info;
            info.last_sequence = event.sequence;
            info.last_event_time = event.event_time;
            info.update_time = event.commit_time;
        }
        live.found.bytes = live.own.bytes;
        let nodes = [&live.own, app, user];
        self.unwritten.extend(nodes.iter().filter(|node| node.is_dirty()).map(|node| node.id));
        self.changed.push(id);
        self.mark_moved(id)
    }

    /// The answer to an append of a session that is open.
    pub(super) fn appended(
        &mut self,
        id: NodeId,
        events: Vec<AppendedEvent>,
        with_state: bool,
    ) -> Outcome<Appended> {
        let state = if with_state { Some(self.visible_from(id)?) } else { None };
        let (live, _, _) = self.cache.open(id).ok_or_else(lost)?;
        let info = live.found.info.clone();
        Ok(Appended { info, events, state, request_replayed: false })
    }

    /// Everything that is visible from a session that is open.
    pub(super) fn visible_from(&mut self, id: NodeId) -> Outcome<State> {
        let (live, app, user) = self.cache.open(id).ok_or_else(lost)?;
        let mut entries = Vec::new();
        app.entries(&mut self.reads, &mut entries)?;
        user.entries(&mut self.reads, &mut entries)?;
        live.own.entries(&mut self.reads, &mut entries)?;
        Ok(State(entries))
    }

    /// Whether a scope has seen a request; refused where it asked for something else.
    pub(super) fn seen(&mut self, node: NodeId, request: &Request) -> Outcome<bool> {
        let stored = self
            .reads
            .request
            .query_row((node, request.id.as_str()), |row| row::fingerprint(row, 0));
        match stored.optional()? {
            None => Ok(false),
            Some(fingerprint) if fingerprint == request.fingerprint => Ok(true),
            Some(_) => Err(Error::RequestIdReused(request.id.clone()).into()),
        }
    }

    pub(super) fn remember(&mut self, node: NodeId, request: &Request) -> Outcome<()> {
        let fingerprint = request.fingerprint.0.to_le_bytes();
        self.writes.insert_request.execute((node, request.id.as_str(), fingerprint))?;
        Ok(())
    }
}

impl Plan<'_, '_> {
    fn work_out(
        &mut self,
        events: Vec<NewEvent>,
        slots: Vec<Slot>,
        precondition: &Precondition,
    ) -> Outcome<()> {
        check(&mut self.trio, self.reads, precondition, ScopeKind::Session)?;
        for (at, (event, slot)) in events.into_iter().zip(slots).enumerate() {
            match slot {
                Slot::New => self.add(at, event)?,
                Slot::Replay(event) => {
                    self.size.add(event.body.as_ref(), event.changes.bytes())?;
                    self.events.push(AppendedEvent { event: *event, replayed: true });
                }
                Slot::Twin(of) => {
                    let event = self.events[of].event.clone();
                    self.size.add(event.body.as_ref(), event.changes.bytes())?;
                    self.events.push(AppendedEvent { event, replayed: true });
                }
                Slot::Reused => return Err(Error::EventIdReused(event.event_id).into()),
            }
        }
        Ok(())
    }

    /// Works out one event and applies it to what is in memory.
    fn add(&mut self, at: usize, event: NewEvent) -> Outcome<()> {
        let NewEvent {
            event_id,
            invocation_id,
            author,
            branch,
            event_time,
            delta,
            body,
            fingerprint,
            refusal,
        } = event;
        if let Some(refusal) = refusal {
            return Err(refusal.into());
        }
        let mut smuggler = Smuggler::default();
        let resolved = delta.resolve(&format!("events[{at}].state_delta"), |key| {
            let found = smuggler.hide(self.trio.value(self.reads, key))?;
            Ok(found.map(|(value, _)| value.clone()))
        });
        let results = smuggler.reveal(resolved)?;
        let sequence = self.trio.node(ScopeKind::Session).version + 1;
        if sequence > LAST_SEQUENCE {
            return Err(Error::Internal("a session has all events that it can hold".into()).into());
        }
        let (own_bytes, logs) = self.apply(&results, sequence)?;
        self.size.add(body.as_ref(), results_bytes(&results))?;
        let versions = ScopeVersions {
            application: self.trio.node(ScopeKind::Application).version,
            user: self.trio.node(ScopeKind::User).version,
        };
        let own = results.iter().filter(|(key, _)| key.scope() == Some(ScopeKind::Session));
        let own_names = own.map(|(key, _)| key.name().into()).collect();
        let event = Event {
            event_id,
            sequence,
            invocation_id,
            author,
            branch,
            event_time: event_time.unwrap_or(self.time),
            commit_time: self.time,
            changes: changes(&results),
            body,
            rewind_to: None,
            rewound: false,
            versions,
        };
        self.put(results, sequence);
        self.accepted.push(Accepted { at, fingerprint, own_bytes, own_names, logs });
        self.events.push(AppendedEvent { event, replayed: false });
        Ok(())
    }

    /// Raises the versions and sizes that a change raises. The session's size, and the rows of the wider scopes' logs.
    fn apply(
        &mut self,
        results: &[KeyResult],
        sequence: Sequence,
    ) -> Outcome<(usize, Vec<ScopeRow>)> {
        let sizes = self.trio.sizes_after(self.reads, results)??;
        let mut logs = Vec::new();
        for kind in [ScopeKind::Application, ScopeKind::User] {
            let in_scope = || results.iter().filter(|(key, _)| key.scope() == Some(kind));
            if in_scope().next().is_none() {
                continue;
            }
            let node = self.trio.node(kind);
            node.version += 1;
            node.bytes = sizes[kind as usize];
            logs.push(ScopeRow {
                kind,
                version: node.version,
                bytes: node.bytes,
                changes: changes_in(results, kind),
                names: in_scope().map(|(key, _)| key.name().into()).collect(),
            });
        }
        let own = self.trio.node(ScopeKind::Session);
        own.version = sequence;
        own.bytes = sizes[ScopeKind::Session as usize];
        Ok((own.bytes, logs))
    }

    /// Gives keys their new values in memory.
    fn put(&mut self, results: Vec<KeyResult>, sequence: Sequence) {
        for (key, value) in results {
            let Some(kind) = key.scope() else {
                continue;
            };
            let node = self.trio.node(kind);
            let version = if kind == ScopeKind::Session { sequence } else { node.version };
            self.undo.push(node.put(key.name(), value, version));
        }
    }
}

/// Looks for every event among those that are stored, and among those before it.
fn slots(live: &Live, reads: &mut Reads<'_>, events: &[NewEvent]) -> Outcome<Vec<Slot>> {
    let mut slots = Vec::with_capacity(events.len());
    let mut earlier: HashMap<&str, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let id = event.event_id.as_str();
        let slot = if let Some((stored, fingerprint)) = live.stored(reads, id)? {
            if fingerprint == event.fingerprint {
                Slot::Replay(Box::new(stored))
            } else {
                Slot::Reused
            }
        } else if let Some(&twin) = earlier.get(id) {
            if events[twin].fingerprint == event.fingerprint {
                Slot::Twin(twin)
            } else {
                Slot::Reused
            }
        } else {
            Slot::New
        };
        if events.len() > 1 {
            earlier.entry(id).or_insert(at);
        }
        slots.push(slot);
    }
    Ok(slots)
}

impl Live {
    /// The event of an id, if the session has one.
    pub(super) fn stored(
        &self,
        reads: &mut Reads<'_>,
        event_id: &str,
    ) -> rusqlite::Result<Option<(Event, Fingerprint)>> {
        if self.is_beyond(event_id) {
            return Ok(None);
        }
        let sequence = match self.in_tail(event_id) {
            Some(sequence) => Some(sequence),
            None => {
                let parameters = (self.own.id, event_id);
                reads.event_sequence.query_row(parameters, |row| row::count(row, 0)).optional()?
            }
        };
        sequence.map(|at| reads.event(self.own.id, at, self.own.version)).transpose()
    }
}

/// Checks a precondition of a change of `kind`.
pub(super) fn check(
    trio: &mut Trio<'_>,
    reads: &mut Reads<'_>,
    precondition: &Precondition,
    kind: ScopeKind,
) -> Outcome<()> {
    let actual = trio.node(kind).version;
    let mut smuggler = Smuggler::default();
    let checked =
        precondition.check(actual, |key| Ok(smuggler.hide(trio.value(reads, key))?.cloned()));
    smuggler.reveal(checked)
}

impl From<Violation> for Fault {
    fn from(violation: Violation) -> Self {
        Self::Refused(violation.into())
    }
}
