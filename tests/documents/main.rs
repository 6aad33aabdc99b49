//! The documents: their commands work, their programs are the files, and their lists are complete.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

mod errors;
mod grafana;
mod readme;
mod shown;
