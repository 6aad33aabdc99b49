//! How a commit wakes those who wait: by position, never by payload.
//!
//! A watcher subscribes to a scope, reads from the store until nothing is left, and then waits until the scope's version moves. A
//! slow watcher costs one number, and nothing can be lost between reading and waiting, since subscribing comes first.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::watch;

use crate::domain::{Version, scope::Scope};

/// The newest version of every scope that somebody waits for.
#[derive(Debug, Default)]
pub struct Tails {
    scopes: Mutex<Watched>,
    /// How many scopes are in the map, so that a commit that nobody waits for takes no lock.
    watched: AtomicUsize,
}

#[derive(Debug, Default)]
struct Watched {
    senders: HashMap<Scope, watch::Sender<Version>>,
    /// Size at which those that nobody waits for any more are dropped next: twice what was left the last time, so that a
    /// subscription costs the same however many there are.
    sweep_at: usize,
}

/// What a watcher of a session that was deleted sees.
pub const GONE: Version = Version::MAX;

impl Tails {
    /// Waits on a scope from now on. Holds the scope's version as of its last change since somebody waits for it, 0 before that.
    pub fn subscribe(&self, scope: &Scope) -> watch::Receiver<Version> {
        let mut watched = self.lock();
        if let Some(sender) = watched.senders.get(scope) {
            return sender.subscribe();
        }
        if watched.senders.len() >= watched.sweep_at {
            watched.senders.retain(|_, sender| sender.receiver_count() > 0);
            watched.sweep_at = (watched.senders.len() * 2).max(64);
        }
        let (sender, receiver) = watch::channel(0);
        watched.senders.insert(scope.clone(), sender);
        self.watched.store(watched.senders.len(), Ordering::SeqCst);
        receiver
    }

    /// Tells that a scope has this version now. Only for changes that are committed.
    pub fn advance(&self, scope: &Scope, version: Version) {
        if self.watched.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(sender) = self.lock().senders.get(scope) {
            sender.send_replace(version);
        }
    }

    /// Whether anybody waits for anything, so that a store can spare itself the making of scopes.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst) > 0
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::AppName;

    fn scope(name: &str) -> Scope {
        Scope::Application(AppName::new(name).unwrap())
    }

    #[test]
    fn a_subscriber_sees_that_its_scope_moved_and_no_other() {
        let tails = Tails::default();
        let mut a = tails.subscribe(&scope("a"));
        let b = tails.subscribe(&scope("b"));
        tails.advance(&scope("a"), 3);
        assert!(a.has_changed().unwrap());
        assert_eq!(*a.borrow_and_update(), 3);
        assert!(!b.has_changed().unwrap());
    }

    #[test]
    fn scopes_that_nobody_waits_for_are_forgotten() {
        let tails = Tails::default();
        let kept = tails.subscribe(&scope("kept"));
        for at in 0..1000 {
            drop(tails.subscribe(&scope(&at.to_string())));
        }
        assert!(tails.lock().senders.len() <= 65);
        tails.advance(&scope("kept"), 1);
        assert!(kept.has_changed().unwrap());
    }
}
