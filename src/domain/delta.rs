//! Deltas: requested changes of state, and what each key becomes.

use std::{collections::BTreeMap, ops::Deref};

use xxhash_rust::xxh3::Xxh3Default;

pub use super::changes::{KeyResult, changes, results_bytes};
use super::{
    error::{Error, Reason, Violation, quoted},
    field::FieldPath,
    json::{
        Amount, Json, JsonType, OperationFault, fingerprint, increment, list_append, merge_patch,
        same_tokens, text_bytes,
    },
    limits::{DELTA_BYTES, OPERATION_BYTES, VALUE_BYTES},
    scope::{Prefix, Scope, StateKey},
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
    /// Set only if there is no value.
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

    /// Bytes of its keys, values and operands. Keys count as they are written in JSON, where a control character takes up to six bytes, so
    /// that an event that was accepted can always be answered.
    pub fn bytes(&self) -> usize {
        let keys: usize = self.keys().map(|key| text_bytes(key.as_str())).sum();
        let values: usize = self.set.iter().map(|(_, value)| value.len()).sum();
        let operands: usize = self.operations.iter().map(|(_, operation)| operation.bytes()).sum();
        keys + values + operands
    }

    /// Moves the `temp:` keys into a delta of their own.
    pub fn split_temp(self) -> (StoredDelta, Delta) {
        let is_temp = |key: &StateKey| key.prefix() == Prefix::Temp;
        let (temp_set, set) = self.set.into_iter().partition(|(key, _)| is_temp(key));
        let (temp_remove, remove) = self.remove.into_iter().partition(is_temp);
        let (temp_operations, operations) =
            self.operations.into_iter().partition(|(key, _)| is_temp(key));
        (
            StoredDelta(Delta { set, remove, operations }),
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

    /// Computes what each key becomes, given what it is, and reports every violation.
    ///
    /// `field` is the path of this delta in the request. A key that ends as it was without having been set (removed where it was
    /// absent, a default that was not needed, a sum with zero) is not in the result. A key that was set is, also to an equal value.
    pub fn resolve<'s>(
        &self,
        field: &FieldPath,
        current: impl Fn(&StateKey) -> Option<&'s Json>,
    ) -> Result<Vec<KeyResult>, Error> {
        if self.remove.is_empty() && self.operations.is_empty() {
            // The common case: nothing depends on current values, and the size was checked on the way in.
            return Ok(self
                .set
                .iter()
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .collect());
        }
        let mut keys = Touched::default();
        for (key, value) in &self.set {
            keys.put(key, Some(value.clone()));
        }
        for key in &self.remove {
            keys.remove(key, current(key).is_some());
        }
        let mut violations = Vec::new();
        let mut written = 0;
        for (at, (key, operation)) in self.operations.iter().enumerate() {
            if written > OPERATION_BYTES {
                violations.push(too_much_work(field));
                break;
            }
            let before = keys.value(key, &current);
            let after = match operation.apply(before) {
                Ok(None) => continue,
                Ok(Some(after)) => after,
                Err(OperationFault::TypeMismatch { found }) => {
                    let wanted = operation.wants();
                    return Err(Error::TypeMismatch { key: key.clone(), wanted, found });
                }
                Err(fault) => {
                    violations.push(not_computed(field, at, key, &fault));
                    continue;
                }
            };
            written += after.len();
            let same = before.is_some_and(|before| same_tokens(before, &after));
            if after.len() > VALUE_BYTES && !same {
                violations.push(value_too_large(field, at, key, after.len()));
            } else if !same {
                keys.put(key, Some(after));
            }
        }
        let results = keys.into_results();
        let bytes = results_bytes(&results);
        if violations.is_empty() && bytes > DELTA_BYTES {
            let message = format!(
                "The delta resolves to {bytes} bytes, which exceed the limit of {DELTA_BYTES}. Split it into several events."
            );
            let violation = Violation::new(field.clone(), Reason::ValueTooLarge, message);
            violations.push(violation.with("bytes", bytes).with("limit", DELTA_BYTES));
        }
        if violations.is_empty() { Ok(results) } else { Err(Error::Invalid(violations)) }
    }
}

fn not_computed(field: &FieldPath, at: usize, key: &StateKey, fault: &OperationFault) -> Violation {
    let quoted = quoted(key.as_str());
    let (reason, message) = match fault {
        OperationFault::TooDeep => (
            Reason::BadJson,
            format!(
                "The result for key '{quoted}' is nested more than 100 levels deep. Make it flatter."
            ),
        ),
        OperationFault::NumberOverflow | OperationFault::TypeMismatch { .. } => (
            Reason::NumberOverflow,
            format!(
                "The sum for key '{quoted}' is out of range. Use a smaller amount, or reset the key."
            ),
        ),
    };
    Violation::new(field.path().field("operations").index(at), reason, message).with("key", key)
}

fn too_much_work(path: &FieldPath) -> Violation {
    Violation::new(
        path.path().field("operations"),
        Reason::ValueTooLarge,
        format!(
            "The operations write more than {OPERATION_BYTES} bytes in total, because each copies the value that it changes. Send fewer, or several values in one."
        ),
    )
    .with("limit", OPERATION_BYTES)
}

fn value_too_large(path: &FieldPath, at: usize, key: &StateKey, bytes: usize) -> Violation {
    Violation::new(
        path.path().field("operations").index(at),
        Reason::ValueTooLarge,
        format!(
            "The result for key '{}' has {bytes} bytes, which exceed the limit of {VALUE_BYTES}. Set max_length, or store large values elsewhere.",
            quoted(key.as_str())
        ),
    )
    .with("key", key)
    .with("bytes", bytes)
    .with("limit", VALUE_BYTES)
}

impl Operation {
    /// The new value; `Ok(None)`: unchanged.
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
    /// Whether the store has a value; `None` until that is needed.
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

    fn remove(&mut self, key: &'a StateKey, existed: bool) {
        let at = *self.places.entry(key).or_insert_with(|| {
            self.keys.push(TouchedKey { key, existed: None, value: None, changed: false });
            self.keys.len() - 1
        });
        // Even after a set in this delta, the removal is a change only if the store has the key.
        let touched = &mut self.keys[at];
        (touched.existed, touched.value, touched.changed) = (Some(existed), None, existed);
    }

    fn value<'s>(
        &mut self,
        key: &'a StateKey,
        current: &impl Fn(&StateKey) -> Option<&'s Json>,
    ) -> Option<&Json> {
        let at = *self.places.entry(key).or_insert_with(|| {
            let value = current(key).cloned();
            let existed = Some(value.is_some());
            self.keys.push(TouchedKey { key, existed, value, changed: false });
            self.keys.len() - 1
        });
        self.keys[at].value.as_ref()
    }

    fn into_results(self) -> Vec<KeyResult> {
        let changed = self.keys.into_iter().filter(|touched| touched.changed);
        changed
            .filter(|touched| touched.value.is_some() || touched.existed != Some(false))
            .map(|touched| (touched.key.clone(), touched.value))
            .collect()
    }
}

/// A delta without `temp:` keys: what an event stores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredDelta(Delta);

impl Deref for StoredDelta {
    type Target = Delta;

    fn deref(&self) -> &Delta {
        &self.0
    }
}

/// A delta with the scope that it changes. An application takes `app:` keys, a user also `user:` keys, a session also keys without a
/// prefix; none takes `temp:` keys.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeDelta {
    scope: Scope,
    delta: StoredDelta,
}

impl ScopeDelta {
    /// Errors: the first key that the scope does not take.
    pub fn new(scope: Scope, delta: Delta) -> Result<Self, StateKey> {
        let refused = delta.keys().find(|key| !scope.kind().takes(key)).cloned();
        match refused {
            Some(key) => Err(key),
            None => Ok(Self { scope, delta: StoredDelta(delta) }),
        }
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub fn delta(&self) -> &StoredDelta {
        &self.delta
    }

    pub fn into_parts(self) -> (Scope, StoredDelta) {
        (self.scope, self.delta)
    }
}

#[cfg(test)]
mod tests;
