//! Sessions of the Rust Agent Development Kit kept by sessiond.
//!
//! sessiond keeps the sessions, events and state of agents and serves them over gRPC, so that agents in several processes and
//! languages share one truth. [`SessiondSessionService`] is the kit's [`SessionService`](adk_session::SessionService) over it:
//! an agent changes the one line that makes its session service.
//!
//! ```no_run
//! use std::{collections::HashMap, sync::Arc};
//!
//! use adk_session::{CreateRequest, SessionService};
//! use sessiond_adk::SessiondSessionService;
//!
//! # async fn example() -> adk_core::Result<()> {
//! // Before: let sessions = InMemorySessionService::new();
//! let sessions = SessiondSessionService::connect("127.0.0.1:50051").await?;
//!
//! let sessions: Arc<dyn SessionService> = Arc::new(sessions);
//! let session = sessions
//!     .create(CreateRequest {
//!         app_name: "my_app".into(),
//!         user_id: "alice".into(),
//!         session_id: None,
//!         state: HashMap::from([("user:language".into(), "en".into())]),
//!     })
//!     .await?;
//! assert_eq!(session.state().get("user:language"), Some("en".into()));
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! * `service`: the trait, call by call, and how an append travels: the event is written as its own JSON (`event`), sent under a
//!   deadline and again while nobody is there (`call`), and a refusal becomes an error of the kit (`error`).
//! * `read`, `list`, `rewind`: what needs more than one call to the server. `session`: a session as it was read.
//! * [`Builder`], [`Retry`]: where the server is, and how patiently it is called.
//! * [`Delta`], [`Scope`], [`Change`]: what the kit's interface has no words for, as methods of [`SessiondSessionService`]:
//!   [`append_with`](SessiondSessionService::append_with) operations that the server evaluates,
//!   [`state`](SessiondSessionService::state) without a session, the past
//!   ([`get_as_of`](SessiondSessionService::get_as_of)), [`fork`](SessiondSessionService::fork)s, sessions that
//!   [`expire`](SessiondSessionService::expire), and [`watch`](SessiondSessionService::watch)es.
//! * [`proto`]: the wire contract, generated, for everything else.
//!
//! # What holds
//!
//! * An append that has returned is stored, as durably as the server stores, and has taken effect once, however often it was sent.
//! * An event comes back as it was: every field, every nanosecond, every digit. What a later kit adds survives in the server.
//! * `temp:` keys are never stored.
//! * A missing session is `NotFound` with the code `session.not_found`, and nothing else is.
//! * Nobody reaches the sessions of another application or user with a key of three parts.
//!
//! # What is deliberately absent
//!
//! * No cache: every read asks the server, so that it shows what others have written.
//! * No transport security of its own: the server runs beside the agent. [`Builder::with_channel`] takes a channel that has it.
//! * No rendering of instructions: the kit does that from the session it has read.

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

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
