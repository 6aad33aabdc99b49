//! What is done at most once a minute, such as telling the log again about what lasts.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use super::prelude::*;

const SECONDS: u64 = 60;

/// When it was done last, in seconds.
pub(super) struct OnceAMinute(AtomicI64);

impl Default for OnceAMinute {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }
}

impl OnceAMinute {
    /// Whether it is due. Then it is not for the next minute.
    pub(super) fn begin(&self, now: Time) -> bool {
        let last = self.0.load(Relaxed);
        now.secs().abs_diff(last) >= SECONDS
            && self.0.compare_exchange(last, now.secs(), Relaxed, Relaxed).is_ok()
    }
}
