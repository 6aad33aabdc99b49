//! What only observes never ends a call.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the application that observes: a propagator of traces, a subscriber of logs. Its panic is contained.
pub(crate) fn observe(run: impl FnOnce()) {
    // What it has left half done is its own.
    let _ = catch_unwind(AssertUnwindSafe(run));
}
