//! What must hold at a commit.

use super::{
    address::Keys,
    delta::too_many,
    faults::{Decoded, Faults, Path},
    fields::{count, optional_count, state_key},
    json::{Source, VALUE, value},
};
use crate::{
    domain::{
        error::Reason,
        limits::DELTA_OPERATIONS,
        precondition::{Condition, Precondition},
        scope::{ScopeKind, StateKey},
    },
    proto::v1::{self, KeyCheck, key_check},
};

/// The conditions of a request that may change what is seen from a node of kind `scope`; unset: none.
pub fn precondition(
    faults: &mut Faults,
    at: Path<'_>,
    precondition: Option<v1::Precondition>,
    scope: ScopeKind,
) -> Decoded<Precondition> {
    let Some(v1::Precondition { expected_sequence, keys }) = precondition else {
        return Ok(Precondition::default());
    };
    let expected = optional_count(faults, at.field("expected_sequence"), expected_sequence);
    let keys = match keys.len() {
        0..=DELTA_OPERATIONS => faults.each(at.field("keys"), keys, |faults, at, check| {
            key_check(faults, at, check, Keys::StoredIn(scope))
        }),
        many => Err(too_many(faults, at.field("keys"), many)),
    };
    Ok(Precondition { expected_sequence: expected?, keys: keys? })
}

fn key_check(
    faults: &mut Faults,
    at: Path<'_>,
    check: KeyCheck,
    keys: Keys,
) -> Decoded<(StateKey, Condition)> {
    let KeyCheck { key, condition } = check;
    let key = state_key(faults, at.field("key"), key)
        .and_then(|key| keys.check(faults, at.field("key"), key));
    let condition = match condition {
        None => Err(faults.add(
            at,
            Reason::MissingField,
            "The check has no condition; set exists, version, value or value_json.",
        )),
        Some(key_check::Condition::Exists(exists)) => Ok(Condition::Exists(exists)),
        Some(key_check::Condition::Version(version)) => {
            count(faults, at.field("version"), version).map(Condition::Version)
        }
        Some(key_check::Condition::Value(it)) => {
            value(faults, at.field("value"), Source::Message(it), VALUE).map(Condition::Value)
        }
        Some(key_check::Condition::ValueJson(text)) => {
            value(faults, at.field("value_json"), Source::Text(text), VALUE).map(Condition::Value)
        }
    };
    Ok((key?, condition?))
}
