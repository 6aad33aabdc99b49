//! Deltas: requested changes of state, and what each key becomes and how that is stored.

use std::borrow::Cow;

use indexmap::IndexMap;
use xxhash_rust::xxh3::Xxh3Default;

use super::{
    error::{Error, Reason, Violation, quoted},
    field::{FieldPath, Path},
    json::{
        Amount, Json, JsonType, fingerprint, increment, is_empty_list, list_append, merge_patch,
        object_text, same_tokens, text_bytes,
    },
    limits::{BATCH_OPERATION_BYTES, DELTA_BYTES, OPERATION_BYTES, VALUE_BYTES},
    scope::{Scope, StateKey},
};

/// One read-modify-write, evaluated inside the commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    Increment(Amount),
    /// Add to the end of a list and keep its newest `max_length` items; 0: all.
    ListAppend {
        values: Json,
        max_length: usize,
    },
    SetIfAbsent(Json),
    /// RFC 7396, with one JSON object.
    MergePatch(Json),
}

/// Changes of state as they are asked for: `set`, then `remove`, then `operations` one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// New values; each key once.
    pub set: Vec<(StateKey, Json)>,
    pub remove: Vec<StateKey>,
    pub operations: Vec<(StateKey, Operation)>,
}

impl Delta {
    /// Every key that is named, in the order of evaluation; a key may come more than once.
    pub fn keys(&self) -> impl Iterator<Item = &StateKey> {
        let set = self.set.iter().map(|(key, _)| key);
        set.chain(&self.remove).chain(self.operations.iter().map(|(key, _)| key))
    }

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

    /// Moves the `temp:` keys into a delta of their own, the second.
    pub fn split_temp(mut self) -> (Delta, Delta) {
        let is_temp = |key: &StateKey| key.scope().is_none();
        let temp = Delta {
            set: self.set.extract_if(.., |(key, _)| is_temp(key)).collect(),
            remove: self.remove.extract_if(.., |key| is_temp(key)).collect(),
            operations: self.operations.extract_if(.., |(key, _)| is_temp(key)).collect(),
        };
        (self, temp)
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
    /// `field` is the path of this delta in the request, and `work` the bytes that operations of its request have read or written.
    ///
    /// A key that ends as it was without having been set (removed where it was absent, a default that was not needed, a sum with zero) is
    /// not in the result. A key that was set is, also to an equal value.
    pub fn resolve<'s>(
        &self,
        field: &FieldPath,
        work: &mut usize,
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
        let path = Path::REQUEST.field(field);
        let operations = path.field("operations");
        // Keys in the order in which they are met.
        let mut keys: IndexMap<&StateKey, Current<'_>> = IndexMap::new();
        for (key, value) in &self.set {
            keys.insert(key, Current::new(Some(Cow::Borrowed(value)), true));
        }
        for key in &self.remove {
            // Even after a set in this delta, the removal is a change only if the store has the key.
            keys.insert(key, Current::new(None, current(key).is_some()));
        }
        let (mut violations, began) = (Vec::new(), *work);
        for (at, (key, operation)) in self.operations.iter().enumerate() {
            if let Some(fault) = too_much_work(*work - began, *work) {
                violations.push(Violation { field: operations.into(), ..fault });
                break;
            }
            let stored = || Current::new(current(key).map(Cow::Borrowed), false);
            let before = keys.entry(key).or_insert_with(stored);
            match operation.evaluate(key, before, work) {
                Ok(None) => {}
                Ok(Some(after)) => {
                    (before.value, before.is_changed) = (Some(Cow::Owned(after)), true);
                }
                Err(Error::Invalid(faults)) => violations.extend(
                    faults
                        .into_iter()
                        .map(|fault| Violation { field: operations.index(at).into(), ..fault }),
                ),
                Err(error) => return Err(error),
            }
        }
        let changed = keys.into_iter().filter(|(_, key)| key.is_changed);
        let results: Vec<_> =
            changed.map(|(key, it)| (key.clone(), it.value.map(Cow::into_owned))).collect();
        let bytes = results_bytes(&results);
        if violations.is_empty() && bytes > DELTA_BYTES {
            let message = format!(
                "The delta resolves to {bytes} bytes, which exceed the limit of {DELTA_BYTES}. Split it into several events."
            );
            let fault = Violation::new(field.clone(), Reason::ValueTooLarge, message);
            violations.push(fault.with("bytes", bytes).with("limit", DELTA_BYTES));
        }
        if violations.is_empty() { Ok(results) } else { Err(Error::Invalid(violations)) }
    }
}

/// What a key is after some operations. A value is not copied before it changes: a thousand small events may name the same large one.
struct Current<'s> {
    value: Option<Cow<'s, Json>>,
    is_changed: bool,
    /// The number of a list's items, once it is known.
    items: Option<usize>,
}

impl<'s> Current<'s> {
    fn new(value: Option<Cow<'s, Json>>, is_changed: bool) -> Self {
        Self { value, is_changed, items: None }
    }
}

/// The fault of operations that have read or written too much, in their delta or in the whole request.
fn too_much_work(of_delta: usize, of_request: usize) -> Option<Violation> {
    let (what, limit, reason) = if of_delta > OPERATION_BYTES {
        ("operations", OPERATION_BYTES, Reason::ValueTooLarge)
    } else if of_request > BATCH_OPERATION_BYTES {
        ("batch's operations", BATCH_OPERATION_BYTES, Reason::BatchTooLarge)
    } else {
        return None;
    };
    let message = format!(
        "The {what} read or write more than {limit} bytes in total, because each copies the value that it changes. Send fewer, or several values in one."
    );
    Some(Violation::new("", reason, message).with("limit", limit))
}

impl Operation {
    /// The new value of a key; `None`: it stays as it is. Adds the bytes that were read or written to `work`.
    fn evaluate(
        &self,
        key: &StateKey,
        current: &mut Current<'_>,
        work: &mut usize,
    ) -> Result<Option<Json>, Error> {
        let before = current.value.as_deref();
        if before.is_some_and(Json::is_damaged) {
            return Err(Error::damaged_key(key));
        }
        if matches!((self, before), (Self::SetIfAbsent(_), Some(_))) {
            return Ok(None);
        }
        let (wanted, found) = (self.wants(), before.map(Json::json_type));
        if let Some(found) = found.filter(|found| *found != wanted) {
            return Err(Error::TypeMismatch { key: key.clone(), wanted, found });
        }
        let shown = quoted(key.as_str());
        let after = self.apply(before, &mut current.items);
        // The result may be short, and may leave a long value as it was.
        *work += before.map_or(0, Json::len).max(after.as_ref().map_or(0, Json::len));
        let Some(after) = after else {
            let message = format!(
                "The sum for key '{shown}' is out of range. Use a smaller amount, or reset the key."
            );
            return Err(Violation::new("", Reason::NumberOverflow, message)
                .with("key", key)
                .into());
        };
        let bytes = after.len();
        if !self.always_changes() && before.is_some_and(|before| same_tokens(before, &after)) {
            return Ok(None);
        }
        if bytes > VALUE_BYTES {
            let message = format!(
                "The result for key '{shown}' has {bytes} bytes, which exceed the limit of {VALUE_BYTES}. Set max_length, or store large values elsewhere."
            );
            let fault = Violation::new("", Reason::ValueTooLarge, message).with("key", key);
            return Err(fault.with("bytes", bytes).with("limit", VALUE_BYTES).into());
        }
        Ok(Some(after))
    }

    /// Whether its result differs, so that two long texts need not be compared.
    fn always_changes(&self) -> bool {
        matches!(self, Self::ListAppend { values, max_length: 0 } if !is_empty_list(values))
    }

    /// The new value, given one of the right type; `None`: a number out of range.
    fn apply(&self, before: Option<&Json>, items: &mut Option<usize>) -> Option<Json> {
        match self {
            Self::Increment(by) => increment(before, *by),
            Self::ListAppend { values, max_length } => {
                Some(list_append(before, values, *max_length, items))
            }
            Self::SetIfAbsent(value) => Some(value.clone()),
            Self::MergePatch(patch) => Some(merge_patch(before, patch)),
        }
    }

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

/// A delta with the scope that it changes. An application takes `app:` keys, a user also `user:` keys, a session also keys without a
/// prefix; none takes `temp:` keys.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeDelta {
    scope: Scope,
    delta: Delta,
}

impl ScopeDelta {
    /// Errors: the first key that the scope does not take.
    pub fn new(scope: Scope, delta: Delta) -> Result<Self, StateKey> {
        let refused = delta.keys().find(|key| !scope.kind().takes(key)).cloned();
        refused.map_or(Ok(Self { scope, delta }), Err)
    }

    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    pub fn delta(&self) -> &Delta {
        &self.delta
    }

    pub fn into_delta(self) -> Delta {
        self.delta
    }
}

/// The new value of a key; `None`: it is removed.
pub type KeyResult = (StateKey, Option<Json>);

/// Bytes of keys and of what they became, as [`Delta::bytes`](Delta::bytes) counts them.
pub fn results_bytes(results: &[KeyResult]) -> usize {
    let bytes =
        |(key, value): &KeyResult| text_bytes(key.as_str()) + value.as_ref().map_or(0, Json::len);
    results.iter().map(bytes).sum()
}

/// Writes what keys became as it is kept and answered: full keys, in the order given.
pub fn changes<'r>(results: impl Iterator<Item = &'r KeyResult> + Clone) -> Changes {
    let removed = results.clone().filter(|(_, value)| value.is_none());
    let remove = removed.map(|(key, _)| key.clone()).collect();
    let set = results.filter_map(|(key, value)| Some((key.as_str(), value.as_ref()?.as_str())));
    Changes { set: set.clone().next().is_some().then(|| object_text(set)), remove }
}

/// The changes of a commit: a delta after its operations were evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// One JSON object of full keys and their new values; `None` if nothing was set.
    pub set: Option<Json>,
    pub remove: Vec<StateKey>,
}

impl Changes {
    pub fn results(&self) -> impl Iterator<Item = KeyResult> {
        let set = self.set.as_ref().map(Json::members).unwrap_or_default().into_iter();
        let set = set.map(|(key, value)| (StateKey::from_stored(key), Some(value)));
        self.remove.iter().map(|key| (key.clone(), None)).chain(set)
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.remove.is_empty()
    }

    /// Bytes of its keys and values, counted as in its delta.
    pub fn bytes(&self) -> usize {
        results_bytes(&self.results().collect::<Vec<_>>())
    }

    pub fn text_len(&self) -> usize {
        let removed: usize = self.remove.iter().map(|key| key.as_str().len()).sum();
        self.set.as_ref().map_or(0, Json::len) + removed
    }
}

#[cfg(test)]
mod tests;
