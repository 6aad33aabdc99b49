//! Sessions of the Rust Agent Development Kit (ADK) in sessiond.
//!
//! sessiond keeps the sessions, events and state of agents and serves them over gRPC, so that agents in several processes and
//! languages share one truth. [`SessiondSessionService`] is ADK's [`SessionService`](adk_session::SessionService) over it:
//! an agent changes only the line that makes its session service.
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
//! # Layout
//!
//! * `service`: ADK's trait, call by call. An append: `event` writes the event as JSON, `append` sends it through `call`, which
//!   holds the call policy (`policy`), and `failure` and `error` turn a refusal into an error of ADK.
//! * `read`, `list`, `rewind`, `fork`, `state_pages`: operations that need several calls. `session`: a session as it was read.
//! * `connect`, `endpoint`, `credentials`, `health`: [`Builder`] and what it needs to connect. `channels`: one for calls, further ones
//!   for many watches. `metadata`: the token and the trace context of each call, and the hint of `affinity`.
//!
//! The feature `tls` (on by default) is for `https://` addresses, and `opentelemetry` sends the trace context.
//!
//! * `extensions`, `history`, `fork`, `watch`: methods of [`SessiondSessionService`] beyond ADK's interface:
//!   [`append_with`](SessiondSessionService::append_with) operations that the server evaluates,
//!   [`state`](SessiondSessionService::state) without a session, past states
//!   ([`get_as_of`](SessiondSessionService::get_as_of)), rewinds
//!   ([`rewind_to`](SessiondSessionService::rewind_to)), the log
//!   ([`list_events`](SessiondSessionService::list_events), [`get_events`](SessiondSessionService::get_events)),
//!   [`fork`](SessiondSessionService::fork)s, sessions that [`expire`](SessiondSessionService::expire), and
//!   [`watch`](SessiondSessionService::watch)es.
//! * `tracked`: [`TrackedSession`], from which an append is refused if others have changed a key that it overwrites.
//! * `address`, `delta`, `json`, `time`: values on their way to the wire and back.
//! * [`proto`]: the generated wire contract, for everything else.
//!
//! # Guarantees
//!
//! * An append that has returned is stored, as durably as the server stores, and is applied once, however often it was sent.
//! * An event comes back as it was: every field, every nanosecond, every digit. The server also keeps fields of later ADK versions.
//! * `temp:` keys are never stored.
//! * A missing session is `NotFound` with the code `session.not_found`, which nothing else has.
//! * A key with all three parts never reaches the sessions of another application or user.
//!
//! # Deliberately absent
//!
//! * A cache: every read asks the server, and so sees the writes of others.
//! * Rendering of instructions: ADK renders them from the session that it has read.

mod address;
mod affinity;
mod append;
mod call;
mod canonical;
mod channels;
mod connect;
mod credentials;
mod delta;
mod endpoint;
mod error;
mod event;
mod extensions;
mod failure;
mod fork;
mod health;
mod history;
mod json;
mod list;
mod metadata;
mod observe;
mod policy;
mod read;
mod rewind;
mod service;
mod session;
mod state_pages;
mod time;
mod tracked;
mod watch;

pub mod proto;

pub use address::{Point, Scope, SessionRef};
pub use connect::Builder;
pub use delta::Delta;
pub use event::FOREIGN_BODY;
pub use history::{EventRef, StoredEvent};
pub use policy::Retry;
pub use service::SessiondSessionService;
pub use tracked::TrackedSession;
pub use watch::{Change, ChangeKind, Since};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
