//! Session files as the agent kits write them, with one member of our own.
//!
//! ```text
//! { "id": …, "app_name": …, "user_id": …, "state": {…}, "last_update_time": …,
//!   "events": [ {…}, … ],
//!   "sessiond": { … } }
//! ```
//!
//! An entry of `events` is an event's body with its state delta put where the kits keep it,
//! `actions.state_delta` (or `stateDelta`); id, author, invocation, branch and time are members
//! beside the rest. A file of a kit is read by these names alone. What they cannot say stands in
//! `sessiond` (see [`Extra`]), which `export` writes: with it the same events come back, byte
//! for byte. Events that a rewind has hidden are not in `events`, because a kit would show them.

mod entry;
mod extra;
mod file;
mod stamp;

pub use entry::{Entry, pairs, put_together};
pub use extra::{Extra, FORMAT, ForkNote, Head, Hidden, Rewind};
pub use file::{SessionFile, Step};
pub use stamp::write as write_stamp;
