//! Servers and networks for the tests of `sessiond-adk`: [`Server`] is a real sessiond, [`Proxy`] a network that fails, and
//! [`ScriptedServer`] sends statuses that a real server sends only under load. [`Authority`] issues certificates.
//!
//! For tests only, so it panics if anything goes wrong.

mod certificates;
mod client;
mod proxy;
mod scripted;
mod server;

pub use certificates::Authority;
pub use client::{TIMEOUT, builder};
pub use proxy::{Cut, Proxy};
pub use scripted::ScriptedServer;
pub use server::{Server, Store};
