//! Deltas with their operations, and preconditions: what a commit changes, and what must hold.

use super::{
    fields::too_long,
    json::{VALUE, entries, entries_of_text, operand, parsed, written},
    read::{At, Decoded, Read, read},
};
use crate::{
    domain::{
        json::Amount,
        limits::{DELTA_BYTES, UID_BYTES},
        precondition::{Condition, Precondition},
    },
    rpc::prelude::*,
};

impl Read<Delta> for v1::StateDelta {
    fn read(self, at: At<'_>) -> Decoded<Delta> {
        use v1::state_delta::SetForm::{Set, SetJson};
        read!(at: v1::StateDelta {
            set_form = match set_form {
                None => Ok(Vec::new()),
                Some(Set(it)) => entries(at.field("set"), it),
                Some(SetJson(text)) => entries_of_text(at.field("set_json"), text),
            },
            // As many as the delta's bytes allow: removing needs no read.
            remove = at.field("remove").each(remove, |at, key| key.read(at)),
            operations,
        } = self);
        let delta = Delta { set: set_form, remove, operations };
        let bytes = delta.bytes();
        if bytes > DELTA_BYTES {
            let limit = ("bytes", bytes, DELTA_BYTES);
            let advice = "Split the delta into several events.";
            return Err(at.over_limit(Reason::ValueTooLarge, limit, advice));
        }
        Ok(delta)
    }
}

impl Read<(StateKey, Operation)> for v1::StateOperation {
    fn read(self, at: At<'_>) -> Decoded<(StateKey, Operation)> {
        use v1::state_operation::Operation::{Increment, ListAppend, MergePatch, SetIfAbsent};
        read!(at: v1::StateOperation {
            key,
            operation = match operation {
                None => Err(at.unset("increment, list_append, set_if_absent or merge_patch")),
                Some(Increment(it)) => it.read(at.field("increment")),
                Some(ListAppend(it)) => it.read(at.field("list_append")),
                Some(SetIfAbsent(v1::SetIfAbsent { value_form })) => {
                    operand(at.field("set_if_absent"), value_form).map(Operation::SetIfAbsent)
                }
                Some(MergePatch(v1::MergePatch { patch_form })) => {
                    operand(at.field("merge_patch"), patch_form).map(Operation::MergePatch)
                }
            },
        } = self);
        Ok((key, operation))
    }
}

impl Read<Operation> for v1::Increment {
    fn read(self, at: At<'_>) -> Decoded<Operation> {
        use v1::increment::Amount::{By, ByDouble};
        let v1::Increment { amount } = self;
        match amount {
            None => Err(at.unset("by or by_double")),
            Some(By(by)) => Ok(Operation::Increment(Amount::Whole(by))),
            Some(ByDouble(by)) if by.is_finite() => Ok(Operation::Increment(Amount::Fraction(by))),
            Some(ByDouble(_)) => {
                let message = "The amount is NaN or infinite. Send a finite number.";
                Err(at.field("by_double").fault(Reason::BadValue, message, &[]))
            }
        }
    }
}

impl Read<Operation> for v1::ListAppend {
    fn read(self, at: At<'_>) -> Decoded<Operation> {
        read!(at: v1::ListAppend { values_form = operand(at, values_form), max_length } = self);
        let max_length: u64 = max_length;
        let max_length = usize::try_from(max_length).unwrap_or(usize::MAX);
        Ok(Operation::ListAppend { values: values_form, max_length })
    }
}

/// The conditions of a request, on stored keys; none if unset.
impl Read<Precondition> for Option<v1::Precondition> {
    fn read(self, at: At<'_>) -> Decoded<Precondition> {
        let at = At { keys: at.keys.or(Some(ScopeKind::Session)), ..at };
        let precondition = self.unwrap_or_default();
        read!(at: v1::Precondition {
            expected_sequence, keys, uid = life(at.field("uid"), &uid)
        } = precondition);
        Ok(Precondition { expected_sequence, keys, life: uid })
    }
}

/// The life that a uid names. Any other text than a uid of this store names none that is there.
fn life(at: At<'_>, uid: &str) -> Decoded<Option<Life>> {
    match uid.len() {
        0 => Ok(None),
        1..=UID_BYTES => {
            let uid = Uid::decode(uid).filter(|uid| uid.store == at.store);
            Ok(Some(uid.map_or(Life::NONE, |uid| uid.life)))
        }
        bytes => Err(too_long(at, Reason::FieldTooLong, bytes, UID_BYTES)),
    }
}

impl Read<(StateKey, Condition)> for v1::KeyCheck {
    fn read(self, at: At<'_>) -> Decoded<(StateKey, Condition)> {
        use v1::key_check::Condition::{Exists, Value, ValueJson, Version};
        read!(at: v1::KeyCheck {
            key,
            condition = match condition {
                None => Err(at.unset("exists, version, value or value_json")),
                Some(Exists(exists)) => Ok(Condition::Exists(exists)),
                Some(Version(version)) => {
                    version.read(at.field("version")).map(Condition::Version)
                }
                Some(Value(it)) => {
                    written(at.field("value"), VALUE, &it).map(Condition::Value)
                }
                Some(ValueJson(text)) => {
                    parsed(at.field("value_json"), VALUE, Json::parse(text)).map(Condition::Value)
                }
            },
        } = self);
        Ok((key, condition))
    }
}
