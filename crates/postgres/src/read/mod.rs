//! Reads: each is a snapshot on a connection of the pool, whose rows the read kernel asks for.

mod figures;
pub(super) mod pool;
pub(super) mod rows;
