//! The seam between use cases and persistence: what every store promises.
//!
//! [`Store`] is a contract from which another backend can be written. [`memory`] is its specification, held to the same suite as
//! the others.

pub mod memory;
mod open;
pub mod sqlite;
pub mod tails;
mod types;

use async_trait::async_trait;

use crate::domain::{
    error::Error, page::EventPage, scope::SessionKey, session::SessionInfo, time::Time,
    token::StoreId,
};
pub use open::{CrashAt, OpenError, StoreOptions, open};
pub use types::{
    Append, Appended, AppendedEvent, CreateSession, Created, EventQuery, ForkSession, KeyChange,
    KeyChangePage, KeyChangeQuery, OnExisting, Request, RewindSession, ScopeChange, SessionOrder,
    SessionPage, SessionQuery, SessionUpdate, SessionView, SessionsQuery, StateQuery, StateUpdate,
    StateUpdated, StateView, WatchPage, WatchQuery,
};

/// Keeps sessions, their logs, and the state of applications, users and sessions.
///
/// # What holds for every method
///
/// * **Atomic.** A write happens whole or not at all, in all scopes, and an error means not at all, but for
///   [`Error::OutcomeUnknown`]. A read sees one point of time, whatever it returns.
/// * **Ordered.** Writes to one scope take effect one after the other; a session's events are numbered in that order, without gaps.
///   Operations and preconditions see the state that all writes before them left. Two writes to one scope whose futures were first
///   polled one after the other take effect in that order.
/// * **Durable.** A write that has returned survives a crash of the process and of the machine, as far as the store is one that
///   outlives its process.
/// * **Announced.** After a commit and before the write returns, the store advances the [`Tails`](tails::Tails) of every scope that
///   it changed, also where the caller has gone.
/// * **Cancellation.** Dropping a write's future neither undoes the write nor harms others; it may or may not take effect. Dropping
///   a read's future is always harmless.
/// * **Time** comes with the call. A commit's time is the call's `now`, or the session's last update where that is later, so that it
///   never goes backwards within a session. A session whose `expire_time` is at or before `now` is treated as deleted: not found,
///   not listed, its address free.
/// * **No `temp:`.** The caller has taken `temp:` keys out of every delta and state.
/// * **Errors** are those named; [`Error::StoreUnavailable`], [`Error::OutcomeUnknown`], [`Error::Overloaded`] and
///   [`Error::Internal`] can come from everywhere. A driver's words are logged, not returned. Fields of violations begin with
///   `events[i]`, `delta`, `state` or `precondition`, whatever the request was.
/// * **Sizes.** A scope's state (keys without prefix, each as JSON writes it, + values) stays within [`SCOPE_BYTES`](crate::domain::limits::SCOPE_BYTES),
///   otherwise [`Error::StateTooLarge`]; a write that makes it no larger is never refused for its size.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Identity of this store's data, made when it was created: part of every cursor.
    fn id(&self) -> StoreId;

    /// Where those who wait for changes subscribe.
    fn tails(&self) -> &tails::Tails;

    /// Creates a session with its initial state, which the prefixes sort into the three scopes. Changes of the application's and of
    /// the user's state raise their versions by one each; own keys have version 0. An expired session of the same address is
    /// deleted in the same commit.
    ///
    /// Errors: [`Error::SessionExists`] with [`OnExisting::Refuse`]; [`Error::StateTooLarge`].
    async fn create_session(&self, create: CreateSession) -> Result<Created, Error>;

    /// Changes what is not state, and wakes those who watch the session. Errors: [`Error::SessionNotFound`].
    async fn update_session(&self, update: SessionUpdate) -> Result<SessionInfo, Error>;

    /// Deletes a session with its log and its own state, for everybody at once; what the disk holds of it may be removed later.
    /// Whether there was one.
    async fn delete_session(&self, key: SessionKey, now: Time) -> Result<bool, Error>;

    /// Creates a session from another's events up to a sequence: with their ids, sequences, times, fingerprints, versions and
    /// rewinds, its own state as it was then, the state it was created with, the versions of the wider scopes at that time, and its
    /// labels; ids of requests are not taken over. `create_time` is `now`, `last_event_time` that of the last event taken over, and
    /// `update_time` never earlier than that event's commit. Neither scope's version changes. The answer holds the merged state.
    ///
    /// Errors: [`Error::SessionNotFound`], [`Error::SessionExists`], [`Error::BeyondLastSequence`].
    async fn fork_session(&self, fork: ForkSession) -> Result<SessionView, Error>;

    /// Appends events to one session in one commit. For each event in turn: if the session has its id with the same fingerprint (also
    /// from earlier in the same batch) it is answered as stored and changes nothing; otherwise its delta is resolved against the
    /// current state, applied, and stored with what the keys became; the limit of a scope's size holds after every event, not only
    /// after the last. Unless every event is a replay the precondition is checked first, before any event, so that where it fails
    /// a reused id is not reported. Stored events and replays together stay within what one answer holds; beyond it the batch is
    /// [`Error::Invalid`] on `events`. With a [`Request`] that the session has seen, nothing changes and no events are answered.
    ///
    /// Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`], [`Error::EventIdReused`], [`Error::RequestIdReused`],
    /// [`Error::Conflict`], [`Error::TypeMismatch`], [`Error::StateTooLarge`], [`Error::Invalid`] (what a delta resolves to is too
    /// large, a number overflows).
    async fn append(&self, append: Append) -> Result<Appended, Error>;

    /// Appends the marker of a rewind: an event whose changes restore the session's own state as of `to` and that names `to`; they
    /// hold the keys whose values differ, and no others. The same marker id with the same fingerprint is a replay. The answer holds the marker and the merged state.
    ///
    /// Errors: [`Error::SessionNotFound`], [`Error::BeyondLastSequence`], [`Error::Conflict`], [`Error::EventIdReused`].
    async fn rewind_session(&self, rewind: RewindSession) -> Result<Appended, Error>;

    /// Changes the state of an application or a user (and of the user's application) outside of any session. A scope that ends
    /// changed gets the next version. The precondition's `expected_sequence` is the version of the scope itself.
    ///
    /// Errors: as [`Store::append`].
    async fn update_state(&self, update: StateUpdate) -> Result<StateUpdated, Error>;

    /// Reads a session with its merged state and a page of its events, now or as of an event; as of an event the answer's
    /// `last_sequence` and `last_event_time` are that event's.
    ///
    /// Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`], [`Error::BeyondLastSequence`].
    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error>;

    /// Lists sessions of an application or of one user.
    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error>;

    /// Reads a page of a session's events. Errors: [`Error::SessionNotFound`], [`Error::BeyondLastSequence`].
    async fn list_events(&self, query: EventQuery) -> Result<(SessionInfo, EventPage), Error>;

    /// Reads what is visible from a scope, whole or some keys of it. An application or a user that was never written to is empty,
    /// with version 0. Errors: [`Error::SessionNotFound`].
    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error>;

    /// Lists how a key came to its value, newest first. Errors: [`Error::SessionNotFound`].
    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error>;

    /// Reads what happened in a scope after a position: first events of the session; then, once no event is left at this point of
    /// time, changes of the wider scopes that are still the newest of their keys and were not made by this session's own events
    /// (for a user and an application: by anybody).
    ///
    /// Errors: [`Error::SessionNotFound`] where the session, or the incarnation of the position, is gone.
    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error>;

    /// Deletes sessions that have expired, and the remains of deleted ones, a bounded piece at a time. Whether more is left to do.
    async fn sweep(&self, now: Time) -> Result<bool, Error>;

    /// Finishes what was accepted, and closes. Later calls answer [`Error::Draining`].
    async fn close(&self);
}
