//! Deltas: what a caller wants changed, and what each key becomes.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3Default;

use super::{
    error::{Error, Reason, Violation},
    event::Changes,
    json::{
        Amount, Json, JsonType, ObjectWriter, OperationFault, fingerprint, increment, list_append,
        merge_patch, same_tokens, text_bytes,
    },
    limits::{DELTA_BYTES, OPERATION_BYTES, VALUE_BYTES},
    scope::{Prefix, ScopeKind, StateKey},
};

/// One read-modify-write, evaluated inside the commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Add to a number.
    Increment(Amount),
    /// Add to the end of a list and keep its newest `max_length` items; 0: all.
    ListAppend {
        /// One JSON array.
        values: Json,
        /// Items kept.
        max_length: usize,
    },
    /// Set only where there is no value.
    SetIfAbsent(Json),
    /// RFC 7396, with one JSON object.
    MergePatch(Json),
}

/// Changes of state as they are asked for: `set`, then `remove`, then `operations` one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// New values; each key once.
    pub set: Vec<(StateKey, Json)>,
    /// Keys to remove.
    pub remove: Vec<StateKey>,
    /// Changes that depend on the current value.
    pub operations: Vec<(StateKey, Operation)>,
}

/// What one key becomes; `None`: it is removed.
pub type KeyResult = (StateKey, Option<Json>);

impl Delta {
    /// Every key that is named, in the order of evaluation; a key may come more than once.
    pub fn keys(&self) -> impl Iterator<Item = &StateKey> {
        let set = self.set.iter().map(|(key, _)| key);
        set.chain(&self.remove).chain(self.operations.iter().map(|(key, _)| key))
    }

    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.operations.is_empty()
    }

    /// Bytes of its keys, values and operands. Keys count as they are written in JSON, where an odd letter takes up to six bytes, so
    /// that an event that was accepted can always be answered.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys().map(|key| text_bytes(key.as_str())).sum();
        let values: usize = self.set.iter().map(|(_, value)| value.len()).sum();
        let operands: usize = self.operations.iter().map(|(_, operation)| operation.bytes()).sum();
        keys + values + operands
    }

    /// Moves the `temp:` keys into a delta of their own.
    pub fn split_temp(self) -> (Delta, Delta) {
        let is_temp = |key: &StateKey| key.prefix() == Prefix::Temp;
        let (temp_set, set) = self.set.into_iter().partition(|(key, _)| is_temp(key));
        let (temp_remove, remove) = self.remove.into_iter().partition(is_temp);
        let (temp_operations, operations) =
            self.operations.into_iter().partition(|(key, _)| is_temp(key));
        (
            Delta { set, remove, operations },
            Delta { set: temp_set, remove: temp_remove, operations: temp_operations },
        )
    }

    /// Of what was asked, whatever the form of its JSON and the order of `set`.
    pub fn fingerprint(&self) -> u128 {
        let keyed = |tag: u8, key: &StateKey, operand: u128| {
            let mut hash = Xxh3Default::new();
            hash.update(&[tag]);
            hash.update(key.as_str().as_bytes());
            hash.update(&operand.to_le_bytes());
            hash.digest128()
        };
        // The members of `set` have no order of their own, so theirs are added; the others' order counts.
        let set = self
            .set
            .iter()
            .fold(0u128, |sum, (key, value)| sum.wrapping_add(keyed(1, key, fingerprint(value))));
        let mut hash = Xxh3Default::new();
        hash.update(&set.to_le_bytes());
        for key in &self.remove {
            hash.update(&keyed(2, key, 0).to_le_bytes());
        }
        for (key, operation) in &self.operations {
            let (tag, operand) = match operation {
                Operation::Increment(Amount::Whole(by)) => (3, u128::from(by.cast_unsigned())),
                Operation::Increment(Amount::Fraction(by)) => (4, u128::from(by.to_bits())),
                Operation::ListAppend { values, max_length } => {
                    (5, fingerprint(values).wrapping_add(*max_length as u128))
                }
                Operation::SetIfAbsent(value) => (6, fingerprint(value)),
                Operation::MergePatch(patch) => (7, fingerprint(patch)),
            };
            hash.update(&keyed(tag, key, operand).to_le_bytes());
        }
        hash.digest128()
    }

    /// Works out what each key becomes, given what it is. Every fault of the delta is reported, not only the first.
    ///
    /// `current` is asked at most once a key. `path` leads to this delta in the request and begins the fields of violations. A key
    /// that ends as it was without ever having been set (removed where it was not, a default that was not needed, a sum with
    /// nothing) is not in the result; a key that was set is, also to an equal value.
    pub fn resolve(
        self,
        path: &str,
        mut current: impl FnMut(&StateKey) -> Result<Option<Json>, Error>,
    ) -> Result<Vec<KeyResult>, Error> {
        if self.remove.is_empty() && self.operations.is_empty() {
            // What most events do: nothing depends on what is there, and the size was checked on the way in.
            return Ok(self.set.into_iter().map(|(key, value)| (key, Some(value))).collect());
        }
        let mut keys = Touched::default();
        for (key, value) in &self.set {
            keys.put(key, Some(value.clone()));
        }
        for key in &self.remove {
            keys.remove(key, &mut current)?;
        }
        let mut violations = Vec::new();
        let mut written = 0;
        for (at, (key, operation)) in self.operations.iter().enumerate() {
            if written > OPERATION_BYTES {
                violations.push(too_much_work(path));
                break;
            }
            let before = keys.value(key, &mut current)?;
            let after = operation.apply(before);
            let same = matches!((before, &after), (Some(before), Ok(Some(after))) if same_tokens(before, after));
            match after {
                Ok(None) => {}
                // Nothing comes of it, but the work was done.
                Ok(Some(value)) if same => written += value.len(),
                Ok(Some(value)) if value.len() > VALUE_BYTES => {
                    written += value.len();
                    violations.push(value_too_large(path, at, key, value.len()));
                }
                Ok(Some(value)) => {
                    written += value.len();
                    keys.put(key, Some(value));
                }
                Err(OperationFault::TypeMismatch { found }) => {
                    let wanted = operation.wants();
                    return Err(Error::TypeMismatch { key: key.clone(), wanted, found });
                }
                Err(OperationFault::NumberOverflow) => violations.push(
                    Violation::new(
                        format!("{path}.operations[{at}]"),
                        Reason::NumberOverflow,
                        format!(
                            "The sum for key '{}' leaves the range of its numbers; use a smaller amount, or reset the key.",
                            super::error::quoted(key.as_str())
                        ),
                    )
                    .with("key", key),
                ),
                Err(OperationFault::TooDeep) => violations.push(
                    Violation::new(
                        format!("{path}.operations[{at}]"),
                        Reason::BadJson,
                        format!(
                            "The result for key '{}' nests deeper than 100 levels; make it flatter.",
                            super::error::quoted(key.as_str())
                        ),
                    )
                    .with("key", key),
                ),
            }
        }
        let results = keys.into_results();
        let bytes = results_bytes(&results);
        if violations.is_empty() && bytes > DELTA_BYTES {
            violations.push(
                Violation::new(
                    path,
                    Reason::ValueTooLarge,
                    format!("The delta resolves to {bytes} bytes of keys and values, {DELTA_BYTES} are allowed; split it over several events."),
                )
                .with("bytes", bytes)
                .with("limit", DELTA_BYTES),
            );
        }
        if violations.is_empty() { Ok(results) } else { Err(Error::Invalid(violations)) }
    }
}

fn too_much_work(path: &str) -> Violation {
    Violation::new(
        format!("{path}.operations"),
        Reason::ValueTooLarge,
        format!(
            "The operations write more than {OPERATION_BYTES} bytes in all, for each copies the value that it changes; send fewer, or several values in one."
        ),
    )
    .with("limit", OPERATION_BYTES)
}

fn value_too_large(path: &str, at: usize, key: &StateKey, bytes: usize) -> Violation {
    Violation::new(
        format!("{path}.operations[{at}]"),
        Reason::ValueTooLarge,
        format!(
            "The result for key '{}' has {bytes} bytes, {VALUE_BYTES} are allowed; bound the list by max_length, or keep large values elsewhere.",
            super::error::quoted(key.as_str())
        ),
    )
    .with("key", key)
    .with("bytes", bytes)
    .with("limit", VALUE_BYTES)
}

impl Operation {
    /// What it does to a value; `Ok(None)`: nothing.
    fn apply(&self, before: Option<&Json>) -> Result<Option<Json>, OperationFault> {
        match self {
            Self::Increment(by) => increment(before, *by).map(Some),
            Self::ListAppend { values, max_length } => {
                list_append(before, values, *max_length).map(Some)
            }
            Self::SetIfAbsent(value) => Ok(before.is_none().then(|| value.clone())),
            Self::MergePatch(patch) => merge_patch(before, patch).map(Some),
        }
    }

    /// The type of value that it works on.
    fn wants(&self) -> JsonType {
        match self {
            Self::Increment(_) => JsonType::Number,
            Self::ListAppend { .. } => JsonType::Array,
            Self::MergePatch(_) => JsonType::Object,
            Self::SetIfAbsent(_) => JsonType::Null,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Increment(_) => size_of::<Amount>(),
            Self::ListAppend { values: operand, max_length: _ }
            | Self::SetIfAbsent(operand)
            | Self::MergePatch(operand) => operand.len(),
        }
    }
}

/// Keys met so far, in the order in which they were met.
#[derive(Default)]
struct Touched<'a> {
    places: BTreeMap<&'a StateKey, usize>,
    keys: Vec<TouchedKey<'a>>,
}

struct TouchedKey<'a> {
    key: &'a StateKey,
    /// Whether the store has a value; `None` while nobody needed to know.
    existed: Option<bool>,
    value: Option<Json>,
    changed: bool,
}

impl<'a> Touched<'a> {
    fn put(&mut self, key: &'a StateKey, value: Option<Json>) {
        if let Some(&at) = self.places.get(key) {
            self.keys[at].value = value;
            self.keys[at].changed = true;
        } else {
            self.places.insert(key, self.keys.len());
            self.keys.push(TouchedKey { key, existed: None, value, changed: true });
        }
    }

    fn remove(
        &mut self,
        key: &'a StateKey,
        current: &mut impl FnMut(&StateKey) -> Result<Option<Json>, Error>,
    ) -> Result<(), Error> {
        match self.places.get(key) {
            // Set by this very delta: whether the removal is a change depends on what the store has.
            Some(&at) => {
                let existed = current(key)?.is_some();
                let touched = &mut self.keys[at];
                touched.existed = Some(existed);
                touched.value = None;
                touched.changed = existed;
            }
            None => {
                let existed = current(key)?.is_some();
                self.places.insert(key, self.keys.len());
                self.keys.push(TouchedKey {
                    key,
                    existed: Some(existed),
                    value: None,
                    changed: existed,
                });
            }
        }
        Ok(())
    }

    fn value(
        &mut self,
        key: &'a StateKey,
        current: &mut impl FnMut(&StateKey) -> Result<Option<Json>, Error>,
    ) -> Result<Option<&Json>, Error> {
        let at = match self.places.get(key) {
            Some(&at) => at,
            None => {
                let value = current(key)?;
                self.places.insert(key, self.keys.len());
                let existed = Some(value.is_some());
                self.keys.push(TouchedKey { key, existed, value, changed: false });
                self.keys.len() - 1
            }
        };
        Ok(self.keys[at].value.as_ref())
    }

    fn into_results(self) -> Vec<KeyResult> {
        let changed = self.keys.into_iter().filter(|touched| touched.changed);
        changed
            .filter(|touched| touched.value.is_some() || touched.existed != Some(false))
            .map(|touched| (touched.key.clone(), touched.value))
            .collect()
    }
}

/// Bytes of keys and of what they became, as [`Delta::bytes`] counts them.
pub fn results_bytes(results: &[KeyResult]) -> usize {
    let bytes =
        |(key, value): &KeyResult| text_bytes(key.as_str()) + value.as_ref().map_or(0, Json::len);
    results.iter().map(bytes).sum()
}

/// Writes what keys became as it is kept and answered. Full keys, in the order given.
pub fn changes(results: &[KeyResult]) -> Changes {
    let mut remove = Vec::new();
    let bytes: usize = results
        .iter()
        .map(|(key, value)| key.as_str().len() + value.as_ref().map_or(0, Json::len) + 4)
        .sum();
    let mut set: Option<ObjectWriter> = None;
    for (key, value) in results {
        match value {
            None => remove.push(key.clone()),
            Some(value) => set
                .get_or_insert_with(|| ObjectWriter::with_capacity(bytes + 2))
                .member("", key.as_str(), value.as_str()),
        }
    }
    Changes { set: set.map(ObjectWriter::finish), remove }
}

/// The part of `changes` that belongs to one scope; empty where it has none.
pub fn changes_in(results: &[KeyResult], kind: ScopeKind) -> Changes {
    let of_scope: Vec<KeyResult> =
        results.iter().filter(|(key, _)| key.scope() == Some(kind)).cloned().collect();
    changes(&of_scope)
}

#[cfg(test)]
mod tests;
