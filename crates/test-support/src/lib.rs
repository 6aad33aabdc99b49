//! What several suites use: stores, PostgreSQL, the program as a process, and requests, certificates and tokens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and looks around where the program must not"
)]

pub mod backends;
pub mod certificates;
pub mod cluster;
pub mod harness;
pub mod jwt;
pub mod pty;
pub mod raw;
pub mod requests;
