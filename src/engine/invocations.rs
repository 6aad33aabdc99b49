//! `temp:` state: kept in memory for one invocation of one session, and nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{EngineOptions, prelude::*};
use crate::{
    domain::{
        delta::{Delta, KeyResult},
        json::Json,
    },
    metrics::{GaugeShare, WatchMetrics},
};

#[derive(Clone, Default)]
struct Values {
    entries: BTreeMap<StateKey, Json>,
    bytes: usize,
}

impl Values {
    fn bytes_with(&self, results: &[KeyResult]) -> usize {
        let of = |key, value: Option<&Json>| value.map_or(0, |value| bytes(key, value));
        results.iter().fold(self.bytes, |sum, (key, value)| {
            sum + of(key, value.as_ref()) - of(key, self.entries.get(key))
        })
    }
}

/// One invocation's keys, and its part of the gauges.
struct Invocation {
    values: Values,
    bytes: GaugeShare,
    _count: GaugeShare,
}

impl Invocation {
    fn set(&mut self, values: Values) {
        self.bytes.set(values.bytes);
        self.values = values;
    }
}

fn bytes(key: &StateKey, value: &Json) -> usize {
    key.name().len() + value.len()
}

/// One invocation's keys. The lock is held through the commit of an append that changes them, so that two appends of one turn
/// take effect one after the other.
type TempEntry = Arc<AsyncMutex<Invocation>>;

/// The locks that one append holds.
type Locks = BTreeMap<InvocationId, OwnedMutexGuard<Invocation>>;

/// The invocations that have keys, each with the time of its last use.
type Table = HashMap<(Incarnation, InvocationId), (TempEntry, Time)>;

/// A delta of `temp:` keys, with the place of its event among those given to the store, and its own path in the request.
pub type TempDelta = (usize, InvocationId, Delta, FieldPath);

/// Invocations that may be as large as one can be at the same time: 256 MiB with the default limit.
const LARGEST: usize = 256;

pub struct Invocations {
    /// Bytes of one invocation's keys and values. All together have at most [`LARGEST`] times as many.
    max_bytes: usize,
    max_count: usize,
    idle_secs: u32,
    table: Arc<Mutex<Table>>,
    metrics: WatchMetrics,
}

impl Invocations {
    pub fn new(options: &EngineOptions) -> Self {
        Self {
            max_bytes: options.temp_bytes,
            max_count: options.temp_invocations,
            idle_secs: options.temp_idle_secs,
            table: Arc::default(),
            metrics: options.metrics.watches.clone(),
        }
    }

    fn empty(&self) -> TempEntry {
        let bytes = GaugeShare::new(&self.metrics.temp_bytes, 0);
        let count = GaugeShare::new(&self.metrics.temp_invocations, 1);
        Arc::new(AsyncMutex::new(Invocation { values: Values::default(), bytes, _count: count }))
    }

    /// Appends events whose deltas also change `temp:` keys: what cannot be done in memory refuses the append, and what the store
    /// refuses changes nothing in memory.
    pub async fn append(
        &self,
        store: &Arc<Gate>,
        context: &RequestContext,
        mut append: Append,
        temps: Vec<TempDelta>,
        now: Time,
    ) -> Result<Appended, Error> {
        store.check(context, &mut append)?;
        let query = SessionQuery::info(append.session.clone());
        let info = store.read_session(context, query).await?.info;
        append.session.require(&info.key)?;
        append.session = SessionRef::Full(info.key.clone());
        let incarnation = info.incarnation;
        let invocations: BTreeSet<&InvocationId> = temps.iter().map(|temp| &temp.1).collect();
        let mut locks = Locks::new();
        // In an order that all callers share.
        for invocation in invocations {
            match self.find_or_begin(incarnation, invocation, now) {
                Ok(values) => drop(locks.insert(invocation.clone(), values.lock_owned().await)),
                Err(full) => {
                    let events = temps.iter().filter(|temp| temp.1 == *invocation);
                    events.for_each(|(at, ..)| refuse(&mut append, *at, full.clone()));
                }
            }
        }
        let (store, context, limits) = (Arc::clone(store), context.clone(), self.limits());
        let table = Arc::clone(&self.table);
        // On a task of its own: a caller that leaves between the commit and the change in memory must not part the two.
        let task = tokio::spawn(async move {
            // Computed as if every event were new. A fault makes the store refuse its event, unless the event is a replay.
            for (at, fault) in apply(&temps, &locks, limits, |_| true).1 {
                refuse(&mut append, at, fault);
            }
            let answer = store.append(&context, append).await;
            if let Ok(appended) = &answer
                && appended.info.incarnation == incarnation
            {
                // Computed again without the events that turned out to be replays. A fault that appears only now is too late to refuse.
                let is_new =
                    |at: usize| appended.events.get(at).is_some_and(|event| !event.replayed);
                let limits = Limits { all_bytes: usize::MAX, ..limits };
                let (values, faults) = apply(&temps, &locks, limits, is_new);
                for (at, fault) in faults {
                    tracing::warn!(at, %fault, "temp: keys of an event stay as they were");
                }
                for (invocation, values) in values {
                    locks.entry(invocation).and_modify(|held| held.set(values));
                }
            }
            forget_empty(&mut lock(&table), incarnation, locks);
            answer
        });
        task.await.unwrap_or_else(|error| Err(Error::internal(error)))
    }

    fn limits(&self) -> Limits {
        let held = usize::try_from(self.metrics.temp_bytes.get()).unwrap_or(0);
        let all_bytes = self.max_bytes.saturating_mul(LARGEST).saturating_sub(held);
        Limits { invocation_bytes: self.max_bytes, all_bytes }
    }

    /// The keys of an invocation; an error if it has none and the table is full.
    fn find_or_begin(
        &self,
        incarnation: Incarnation,
        invocation: &InvocationId,
        now: Time,
    ) -> Result<TempEntry, Error> {
        let (id, mut table) = ((incarnation, invocation.clone()), lock(&self.table));
        if table.get(&id).is_some_and(|entry| self.is_idle(entry, now)) {
            table.remove(&id);
        }
        if table.len() >= self.max_count && !table.contains_key(&id) {
            self.drop_idle(&mut table, now);
            if table.len() >= self.max_count {
                return Err(full());
            }
        }
        let (values, last_used) = table.entry(id).or_insert_with(|| (self.empty(), now));
        *last_used = now.max(*last_used);
        Ok(Arc::clone(values))
    }

    /// Adds an invocation's keys, if there is one, to what is visible from its session.
    pub async fn add_to(
        &self,
        state: Option<&mut State>,
        incarnation: Incarnation,
        invocation: Option<InvocationId>,
        now: Time,
    ) {
        let (Some(state), Some(invocation)) = (state, invocation) else { return };
        let values = {
            let mut table = lock(&self.table);
            let entry = table.get_mut(&(incarnation, invocation));
            let used = entry.filter(|entry| !self.is_idle(entry, now));
            let Some((values, last_used)) = used else { return };
            *last_used = now.max(*last_used);
            Arc::clone(values)
        };
        let values = values.lock().await;
        let entries = values.values.entries.iter();
        let entries = entries.map(|(key, value)| (key.clone(), value.clone()));
        state.0.extend(entries.map(|(key, value)| StateEntry { key, value, version: 0 }));
    }

    pub fn end(&self, incarnation: Incarnation, invocation: &InvocationId) {
        lock(&self.table).remove(&(incarnation, invocation.clone()));
    }

    /// Drops the keys of all invocations of a session that is gone.
    pub fn end_session(&self, incarnation: Incarnation) {
        lock(&self.table).retain(|(session, _), _| *session != incarnation);
    }

    /// Drops the invocations that have been idle for too long.
    pub fn sweep(&self, now: Time) {
        self.drop_idle(&mut lock(&self.table), now);
    }

    fn drop_idle(&self, table: &mut Table, now: Time) {
        table.retain(|_, entry| !self.is_idle(entry, now));
    }

    /// Values that a call holds are in use.
    fn is_idle(&self, (values, last_used): &(TempEntry, Time), now: Time) -> bool {
        let idle = last_used.until(now).as_secs() >= u64::from(self.idle_secs);
        idle && Arc::strong_count(values) == 1
    }
}

#[derive(Clone, Copy)]
struct Limits {
    invocation_bytes: usize,
    /// By which all invocations together may still grow.
    all_bytes: usize,
}

fn full() -> Error {
    Error::Overloaded { what: Bounded::TempInvocations, retry_after_millis: 60_000 }
}

/// The new values of the invocations' keys, and the faults of events whose `temp:` keys cannot be changed.
fn apply(
    temps: &[TempDelta],
    locks: &Locks,
    mut limits: Limits,
    is_new: impl Fn(usize) -> bool,
) -> (BTreeMap<InvocationId, Values>, Vec<(usize, Error)>) {
    let (mut all, mut faults, mut written) = (BTreeMap::new(), Vec::new(), 0);
    for (at, invocation, delta, field) in temps.iter().filter(|(at, ..)| is_new(*at)) {
        let Some(held) = locks.get(invocation) else { continue };
        let values = all.entry(invocation.clone()).or_insert_with(|| held.values.clone());
        if let Err(fault) = change(values, delta, field, &mut limits, &mut written) {
            faults.push((*at, fault));
        }
    }
    (all, faults)
}

/// Applies the `temp:` part of an event's delta at `field` to an invocation's keys. An error leaves them unchanged.
fn change(
    values: &mut Values,
    delta: &Delta,
    field: &FieldPath,
    limits: &mut Limits,
    written: &mut usize,
) -> Result<(), Error> {
    let results = delta.resolve(field, written, |key| values.entries.get(key))?;
    let after = values.bytes_with(&results);
    let growth = after.saturating_sub(values.bytes);
    if growth > 0 && after > limits.invocation_bytes {
        return Err(Error::InvocationTooLarge(limits.invocation_bytes));
    }
    limits.all_bytes = limits.all_bytes.checked_sub(growth).ok_or_else(full)?;
    values.bytes = after;
    for (key, value) in results {
        match value {
            Some(value) => values.entries.insert(key, value),
            None => values.entries.remove(&key),
        };
    }
    Ok(())
}

/// Has the store refuse an event, unless it is a replay, which the store knows. A replay needs no further invocation.
fn refuse(append: &mut Append, at: usize, fault: Error) {
    if let Some(event) = append.events.get_mut(at) {
        event.refusal.get_or_insert(fault);
    }
}

/// Gives back the places of invocations that hold nothing, as after a refusal.
fn forget_empty(table: &mut Table, incarnation: Incarnation, locks: Locks) {
    for (invocation, values) in locks {
        let is_empty = values.values.entries.is_empty();
        drop(values);
        let id = (incarnation, invocation);
        // Another call that holds it is about to fill it, and no call can take hold of it while the table is locked.
        if is_empty && table.get(&id).is_some_and(|(held, _)| Arc::strong_count(held) == 1) {
            table.remove(&id);
        }
    }
}

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
