//! The service with a real server, on each of its stores.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod addresses;
mod credentials;
mod errors;
mod extensions;
mod fidelity;
mod foreign;
mod get_events;
mod harness;
mod late_answers;
mod lists;
mod lives;
mod pages;
mod points;
mod retries;
mod retryable;
mod rewinds;
mod temporary;
mod tracked;
mod watches;
