//! The model: ids, scopes, deltas, events, sessions and the rules that bind them.
//!
//! Everything here is pure. Nothing waits, reads a clock, draws a random number, or knows of the wire or of a database, so that
//! every store and every test folds a log by the very same rules.

pub mod delta;
pub mod error;
pub mod event;
pub mod id;
pub mod json;
pub mod limits;
pub mod page;
pub mod precondition;
pub mod scope;
pub mod session;
pub mod template;
pub mod time;
pub mod token;
pub mod visible;

/// Number of an event within its session: 1, 2, 3, … in commit order; 0 is the session as it was created.
pub type Sequence = u64;

/// Counter of a scope. For a session it is the last [`Sequence`].
pub type Version = u64;
