//! Session files as the Agent Development Kit (ADK) writes them: exactly so ([`form`]), or with one member of our own.
//!
//! ```text
//! { "id": …, "app_name": …, "user_id": …, "state": {…}, "last_update_time": …,
//!   "events": [ {…}, … ],
//!   "sessiond": { … } }
//! ```
//!
//! An entry of `events` is an event's body with its state delta in `actions.state_delta` (or `stateDelta`), as ADK
//! stores it. Id, author, invocation, branch and time are members beside the rest. `sessiond` (see [`format`]) holds the
//! rest, so that an exported session is restored byte for byte. Events that a rewind has hidden
//! are there and not in `events`, because ADK would show them.

mod edit;
mod entry;
mod form;
mod format;
mod halves;
mod read;
mod write;

pub use entry::{body_of, delta, set_members, to_send};
pub use form::{Losses, entry as adk_entry};
pub use format::Metadata;
pub use read::{SHARED_STATE, SessionFile};
pub use write::{FileForm, FileWriter, state_of};
