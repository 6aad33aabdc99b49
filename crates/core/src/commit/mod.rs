//! The semantics of every write, decided once for all stores, as pure functions.
//!
//! ```text
//! requests ──> needs ──load──> Loaded ──decide──> ChangeSet + answers ──apply──> rows
//! ```
//!
//! A store executes a group of [requests](Request) in one transaction: it loads what their [needs] name into a [`Loaded`],
//! [decides](decide) one request after the other, and applies the [`ChangeSet`] that they leave. A request that is refused changes
//! neither the `Loaded` nor the `ChangeSet`. Nothing here waits, reads a clock, or knows a database.

mod append;
mod changes;
mod fork;
mod loaded;
mod needs;
mod overlay;
mod request;
mod session;

use crate::domain::prelude::*;
pub use changes::{
    ChangeSet, CopiedEvents, EventRow, KeyRow, RequestRow, ScopeChange, ScopeKey, ScopeLogRow,
    SessionRow, Source,
};
pub use fork::FORK_LEASE_SECS;
pub use loaded::{
    Emptied, KEY_BYTES, Loaded, PastState, SWEPT_SESSIONS, ScopeState, SessionState, entry_bytes,
};
pub use needs::{Address, Mode, Needs, needs};
use overlay::Transaction;
pub use request::{
    Answer, Append, Appended, AppendedEvent, CreateSession, Created, DeleteSession, Fork,
    ForkSession, OnExisting, Refusal, Request, RequestKey, RewindSession, SessionUpdate,
    StateUpdate, StateUpdated,
};

/// Decides one request on top of what was loaded and of what the requests before it changed. The answer may be sent once the changes
/// are committed, if there are any. New events keep the `trace_id`.
pub fn decide(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    request: &Request,
    trace_id: Option<TraceId>,
) -> Result<Answer, Refusal> {
    let tx = &mut Transaction { loaded, changes, trace_id };
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
