//! The model: ids, scopes, deltas, events, sessions and their rules.
//!
//! Everything here is pure: no waiting, no clock, no randomness, no wire, no database. Every store and every test applies the
//! same rules.

pub mod changes;
pub mod delta;
pub mod error;
pub mod event;
pub mod field;
pub mod id;
pub mod json;
pub mod limits;
pub mod page;
pub mod precondition;
pub mod quote;
pub mod reason;
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
