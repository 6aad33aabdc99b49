//! Wakes watchers after a commit. A wake carries no payload.
//!
//! A watcher subscribes to a scope, reads until nothing is left, and then waits until the scope is woken. A slow watcher costs one
//! counter, and nothing can be lost between reading and waiting, because it subscribes first.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::{commit::ChangeSet, domain::scope::Scope};

/// Wakes watchers by scope.
#[derive(Debug, Default)]
pub struct Notifier(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// Each counts how often its scope was woken.
    senders: HashMap<Scope, watch::Sender<u64>>,
    /// Size at which scopes without watchers are dropped next: twice what was left the last time, so that a subscription costs the
    /// same however many there are.
    sweep_at: usize,
}

/// Follows one scope. It turns changed with every wake.
pub type Subscription = watch::Receiver<u64>;

impl Notifier {
    pub fn subscribe(&self, scope: &Scope) -> Subscription {
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
        receiver
    }

    /// Wakes the watchers of every scope that a committed group changed.
    pub fn wake(&self, changes: &ChangeSet) {
        let watched = self.lock();
        if watched.senders.is_empty() {
            return;
        }
        let sessions = changes.sessions.values().map(|row| &row.info);
        let sessions =
            sessions.chain(&changes.removed).map(|info| Scope::Session(info.key.clone()));
        let wide = changes.scopes.keys().filter_map(|key| key.wide());
        for scope in sessions.chain(wide) {
            if let Some(sender) = watched.senders.get(&scope) {
                sender.send_modify(|wakes| *wakes += 1);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
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
        assert!(notifier.lock().senders.len() <= 65);
        notifier.wake(&change("kept"));
        assert!(kept.has_changed().unwrap());
    }
}
