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

/// After this many more refusals than accepted writes a caller is flooding: only as many of its appends are decoded as its limit allows.
pub(super) const UNHEEDED: u32 = 100;

/// Appends a second of each key, by the generic cell rate algorithm.
pub(super) struct Appends {
    what: Limited,
    limit: NonZeroU32,
    /// The time that a burst takes at the limit's rate.
    burst: Duration,
    pub(super) used: Mutex<HashMap<String, Used>>,
}

/// What counts against a key.
pub(super) struct Used {
    /// When the events so far will have taken their time at the limit's rate.
    until: Instant,
    /// The same for the calls that [`Appends::flood`] has let through, each for one event.
    let_through: Instant,
    /// Refusals, less the writes that were accepted since; at most [`UNHEEDED`].
    refusals: u32,
    /// `refusals` has reached [`UNHEEDED`] and has not returned to 0 since.
    is_flooding: bool,
}

impl Used {
    fn until(until: Instant, now: Instant) -> Self {
        Self { until, let_through: now, refusals: 0, is_flooding: false }
    }
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
        let mut all = lock(&self.used);
        let Some(used) = all.get_mut(key) else {
            all.insert(key.to_owned(), Used::until(now + cost, now));
            return Ok(());
        };
        if let Some(refusal) = self.refusal(used.until, cost, now) {
            used.refusals =
                if used.is_flooding { UNHEEDED } else { UNHEEDED.min(used.refusals + 1) };
            used.is_flooding |= used.refusals == UNHEEDED;
            return Err(refusal);
        }
        used.until = used.until.max(now) + cost;
        used.refusals = used.refusals.saturating_sub(1);
        used.is_flooding &= used.refusals > 0;
        Ok(())
    }

    /// The time of some events at the limit's rate.
    fn cost(&self, events: usize) -> Duration {
        SECOND * u32::try_from(events).unwrap_or(u32::MAX) / self.limit.get()
    }

    /// Counts events of a write that has passed already.
    pub(super) fn charge(&self, key: &str, events: usize) {
        let (now, cost) = (instant(), self.cost(events));
        let mut all = lock(&self.used);
        let used = all.entry(key.to_owned()).or_insert_with(|| Used::until(now, now));
        used.until = used.until.max(now) + cost;
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

    /// Refuses an append of a flooding caller, unless the limit allows an event for which no earlier append was let through.
    pub(super) fn flood(&self, key: &str) -> Option<Error> {
        let mut all = lock(&self.used);
        let used = all.get_mut(key).filter(|used| used.is_flooding)?;
        let (now, one) = (instant(), SECOND / self.limit.get());
        // Nothing was accepted for a while, so these are partial events, which are not limited, or calls that fail.
        if used.until + self.burst <= now {
            (used.refusals, used.is_flooding) = (0, false);
            return None;
        }
        let until = used.until.max(used.let_through);
        let refusal = self.refusal(until, one, now);
        match refusal {
            Some(_) => used.refusals = UNHEEDED,
            None => used.let_through = until.max(now) + one,
        }
        refusal
    }

    pub(super) fn sweep(&self) {
        let now = instant();
        let mut all = lock(&self.used);
        all.retain(|_, used| used.until > now);
        all.shrink_to_fit();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
