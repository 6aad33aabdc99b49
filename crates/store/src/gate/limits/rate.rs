//! A number of events a second, and how many of them pass at once.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::instant;
use sessiond_core::domain::error::{Error, Limited};

/// The time in which a caller may append as many events as the limit says.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// The largest burst, in events. A lower limit has bursts of one second's events, and one of more than ten times this number has bursts of
/// a tenth of a second's. The appends of others wait for a burst.
const BURST: u32 = 100;

/// Appends a second of each key, by the generic cell rate algorithm.
pub(super) struct Appends {
    what: Limited,
    limit: NonZeroU32,
    /// The time that a burst takes at the limit's rate.
    burst: Duration,
    /// When the events of a key so far will have taken their time at the limit's rate.
    pub(super) used: Mutex<HashMap<String, Instant>>,
}

impl Appends {
    pub(super) fn new(what: Limited, limit: NonZeroU32) -> Self {
        let events = limit.get().min(BURST.max(limit.get() / 10));
        Self { what, limit, burst: SECOND * events / limit.get(), used: Mutex::default() }
    }

    /// A batch of more events than a burst passes if the limit of a second allows it. One of more than a second's passes when nothing counts
    /// against its caller. Both count in full: what follows waits longer.
    pub(super) fn take(&self, key: &str, events: usize) -> Result<(), Error> {
        let (now, cost) = (instant(), self.cost(events));
        let mut used = lock(&self.used);
        let Some(until) = used.get_mut(key) else {
            used.insert(key.to_owned(), now + cost);
            return Ok(());
        };
        if let Some(refusal) = self.refusal(*until, cost, now) {
            return Err(refusal);
        }
        *until = (*until).max(now) + cost;
        Ok(())
    }

    /// The time of some events at the limit's rate.
    fn cost(&self, events: usize) -> Duration {
        SECOND * u32::try_from(events).unwrap_or(u32::MAX) / self.limit.get()
    }

    /// Counts events of a write that has passed already.
    pub(super) fn charge(&self, key: &str, events: usize) {
        let (now, cost) = (instant(), self.cost(events));
        let mut used = lock(&self.used);
        let until = used.entry(key.to_owned()).or_insert(now);
        *until = (*until).max(now) + cost;
    }

    /// The refusal of what costs this, behind what takes until then; `None`: it is within the limit.
    fn refusal(&self, until: Instant, cost: Duration, now: Instant) -> Option<Error> {
        let burst = if cost > self.burst { SECOND } else { self.burst };
        let end = until.max(now) + cost.min(burst);
        let wait = end.checked_duration_since(now + burst)?;
        let millis = wait.as_nanos().div_ceil(1_000_000);
        (millis > 0).then(|| Error::RateLimited {
            what: self.what,
            limit: self.limit.get(),
            retry_after_millis: u64::try_from(millis).unwrap_or(u64::MAX),
        })
    }

    pub(super) fn sweep(&self) {
        let now = instant();
        let mut used = lock(&self.used);
        used.retain(|_, until| *until > now);
        used.shrink_to_fit();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
