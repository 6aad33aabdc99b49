//! Wakes watchers after a commit. A wake carries no payload.
//!
//! A watcher subscribes to a scope, reads until nothing is left, and then waits until the scope is woken. A slow watcher costs one
//! counter, and nothing can be lost between reading and waiting, because it subscribes first.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use sessiond_core::{
    commit::ChangeSet,
    domain::{scope::Scope, token::Digest},
};

/// Wakes watchers by scope.
#[derive(Debug, Default)]
pub struct Notifier(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    scopes: HashMap<Digest, WatchedScope>,
    /// Number of scopes at which those without watchers are dropped next: twice what was left the last time, so that a subscription
    /// costs the same however many there are.
    sweep_at: usize,
}

#[derive(Debug)]
struct WatchedScope {
    scope: Scope,
    /// Counts how often the scope was woken.
    wakes: watch::Sender<u64>,
}

/// Follows one scope. It turns changed with every wake.
pub type Subscription = watch::Receiver<u64>;

impl Watched {
    fn wake(&self, scopes: impl IntoIterator<Item = Digest>) {
        for digest in scopes {
            if let Some(found) = self.scopes.get(&digest) {
                found.wakes.send_modify(|wakes| *wakes += 1);
            }
        }
    }
}

impl Notifier {
    pub fn subscribe(&self, scope: &Scope) -> Subscription {
        let digest = Digest::of_scope(scope);
        let mut watched = self.lock();
        // Another scope of the same digest is woken along with it, which is harmless.
        if let Some(found) = watched.scopes.get(&digest) {
            return found.wakes.subscribe();
        }
        if watched.scopes.len() >= watched.sweep_at {
            watched.scopes.retain(|_, watched| watched.wakes.receiver_count() > 0);
            watched.sweep_at = (watched.scopes.len() * 2).max(64);
        }
        let (wakes, receiver) = watch::channel(0);
        watched.scopes.insert(digest, WatchedScope { scope: scope.clone(), wakes });
        receiver
    }

    /// Wakes the watchers of every scope that a committed group changed.
    pub fn wake(&self, changes: &ChangeSet) {
        let watched = self.lock();
        // Without watchers, which is the common case, no scope of the group needs its digest.
        if !watched.scopes.is_empty() {
            watched.wake(changes.watched().map(|scope| Digest::of_scope(&scope)));
        }
    }

    /// Wakes the watchers of scopes that somebody else changed.
    pub fn wake_all(&self, scopes: impl IntoIterator<Item = Digest>) {
        self.lock().wake(scopes);
    }

    /// The scopes that have watchers.
    pub fn watched(&self) -> Vec<Scope> {
        let watched = self.lock();
        let scopes = watched.scopes.values().filter(|it| it.wakes.receiver_count() > 0);
        scopes.map(|it| it.scope.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessiond_core::{
        commit::{ScopeChange, ScopeKey},
        domain::id::AppName,
    };

    fn app(name: &str) -> AppName {
        AppName::new(name).unwrap()
    }

    fn change(name: &str) -> ChangeSet {
        let mut changes = ChangeSet::default();
        changes.scopes.insert(ScopeKey::Application(app(name)), ScopeChange::default());
        changes
    }

    #[test]
    fn a_subscriber_is_woken_by_its_scope_and_no_other() {
        let notifier = Notifier::default();
        let mut a = notifier.subscribe(&Scope::Application(app("a")));
        let b = notifier.subscribe(&Scope::Application(app("b")));
        notifier.wake(&change("a"));
        assert!(a.has_changed().unwrap());
        a.mark_unchanged();
        notifier.wake(&change("a"));
        assert!(a.has_changed().unwrap());
        assert!(!b.has_changed().unwrap());
    }

    #[test]
    fn scopes_without_watchers_are_forgotten() {
        let notifier = Notifier::default();
        let kept = notifier.subscribe(&Scope::Application(app("kept")));
        for at in 0..1000 {
            drop(notifier.subscribe(&Scope::Application(app(&at.to_string()))));
        }
        assert!(notifier.lock().scopes.len() <= 65);
        assert_eq!(notifier.watched(), [Scope::Application(app("kept"))]);
        notifier.wake(&change("kept"));
        assert!(kept.has_changed().unwrap());
    }
}
