//! The service against a running server, on each of its stores.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod addresses;
mod errors;
mod fidelity;
mod foreign;
mod harness;
mod lists;
mod more;
mod points;
mod retries;
mod rewinds;
mod temporary;
mod watches;
