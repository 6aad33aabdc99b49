//! Members by key, in order of first appearance; of a key that is there twice the last one counts.

use std::borrow::Cow;
use std::collections::HashMap;

/// Up to so many members looking at each key is faster than hashing, and most objects have fewer.
const SEARCHED: usize = 8;

/// An object's members.
pub(super) struct Members<'a, T> {
    entries: Vec<(Cow<'a, str>, T)>,
    /// Where each key is; empty as long as there are at most [`SEARCHED`].
    positions: HashMap<Cow<'a, str>, usize>,
}

impl<T> Default for Members<'_, T> {
    fn default() -> Self {
        Members { entries: Vec::new(), positions: HashMap::new() }
    }
}

impl<'a, T> Members<'a, T> {
    pub(super) fn put(&mut self, key: Cow<'a, str>, value: T) {
        if let Some(position) = self.position(&key) {
            self.entries[position].1 = value;
            return;
        }
        self.entries.push((key, value));
        if self.entries.len() > SEARCHED {
            for position in self.positions.len()..self.entries.len() {
                let key = self.entries[position].0.clone();
                self.positions.insert(key, position);
            }
        }
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        if self.entries.len() > SEARCHED {
            self.positions.get(key).copied()
        } else {
            self.entries.iter().position(|(other, _)| other == key)
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&T> {
        self.position(key).map(|position| &self.entries[position].1)
    }

    pub(super) fn entries(&self) -> &[(Cow<'a, str>, T)] {
        &self.entries
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (Cow<'a, str>, T)> {
        self.entries.into_iter()
    }
}
