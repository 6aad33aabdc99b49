//! The semantics of every write, decided once for all stores, as pure functions.
//!
//! ```text
//! requests ──> read sets ──load──> WorkingSet ──decide──> ChangeSet + answers ──apply──> rows
//! ```
//!
//! A store executes a group of [requests](Request) in one transaction: it loads what their [read sets](read_set()) name into a
//! [`WorkingSet`], [decides](decide) one request after the other, and applies the [`ChangeSet`] that they leave. A request that is
//! refused changes neither the `WorkingSet` nor the `ChangeSet`. Nothing here waits, reads a clock, or knows a database.

mod append;
mod changes;
mod fork;
mod overlay;
mod read_set;
mod request;
mod session;
mod working_set;

use crate::domain::prelude::*;
pub use changes::{
    ChangeSet, CopiedEvents, EventRow, KeyRow, RequestRow, ScopeChange, ScopeKey, ScopeLogRow,
    SessionRow, Source,
};
pub use fork::FORK_LEASE_SECS;
use overlay::Transaction;
pub use read_set::{Address, Mode, REPLAY_BYTES, ReadSet, read_set};
pub use request::{
    Answer, Append, Appended, AppendedEvent, CreateSession, Created, DeleteSession, Fork,
    ForkSession, OnExisting, Refusal, Request, RequestKey, RewindSession, SessionUpdate,
    StateUpdate, StateUpdated,
};
pub use working_set::{
    Emptied, PastState, SWEPT_SESSIONS, ScopeState, SessionState, StoredEvent, WorkingSet,
    entry_bytes,
};

/// Decides one request on top of what was loaded and of what the requests before it changed. The answer may be sent once the changes
/// are committed, if there are any. New events keep the `trace_id`.
///
/// Adds to `work`, also if the request is refused, the bytes that it costs beyond its own: what operations and conditions read or write,
/// and the states, stored events and copies that it reads and answers.
pub fn decide(
    loaded: &mut WorkingSet,
    changes: &mut ChangeSet,
    request: &Request,
    trace_id: Option<TraceId>,
    work: &mut usize,
) -> Result<Answer, Refusal> {
    let tx = &mut Transaction { loaded, changes, trace_id, work };
    Ok(match request {
        Request::Create(create) => Answer::Created(session::create(tx, create)?),
        Request::Update(update) => Answer::Updated(session::update(tx, update)?),
        Request::Delete(delete) => Answer::Deleted(session::delete(tx, delete)?),
        Request::Fork(fork) => Answer::ForkBegun(fork::begin(tx, fork)?),
        Request::CopyEvents(fork, after) => Answer::Copied(fork::copy(tx, fork, *after)?),
        Request::FinishFork(fork) => Answer::Forked(fork::finish(tx, fork)?),
        Request::Append(append) => Answer::Appended(append::append(tx, append)?),
        Request::Rewind(rewind) => Answer::Appended(append::rewind(tx, rewind)?),
        Request::UpdateState(update) => Answer::StateUpdated(append::update_state(tx, update)?),
        Request::Sweep => Answer::Swept(session::sweep(tx)),
    })
}
