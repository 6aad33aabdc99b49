//! Support for several suites: stores, PostgreSQL, the program as a process, and requests, certificates and tokens.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and uses time and environment freely"
)]

pub mod backends;
pub mod certificates;
pub mod cluster;
pub mod harness;
pub mod jwt;
pub mod pty;
pub mod raw;

use std::env;

pub use sessiond_store::tests::{TestClock, requests};

/// Whether this is continuous integration, which forbids a test to skip itself.
pub fn is_ci() -> bool {
    variable("CI").is_some_and(|ci| ci != "false")
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
