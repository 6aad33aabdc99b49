//! `temp:` state: kept in memory for one invocation of one session, and nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

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

/// One invocation's keys, and its part of the budget and of the gauges.
struct Invocation {
    values: Values,
    charge: OwnedSemaphorePermit,
    bytes: GaugeShare,
    _count: GaugeShare,
}

impl Invocation {
    /// Replaces the keys. What they grow by is in `growth`, and what they no longer take goes back to the budget.
    fn set(&mut self, values: Values, growth: &mut Growth) {
        let (before, after) = (self.values.bytes, values.bytes);
        if let Some(more) = growth.charge.split(after.saturating_sub(before)) {
            self.charge.merge(more);
        }
        drop(self.charge.split(before.saturating_sub(after)));
        self.bytes.set(after);
        self.values = values;
    }
}

fn bytes(key: &StateKey, value: &Json) -> usize {
    key.name().len() + value.len()
}

pub type Id = (Incarnation, InvocationId);

/// One invocation's keys. The lock is held through the commit of an append that changes them, so that appends and the end of one turn
/// take effect one after the other.
type TempEntry = Arc<AsyncMutex<Invocation>>;

/// The invocations that have keys or are in use, each with the time of its last use.
type Table = HashMap<Id, (TempEntry, Time)>;

/// The use of an entry by a call. The last use removes an entry without keys, however the call ends.
struct Use(Arc<Mutex<Table>>, Id);

impl Drop for Use {
    fn drop(&mut self) {
        let mut table = lock(&self.0);
        // No call gets the entry while the table is locked, and calls that have it drop it before their use.
        let is_empty = |(entry, _): &(TempEntry, Time)| {
            let is_unused = Arc::strong_count(entry) == 1;
            is_unused && entry.try_lock().is_ok_and(|it| it.values.entries.is_empty())
        };
        if table.get(&self.1).is_some_and(is_empty) {
            table.remove(&self.1);
        }
    }
}

/// A locked invocation. Fields are dropped in their order.
struct Held {
    invocation: OwnedMutexGuard<Invocation>,
    _use: Use,
}

/// What one append holds.
type Locks = BTreeMap<InvocationId, Held>;

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
    /// Bytes that all invocations together may still grow by.
    budget: Arc<Semaphore>,
    metrics: WatchMetrics,
}

impl Invocations {
    pub fn new(options: &EngineOptions) -> Self {
        let all_bytes = options.temp_bytes.saturating_mul(LARGEST);
        Self {
            max_bytes: options.temp_bytes,
            max_count: options.temp_invocations,
            idle_secs: options.temp_idle_secs,
            table: Arc::default(),
            budget: Arc::new(Semaphore::new(all_bytes.min(Semaphore::MAX_PERMITS))),
            metrics: options.metrics.watches.clone(),
        }
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
            match self.find_or_begin((incarnation, invocation.clone()), now).await {
                Ok(held) => drop(locks.insert(invocation.clone(), held)),
                Err(full) => {
                    let events = temps.iter().filter(|temp| temp.1 == *invocation);
                    events.for_each(|(at, ..)| refuse(&mut append, *at, full.clone()));
                }
            }
        }
        let (store, context) = (Arc::clone(store), context.clone());
        let charge = charge(&self.budget, 0)?;
        let mut growth = Growth { charge, bytes: 0, max_bytes: self.max_bytes };
        // On a task of its own: a caller that leaves between the commit and the change in memory must not part the two.
        let task = tokio::spawn(async move {
            // Computed as if every event were new. A fault makes the store refuse its event, unless the event is a replay.
            for (at, fault) in apply(&temps, &locks, &mut growth, |_| true).1 {
                refuse(&mut append, at, fault);
            }
            let answer = store.append(&context, append).await;
            if let Ok(appended) = &answer
                && appended.info.incarnation == incarnation
            {
                // Computed again without the events that turned out to be replays. A fault that appears only now is too late to refuse.
                let is_new =
                    |at: usize| appended.events.get(at).is_some_and(|event| !event.replayed);
                growth.bytes = 0;
                let (values, faults) = apply(&temps, &locks, &mut growth, is_new);
                for (at, fault) in faults {
                    tracing::warn!(at, %fault, "temp: keys of an event stay as they were");
                }
                for (invocation, values) in values {
                    let entry = locks.entry(invocation);
                    entry.and_modify(|held| held.invocation.set(values, &mut growth));
                }
            }
            answer
        });
        task.await.unwrap_or_else(|error| Err(Error::internal(error)))
    }

    /// Locks an invocation, which begins if it has no keys. An error: the table is full.
    async fn find_or_begin(&self, id: Id, now: Time) -> Result<Held, Error> {
        let entry = {
            let mut table = lock(&self.table);
            match self.in_use(&mut table, &id, now) {
                Some(entry) => entry,
                None => {
                    if table.len() >= self.max_count {
                        self.drop_idle(&mut table, now);
                    }
                    if table.len() >= self.max_count {
                        return Err(full());
                    }
                    let entry = Arc::new(AsyncMutex::new(self.empty()?));
                    table.insert(id.clone(), (Arc::clone(&entry), now));
                    entry
                }
            }
        };
        Ok(self.lock(id, entry).await)
    }

    /// Locks an invocation that has keys or is in use.
    async fn find(&self, id: Id, now: Time) -> Option<Held> {
        let entry = self.in_use(&mut lock(&self.table), &id, now)?;
        Some(self.lock(id, entry).await)
    }

    async fn lock(&self, id: Id, entry: TempEntry) -> Held {
        let _use = Use(Arc::clone(&self.table), id);
        Held { invocation: entry.lock_owned().await, _use }
    }

    fn in_use(&self, table: &mut Table, id: &Id, now: Time) -> Option<TempEntry> {
        if self.is_idle(table.get(id)?, now) {
            table.remove(id);
        }
        let (entry, last_used) = table.get_mut(id)?;
        *last_used = now.max(*last_used);
        Some(Arc::clone(entry))
    }

    fn empty(&self) -> Result<Invocation, Error> {
        Ok(Invocation {
            values: Values::default(),
            charge: charge(&self.budget, 0)?,
            bytes: GaugeShare::new(&self.metrics.temp_bytes, 0),
            _count: GaugeShare::new(&self.metrics.temp_invocations, 1),
        })
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
        let Some(held) = self.find((incarnation, invocation), now).await else { return };
        let entries = held.invocation.values.entries.iter();
        let entries = entries.map(|(key, value)| (key.clone(), value.clone()));
        state.0.extend(entries.map(|(key, value)| StateEntry { key, value, version: 0 }));
    }

    /// Drops an invocation's keys, after the appends that came before.
    pub async fn end(&self, id: Id, now: Time) -> Result<(), Error> {
        if let Some(mut held) = self.find(id, now).await {
            *held.invocation = self.empty()?;
        }
        Ok(())
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

/// What the invocations of an append grow by. It is charged before the commit, and refused events and refused appends give it back.
struct Growth {
    charge: OwnedSemaphorePermit,
    bytes: usize,
    /// Of one invocation.
    max_bytes: usize,
}

impl Growth {
    fn add(&mut self, bytes: usize) -> Result<(), Error> {
        let missing = (self.bytes + bytes).saturating_sub(self.charge.num_permits());
        self.charge.merge(charge(self.charge.semaphore(), missing)?);
        self.bytes += bytes;
        Ok(())
    }
}

fn charge(budget: &Arc<Semaphore>, bytes: usize) -> Result<OwnedSemaphorePermit, Error> {
    let bytes = u32::try_from(bytes).map_err(|_| full())?;
    Arc::clone(budget).try_acquire_many_owned(bytes).map_err(|_| full())
}

fn full() -> Error {
    Error::Overloaded { what: Bounded::TempInvocations, retry_after_millis: 60_000 }
}

/// The new values of the invocations' keys, and the faults of events whose `temp:` keys cannot be changed.
fn apply(
    temps: &[TempDelta],
    locks: &Locks,
    growth: &mut Growth,
    is_new: impl Fn(usize) -> bool,
) -> (BTreeMap<InvocationId, Values>, Vec<(usize, Error)>) {
    let (mut all, mut faults, mut written) = (BTreeMap::new(), Vec::new(), 0);
    for (at, invocation, delta, field) in temps.iter().filter(|(at, ..)| is_new(*at)) {
        let Some(held) = locks.get(invocation) else { continue };
        let values =
            all.entry(invocation.clone()).or_insert_with(|| held.invocation.values.clone());
        if let Err(fault) = change(values, delta, field, growth, &mut written) {
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
    all: &mut Growth,
    written: &mut usize,
) -> Result<(), Error> {
    let results = delta.resolve(field, written, |key| values.entries.get(key))?;
    let after = values.bytes_with(&results);
    let growth = after.saturating_sub(values.bytes);
    if growth > 0 && after > all.max_bytes {
        return Err(Error::InvocationTooLarge(all.max_bytes));
    }
    all.add(growth)?;
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

fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
