//! The documents: their commands work, their programs are the files, and their lists are complete.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::too_many_lines,
    reason = "a test fails by panicking, uses time and environment freely, and may be long"
)]

mod errors;
mod grafana;
mod readme;
mod shown;
