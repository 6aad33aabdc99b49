//! Deltas and their operations.

use super::{
    address::Keys,
    faults::{Decoded, Faults, Path},
    fields::{count, state_key},
    json::{Source, VALUE, array, entries, object, value},
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
        Increment, ListAppend, MergePatch, SetIfAbsent, StateDelta, StateOperation, increment,
        list_append, merge_patch, set_if_absent, state_delta::SetForm, state_operation,
    },
};

/// What a caller wants changed.
pub fn delta(faults: &mut Faults, at: Path<'_>, delta: StateDelta, keys: Keys) -> Decoded<Delta> {
    let StateDelta { set_form, remove, operations } = delta;
    let set = match set_form {
        None => Ok(Vec::new()),
        Some(SetForm::Set(object)) => {
            entries(faults, at.field("set"), Source::Message(object), keys)
        }
        Some(SetForm::SetJson(text)) => {
            entries(faults, at.field("set_json"), Source::Text(text), keys)
        }
    };
    let remove = faults.each(at.field("remove"), remove, |faults, at, key| {
        let key = state_key(faults, at, key)?;
        keys.check(faults, at, key)
    });
    let operations = match operations.len() {
        0..=DELTA_OPERATIONS => {
            faults.each(at.field("operations"), operations, |faults, at, operation| {
                state_operation(faults, at, operation, keys)
            })
        }
        many => Err(too_many(faults, at.field("operations"), many)),
    };
    let delta = Delta { set: set?, remove: remove?, operations: operations? };
    let bytes = delta.bytes();
    if bytes > DELTA_BYTES {
        let message = format_args!(
            "The delta has {bytes} bytes of keys and values, {DELTA_BYTES} are allowed; split it over several events."
        );
        return Err(faults.add_with(at, Reason::ValueTooLarge, message, |fault| {
            fault.with("bytes", bytes).with("limit", DELTA_BYTES)
        }));
    }
    Ok(delta)
}

/// A list of more items than one commit takes.
pub fn too_many(faults: &mut Faults, at: Path<'_>, items: usize) -> super::faults::Faulted {
    let message = format_args!(
        "There are {items} items, {DELTA_OPERATIONS} are allowed; split them over several requests."
    );
    faults.add_with(at, Reason::BadValue, message, |fault| {
        fault.with("items", items).with("limit", DELTA_OPERATIONS)
    })
}

fn state_operation(
    faults: &mut Faults,
    at: Path<'_>,
    operation: StateOperation,
    keys: Keys,
) -> Decoded<(StateKey, Operation)> {
    let StateOperation { key, operation } = operation;
    let key = state_key(faults, at.field("key"), key)
        .and_then(|key| keys.check(faults, at.field("key"), key));
    let operation = match operation {
        None => Err(faults.add(
            at,
            Reason::MissingField,
            "The operation says nothing to do; set increment, list_append, set_if_absent or merge_patch.",
        )),
        Some(state_operation::Operation::Increment(it)) => {
            increment(faults, at.field("increment"), it)
        }
        Some(state_operation::Operation::ListAppend(it)) => {
            list_append(faults, at.field("list_append"), it)
        }
        Some(state_operation::Operation::SetIfAbsent(it)) => {
            set_if_absent(faults, at.field("set_if_absent"), it)
        }
        Some(state_operation::Operation::MergePatch(it)) => {
            merge_patch(faults, at.field("merge_patch"), it)
        }
    };
    Ok((key?, operation?))
}

fn increment(faults: &mut Faults, at: Path<'_>, increment: Increment) -> Decoded<Operation> {
    let Increment { amount } = increment;
    match amount {
        None => Err(faults.add(
            at,
            Reason::MissingField,
            "The increment has no amount; set by or by_double.",
        )),
        Some(increment::Amount::By(by)) => Ok(Operation::Increment(Amount::Whole(by))),
        Some(increment::Amount::ByDouble(by)) if by.is_finite() => {
            Ok(Operation::Increment(Amount::Fraction(by)))
        }
        Some(increment::Amount::ByDouble(_)) => Err(faults.add(
            at.field("by_double"),
            Reason::BadValue,
            "The amount is NaN or an infinity; send a finite one.",
        )),
    }
}

fn list_append(faults: &mut Faults, at: Path<'_>, append: ListAppend) -> Decoded<Operation> {
    let ListAppend { values_form, max_length } = append;
    let values = match values_form {
        None => Err(faults.add(
            at,
            Reason::MissingField,
            "There is nothing to append; set values or values_json.",
        )),
        Some(list_append::ValuesForm::Values(list)) => {
            array(faults, at.field("values"), Source::Message(list), VALUE)
        }
        Some(list_append::ValuesForm::ValuesJson(text)) => {
            array(faults, at.field("values_json"), Source::Text(text), VALUE)
        }
    };
    let max_length = count(faults, at.field("max_length"), max_length.into());
    let max_length = usize::try_from(max_length?).unwrap_or(usize::MAX);
    Ok(Operation::ListAppend { values: values?, max_length })
}

fn set_if_absent(faults: &mut Faults, at: Path<'_>, default: SetIfAbsent) -> Decoded<Operation> {
    let SetIfAbsent { value_form } = default;
    let value = match value_form {
        None => Err(faults.add(
            at,
            Reason::MissingField,
            "The default has no value; set value or value_json.",
        )),
        Some(set_if_absent::ValueForm::Value(it)) => {
            value(faults, at.field("value"), Source::Message(it), VALUE)
        }
        Some(set_if_absent::ValueForm::ValueJson(text)) => {
            value(faults, at.field("value_json"), Source::Text(text), VALUE)
        }
    };
    value.map(Operation::SetIfAbsent)
}

fn merge_patch(faults: &mut Faults, at: Path<'_>, merge: MergePatch) -> Decoded<Operation> {
    let MergePatch { patch_form } = merge;
    let patch = match patch_form {
        None => {
            Err(faults.add(at, Reason::MissingField, "There is no patch; set patch or patch_json."))
        }
        Some(merge_patch::PatchForm::Patch(it)) => {
            object(faults, at.field("patch"), Source::Message(it), VALUE)
        }
        Some(merge_patch::PatchForm::PatchJson(text)) => {
            object(faults, at.field("patch_json"), Source::Text(text), VALUE)
        }
    };
    patch.map(Operation::MergePatch)
}
