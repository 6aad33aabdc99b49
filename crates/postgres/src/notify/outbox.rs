//! What this replica's commits changed and other replicas have not heard of.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use tokio::sync::Notify;

use sessiond_core::{commit::ChangeSet, domain::token::Digest};

/// Scopes that wait to be announced. What is beyond is found by the look at versions.
const OUTBOX: usize = 100_000;

/// The scopes that commits of this replica changed and that are not announced yet.
#[derive(Default)]
pub(in super::super) struct Outbox {
    scopes: Mutex<HashSet<Digest>>,
    filled: Notify,
}

impl Outbox {
    pub(in super::super) fn put(&self, changes: &ChangeSet) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if scopes.len() < OUTBOX {
            scopes.extend(changes.watched().map(|scope| Digest::of_scope(&scope)));
        }
        drop(scopes);
        self.filled.notify_one();
    }

    /// Waits until something is there.
    pub(super) async fn take(&self) -> Vec<Digest> {
        loop {
            let scopes =
                std::mem::take(&mut *self.scopes.lock().unwrap_or_else(PoisonError::into_inner));
            if !scopes.is_empty() {
                return scopes.into_iter().collect();
            }
            self.filled.notified().await;
        }
    }
}
