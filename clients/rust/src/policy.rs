//! The call policy: how long a call may take, and how often it is repeated.

use std::time::Duration;

/// When a failed call is repeated, and how often.
///
/// The server says with each error whether the call may be repeated. A lost connection counts as repeatable too: nobody can say
/// whether the call was applied, but every write carries an id that stays the same in all attempts, so it takes effect once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all, the first one included. 1 disables retries. By default the deadline alone ends them.
    pub attempts: u32,
    /// Pause after the first attempt. Each further one is twice as long. Each is shortened at random by up to a half, so that
    /// clients do not reconnect to a restarted server all at once.
    pub first_pause: Duration,
    /// Upper bound of a pause. A longer delay that the server asks for wins.
    pub longest_pause: Duration,
}

impl Retry {
    /// The pause after attempt number `attempts`, which is 1 or more; `random` is between 0 and 1.
    pub(crate) fn pause(&self, attempts: u32, random: f64) -> Duration {
        let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
        let full = self.first_pause.saturating_mul(doubled).min(self.longest_pause);
        full.mul_f64(1.0 - random / 2.0)
    }
}

impl Default for Retry {
    /// Pauses from 50 ms up to a second, until the deadline.
    fn default() -> Self {
        Self {
            attempts: u32::MAX,
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_secs(1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPolicy {
    /// Of one call, its retries included.
    pub deadline: Duration,
    /// How long a call waits for a server that is not there.
    pub absence: Duration,
    pub retry: Retry,
}

/// Long enough for a server that restarts or is busy, short enough for a user who waits for an answer.
const DEADLINE: Duration = Duration::from_secs(15);

/// A sidecar that is not there within it was not started, and a user should not wait for the error.
const LOCAL_ABSENCE: Duration = Duration::from_secs(3);

impl CallPolicy {
    /// A deadline that was set holds for servers that are not there, too.
    pub fn new(deadline: Option<Duration>, retry: Retry, is_local: bool) -> Self {
        let default = if is_local { LOCAL_ABSENCE } else { DEADLINE };
        let absence = deadline.unwrap_or(default);
        Self { deadline: deadline.unwrap_or(DEADLINE), absence, retry }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_are_shortened_by_a_half_at_most() {
        let retry = Retry::default();
        for (attempts, millis) in
            [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1000), (40, 1000), (u32::MAX, 1000)]
        {
            let full = Duration::from_millis(millis);
            assert_eq!(retry.pause(attempts, 0.0), full);
            assert_eq!(retry.pause(attempts, 1.0), full / 2);
        }
    }
}
