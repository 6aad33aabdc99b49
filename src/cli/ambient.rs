//! Time and chance as the client sees them, and standard error: each behind one door.

use std::{
    io::{self, Write as _},
    time::{Instant, SystemTime},
};

use prost_types::Timestamp;
use uuid::Uuid;

/// The wall clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where the client reads the wall clock"
)]
pub fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// The clock that latencies are measured with.
#[expect(clippy::disallowed_methods, reason = "the one place where the client reads this clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// An id that nobody else has.
#[expect(clippy::disallowed_methods, reason = "the one place where the client makes an id")]
pub fn unique_id() -> String {
    Uuid::now_v7().to_string()
}

/// Tells people something, on standard error. Where nobody listens, nothing is lost.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
