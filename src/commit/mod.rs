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
mod rewind;
mod scope_key;
mod session;
mod state;
mod sweep;

pub use changes::{
    ChangeSet, CopiedEvents, EventRow, RequestRow, ScopeChange, ScopeLogRow, SessionRow, Source,
};
pub use fork::FORK_LEASE_SECS;
pub use loaded::{
    ApplicationState, KEY_BYTES, Loaded, PastState, ScopeState, SessionState, StoredEvent,
    entry_bytes,
};
pub use needs::{Address, KeysNeeded, Mode, Needs, ScopeNeeds, needs};
pub use request::{
    Answer, Append, Appended, AppendedEvent, CopyEvents, CreateSession, Created, DeleteSession,
    FinishFork, Fork, ForkSession, OnExisting, Request, RequestKey, RewindSession, SessionUpdate,
    StateUpdate, StateUpdated,
};
pub use scope_key::ScopeKey;

use crate::domain::error::Error;

/// The outcome of a decision.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every decision is the large one")]
pub enum Decision {
    /// Its changes, if any, are in the change set. The answer may be sent once they are committed.
    Accepted(Answer),
    Refused(Error),
    /// An earlier request of the group changed what was loaded for this one: load again, with the next group.
    LoadAgain,
}

/// Decides one request on top of what was loaded and of what the requests before it changed.
pub fn decide(loaded: &mut Loaded, changes: &mut ChangeSet, request: &Request) -> Decision {
    if !loaded.covers(&needs(request)) {
        return Decision::LoadAgain;
    }
    let decided = match request {
        Request::Create(create) => session::create(loaded, changes, create).map(Answer::Created),
        Request::Update(update) => session::update(loaded, changes, update).map(Answer::Updated),
        Request::Delete(delete) => session::delete(loaded, changes, delete).map(Answer::Deleted),
        Request::Fork(fork) => fork::begin(loaded, changes, fork).map(Answer::ForkBegun),
        Request::CopyEvents(copy) => fork::copy(loaded, changes, copy).map(Answer::Copied),
        Request::FinishFork(finish) => fork::finish(loaded, changes, finish).map(Answer::Forked),
        Request::Append(append) => append::append(loaded, changes, append).map(Answer::Appended),
        Request::Rewind(rewind) => rewind::rewind(loaded, changes, rewind).map(Answer::Appended),
        Request::UpdateState(update) => {
            state::update(loaded, changes, update).map(Answer::StateUpdated)
        }
        Request::Sweep => Ok(Answer::Swept(sweep::sweep(loaded, changes))),
    };
    match decided {
        Ok(answer) => Decision::Accepted(answer),
        Err(error) => Decision::Refused(error),
    }
}
