//! Deltas and their operations.

use super::{
    address::Keys,
    fields::count,
    json::{Source, VALUE, array, entries, object, value},
    request::{At, Decoded, Faulted, decoded},
};
use crate::{
    domain::{
        delta::{Delta, Operation},
        error::Reason,
        json::Amount,
        limits::{DELTA_BYTES, DELTA_OPERATIONS},
        scope::StateKey,
    },
    proto::v1::{
        self, increment, list_append, merge_patch, set_if_absent, state_delta::SetForm,
        state_operation,
    },
};

pub fn delta(at: At<'_>, delta: v1::StateDelta, keys: Keys) -> Decoded<Delta> {
    let v1::StateDelta { set_form, remove, operations } = delta;
    let list = at.field("operations");
    let delta = decoded!(Delta {
        set: match set_form {
            None => Ok(Vec::new()),
            Some(SetForm::Set(it)) => entries(at.field("set"), Source::Message(it), keys),
            Some(SetForm::SetJson(text)) => entries(at.field("set_json"), Source::Text(text), keys),
        },
        remove: at.field("remove").each(remove, |at, key| keys.read(at, key)),
        operations: match operations.len() {
            0..=DELTA_OPERATIONS => list.each(operations, |at, it| state_operation(at, it, keys)),
            many => Err(too_many(list, many)),
        },
    })?;
    let bytes = delta.bytes();
    if bytes > DELTA_BYTES {
        let limit = ("bytes", bytes, DELTA_BYTES);
        let advice = "Split the delta into several events.";
        return Err(at.over_limit(Reason::ValueTooLarge, limit, advice));
    }
    Ok(delta)
}

/// A list of more items than one commit takes.
pub fn too_many(at: At<'_>, items: usize) -> Faulted {
    let limit = ("items", items, DELTA_OPERATIONS);
    at.over_limit(Reason::BadValue, limit, "Split the list into several requests.")
}

fn state_operation(
    at: At<'_>,
    operation: v1::StateOperation,
    keys: Keys,
) -> Decoded<(StateKey, Operation)> {
    let v1::StateOperation { key, operation } = operation;
    let key = keys.read(at.field("key"), key);
    let operation = match operation {
        None => Err(at.unset("increment, list_append, set_if_absent or merge_patch")),
        Some(state_operation::Operation::Increment(it)) => increment(at.field("increment"), it),
        Some(state_operation::Operation::ListAppend(it)) => {
            list_append(at.field("list_append"), it)
        }
        Some(state_operation::Operation::SetIfAbsent(it)) => {
            set_if_absent(at.field("set_if_absent"), it)
        }
        Some(state_operation::Operation::MergePatch(it)) => {
            merge_patch(at.field("merge_patch"), it)
        }
    };
    Ok((key?, operation?))
}

fn increment(at: At<'_>, increment: v1::Increment) -> Decoded<Operation> {
    let v1::Increment { amount } = increment;
    match amount {
        None => Err(at.unset("by or by_double")),
        Some(increment::Amount::By(by)) => Ok(Operation::Increment(Amount::Whole(by))),
        Some(increment::Amount::ByDouble(by)) if by.is_finite() => {
            Ok(Operation::Increment(Amount::Fraction(by)))
        }
        Some(increment::Amount::ByDouble(_)) => Err(at.field("by_double").fault(
            Reason::BadValue,
            "The amount is NaN or infinite. Send a finite number.",
            &[],
        )),
    }
}

fn list_append(at: At<'_>, append: v1::ListAppend) -> Decoded<Operation> {
    let v1::ListAppend { values_form, max_length } = append;
    let values = match values_form {
        None => Err(at.unset("values or values_json")),
        Some(list_append::ValuesForm::Values(list)) => {
            array(at.field("values"), Source::Message(list), VALUE)
        }
        Some(list_append::ValuesForm::ValuesJson(text)) => {
            array(at.field("values_json"), Source::Text(text), VALUE)
        }
    };
    let max_length = count(at.field("max_length"), max_length.into());
    let max_length = usize::try_from(max_length?).unwrap_or(usize::MAX);
    Ok(Operation::ListAppend { values: values?, max_length })
}

fn set_if_absent(at: At<'_>, default: v1::SetIfAbsent) -> Decoded<Operation> {
    let v1::SetIfAbsent { value_form } = default;
    let value = match value_form {
        None => Err(at.unset("value or value_json")),
        Some(set_if_absent::ValueForm::Value(it)) => {
            value(at.field("value"), Source::Message(it), VALUE)
        }
        Some(set_if_absent::ValueForm::ValueJson(text)) => {
            value(at.field("value_json"), Source::Text(text), VALUE)
        }
    };
    value.map(Operation::SetIfAbsent)
}

fn merge_patch(at: At<'_>, merge: v1::MergePatch) -> Decoded<Operation> {
    let v1::MergePatch { patch_form } = merge;
    let patch = match patch_form {
        None => Err(at.unset("patch or patch_json")),
        Some(merge_patch::PatchForm::Patch(it)) => {
            object(at.field("patch"), Source::Message(it), VALUE)
        }
        Some(merge_patch::PatchForm::PatchJson(text)) => {
            object(at.field("patch_json"), Source::Text(text), VALUE)
        }
    };
    patch.map(Operation::MergePatch)
}
