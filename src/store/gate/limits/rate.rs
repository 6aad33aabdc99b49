//! A number of events a second, and how many of them pass at once.

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    domain::error::{Error, Limited},
    store::instant,
};

/// The time in which a caller may append as many events as the limit says.
pub(super) const SECOND: Duration = Duration::from_secs(1);

/// Events that pass at once if a second's are as many. Of a higher limit a tenth of a second's pass, if those are more. The appends of
/// others wait for them, a few milliseconds.
const BURST: u32 = 100;

/// Refusals, beyond the appends that were taken, after which only so many appends of a caller are looked at as its limit allows.
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
    /// The same for the appends that were looked at while it was flooding, each for one event.
    looked_at: Instant,
    /// Refusals, less the appends that were taken since; at most [`UNHEEDED`].
    refusals: u32,
    /// There were as many refusals, and not yet as many appends without any.
    is_flooding: bool,
}

impl Appends {
    pub(super) fn new(what: Limited, limit: NonZeroU32) -> Self {
        let events = limit.get().min(BURST.max(limit.get() / 10));
        Self { what, limit, burst: SECOND * events / limit.get(), used: Mutex::default() }
    }

    /// A batch of more events than a burst begins when nothing counts against its caller, and counts in full: what follows waits longer.
    pub(super) fn take(&self, key: &str, events: usize) -> Result<(), Error> {
        let now = instant();
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        let cost = SECOND * events / self.limit.get();
        let mut all = lock(&self.used);
        let Some(used) = all.get_mut(key) else {
            let used = Used { until: now + cost, looked_at: now, refusals: 0, is_flooding: false };
            all.insert(key.to_owned(), used);
            return Ok(());
        };
        if let Some(refusal) = self.refusal(used.until, cost, now) {
            used.refusals = UNHEEDED.min(used.refusals + 1);
            used.is_flooding |= used.refusals == UNHEEDED;
            return Err(refusal);
        }
        used.until = used.until.max(now) + cost;
        used.refusals = used.refusals.saturating_sub(1);
        used.is_flooding &= used.refusals > 0;
        Ok(())
    }

    /// The refusal of what costs this, behind what takes until then; `None`: there is room.
    fn refusal(&self, until: Instant, cost: Duration, now: Instant) -> Option<Error> {
        let end = until.max(now) + cost.min(self.burst);
        let wait = end.checked_duration_since(now + self.burst)?;
        let millis = wait.as_nanos().div_ceil(1_000_000);
        (millis > 0).then(|| Error::RateLimited {
            what: self.what,
            limit: self.limit.get(),
            retry_after_millis: u64::try_from(millis).unwrap_or(u64::MAX),
        })
    }

    /// The refusal of an append of a key that does not heed them. Of those that come at once, as many pass as there is room for.
    pub(super) fn flood(&self, key: &str) -> Option<Error> {
        let mut all = lock(&self.used);
        let used = all.get_mut(key).filter(|used| used.is_flooding)?;
        let (now, one) = (instant(), SECOND / self.limit.get());
        let until = used.until.max(used.looked_at);
        let refusal = self.refusal(until, one, now);
        match refusal {
            Some(_) => used.refusals = UNHEEDED,
            None => used.looked_at = until.max(now) + one,
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
