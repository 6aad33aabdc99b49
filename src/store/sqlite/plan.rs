//! Working out an append: what each event's delta comes to on top of those before it, in memory alone.

use super::{
    fault::{Outcome, Smuggler},
    history::names_of,
    node::{Trio, Undo},
    replay::Slot,
    statements::Reads,
};
use crate::{
    domain::{
        Sequence, Version,
        delta::{KeyResult, changes, changes_in, results_bytes},
        error::Error,
        event::{BatchSize, Changes, Event, Fingerprint, NewEvent, ScopeVersions},
        precondition::Precondition,
        scope::ScopeKind,
        time::Time,
    },
    store::AppendedEvent,
};

/// Rows of an event that has been accepted.
pub(super) struct Accepted {
    /// Which of the events.
    pub(super) at: usize,
    pub(super) fingerprint: Fingerprint,
    pub(super) own_names: Vec<Box<str>>,
    pub(super) logs: Vec<ScopeRow>,
}

/// What an event changed in a wider scope.
pub(super) struct ScopeRow {
    pub(super) kind: ScopeKind,
    pub(super) version: Version,
    pub(super) changes: Changes,
    pub(super) names: Vec<Box<str>>,
}

/// An append that is being worked out.
pub(super) struct Plan<'a, 'c> {
    reads: &'a mut Reads<'c>,
    pub(super) trio: Trio<'a>,
    time: Time,
    pub(super) events: Vec<AppendedEvent>,
    pub(super) accepted: Vec<Accepted>,
    pub(super) undo: Vec<Undo>,
    size: BatchSize,
}

impl<'a, 'c> Plan<'a, 'c> {
    pub(super) fn new(reads: &'a mut Reads<'c>, trio: Trio<'a>, time: Time) -> Self {
        Self {
            reads,
            trio,
            time,
            events: Vec::new(),
            accepted: Vec::new(),
            undo: Vec::new(),
            size: BatchSize::default(),
        }
    }

    /// Works out all events, or says why not; then everything that was put has to be taken back.
    pub(super) fn work_out(
        &mut self,
        events: Vec<NewEvent>,
        slots: Vec<Slot>,
        precondition: &Precondition,
    ) -> Outcome<()> {
        if !slots.iter().all(|slot| matches!(slot, Slot::Replay(_))) {
            check(&mut self.trio, self.reads, precondition, ScopeKind::Session)?;
        }
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
        let logs = self.apply(&results, sequence)?;
        self.size.add(body.as_ref(), results_bytes(&results))?;
        let versions = ScopeVersions {
            application: self.trio.node(ScopeKind::Application).version,
            user: self.trio.node(ScopeKind::User).version,
        };
        let own_names = names_of(ScopeKind::Session, &results);
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
        self.undo.extend(self.trio.put_all(results));
        self.accepted.push(Accepted { at, fingerprint, own_names, logs });
        self.events.push(AppendedEvent { event, replayed: false });
        Ok(())
    }

    /// Raises the versions and sizes that a change raises. The rows of the wider scopes' logs.
    fn apply(&mut self, results: &[KeyResult], sequence: Sequence) -> Outcome<Vec<ScopeRow>> {
        let sizes = self.trio.sizes_after(self.reads, results)??;
        let mut logs = Vec::new();
        for kind in [ScopeKind::Application, ScopeKind::User] {
            let names = names_of(kind, results);
            if names.is_empty() {
                continue;
            }
            let node = self.trio.node(kind);
            node.version += 1;
            node.bytes = sizes[kind as usize];
            logs.push(ScopeRow {
                kind,
                version: node.version,
                changes: changes_in(results, kind),
                names,
            });
        }
        let own = self.trio.node(ScopeKind::Session);
        own.version = sequence;
        own.bytes = sizes[ScopeKind::Session as usize];
        Ok(logs)
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
