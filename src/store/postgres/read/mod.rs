//! Reads: each is a snapshot on a connection of the pool.

mod changes;
mod events;
mod figures;
pub(super) mod lists;
pub(super) mod names;
pub(super) mod pool;
pub(super) mod reads;
mod session;
mod state;
