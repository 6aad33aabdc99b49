//! Session files of the Agent Development Kit (ADK), and exports: the same form with one more member in the file and in its events.
//!
//! ```text
//! { "id": …, "appName": …, "userId": …, "state": {…}, "lastUpdateTime": …,
//!   "events": [ { …, "sessiond": {…} }, … ],
//!   "sessiond": { "session": {…}, "initial_state": {…}, "hidden": [ … ] } }
//! ```
//!
//! An entry of `events` is an event's body with its state delta in `actions.stateDelta`, as ADK stores it. Id, author, invocation,
//! branch and time are members beside the rest. Where that form loses something, the member `sessiond` holds the exact event, so that an
//! export is restored byte for byte. It is ignored if the entry beside it has been edited since. Events that a rewind has hidden are in
//! `sessiond` only, because ADK would show them.

mod body;
mod entry;
mod event;
mod file;
mod form;
mod halves;
pub mod lookup;
mod name;
mod object;
mod plan;
mod read;
mod same;
mod session;
pub mod time;
mod write;

pub use body::{Part, gist, parts};
pub use event::Event;
pub use file::NewFile;
pub use form::Losses;
pub use name::file_name;
pub use plan::{Plan, is_shared};
pub use read::SessionFile;
pub use same::is_same;
pub use session::{Address, Metadata, is_internal, shared_file};
pub use write::FileWriter;
