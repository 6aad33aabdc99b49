//! Preconditions of a commit.

use super::{
    address::Keys,
    delta::too_many,
    fields::{count, optional_count},
    json::{Source, VALUE, value},
    request::{At, Decoded, decoded},
};
use crate::{
    domain::{
        limits::DELTA_OPERATIONS,
        precondition::{Condition, Precondition},
        scope::{ScopeKind, StateKey},
    },
    proto::v1::{self, KeyCheck, key_check},
};

/// The conditions of a request, on keys that can be seen from a scope of this kind; none if unset.
pub fn precondition(
    at: At<'_>,
    precondition: Option<v1::Precondition>,
    scope: ScopeKind,
) -> Decoded<Precondition> {
    let Some(v1::Precondition { expected_sequence, keys }) = precondition else {
        return Ok(Precondition::default());
    };
    let list = at.field("keys");
    decoded!(Precondition {
        expected_sequence: optional_count(at.field("expected_sequence"), expected_sequence),
        keys: match keys.len() {
            0..=DELTA_OPERATIONS => {
                list.each(keys, |at, check| key_check(at, check, Keys::StoredIn(scope)))
            }
            many => Err(too_many(list, many)),
        },
    })
}

fn key_check(at: At<'_>, check: KeyCheck, keys: Keys) -> Decoded<(StateKey, Condition)> {
    let KeyCheck { key, condition } = check;
    let key = keys.read(at.field("key"), key);
    let condition = match condition {
        None => Err(at.unset("exists, version, value or value_json")),
        Some(key_check::Condition::Exists(exists)) => Ok(Condition::Exists(exists)),
        Some(key_check::Condition::Version(version)) => {
            count(at.field("version"), version).map(Condition::Version)
        }
        Some(key_check::Condition::Value(it)) => {
            value(at.field("value"), Source::Message(it), VALUE).map(Condition::Value)
        }
        Some(key_check::Condition::ValueJson(text)) => {
            value(at.field("value_json"), Source::Text(text), VALUE).map(Condition::Value)
        }
    };
    Ok((key?, condition?))
}
