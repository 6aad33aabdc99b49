//! What the tests of `sessiond-adk` need around them: [`Server`], a sessiond of one's own, and [`Proxy`], a network that fails.
//!
//! This package exists for tests only, so it panics where something is not as it should be.

mod proxy;
mod server;

pub use proxy::{Cut, Proxy};
pub use server::{Server, Store};
