//! The state of one scope, now and at every version.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    commit::{KeysNeeded, ScopeState, Source},
    domain::{
        Version,
        event::{Changes, Fingerprint},
        id::{Author, RequestId},
        json::Json,
        scope::{ScopeKind, StateKey},
        time::Time,
    },
};

/// One scope: every change of every key, from which its state at any version is read.
///
/// There is no second map of the state as it is now: a read looks at every key there ever was, which keeps writes simple.
#[derive(Default)]
pub(super) struct ScopeRecord {
    pub(super) version: Version,
    /// The sum of names and values.
    pub(super) state_bytes: usize,
    /// By name, without prefix. Oldest change first, at least one.
    keys: BTreeMap<Arc<str>, Vec<KeyVersion>>,
    pub(super) requests: HashMap<RequestId, Fingerprint>,
    /// Of an application or a user, what made each version, from 1. A session's log is its events.
    pub(super) log: Vec<LogRow>,
}

/// The new value of a key; `None`: it was removed.
#[derive(Clone)]
pub(super) struct KeyVersion {
    pub(super) version: Version,
    /// Shared with the forks of a session.
    pub(super) value: Option<Arc<Json>>,
}

/// A change of an application or a user.
pub(super) struct LogRow {
    pub(super) keys: Vec<StateKey>,
    pub(super) commit_time: Time,
    /// Empty for a creation.
    pub(super) author: Author,
    pub(super) source: Option<Source>,
}

impl ScopeRecord {
    /// Adds a change of a key behind the others.
    pub(super) fn put(&mut self, name: &str, value: Option<Json>, version: Version) {
        let change = KeyVersion { version, value: value.map(Arc::new) };
        match self.keys.get_mut(name) {
            Some(changes) => changes.push(change),
            None => drop(self.keys.insert(name.into(), vec![change])),
        }
    }

    /// Adds the part of an event's or a request's changes that is of this kind of scope. Returns its keys.
    pub(super) fn put_changes(
        &mut self,
        changes: &Changes,
        kind: ScopeKind,
        version: Version,
    ) -> Vec<StateKey> {
        let set = changes.set.as_ref().map(Json::members).unwrap_or_default();
        let set = set.into_iter().map(|(key, value)| (StateKey::from_stored(key), Some(value)));
        let removed = changes.remove.iter().map(|key| (key.clone(), None));
        let mut keys = Vec::new();
        for (key, value) in set.chain(removed).filter(|(key, _)| key.scope() == Some(kind)) {
            self.put(key.name(), value, version);
            keys.push(key);
        }
        keys
    }

    /// A key's value and the version that wrote it.
    pub(super) fn get(&self, name: &str) -> Option<(&Json, Version)> {
        value_at(self.changes(name), Version::MAX)
    }

    /// Every key that had a value at a version, by name.
    pub(super) fn entries(&self, at: Version) -> impl Iterator<Item = (&str, &Json, Version)> {
        self.keys.iter().filter_map(move |(name, changes)| {
            let (value, version) = value_at(changes, at)?;
            Some((&**name, value, version))
        })
    }

    /// The changes of a key, oldest first.
    pub(super) fn changes(&self, name: &str) -> &[KeyVersion] {
        self.keys.get(name).map_or(&[], Vec::as_slice)
    }

    /// The source of a version of an application or a user.
    pub(super) fn row(&self, version: Version) -> Option<&LogRow> {
        self.log.get(usize::try_from(version.checked_sub(1)?).ok()?)
    }

    /// Copies the keys that a decision needs. A decision that answers with state needs all of them.
    pub(super) fn load(&self, needed: &KeysNeeded<'_>, into: &mut ScopeState) {
        (into.version, into.state_bytes) = (self.version, self.state_bytes);
        match needed {
            KeysNeeded::All => {
                for (name, value, version) in self.entries(Version::MAX) {
                    into.put(name, Some((value.clone(), version)));
                }
                into.complete = true;
            }
            KeysNeeded::Some(keys) => {
                for key in keys {
                    let value = self.get(key.name());
                    into.put(key.name(), value.map(|(value, version)| (value.clone(), version)));
                }
            }
        }
    }

    /// Takes over the changes that `wanted` accepts. They are newer than those that are here.
    pub(super) fn copy_changes(&mut self, from: &Self, wanted: impl Fn(Version) -> bool) {
        for (name, changes) in &from.keys {
            let changes = changes.iter().filter(|change| wanted(change.version));
            let mut changes = changes.cloned().peekable();
            if changes.peek().is_some() {
                self.keys.entry(Arc::clone(name)).or_default().extend(changes);
            }
        }
    }
}

fn value_at(changes: &[KeyVersion], at: Version) -> Option<(&Json, Version)> {
    let seen = changes.partition_point(|change| change.version <= at);
    let change = changes[..seen].last()?;
    Some((change.value.as_deref()?, change.version))
}
