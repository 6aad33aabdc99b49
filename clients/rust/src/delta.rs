//! State changes that ADK cannot express: removals, and operations that the server evaluates inside the commit.

use std::collections::{BTreeSet, HashMap};

use adk_core::Result;
use serde_json::Value;

use crate::{
    json::object_text,
    proto::v1::{
        self, Increment, ListAppend, MergePatch, SetIfAbsent, StateOperation, increment::Amount,
        list_append::ValuesForm, merge_patch::PatchForm, set_if_absent::ValueForm,
        state_delta::SetForm, state_operation::Operation,
    },
};

/// Changes of state. Keys have their prefixes. Values are set first, then keys are removed, then operations are applied in order.
///
/// The server evaluates operations inside the commit, so that concurrent increments all count.
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
    /// An empty delta.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a value whole. Null is a value.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set.insert(key.into(), value.into());
        self
    }

    /// Removes a key. A missing one is not an error.
    pub fn remove(mut self, key: impl Into<String>) -> Self {
        self.remove.push(key.into());
        self
    }

    /// Adds to a number. A missing key counts as 0.
    pub fn increment(self, key: impl Into<String>, by: i64) -> Self {
        let amount = Some(Amount::By(by));
        self.operation(key, Operation::Increment(Increment { amount }))
    }

    /// Adds to a number, which becomes a double. A missing key counts as 0.
    pub fn increment_by(self, key: impl Into<String>, by: f64) -> Self {
        let amount = Some(Amount::ByDouble(by));
        self.operation(key, Operation::Increment(Increment { amount }))
    }

    /// Appends to a list. A missing key counts as an empty list.
    pub fn append<V: Into<Value>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.append_bounded(key, values, 0)
    }

    /// Appends to a list and keeps its last `max_length` items; 0 keeps all.
    pub fn append_bounded<V: Into<Value>>(
        self,
        key: impl Into<String>,
        values: impl IntoIterator<Item = V>,
        max_length: u32,
    ) -> Self {
        let values: Value = values.into_iter().map(Into::into).collect();
        let append = ListAppend {
            values_form: Some(ValuesForm::ValuesJson(values.to_string())),
            max_length: i32::try_from(max_length).unwrap_or(i32::MAX),
        };
        self.operation(key, Operation::ListAppend(append))
    }

    /// Sets a key unless it exists.
    pub fn set_if_absent(self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let value_form = Some(ValueForm::ValueJson(value.into().to_string()));
        self.operation(key, Operation::SetIfAbsent(SetIfAbsent { value_form }))
    }

    /// Merges into an object (RFC 7396). A missing key counts as an empty object.
    pub fn merge(self, key: impl Into<String>, patch: impl Into<Value>) -> Self {
        let patch_form = Some(PatchForm::PatchJson(patch.into().to_string()));
        self.operation(key, Operation::MergePatch(MergePatch { patch_form }))
    }

    fn operation(mut self, key: impl Into<String>, operation: Operation) -> Self {
        self.operations.push(StateOperation { key: key.into(), operation: Some(operation) });
        self
    }

    /// Adds the values that an event sets. Those of this delta win.
    pub(crate) fn with_event_delta(mut self, event_delta: HashMap<String, Value>) -> Self {
        for (key, value) in event_delta {
            self.set.entry(key).or_insert(value);
        }
        self
    }

    /// The keys that are set or removed whatever their value is, unlike those of operations.
    pub(crate) fn overwritten(&self) -> BTreeSet<String> {
        self.set.keys().chain(&self.remove).cloned().collect()
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
