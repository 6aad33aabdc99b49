//! Sessions of the Rust Agent Development Kit kept by [sessiond](https://github.com/sessiond/sessiond).
#![warn(missing_docs)]

mod call;
mod connect;
mod delta;
mod error;
mod event;
mod list;
mod more;
mod read;
mod rewind;
mod service;
mod session;
mod watch;

pub mod proto;

pub use connect::{Builder, Retry};
pub use delta::Delta;
pub use event::FOREIGN_BODY;
pub use more::Scope;
pub use service::SessiondSessionService;
pub use watch::{Change, ChangeKind, Since};
