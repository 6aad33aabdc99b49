//! Persistence: the contract of every store, and group commit.
//!
//! [`Store`] is a contract from which another backend can be written. Writes are [requests](sessiond_core::commit::Request) that
//! [`commit`](sessiond_core::commit) decides for all stores alike; [`group`] executes them in groups.

pub mod account;
mod clock;
mod condition;
mod context;
mod crash;
pub mod figures;
pub mod files;
mod gate;
pub mod group;
pub mod layout;
pub mod memory;
mod notifier;
pub mod past;
pub mod pem;
pub mod place;
pub mod queue;
pub mod rows;
pub mod spans;
#[cfg(any(test, feature = "testing"))]
pub mod tests;
mod turns;
pub mod typed;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

pub use clock::{Clock, SystemClock, instant};
pub use condition::Condition;
pub use context::{CallId, RequestContext, Work};
pub use crash::{Crash, CrashPoint};
pub use gate::{EndInvocation, Gate, LimitOptions, WatchPermit, read_as, reading};
pub use notifier::{Notifier, Subscription};
pub use sessiond_core::commit::{
    Append, Appended, AppendedEvent, CreateSession, Created, DeleteSession, ForkSession,
    OnExisting, RequestKey, RewindSession, SessionUpdate, StateUpdate, StateUpdated,
};
pub use sessiond_core::read::{
    ApplicationsQuery, Bases, EventsQuery, EventsView, KeyChange, KeyChangePage, KeyChangeQuery,
    NamePage, ScopeChange, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, UsersQuery, WatchPage, WatchQuery,
};
use sessiond_core::{
    commit::{Answer, Request},
    domain::{
        error::Error,
        id::{AppName, UserId},
        token::StoreId,
    },
};
pub use turns::{CallerId, Turns};

/// Keeps sessions, their logs, and the state of applications, users and sessions.
///
/// # What holds for every method
///
/// * **Atomic.** A write happens whole or not at all, in all scopes, and an error means not at all, except for
///   [`Error::OutcomeUnknown`]. A read sees one point in time, whatever it returns.
/// * **Ordered.** Writes to one scope take effect one after the other, those of one caller in the order in which their futures were first
///   polled; callers take turns. A session's events are numbered in the order in which they take effect, without gaps. On PostgreSQL that
///   holds for one replica, and for writes that are polled while others are in flight it holds for those of a user, and for those of a bare
///   session id; different users' changes of an application may overtake each other.
/// * **Durable.** A write that has returned survives a crash of the process and of the machine, if the store outlives its process.
/// * **Announced.** After a commit and before the write returns, the store wakes the [`Notifier`] of every scope that it changed, also
///   if the caller has gone.
/// * **Cancellation.** Dropping a write's future neither undoes the write nor harms others; it may or may not take effect. Dropping a
///   read's future is always harmless.
/// * **Deadlines.** A write whose deadline has passed before it is decided is [`Error::ExpiredInQueue`] and not applied.
/// * **Time** is that of the store's [`Clock`]. A session whose `expire_time` has come is treated as deleted: not found, not listed, its
///   address free.
/// * **Errors** of a write are those of its decision; [`Error::StoreUnavailable`], [`Error::OutcomeUnknown`], [`Error::Overloaded`],
///   [`Error::DiskFull`], [`Error::FileLost`], [`Error::Damaged`], [`Error::Draining`] and [`Error::Internal`] can come from everywhere.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Identity of this store's data, made when it was created: part of every cursor.
    fn id(&self) -> StoreId;

    /// The notifier that watchers subscribe to.
    fn notifier(&self) -> &Notifier;

    /// The time of its commits, by which sessions expire.
    fn clock(&self) -> Arc<dyn Clock>;

    /// What the store can do, now and at every change.
    fn condition(&self) -> watch::Receiver<Condition>;

    /// Decides a request and commits what it changes. The answer is of the request's kind.
    async fn commit(&self, context: &RequestContext, request: Request) -> Result<Answer, Error>;

    /// Reads that it executes at the same time: the others wait for their turns before. `None`: a read does not wait, or waits in the
    /// store, in turns between [callers](reading).
    fn concurrent_reads(&self) -> Option<usize>;

    /// Reads a session with its merged state and a page of its events, now or as of an event; as of an event the answer's
    /// `last_sequence` and `last_event_time` are that event's.
    ///
    /// Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`], [`Error::BeyondLastSequence`].
    async fn read_session(&self, query: SessionQuery) -> Result<SessionView, Error>;

    /// Reads events of a session by their ids and sequences. Errors: [`Error::SessionNotFound`].
    async fn read_events(&self, query: EventsQuery) -> Result<EventsView, Error>;

    /// Lists sessions of an application or of one user. A page of this and of other lists may be short or even empty and have a rest: it
    /// ends when it has looked at [`PAGE_SCANNED`](sessiond_core::domain::limits::PAGE_SCANNED) rows.
    async fn list_sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error>;

    /// Lists the applications that have a session, or state of their own or of one of their users.
    async fn list_applications(&self, query: ApplicationsQuery)
    -> Result<NamePage<AppName>, Error>;

    /// Lists the users of an application that have a session or state.
    async fn list_users(&self, query: UsersQuery) -> Result<NamePage<UserId>, Error>;

    /// Reads what is visible from a scope, whole or some keys of it. An application or a user that was never written to is empty,
    /// with version 0. Errors: [`Error::SessionNotFound`].
    async fn read_state(&self, query: StateQuery) -> Result<StateView, Error>;

    /// Lists how a key came to its value, newest first. Errors: [`Error::SessionNotFound`].
    async fn list_key_changes(&self, query: KeyChangeQuery) -> Result<KeyChangePage, Error>;

    /// Reads what happened in a scope after a position: first events of the session; then, once no event is left at this point in
    /// time, changes of the shared scopes that are still the newest of their keys and were not made by this session's own events
    /// (of a user or an application: by any caller).
    ///
    /// Errors: [`Error::SessionNotFound`] if the session, or the incarnation of the position, is gone.
    async fn read_changes(&self, query: WatchQuery) -> Result<WatchPage, Error>;

    /// Completes what was accepted, and closes. Later calls answer [`Error::Draining`].
    async fn close(&self);
}
