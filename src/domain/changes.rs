//! Changes of state: what keys become, and how that is stored.

use super::{
    json::{Json, ObjectWriter, text_bytes},
    scope::StateKey,
};

/// The new value of a key; `None`: it is removed.
pub type KeyResult = (StateKey, Option<Json>);

/// Bytes of keys and of what they became, as [`Delta::bytes`](super::delta::Delta::bytes) counts them.
pub fn results_bytes(results: &[KeyResult]) -> usize {
    let bytes =
        |(key, value): &KeyResult| text_bytes(key.as_str()) + value.as_ref().map_or(0, Json::len);
    results.iter().map(bytes).sum()
}

/// Writes what keys became as it is kept and answered: full keys, in the order given.
pub fn changes<'r>(results: impl Iterator<Item = &'r KeyResult>) -> Changes {
    let mut remove = Vec::new();
    let mut set: Option<ObjectWriter> = None;
    for (key, value) in results {
        match value {
            None => remove.push(key.clone()),
            Some(value) => set
                .get_or_insert_with(|| {
                    ObjectWriter::with_capacity(key.as_str().len() + value.len() + 6)
                })
                .member("", key.as_str(), value.as_str()),
        }
    }
    Changes { set: set.map(ObjectWriter::finish), remove }
}

/// The changes of a commit: a delta after its operations were evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// One JSON object of full keys and their new values; `None` if nothing was set.
    pub set: Option<Json>,
    pub remove: Vec<StateKey>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.remove.is_empty()
    }

    /// Bytes of its keys and values, counted as in its delta.
    pub fn bytes(&self) -> usize {
        let removed: usize = self.remove.iter().map(|key| text_bytes(key.as_str())).sum();
        let set = self.set.as_ref().map(Json::members).unwrap_or_default();
        removed + set.iter().map(|(key, value)| text_bytes(key) + value.len()).sum::<usize>()
    }

    pub fn text_len(&self) -> usize {
        let removed: usize = self.remove.iter().map(|key| key.as_str().len()).sum();
        self.set.as_ref().map_or(0, Json::len) + removed
    }
}
