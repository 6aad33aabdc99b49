//! Writes: lanes take requests in groups, lock and load what their decisions need, and apply what they change.

mod apply;
mod changed;
pub(super) mod disk;
mod emptied;
mod fill;
mod lane;
pub(super) mod lanes;
mod load;
mod needed;
mod new_snapshots;
mod pieces;
mod rare;
mod routes;
mod sessions;
mod stored;
pub(super) mod writer;
