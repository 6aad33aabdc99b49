//! The semantics of every read, decided once for all stores, over the [rows](Rows) of one snapshot.
//!
//! ```text
//! query ──> Read::read ──asks──> Rows ──rows──> answer
//! ```
//!
//! A store opens a snapshot and hands its rows to [`Read::read`]; it has SQL and rows, and no semantics. Nothing here reads a clock or
//! knows a database, and the futures run on any executor: those of a store whose rows never wait are [ready](finish) at once.

pub mod bare;
mod batch;
mod changes;
mod events;
mod history;
mod lists;
mod log;
mod names;
mod past;
mod query;
mod rows;
mod scan;
mod session;
#[cfg(test)]
mod tests;

use futures_util::FutureExt as _;

pub use lists::{ListKey, compare, list_key};
pub use log::{
    PIECE_BYTES, PIECE_ROWS, event_heads, first_of, is_of, runs, until_damage, until_missing,
};
pub use names::behind_all;
pub use past::{Past, fold, past};
pub use query::Budget;
pub use query::{
    ApplicationsQuery, Bases, EventsQuery, EventsView, KeyChange, KeyChangePage, KeyChangeQuery,
    NamePage, ScopeChange, SessionOrder, SessionPage, SessionQuery, SessionView, SessionsQuery,
    StateQuery, StateView, UsersQuery, WatchPage, WatchQuery,
};
pub use rows::{EventHead, Node, Rows, ScopeHead, SessionRecord};

use crate::domain::error::Error;

/// A read of one snapshot. It looks at a bounded number of rows: its page ends there, and says how it goes on.
#[expect(
    async_fn_in_trait,
    reason = "a store whose rows never wait polls on the thread of its connection"
)]
pub trait Read {
    type Answer;

    async fn read<R: Rows>(&self, rows: &R) -> Result<Self::Answer, Error>;
}

/// The result of a read over rows that never wait.
pub fn finish<T>(read: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    read.now_or_never().unwrap_or_else(|| Err(Error::internal("a read of rows at hand waited")))
}
