//! The keys of one scope: what they are now, and everything that they ever were.

use std::{collections::BTreeMap, sync::Arc};

use crate::domain::{
    Version,
    delta::KeyResult,
    json::{Json, text_bytes},
    scope::{ScopeKind, StateKey},
    session::StateEntry,
};

/// One scope's state. Keys are stored without the scope's prefix.
#[derive(Debug, Default)]
pub(super) struct Keys {
    now: BTreeMap<Arc<str>, Written>,
    /// Every change of every key, oldest first: the past is looked up here instead of being folded from the log.
    past: BTreeMap<Arc<str>, Vec<Change>>,
    /// Of what is there now: names and values.
    bytes: usize,
}

/// A value and the version that wrote it.
#[derive(Clone, Debug)]
struct Written {
    value: Arc<Json>,
    version: Version,
}

/// What a key became; `None`: it was removed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) version: Version,
    pub(super) value: Option<Arc<Json>>,
}

impl Keys {
    /// Bytes of names and values, which is what the limit of a scope counts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A key's value and the version that wrote it.
    pub(super) fn get(&self, name: &str) -> Option<(&Json, Version)> {
        self.now.get(name).map(|written| (&*written.value, written.version))
    }

    /// Writes what a key became.
    pub(super) fn put(&mut self, name: &str, value: Option<Json>, version: Version) {
        let known = self.past.get_key_value(name);
        let name = known.map_or_else(|| Arc::from(name), |(name, _)| name.clone());
        let value = value.map(Arc::new);
        let before = match &value {
            None => self.now.remove(&name),
            Some(value) => {
                self.bytes += text_bytes(&name) + value.len();
                let value = value.clone();
                self.now.insert(name.clone(), Written { value, version })
            }
        };
        self.bytes -= before.map_or(0, |before| text_bytes(&name) + before.value.len());
        let past = self.past.entry(name).or_default();
        past.push(Change { version, value });
    }

    /// Everything there is now, by name.
    pub(super) fn entries(&self, kind: ScopeKind) -> impl Iterator<Item = StateEntry> {
        self.now
            .iter()
            .map(move |(name, written)| entry(kind, name, &written.value, written.version))
    }

    /// Everything there was at a version, by name.
    pub(super) fn entries_as_of(
        &self,
        kind: ScopeKind,
        version: Version,
    ) -> impl Iterator<Item = StateEntry> {
        self.past.iter().filter_map(move |(name, past)| {
            let change = &past[..seen(past, version)].last()?;
            Some(entry(kind, name, change.value.as_ref()?, change.version))
        })
    }

    /// How a key came to what it is, oldest first.
    pub(super) fn changes(&self, name: &str) -> &[Change] {
        self.past.get(name).map_or(&[], Vec::as_slice)
    }

    /// What keys have to become to be again what they were at a version: those that differ, by name.
    pub(super) fn way_back(&self, version: Version) -> Vec<KeyResult> {
        let differing = self.past.iter().filter_map(|(name, past)| {
            let then = past[..seen(past, version)].last();
            let then = then.and_then(|change| change.value.as_deref());
            let now = self.get(name).map(|(value, _)| value);
            let key = StateKey::in_scope(ScopeKind::Session, name);
            (then != now).then(|| (key, then.cloned()))
        });
        differing.collect()
    }

    /// A copy that ends at a version; values are shared.
    pub(super) fn up_to(&self, version: Version) -> Self {
        let mut copy = Self::default();
        for (name, past) in &self.past {
            let past = &past[..seen(past, version)];
            let Some(last) = past.last() else { continue };
            if let Some(value) = &last.value {
                copy.bytes += text_bytes(name) + value.len();
                let value = value.clone();
                let version = last.version;
                copy.now.insert(name.clone(), Written { value, version });
            }
            copy.past.insert(name.clone(), past.to_vec());
        }
        copy
    }
}

/// How many of these changes had been made at a version.
fn seen(past: &[Change], version: Version) -> usize {
    past.partition_point(|change| change.version <= version)
}

fn entry(kind: ScopeKind, name: &str, value: &Json, version: Version) -> StateEntry {
    StateEntry { key: StateKey::in_scope(kind, name), value: value.clone(), version }
}
