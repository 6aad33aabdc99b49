//! Clocks, ids and standard error: the only file of the client that touches them.

use std::{
    io::{self, Write as _},
    time::{Instant, SystemTime},
};

use prost_types::Timestamp;
use uuid::Uuid;

#[expect(clippy::disallowed_methods, reason = "the client's one use of the wall clock")]
pub fn now() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

#[expect(clippy::disallowed_methods, reason = "the client's one use of the monotonic clock")]
pub fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the client's one place that makes an id")]
pub fn unique_id() -> String {
    Uuid::now_v7().to_string()
}

/// Writes a line to standard error. A closed standard error is no reason to stop.
pub fn tell(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
