//! Members by key, in order of first appearance; of a key that is there twice the last one counts.

use std::borrow::Cow;
use std::collections::HashMap;

/// An object's members.
pub(super) struct Members<'a, T> {
    entries: Vec<(Cow<'a, str>, T)>,
    positions: HashMap<Cow<'a, str>, usize>,
}

impl<T> Default for Members<'_, T> {
    fn default() -> Self {
        Members {
            entries: Vec::new(),
            positions: HashMap::new(),
        }
    }
}

impl<'a, T> Members<'a, T> {
    pub(super) fn put(&mut self, key: Cow<'a, str>, value: T) {
        match self.positions.get(&key) {
            Some(&position) => self.entries[position].1 = value,
            None => {
                self.positions.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }

    pub(super) fn position(&self, key: &str) -> Option<usize> {
        self.positions.get(key).copied()
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
