//! Waking the watchers of other replicas.

pub(super) mod outbox;
pub(super) mod replicas;
