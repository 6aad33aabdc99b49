//! The clock of a store, which decides commit times and expiry, and the monotonic clock of the process.

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use sessiond_core::domain::time::Time;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Time;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Time {
        // A clock before 1970 or after 9999 is not set. The nearest time in range serves as well as any.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let secs = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Time::from_stored(secs, since.subsec_nanos())
    }
}

/// The monotonic clock, by which deadlines, waits and rates are measured. It stands still in tests that pause time.
#[expect(clippy::disallowed_methods, reason = "this is where monotonic time enters")]
pub fn instant() -> Instant {
    Instant::now()
}
