//! `temp:` state: kept in memory for one invocation of one session, and nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, btree_map::Entry},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Mutex as AsyncMutex;

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
        let of = |key: &StateKey, value: Option<&Json>| {
            value.map_or(0, |value| key.name().len() + value.len())
        };
        results.iter().fold(self.bytes, |sum, (key, value)| {
            sum + of(key, value.as_ref()) - of(key, self.entries.get(key))
        })
    }
}

/// One invocation's keys, at least one, and its part of the gauges.
struct Invocation {
    values: Values,
    last_used: Time,
    _bytes: GaugeShare,
    _count: GaugeShare,
}

type Id = (Incarnation, InvocationId);
type Table = HashMap<Id, Invocation>;

/// A delta of `temp:` keys, with the place of its event among those given to the store, and its own path in the request.
pub type TempDelta = (usize, InvocationId, Delta, FieldPath);

/// Invocations that may be as large as one can be at the same time: 256 MiB with the default limit.
const LARGEST: usize = 256;

/// Locks that all invocations share: several times the appends with `temp:` keys that are in flight.
const LOCKS: usize = 256;

pub struct Invocations {
    /// Bytes of one invocation's keys and values. All together have at most [`LARGEST`] times as many.
    max_bytes: usize,
    max_count: usize,
    idle_secs: u32,
    table: Mutex<Table>,
    /// By the hash of an invocation. An append that changes its keys holds the lock through the commit, so that two appends of one turn
    /// take effect one after the other, and no read sees an event without its keys.
    locks: Vec<Arc<AsyncMutex<()>>>,
    metrics: WatchMetrics,
}

impl Invocations {
    pub fn new(options: &EngineOptions) -> Self {
        Self {
            max_bytes: options.temp_bytes,
            max_count: options.temp_invocations,
            idle_secs: options.temp_idle_secs,
            table: Mutex::default(),
            locks: (0..LOCKS).map(|_| Arc::default()).collect(),
            metrics: options.metrics.watches.clone(),
        }
    }

    /// Appends events whose deltas also change `temp:` keys: what cannot be done in memory refuses the append, and what the store
    /// refuses changes nothing in memory.
    pub async fn append(
        self: &Arc<Self>,
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
        let incarnation = info.incarnation;
        let temps: Vec<_> = temps
            .into_iter()
            .map(|(at, invocation, delta, field)| (at, (incarnation, invocation), delta, field))
            .collect();
        // In an order that all callers share.
        let locks: BTreeSet<_> = temps.iter().map(|(_, id, ..)| lock_of(id)).collect();
        let mut held = Vec::new();
        for lock in locks {
            held.push(Arc::clone(&self.locks[lock]).lock_owned().await);
        }
        let (this, store, context) = (Arc::clone(self), Arc::clone(store), context.clone());
        // On a task of its own: a caller that leaves between the commit and the change in memory must not part the two.
        let task = tokio::spawn(async move {
            // Computed as if every event were new. A fault makes the store refuse its event, unless the event is a replay, which the
            // store knows.
            for (at, fault) in this.resolve(&temps, now, this.limits(), |_| true).1 {
                if let Some(event) = append.events.get_mut(at) {
                    event.refusal.get_or_insert(fault);
                }
            }
            let answer = store.append(&context, append).await;
            if let Ok(appended) = &answer
                && appended.info.incarnation == incarnation
            {
                // Computed again without the events that turned out to be replays. A fault that appears only now is too late to refuse.
                let is_new =
                    |at: usize| appended.events.get(at).is_some_and(|event| !event.replayed);
                let limits = Limits { all_bytes: usize::MAX, places: usize::MAX, ..this.limits() };
                let (values, faults) = this.resolve(&temps, now, limits, is_new);
                for (at, fault) in faults {
                    tracing::warn!(at, %fault, "temp: keys of an event stay as they were");
                }
                values.into_iter().for_each(|(id, values)| this.set(id, values, now));
            }
            drop(held);
            answer
        });
        task.await.unwrap_or_else(|error| Err(Error::internal(error)))
    }

    fn limits(&self) -> Limits {
        let held = usize::try_from(self.metrics.temp_bytes.get()).unwrap_or(0);
        let all_bytes = self.max_bytes.saturating_mul(LARGEST).saturating_sub(held);
        Limits { invocation_bytes: self.max_bytes, all_bytes, places: self.max_count }
    }

    /// The new values of the invocations' keys, and the faults of events whose `temp:` keys cannot be changed.
    fn resolve(
        &self,
        temps: &[(usize, Id, Delta, FieldPath)],
        now: Time,
        mut limits: Limits,
        is_new: impl Fn(usize) -> bool,
    ) -> (BTreeMap<Id, Values>, Vec<(usize, Error)>) {
        let (mut all, mut faults, mut written) = (BTreeMap::new(), Vec::new(), 0);
        let mut table = self.table();
        if table.len() >= limits.places {
            self.drop_idle(&mut table, now);
        }
        limits.places = limits.places.saturating_sub(table.len());
        for (at, id, delta, field) in temps.iter().filter(|(at, ..)| is_new(*at)) {
            let values = match all.entry(id.clone()) {
                Entry::Occupied(values) => values.into_mut(),
                Entry::Vacant(place) => match self.used(&mut table, id, now) {
                    Some(values) => place.insert(values.clone()),
                    None if limits.places == 0 => {
                        faults.push((*at, full()));
                        continue;
                    }
                    None => {
                        limits.places -= 1;
                        place.insert(Values::default())
                    }
                },
            };
            if let Err(fault) = change(values, delta, field, &mut limits, &mut written) {
                faults.push((*at, fault));
            }
        }
        (all, faults)
    }

    fn set(&self, id: Id, values: Values, now: Time) {
        let mut table = self.table();
        if values.entries.is_empty() {
            table.remove(&id);
            return;
        }
        let bytes = GaugeShare::new(&self.metrics.temp_bytes, values.bytes);
        let count = GaugeShare::new(&self.metrics.temp_invocations, 1);
        table.insert(id, Invocation { values, last_used: now, _bytes: bytes, _count: count });
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
        let id = (incarnation, invocation);
        let _held = self.locks[lock_of(&id)].lock().await;
        let mut table = self.table();
        let values = self.used(&mut table, &id, now);
        let entries = values.into_iter().flat_map(|values| &values.entries);
        let entries = entries.map(|(key, value)| (key.clone(), value.clone()));
        state.0.extend(entries.map(|(key, value)| StateEntry { key, value, version: 0 }));
    }

    pub async fn end(&self, incarnation: Incarnation, invocation: InvocationId) {
        let id = (incarnation, invocation);
        let _held = self.locks[lock_of(&id)].lock().await;
        self.table().remove(&id);
    }

    /// Drops the keys of all invocations of a session that is gone.
    pub fn end_session(&self, incarnation: Incarnation) {
        self.table().retain(|(session, _), _| *session != incarnation);
    }

    /// Drops the invocations that have been idle for too long.
    pub fn sweep(&self, now: Time) {
        self.drop_idle(&mut self.table(), now);
    }

    fn drop_idle(&self, table: &mut Table, now: Time) {
        table.retain(|_, invocation| !self.is_idle(invocation, now));
    }

    fn is_idle(&self, invocation: &Invocation, now: Time) -> bool {
        invocation.last_used.until(now).as_secs() >= u64::from(self.idle_secs)
    }

    /// The keys of an invocation, which are used by that.
    fn used<'t>(&self, table: &'t mut Table, id: &Id, now: Time) -> Option<&'t Values> {
        let invocation = table.get_mut(id).filter(|it| !self.is_idle(it, now))?;
        invocation.last_used = now.max(invocation.last_used);
        Some(&invocation.values)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy)]
struct Limits {
    invocation_bytes: usize,
    /// By which all invocations together may still grow.
    all_bytes: usize,
    /// Invocations that may have keys.
    places: usize,
}

fn full() -> Error {
    Error::Overloaded { what: Bounded::TempInvocations, retry_after_millis: 60_000 }
}

fn lock_of(id: &Id) -> usize {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish() as usize % LOCKS
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
