//! Sessions of the Rust Agent Development Kit kept by [sessiond](https://github.com/sessiond/sessiond).
#![warn(missing_docs)]

mod call;
mod connect;
mod error;
mod event;
mod list;
mod read;
mod rewind;
mod service;
mod session;

pub mod proto;

pub use connect::{Builder, Retry};
pub use event::FOREIGN_BODY;
pub use service::SessiondSessionService;
