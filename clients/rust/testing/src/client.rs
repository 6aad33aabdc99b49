//! Clients with a deadline that decides no test.

use std::time::Duration;

use sessiond_adk::{Builder, SessiondSessionService};

/// Longer than anything takes on a slow and busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// Settings of a service with [`TIMEOUT`] as the deadline of each call.
pub fn builder(address: &str) -> Builder {
    SessiondSessionService::builder(address).deadline(TIMEOUT)
}
