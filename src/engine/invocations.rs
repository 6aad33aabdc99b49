//! `temp:` state: kept in memory for one invocation (turn) of one session, and nowhere else.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{
    domain::{
        delta::Delta,
        error::{Bounded, Error},
        field::FieldPath,
        id::InvocationId,
        json::Json,
        scope::StateKey,
        session::{Incarnation, State, StateEntry},
        time::Time,
    },
    store::{Append, Appended, RequestContext, SessionQuery, Store},
};

/// Bounds of `temp:` state.
#[derive(Clone, Copy, Debug)]
pub struct InvocationLimits {
    /// Bytes of one invocation's keys and values: as much as a stored scope holds.
    pub bytes: usize,
    /// Invocations held at the same time: far more than one machine's agents run.
    pub count: usize,
    /// Seconds without use after which an invocation counts as ended: longer than any turn takes.
    pub idle_secs: u32,
}

impl Default for InvocationLimits {
    fn default() -> Self {
        Self { bytes: 1024 * 1024, count: 10_000, idle_secs: 3600 }
    }
}

type Id = (Incarnation, InvocationId);
type Values = BTreeMap<StateKey, Json>;

/// One invocation's keys. The lock is held through the commit of an append that changes them, so that two appends of one turn
/// take effect one after the other.
type Held = Arc<AsyncMutex<Values>>;

/// The `temp:` state of all invocations.
pub struct Invocations {
    limits: InvocationLimits,
    held: Arc<Mutex<HashMap<Id, Entry>>>,
}

struct Entry {
    values: Held,
    last_used: Time,
}

impl Entry {
    /// Whether only the table holds its values.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.values) == 1
    }

    fn is_empty(&self) -> bool {
        self.values.try_lock().is_ok_and(|values| values.is_empty())
    }
}

/// A delta of `temp:` keys, with the place of its event among those given to the store.
pub type TempDelta = (usize, InvocationId, Delta, FieldPath);

impl Invocations {
    pub fn new(limits: InvocationLimits) -> Self {
        Self { limits, held: Arc::default() }
    }

    /// Appends events whose deltas also change `temp:` keys: what cannot be done in memory refuses the append, and what the store
    /// refuses changes nothing in memory.
    ///
    /// Runs on a task of its own: a caller that leaves between the commit and the change in memory must not part the two.
    pub async fn append(
        &self,
        store: &Arc<dyn Store>,
        context: &RequestContext,
        mut append: Append,
        temps: Vec<TempDelta>,
        now: Time,
    ) -> Result<Appended, Error> {
        let query = SessionQuery {
            session: append.session.clone(),
            as_of: None,
            with_state: false,
            events: None,
        };
        let incarnation = store.read_session(query).await?.info.incarnation;
        let (locks, full) = self.lock_all(incarnation, &temps, now).await;
        // The store refuses them, because it knows which events are replays. A replay needs no further invocation.
        for (at, fault) in full {
            refuse(&mut append, at, fault);
        }
        let task = AppendWithTemp {
            store: Arc::clone(store),
            context: context.clone(),
            held: Arc::clone(&self.held),
            limit: self.limits.bytes,
            incarnation,
            locks,
            temps,
        };
        tokio::spawn(task.run(append)).await.unwrap_or_else(|error| Err(Error::internal(error)))
    }

    /// Locks the invocations named, each once, in an order that all callers share. Also returns the events for which the table is full.
    async fn lock_all(
        &self,
        incarnation: Incarnation,
        temps: &[TempDelta],
        now: Time,
    ) -> (BTreeMap<InvocationId, OwnedMutexGuard<Values>>, Vec<(usize, Error)>) {
        let mut held = BTreeMap::new();
        let mut full = Vec::new();
        for (at, invocation, ..) in temps {
            if !held.contains_key(invocation) {
                match self.find_or_begin((incarnation, invocation.clone()), now) {
                    Ok(values) => drop(held.insert(invocation.clone(), values)),
                    Err(fault) => full.push((*at, fault)),
                }
            }
        }
        let mut locks = BTreeMap::new();
        for (invocation, values) in held {
            locks.insert(invocation, values.lock_owned().await);
        }
        (locks, full)
    }

    fn find_or_begin(&self, id: Id, now: Time) -> Result<Held, Error> {
        let mut held = lock(&self.held);
        if held.len() >= self.limits.count && !held.contains_key(&id) {
            self.drop_idle(&mut held, now);
            if held.len() >= self.limits.count {
                return Err(Error::Overloaded {
                    what: Bounded::TempInvocations,
                    retry_after_millis: 60_000,
                });
            }
        }
        let entry =
            held.entry(id).or_insert_with(|| Entry { values: Held::default(), last_used: now });
        entry.last_used = entry.last_used.max(now);
        Ok(Arc::clone(&entry.values))
    }

    /// Adds an invocation's keys to what is visible from its session.
    pub async fn add_to(
        &self,
        state: &mut State,
        incarnation: Incarnation,
        invocation: &InvocationId,
        now: Time,
    ) {
        let Some(values) = self.find(&(incarnation, invocation.clone()), now) else {
            return;
        };
        let values = values.lock().await;
        state.0.extend(values.iter().map(|(key, value)| StateEntry {
            key: key.clone(),
            value: value.clone(),
            version: 0,
        }));
    }

    /// Drops an invocation's keys.
    pub fn end(&self, incarnation: Incarnation, invocation: &InvocationId) {
        lock(&self.held).remove(&(incarnation, invocation.clone()));
    }

    /// Drops the invocations that have been idle for too long.
    pub fn sweep(&self, now: Time) {
        self.drop_idle(&mut lock(&self.held), now);
    }

    fn find(&self, id: &Id, now: Time) -> Option<Held> {
        let mut held = lock(&self.held);
        let entry = held.get_mut(id)?;
        if self.is_idle(entry, now) {
            held.remove(id);
            return None;
        }
        entry.last_used = entry.last_used.max(now);
        Some(Arc::clone(&entry.values))
    }

    fn is_idle(&self, entry: &Entry, now: Time) -> bool {
        let idle = entry.last_used.until(now).as_secs() >= u64::from(self.limits.idle_secs);
        // Values that a call holds are in use.
        idle && entry.is_unused()
    }

    fn drop_idle(&self, held: &mut HashMap<Id, Entry>, now: Time) {
        held.retain(|_, entry| !self.is_idle(entry, now));
    }
}

struct AppendWithTemp {
    store: Arc<dyn Store>,
    context: RequestContext,
    held: Arc<Mutex<HashMap<Id, Entry>>>,
    limit: usize,
    incarnation: Incarnation,
    locks: BTreeMap<InvocationId, OwnedMutexGuard<Values>>,
    temps: Vec<TempDelta>,
}

impl AppendWithTemp {
    async fn run(mut self, mut append: Append) -> Result<Appended, Error> {
        // Computed as if every event were new. A fault makes the store refuse its event, unless the event is a replay.
        for (at, fault) in self.apply(&vec![false; append.events.len()]).1 {
            refuse(&mut append, at, fault);
        }
        let appended = self.store.append(&self.context, append).await;
        if let Ok(appended) = &appended
            && appended.info.incarnation == self.incarnation
        {
            // Computed again without the events that turned out to be replays. A fault that appears only now is too late to refuse.
            let replayed: Vec<bool> = appended.events.iter().map(|event| event.replayed).collect();
            let (values, faults) = self.apply(&replayed);
            for (at, fault) in faults {
                tracing::warn!(at, %fault, "temp: keys of an event stay as they were");
            }
            for (invocation, values) in values {
                if let Some(held) = self.locks.get_mut(&invocation) {
                    **held = values;
                }
            }
        }
        self.forget_empty();
        appended
    }

    /// The new values of the invocations' keys, and the faults of events whose `temp:` keys cannot be changed.
    fn apply(&self, replayed: &[bool]) -> (BTreeMap<InvocationId, Values>, Vec<(usize, Error)>) {
        let mut all: BTreeMap<InvocationId, Values> = BTreeMap::new();
        let mut faults = Vec::new();
        for (at, invocation, delta, field) in &self.temps {
            if replayed.get(*at).copied().unwrap_or(true) {
                continue;
            }
            let Some(held) = self.locks.get(invocation) else { continue };
            let values = all.entry(invocation.clone()).or_insert_with(|| (**held).clone());
            if let Err(fault) = change(values, delta, field, self.limit) {
                faults.push((*at, fault));
            }
        }
        (all, faults)
    }

    /// Gives back the places of invocations that hold nothing, as after a refusal.
    fn forget_empty(&mut self) {
        let invocations: Vec<_> = std::mem::take(&mut self.locks).into_keys().collect();
        let mut held = lock(&self.held);
        for invocation in invocations {
            let id = (self.incarnation, invocation);
            // Another call that holds it is about to fill it, and no call can take hold of it while the table is locked.
            if held.get(&id).is_some_and(|entry| entry.is_unused() && entry.is_empty()) {
                held.remove(&id);
            }
        }
    }
}

/// Has the store refuse an event, unless it is a replay.
fn refuse(append: &mut Append, at: usize, fault: Error) {
    if let Some(event) = append.events.get_mut(at) {
        event.refusal.get_or_insert(fault);
    }
}

/// Applies the `temp:` part of an event's delta at `field` to an invocation's keys. An error leaves them unchanged.
fn change(
    values: &mut Values,
    delta: &Delta,
    field: &FieldPath,
    limit: usize,
) -> Result<(), Error> {
    let results = delta.resolve(field, |key| values.get(key))?;
    let entry = |key: &StateKey, value: Option<&Json>| {
        value.map_or(0, |value| key.name().len() + value.len())
    };
    let before: usize = values.iter().map(|(key, value)| entry(key, Some(value))).sum();
    let mut after = before;
    for (key, value) in &results {
        after += entry(key, value.as_ref());
        after -= entry(key, values.get(key));
    }
    if after > limit && after > before {
        return Err(Error::InvocationTooLarge(limit));
    }
    for (key, value) in results {
        match value {
            Some(value) => values.insert(key, value),
            None => values.remove(&key),
        };
    }
    Ok(())
}

fn lock(held: &Mutex<HashMap<Id, Entry>>) -> MutexGuard<'_, HashMap<Id, Entry>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}
