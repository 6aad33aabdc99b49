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
mod state;

pub use changes::{
    ChangeSet, CopiedEvents, EventRow, RequestRow, ScopeChange, ScopeKey, ScopeLogRow, SessionRow,
    Source,
};
pub use fork::FORK_LEASE_SECS;
pub use loaded::{
    ApplicationState, KEY_BYTES, Loaded, PastState, ScopeState, SessionState, entry_bytes,
    only_live,
};
pub use needs::{Address, Mode, Needs, needs};
pub use request::{
    Answer, Append, Appended, AppendedEvent, CopyEvents, CreateSession, Created, Fork, ForkSession,
    OnExisting, Refusal, Request, RequestKey, RewindSession, SessionUpdate, StateUpdate,
    StateUpdated,
};

/// Decides one request on top of what was loaded and of what the requests before it changed. The answer may be sent once the changes
/// are committed, if there are any.
pub fn decide(
    loaded: &mut Loaded,
    changes: &mut ChangeSet,
    request: &Request,
) -> Result<Answer, Refusal> {
    Ok(match request {
        Request::Create(create) => Answer::Created(session::create(loaded, changes, create)?),
        Request::Update(update) => Answer::Updated(session::update(loaded, changes, update)?),
        Request::Delete(key) => Answer::Deleted(session::delete(loaded, changes, key)?),
        Request::Fork(fork) => Answer::ForkBegun(fork::begin(loaded, changes, fork)?),
        Request::CopyEvents(copy) => Answer::Copied(fork::copy(loaded, changes, copy)?),
        Request::FinishFork(fork) => Answer::Forked(fork::finish(loaded, changes, fork)?),
        Request::Append(append) => Answer::Appended(append::append(loaded, changes, append)?),
        Request::Rewind(rewind) => Answer::Appended(append::rewind(loaded, changes, rewind)?),
        Request::UpdateState(update) => {
            Answer::StateUpdated(state::update(loaded, changes, update)?)
        }
        Request::Sweep => Answer::Swept(session::sweep(loaded, changes)),
    })
}
