//! The state of one scope, now and at every version.

use std::collections::{BTreeMap, HashMap};

use sessiond_core::{commit::ScopeLogRow, domain::prelude::*, read::Past};

/// One scope: every change of every key, from which its state at any version is read.
///
/// There is no second map of the state as it is now: a read looks at every key there ever was, which keeps writes simple.
#[derive(Default)]
pub struct ScopeRecord {
    pub version: Version,
    /// The version from which this life went on.
    pub base: Version,
    /// The sum of names and values.
    pub state_bytes: usize,
    /// By name, without prefix: the versions that changed it, oldest first, with its value; `None`: it was removed.
    keys: BTreeMap<Box<str>, Vec<(Version, Option<Json>)>>,
    pub requests: HashMap<RequestId, Fingerprint>,
    /// Of an application or a user, one row a version, from the one behind `base`. A session's log is its events.
    pub log: Vec<ScopeLogRow>,
}

impl ScopeRecord {
    /// Adds a change of a key behind the others.
    pub fn put(&mut self, name: &str, value: Option<Json>, version: Version) {
        match self.keys.get_mut(name) {
            Some(changes) => changes.push((version, value)),
            None => drop(self.keys.insert(name.into(), vec![(version, value)])),
        }
    }

    /// Adds the part of an event's or a request's changes that is of this kind of scope.
    pub fn put_changes(&mut self, changes: &Changes, kind: ScopeKind, version: Version) {
        for (key, value) in changes.results() {
            if key.scope() == Some(kind) {
                self.put(key.name(), value, version);
            }
        }
    }

    /// A key's value and the version that wrote it.
    pub fn get(&self, name: &str) -> Option<(&Json, Version)> {
        value_at(self.keys.get(name)?, Version::MAX)
    }

    /// Every key that had a value at a version, by name.
    pub fn entries(&self, at: Version) -> impl Iterator<Item = (&str, &Json, Version)> {
        self.keys.iter().filter_map(move |(name, changes)| {
            let (value, version) = value_at(changes, at)?;
            Some((&**name, value, version))
        })
    }

    /// Every key that was set up to a version, by name, as it was then.
    pub fn past(&self, at: Version) -> Past {
        let last = self.keys.iter().filter_map(|(name, changes)| {
            let (version, value) = last_up_to(changes, at)?;
            Some((name.clone(), (value.clone(), *version)))
        });
        last.collect()
    }

    /// The version that changed or removed a key last.
    pub fn newest(&self, name: &str) -> Option<Version> {
        Some(self.keys.get(name)?.last()?.0)
    }

    /// The row of a version of an application or a user.
    pub fn row(&self, version: Version) -> Option<&ScopeLogRow> {
        self.log.get(usize::try_from(version.checked_sub(self.base + 1)?).ok()?)
    }
}

fn value_at(changes: &[(Version, Option<Json>)], at: Version) -> Option<(&Json, Version)> {
    let (version, value) = last_up_to(changes, at)?;
    Some((value.as_ref()?, *version))
}

fn last_up_to(
    changes: &[(Version, Option<Json>)],
    at: Version,
) -> Option<&(Version, Option<Json>)> {
    changes[..changes.partition_point(|(version, _)| *version <= at)].last()
}
