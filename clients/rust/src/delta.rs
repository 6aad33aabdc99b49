//! Changes of state beyond the kit's: removals, and operations that the server evaluates inside the commit.

use std::collections::HashMap;

use adk_core::Result;
use serde_json::Value;

use crate::{
    event::object_text,
    proto::v1::{
        self, Increment, ListAppend, MergePatch, SetIfAbsent, StateOperation, increment::Amount,
        list_append::ValuesForm, merge_patch::PatchForm, set_if_absent::ValueForm,
        state_delta::SetForm, state_operation::Operation,
    },
};

/// Changes of state, by keys with their prefixes: first what is set, then what is removed, then the operations in their order.
///
/// Operations are evaluated where the change is committed, so that of two writers who add one, both count.
///
/// ```
/// use sessiond_adk::Delta;
///
/// let delta = Delta::new()
///     .set("topic", "rain")
///     .remove("draft")
///     .increment("user:questions", 1)
///     .append("seen", ["umbrella"]);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Delta {
    set: HashMap<String, Value>,
    remove: Vec<String>,
    operations: Vec<StateOperation>,
}

impl Delta {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a value whole. Null is a value.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    /// Removes a key; one that is not there is fine.
    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.remove.push(key.into());
        self
    }

    /// Adds to a number. A missing key counts as 0.
    pub fn increment(self, key: impl Into<String>, by: i64) -> Self {
        let amount = Some(Amount::By(by));
        self.operation(key, Operation::Increment(Increment { amount }))
    }

    /// Adds to a number, which becomes one with a fraction. A missing key counts as 0.
    pub fn increment_by(self, key: impl Into<String>, by: f64) -> Self {
        let amount = Some(Amount::ByDouble(by));
        self.operation(key, Operation::Increment(Increment { amount }))
    }

    /// Adds to the end of a list. A missing key counts as an empty one.
    pub fn append<V: Into<Value>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.append_bounded(key, values, 0)
    }

    /// The same, and keeps the newest `longest` items only; 0: all.
    pub fn append_bounded<V: Into<Value>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
        longest: u32,
    ) -> Self {
        let values: Value = values.into_iter().map(Into::into).collect();
        let append = ListAppend {
            values_form: Some(ValuesForm::ValuesJson(values.to_string())),
            max_length: i32::try_from(longest).unwrap_or(i32::MAX),
        };
        self.operation(key, Operation::ListAppend(append))
    }

    /// Sets a key that has no value yet.
    pub fn set_if_absent(self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let value_form = Some(ValueForm::ValueJson(value.into().to_string()));
        self.operation(key, Operation::SetIfAbsent(SetIfAbsent { value_form }))
    }

    /// Merges into an object as RFC 7396 says. A missing key counts as an empty one.
    pub fn merge(self, key: impl Into<String>, patch: impl Into<Value>) -> Self {
        let patch_form = Some(PatchForm::PatchJson(patch.into().to_string()));
        self.operation(key, Operation::MergePatch(MergePatch { patch_form }))
    }

    fn operation(mut self, key: impl Into<String>, operation: Operation) -> Self {
        self.operations.push(StateOperation { key: key.into(), operation: Some(operation) });
        self
    }

    /// This delta after what an event sets.
    pub(crate) fn after(mut self, earlier: HashMap<String, Value>) -> Self {
        for (key, value) in earlier {
            self.set.entry(key).or_insert(value);
        }
        self
    }

    pub(crate) fn into_wire(self) -> Result<v1::StateDelta> {
        let Self { set, remove, operations } = self;
        let set_form =
            if set.is_empty() { None } else { Some(SetForm::SetJson(object_text(&set)?)) };
        Ok(v1::StateDelta { set_form, remove, operations })
    }
}

impl From<HashMap<String, Value>> for Delta {
    fn from(set: HashMap<String, Value>) -> Self {
        Self { set, ..Self::default() }
    }
}
