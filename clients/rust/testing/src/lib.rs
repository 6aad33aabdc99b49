//! What the tests of `sessiond-adk` need around them: [`Server`], a sessiond of one's own, [`Proxy`], a network that fails, and
//! [`Scripted`], a server that says what a real one says under pressure only.
//!
//! This package exists for tests only, so it panics where something is not as it should be.

mod proxy;
mod scripted;
mod server;

pub use proxy::{Cut, Proxy};
pub use scripted::Scripted;
pub use server::{Server, Store};
