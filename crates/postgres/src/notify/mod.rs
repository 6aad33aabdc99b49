//! Waking the watchers of other replicas.

pub(super) mod heard;
pub(super) mod outbox;
pub(super) mod replicas;
