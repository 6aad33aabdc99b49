//! The database's clock: the time of all replicas, whatever each machine's own clock says.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use super::super::prelude::*;
use sessiond_store::{Clock, instant};

/// Asks for the database's time.
pub(in super::super) const DATABASE_TIME: &str = "SELECT clock_timestamp()";

/// The answer to [`DATABASE_TIME`].
pub(in super::super) fn database_time(answer: Option<&Row>) -> Result<Time> {
    let row = answer.ok_or_else(|| Error::internal("the database told no time"))?;
    // A clock before 1970 is not set.
    let since = row.try_get::<SystemTime>(0)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let secs = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Ok(Time::from_stored(secs, since.subsec_nanos()))
}

/// The database's time as it was last seen, and the time that has passed since.
pub(in super::super) struct DatabaseClock {
    /// Of a test. It takes the place of the database's.
    set: Option<Arc<dyn Clock>>,
    seen: Mutex<Seen>,
}

struct Seen {
    time: Time,
    at: Instant,
    /// The latest time that was told: the clock never goes back, even if the database's does.
    told: Time,
}

impl DatabaseClock {
    pub(in super::super) fn new(set: Option<Arc<dyn Clock>>, now: Time) -> Self {
        Self { set, seen: Mutex::new(Seen { time: now, at: instant(), told: now }) }
    }

    /// Notes the database's time. Returns the time of its transaction.
    pub(in super::super) fn observe(&self, now: Time) -> Time {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.time, seen.at) = (now, instant());
        self.set.as_ref().map_or(now, |clock| clock.now())
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Time {
        if let Some(set) = &self.set {
            return set.now();
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = seen.at.elapsed();
        let secs = i64::try_from(passed.as_secs()).unwrap_or(i64::MAX);
        let now = seen.time.plus(secs, passed.subsec_nanos()).unwrap_or(Time::LAST);
        seen.told = seen.told.max(now);
        seen.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Time {
        Time::new(secs, 0).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn it_goes_on_between_two_looks_and_never_back() {
        let clock = DatabaseClock::new(None, at(100));
        tokio::time::advance(std::time::Duration::from_secs(5)).await;
        assert_eq!(clock.now(), at(105));
        clock.observe(at(50));
        assert_eq!(clock.now(), at(105));
        clock.observe(at(200));
        assert_eq!(clock.now(), at(200));
    }
}
