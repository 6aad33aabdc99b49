//! `temp:` state: kept in memory for one invocation (turn) of one session, and nowhere else.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{
    domain::{
        delta::Delta,
        error::Error,
        id::InvocationId,
        json::Json,
        scope::StateKey,
        session::{Incarnation, State, StateEntry},
        time::Time,
    },
    store::{Append, Appended, SessionQuery, Store},
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

/// A delta of `temp:` keys, with the place of its event among those given to the store.
pub type TempDelta = (usize, InvocationId, Delta);

impl Invocations {
    /// None yet.
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
        append: Append,
        temps: Vec<TempDelta>,
    ) -> Result<Appended, Error> {
        let query = SessionQuery {
            session: append.session.clone(),
            as_of: None,
            with_state: false,
            events: None,
            now: append.now,
        };
        let incarnation = store.read_session(query).await?.info.incarnation;
        let locks = self.lock_all(incarnation, &temps, append.now).await?;
        let task = AppendWithTemp {
            store: Arc::clone(store),
            limit: self.limits.bytes,
            incarnation,
            locks,
            temps,
        };
        tokio::spawn(task.run(append)).await.unwrap_or_else(|error| {
            Err(Error::Internal(format!("an append with temp keys died: {error}")))
        })
    }

    /// Locks the invocations named, each once, in an order that all callers share.
    async fn lock_all(
        &self,
        incarnation: Incarnation,
        temps: &[TempDelta],
        now: Time,
    ) -> Result<BTreeMap<InvocationId, OwnedMutexGuard<Values>>, Error> {
        let mut held = BTreeMap::new();
        for (_, invocation, _) in temps {
            if !held.contains_key(invocation) {
                let id = (incarnation, invocation.clone());
                held.insert(invocation.clone(), self.find_or_begin(id, now)?);
            }
        }
        let mut locks = BTreeMap::new();
        for (invocation, values) in held {
            locks.insert(invocation, values.lock_owned().await);
        }
        Ok(locks)
    }

    fn find_or_begin(&self, id: Id, now: Time) -> Result<Held, Error> {
        let mut held = self.lock();
        if held.len() >= self.limits.count && !held.contains_key(&id) {
            self.drop_idle(&mut held, now);
            if held.len() >= self.limits.count {
                return Err(Error::Overloaded {
                    what: "the table of invocations with temp: state",
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

    /// Forgets an invocation's keys.
    pub fn end(&self, incarnation: Incarnation, invocation: &InvocationId) {
        self.lock().remove(&(incarnation, invocation.clone()));
    }

    /// Forgets the invocations that nobody has used for too long.
    pub fn sweep(&self, now: Time) {
        self.drop_idle(&mut self.lock(), now);
    }

    fn find(&self, id: &Id, now: Time) -> Option<Held> {
        let mut held = self.lock();
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
        // Somebody who holds the values is using them.
        idle && Arc::strong_count(&entry.values) == 1
    }

    fn drop_idle(&self, held: &mut HashMap<Id, Entry>, now: Time) {
        held.retain(|_, entry| !self.is_idle(entry, now));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, Entry>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct AppendWithTemp {
    store: Arc<dyn Store>,
    limit: usize,
    incarnation: Incarnation,
    locks: BTreeMap<InvocationId, OwnedMutexGuard<Values>>,
    temps: Vec<TempDelta>,
}

impl AppendWithTemp {
    async fn run(mut self, append: Append) -> Result<Appended, Error> {
        // Worked out once before the commit, to refuse what cannot be done, and once behind it, when it is known which events are
        // replays and change nothing.
        let all = vec![false; append.events.len()];
        self.apply(&all, self.limit)?;
        let appended = self.store.append(append).await?;
        if appended.info.incarnation == self.incarnation {
            let replayed: Vec<bool> = appended.events.iter().map(|event| event.replayed).collect();
            for (invocation, values) in self.apply(&replayed, usize::MAX)? {
                if let Some(held) = self.locks.get_mut(&invocation) {
                    **held = values;
                }
            }
        }
        Ok(appended)
    }

    /// What the invocations' keys become.
    fn apply(
        &self,
        replayed: &[bool],
        limit: usize,
    ) -> Result<BTreeMap<InvocationId, Values>, Error> {
        let mut all: BTreeMap<InvocationId, Values> = BTreeMap::new();
        for (at, invocation, delta) in &self.temps {
            if replayed.get(*at).copied().unwrap_or(true) {
                continue;
            }
            let Some(held) = self.locks.get(invocation) else {
                continue;
            };
            let values = all.entry(invocation.clone()).or_insert_with(|| (**held).clone());
            let path = format!("events[{at}].state_delta");
            let results = delta.clone().resolve(&path, |key| Ok(values.get(key).cloned()))?;
            for (key, value) in results {
                match value {
                    Some(value) => values.insert(key, value),
                    None => values.remove(&key),
                };
            }
            let bytes: usize =
                values.iter().map(|(key, value)| key.name().len() + value.len()).sum();
            if bytes > limit {
                return Err(Error::InvocationTooLarge(limit));
            }
        }
        Ok(all)
    }
}
