//! What the tests of `sessiond-adk` need around them: [`Server`], a sessiond of one's own, [`Proxy`], a network that fails, and
//! [`Scripted`], a server that says what a real one says under pressure only.
//!
//! This package exists for tests only, so it panics where something is not as it should be.

use std::time::Duration;

use sessiond_adk::{Builder, SessiondSessionService};

mod proxy;
mod scripted;
mod server;

pub use proxy::{Cut, Proxy};
pub use scripted::Scripted;
pub use server::{Server, Store};

/// Longer than anything takes on a slow and busy machine. It decides nothing but when to give up.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A connection to be made, with [`PATIENCE`] for each call.
pub fn patient(address: &str) -> Builder {
    SessiondSessionService::builder(address).deadline(PATIENCE)
}
