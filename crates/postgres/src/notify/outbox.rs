//! What this replica's commits changed and other replicas have not heard of.

use std::{
    collections::HashSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tokio::sync::Notify;

use sessiond_core::{commit::ChangeSet, domain::token::Digest};

/// Scopes that wait to be announced. Beyond, replicas are told that something is missing.
const OUTBOX: usize = 100_000;

/// The scopes that commits of this replica changed and that are not announced yet.
#[derive(Default)]
pub(in super::super) struct Outbox {
    scopes: Mutex<HashSet<Digest>>,
    has_lost: AtomicBool,
    has_ended: AtomicBool,
    filled: Notify,
}

impl Outbox {
    pub(in super::super) fn put(&self, changes: &ChangeSet) {
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        if scopes.len() < OUTBOX {
            scopes.extend(changes.watched().map(|scope| Digest::of_scope(&scope)));
        } else {
            self.lost();
        }
        drop(scopes);
        self.filled.notify_one();
    }

    /// Some scopes will not be announced.
    pub(super) fn lost(&self) {
        self.has_lost.store(true, Relaxed);
    }

    /// Whether scopes were not announced since this was asked.
    pub(super) fn take_lost(&self) -> bool {
        self.has_lost.swap(false, Relaxed)
    }

    /// Nothing is put any more.
    pub(in super::super) fn end(&self) {
        self.has_ended.store(true, Relaxed);
        self.filled.notify_one();
    }

    /// Waits until something is there, or nothing will be. Tells which.
    pub(super) async fn take(&self) -> (Vec<Digest>, bool) {
        loop {
            let has_ended = self.has_ended.load(Relaxed);
            let scopes =
                std::mem::take(&mut *self.scopes.lock().unwrap_or_else(PoisonError::into_inner));
            if has_ended || !scopes.is_empty() {
                return (scopes.into_iter().collect(), has_ended);
            }
            self.filled.notified().await;
        }
    }
}
