//! `sessiond` keeps the sessions, events and scoped state of AI agents. It runs as a sidecar next to agent runtimes and speaks gRPC,
//! so that agents in several languages share one truth: an append-only log per session, and state that is folded from it.
//!
//! # The map
//!
//! ```text
//! main ─> server ─> rpc ─> engine ─> store ─> domain      a layer knows those to its right, never to its left
//!   └──> cli (generated client only)
//! ```
//!
//! | layer | what it does | what it alone knows |
//! |---|---|---|
//! | [`domain`] | the model: [ids](domain::id), [scopes](domain::scope), [deltas](domain::delta), [events](domain::event), [JSON as text](domain::json), [limits](domain::limits), [errors](domain::error) | the rules; no clock, no I/O |
//! | [`store`] | the contract of persistence, and who keeps it: [`store::memory`] is the specification, [`store::sqlite`] the embedded default | databases |
//! | [`engine`] | use cases, one method per RPC; `temp:` state, page tokens, [watches](engine::watch) | the clock and the making of ids |
//! | [`rpc`] | decodes, calls, encodes; [errors to status](rpc::status) | tonic and prost |
//! | [`server`] | flags → store → engine → routes → serve → drain, one straight line | listeners and signals |
//! | [`cli`] | the client subcommands, import, export and the benchmark | what every client knows: [`proto`] |
//!
//! # How an append travels
//!
//! 1. `rpc` turns an `AppendEventRequest` into an [`engine::AppendEvents`]. Ids, keys and JSON become types that cannot be wrong;
//!    everything at fault is collected and answered at once.
//! 2. [`engine::Engine::append_events`] takes the time, makes an id where the caller sent none, computes the
//!    [fingerprint](domain::event::event_fingerprint) that makes a retry recognisable, and splits off `temp:` keys, which stay in memory.
//! 3. [`store::Store::append`] puts the command into the writer's bounded queue. The writer takes what is waiting into one transaction.
//!    For each event: is its id known? does the precondition hold? what does the delta [resolve](domain::delta::Delta::resolve) to
//!    against the state as it is now? Then the event, the keys and the logs of the scopes are written.
//! 4. One commit, one flush to the disk, for all that waited. Then the [tails](store::tails::Tails) of the scopes move, which wakes
//!    watches, and then the callers are answered. Never before.
//! 5. `rpc` writes the stored event into the answer, in the form of JSON that was asked for, within what a client can receive.
//!
//! # Invariants
//!
//! 1. An acknowledged append is durable.
//! 2. An event and all of its state changes, in all scopes, commit together or not at all.
//! 3. Two writers never lose an update: deltas merge per key, and operations are evaluated inside the commit.
//! 4. Watchers see committed changes only, each event exactly once per stream, in order, with no gap across a reconnect.
//! 5. What was sent comes back: event bodies and values byte for byte as JSON text.
//! 6. `temp:` never reaches the disk, not even inside an event's delta.
//! 7. With a key of three parts nobody reaches another application's or user's data, whatever the session id.
//! 8. A write never fails because of its answer.
//!
//! # What is deliberately absent
//!
//! * **No cache of state or events.** The page cache of the store is one; a second would have to be kept right.
//! * **No interpretation of bodies.** An event's body is opaque: kits change their events in every release, and nothing here has to follow.
//! * **No client clocks.** `event_time` is kept and filtered by, but the order of a log is the order of its commits.
//! * **No payload in notifications.** A watch is woken by a number and reads from the store, so that live and catching up are one path.
//! * **No background work that answers depend on.** Expiry is seen at once by everybody; the sweep only frees the disk.
//!
//! # Trying it from Rust
//!
//! The engine works without a server, over any store:
//!
//! ```
//! use std::sync::Arc;
//! use sessiond::{
//!     domain::{id::{AppName, UserId}, json::Json, scope::StateKey},
//!     engine::{Engine, EngineOptions, NewSession, clock::SystemClock},
//!     store::{memory::MemoryStore, Store},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store: Arc<dyn Store> = Arc::new(MemoryStore::new(sessiond::domain::token::StoreId([7; 16])));
//! let engine = Engine::new(store, Arc::new(SystemClock), EngineOptions::default());
//! let created = engine
//!     .create_session(NewSession {
//!         app_name: AppName::new("my_app").expect("a legal name"),
//!         user_id: UserId::new("alice").expect("a legal id"),
//!         session_id: None,
//!         state: vec![(StateKey::new("app:theme").expect("a legal key"), Json::string("dark"))],
//!         display_name: Default::default(),
//!         labels: Default::default(),
//!         expiration: None,
//!         allow_existing: false,
//!     })
//!     .await?;
//! assert_eq!(created.state.to_json().as_str(), r#"{"app:theme":"dark"}"#);
//! assert_eq!(created.info.last_sequence, 0);
//! # Ok(())
//! # }
//! ```

pub mod cli;
pub mod config;
pub mod domain;
pub mod engine;
pub mod proto;
pub mod rpc;
pub mod server;
pub mod store;
pub mod telemetry;
