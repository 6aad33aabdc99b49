//! `sessiond` keeps the sessions, events and scoped state of AI agents. It runs as a sidecar next to agent runtimes and speaks gRPC, so
//! that agents in several languages share them. A session is an append-only log of events, and its state is what the deltas of those
//! events add up to.
//!
//! # Layers
//!
//! A layer knows those to its right, never to its left. Between crates the compiler holds that.
//!
//! ```text
//! src:    main ─> server ─> rpc ─> engine ───┐
//!           ├──> cli ─> crates/adk-files ──────┼──────────────────────────────────────────┐
//!           └──> offline ──────────────────────┤                                          │
//! crates:                                      └─> sqlite, postgres ─> store ─> access, metrics ─> core (read ─> commit ─> domain)
//! ```
//!
//! | layer | what it does | what it knows beyond the layers to its right |
//! |---|---|---|
//! | [`domain`] | the model: [ids](domain::id), [scopes](domain::scope), [deltas](domain::delta), [events](domain::event), [JSON as text](domain::json), [limits](domain::limits), [errors](domain::error) | nothing: no I/O, no clock, no randomness, no async |
//! | [`commit`] | decides every write, once for all stores, as pure functions from what was loaded to a [change set](commit::ChangeSet) | nothing either |
//! | [`read`] | decides every read, once for all stores, over the [rows](read::Rows) of a snapshot: what a session, its state, a past, a page, a key's history and a watch page are | [`commit`]'s rows; futures that any executor runs |
//! | [`access`] | who calls, and what a caller may do | how open streams wait for changes of that |
//! | [`metrics`] | counters, gauges and histograms of one server, and their text | prometheus |
//! | [`store`] | the contract of persistence ([`store::Store`]), the [gate](store::Gate) before it, [group commit](store::group), and the store in memory ([`store::memory`]) | queues, the clock |
//! | [`store::sqlite`], [`store::postgres`] | the backends: they load and apply rows, and hand them to reads | databases |
//! | [`engine`] | use cases: what an RPC needs beyond the store; [`temp:` state](engine::invocations), page tokens, [watches](engine::watch) | how ids are made |
//! | [`rpc`] | decodes, calls, encodes; [errors to statuses](rpc::status) | the wire contract ([`proto`]), tonic and prost |
//! | [`server`] | flags → listener → store → engine → routes → serve → drain, in one straight line | [`config`], sockets, HTTP/2, health, OpenTelemetry |
//! | [`cli`] | the client subcommands, what they show to people, import, export and the benchmark | the generated client ([`proto`]) and tonic; nothing of the server but [`domain`] |
//! | [`offline`] | verifies and compacts database files that are not served, migrates stores, and checks policies | [`store::sqlite`], [`config`], the progress bar of [`cli`] |
//!
//! In front of the services, `server/http.rs` serves the same calls over HTTP: `crates/connect` turns a request in JSON into the one that a
//! client of gRPC would send. `server/inspector.rs` serves the page that `ui/` is built into.
//!
//! Beside the layers, [`config`] has the flags of `serve`, [`logging`] the log on standard error. `pem.rs` of the store crate reads
//! certificates and keys, and its `files.rs` has the modes of files. [`store::open`] finds the store that a URL names.
//!
//! # One append, file by file
//!
//! The files that an AppendEvent passes on a SQLite store, in order. Steps 8, 10, 13 and 20 to 22 are SQLite's, the others are the
//! same for every store. Files of `commit`, `domain` and `read` are below `crates/core/src`, those of `store`, `sqlite`, `postgres`,
//! `access` and `metrics` in the crate of that name, and the others below `src`.
//!
//! 1. `server/listener.rs` and `server/connections.rs` accept the connection and serve HTTP/2 on it, over `server/socket.rs`.
//! 2. `server/dispatch.rs` counts the call as in flight, asks `server/identity.rs` whom it acts for, begins its span if it is sampled, and
//!    passes it to the services, once the store is open and the request body is complete.
//! 3. `rpc/services.rs` has the handler, to which tonic's router passes the call: decode, call, encode.
//! 4. `rpc/call.rs` makes the [`store::RequestContext`] from the metadata: deadline, trace and request id, and the principal.
//! 5. `rpc/convert/decode/requests.rs` validates the request and turns it into a [`store::Append`]: it collects all faults to report them
//!    at once, and computes the [fingerprint](domain::event::NewEvent::content_fingerprint) by which a retry is recognised.
//! 6. `engine/events.rs` splits off `temp:` keys, which stay in memory (`engine/invocations.rs`).
//! 7. `store/gate.rs` checks the rights of the caller, if there is a policy, and its limits. `store/typed.rs` reads the full key that
//!    a bare session id names, wraps the append in a [`commit::Request`], and later unwraps its answer.
//! 8. `sqlite/lib.rs` submits the request to the writer's queue and waits for the reply.
//! 9. `store/queue.rs` bounds that queue by count and bytes. A full queue refuses at once.
//! 10. `sqlite/writer.rs` is the writer's thread. It takes the requests that wait as one group.
//! 11. `store/group.rs` runs the group: load, decide one request after the other, apply, commit, wake watchers, reply.
//! 12. `commit/read_set.rs` names what the decision reads: the session, event ids, and keys of three scopes.
//! 13. `sqlite/load.rs` fetches that from the writer's cache or from the tables.
//! 14. `commit/mod.rs` dispatches the decision by kind of request.
//! 15. `commit/working_set.rs` holds the loaded rows and the changes of earlier requests in the group.
//! 16. `commit/append.rs` decides: a replay or a new event, then the precondition, the sequence, times and the size of the batch.
//! 17. `commit/overlay.rs` collects the changed keys, versions and sizes. A refused request drops its overlay; an accepted one merges it.
//! 18. `domain/delta.rs` evaluates the delta against the state as it is now.
//! 19. `commit/changes.rs` is the result, as rows.
//! 20. `sqlite/apply.rs` writes those rows.
//! 21. `sqlite/log.rs` notes where they lie, and puts that into the index of logs 32 rows of a log at a time.
//! 22. `sqlite/snapshot.rs` writes a snapshot of a scope every 64 versions, and of a large state less often, so that reads of the past
//!     stay cheap.
//! 23. `store/notifier.rs` wakes the watchers of the changed scopes, after the commit is on disk. Then the writer replies.
//! 24. `rpc/convert/encode/answers.rs` builds the response, within 4 MiB.
//! 25. `rpc/convert/encode/messages.rs` encodes its event and session, in the form of JSON that was requested.
//!
//! The list leaves out types and their rules (the rest of `domain`, `store/context.rs`, `commit/request.rs`), callers and their rights
//! (`access/principal.rs`, `access/policy.rs`, `store/gate/guarded.rs`), metrics (`metrics`), the clock and the condition of a store
//! (`store/clock.rs`, `store/condition.rs`), the limits of connections, request bodies and calls in flight
//! (`server/connection_limit.rs`, `server/messages.rs`, `server/admission.rs`), the account of what is buffered for clients
//! (`store/account.rs`, `server/answer.rs`), the log of calls and the spans of sampled ones (`server/call_log.rs`, `store/spans.rs`,
//! `server/traces.rs`), the size of a message in memory (`proto/memory.rs`), the conversion and validation of single fields and messages
//! (the rest of `rpc/convert`: deltas in `decode/delta.rs`, keys in `decode/fields.rs`, values in `decode/json.rs`), the limits of callers
//! (`store/gate/limits.rs`), the turns of reads (`store/gate/reads.rs`), the rule of snapshots (`store/past.rs`), the columns of both databases (`store/rows.rs`), the rows and
//! statements of SQLite (`row.rs`, `log.rs`, `lookup.rs`, `lists.rs`, `connection.rs`), and checks that its file has not been replaced and the disk has
//! space (`lock.rs`, `disk.rs`). After the reply
//! `sqlite/checkpoint.rs` moves pages of the WAL into the database file when that is due, and `listed.rs` lets the list indexes follow,
//! every 1,024 events.
//!
//! On PostgreSQL `postgres/write/lanes.rs` takes the place of steps 8 and 10: it routes the request to one of a few threads, each with
//! a connection of its own (`lane.rs`, `writer.rs`). `load.rs` locks what the whole group needs and reads it, in one round trip. `apply.rs`
//! writes the change set and commits, in a second one. `notify/replicas.rs` then wakes the watchers of other replicas.
//!
//! # Invariants
//!
//! 1. An acknowledged append is durable.
//! 2. An event and all of its state changes, in all scopes, commit together or not at all.
//! 3. Writers of different keys never lose an update, because deltas merge per key. Writers of one key are safe with an operation, which is
//!    evaluated inside the commit, or with a precondition, which is checked once per request, before its first event. Without either the
//!    last commit wins.
//! 4. Watchers see committed changes only, each event exactly once per stream, in order, with no gap across a reconnect.
//! 5. What was sent comes back: event bodies and values byte for byte as JSON text.
//! 6. `temp:` keys never reach the disk, not even inside an event's delta.
//! 7. With a key of three parts a call reaches only that application's and that user's data, whatever the session id.
//! 8. A write never fails because of its answer.
//!
//! # What is deliberately absent
//!
//! * **No semantics in backends.** A backend loads and applies rows, whatever kind of request they are for.
//! * **No undo.** A request is decided on an overlay, which is dropped if the request is refused.
//! * **No cache for reads.** They go to the tables, through the database's own page cache. Only SQLite's writer has a cache, of at
//!   most 64 MiB of sessions and keys that decisions need. It cannot be stale, because the process has the file to itself and writes on one
//!   thread. On PostgreSQL other processes write as well, so each group reads what it needs under its locks.
//! * **No interpretation of bodies.** An event's body is opaque. ADK changes its events in every release, and nothing here has to follow.
//! * **No client clocks.** `event_time` is stored and can be filtered by, but the order of a log is the order of its commits.
//! * **No payload in notifications.** A watcher is woken by a counter and reads from the store, so that catching up and following live are
//!   one code path.
//! * **No background work that answers depend on.** Expiry takes effect at once for every read and write; the sweep only frees disk space.

pub use sessiond_access as access;
pub use sessiond_core::{commit, domain, read};
pub use sessiond_metrics as metrics;
use sessiond_store::{files, pem};

pub mod cli;
pub mod config;
pub mod engine;
pub mod logging;
pub mod offline;
pub mod proto;
pub mod rpc;
pub mod server;
pub mod store;
