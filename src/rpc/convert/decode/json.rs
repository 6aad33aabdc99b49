//! Free-form JSON in either of its two forms.

use prost_types::{ListValue, Struct, Value};

use super::{
    address::Keys,
    faults::{Decoded, Faulted, Faults, Path},
    fields::state_key,
    structs::{FaultKind, StructFault, array_text, object_text, value_text},
};
use crate::domain::{
    error::Reason,
    json::{Json, JsonFault, MAX_NESTING},
    limits::{BODY_BYTES, VALUE_BYTES},
    scope::StateKey,
};

/// The form that came.
pub enum Source<T> {
    /// As a message.
    Message(T),
    /// As JSON text.
    Text(String),
}

/// How large a piece of JSON may be.
#[derive(Clone, Copy)]
pub struct Limit {
    bytes: usize,
    reason: Reason,
    advice: &'static str,
}

/// Of one value of state, or one operand.
pub const VALUE: Limit = Limit {
    bytes: VALUE_BYTES,
    reason: Reason::ValueTooLarge,
    advice: "keep large values elsewhere, and their address here",
};

/// Of an event's body.
pub const BODY: Limit = Limit {
    bytes: BODY_BYTES,
    reason: Reason::EventTooLarge,
    advice: "split the event, or keep large content elsewhere",
};

/// One object.
pub fn object(
    faults: &mut Faults,
    at: Path<'_>,
    source: Source<Struct>,
    limit: Limit,
) -> Decoded<Json> {
    match source {
        Source::Message(object) => written(faults, at, object_text(&object, limit.bytes), limit),
        Source::Text(text) => parsed(faults, at, Json::object(text), limit),
    }
}

/// One array.
pub fn array(
    faults: &mut Faults,
    at: Path<'_>,
    source: Source<ListValue>,
    limit: Limit,
) -> Decoded<Json> {
    match source {
        Source::Message(list) => written(faults, at, array_text(&list, limit.bytes), limit),
        Source::Text(text) => parsed(faults, at, Json::array(text), limit),
    }
}

/// Any value.
pub fn value(
    faults: &mut Faults,
    at: Path<'_>,
    source: Source<Value>,
    limit: Limit,
) -> Decoded<Json> {
    match source {
        Source::Message(value) => written(faults, at, value_text(&value, limit.bytes), limit),
        Source::Text(text) => parsed(faults, at, Json::parse(text), limit),
    }
}

/// An object of keys of state and their values; of a key that is there twice, the last value.
pub fn entries(
    faults: &mut Faults,
    at: Path<'_>,
    source: Source<Struct>,
    keys: Keys,
) -> Decoded<Vec<(StateKey, Json)>> {
    let members: Vec<(String, Member)> = match source {
        Source::Message(Struct { fields }) => {
            fields.into_iter().map(|(key, value)| (key, Member::Message(value))).collect()
        }
        Source::Text(text) => {
            let object = Json::object(text).map_err(|fault| json_fault(faults, at, &fault))?;
            object.members().into_iter().map(|(key, json)| (key, Member::Json(json))).collect()
        }
    };
    let mut entries = Ok(Vec::with_capacity(members.len()));
    for (key, value) in members {
        if faults.are_many() {
            break;
        }
        let at = at.key(&key);
        let name = state_key(faults, at, key.as_str());
        let name = name.and_then(|name| keys.check(faults, at, name));
        let json = match value {
            Member::Message(value) => written(faults, at, value_text(&value, VALUE.bytes), VALUE),
            Member::Json(json) => fits(faults, at, json, VALUE),
        };
        match (name, json, &mut entries) {
            (Ok(key), Ok(json), Ok(entries)) => entries.push((key, json)),
            (Err(fault), ..) | (_, Err(fault), _) => entries = Err(fault),
            (Ok(_), Ok(_), Err(_)) => {}
        }
    }
    entries
}

/// A value within an object that came in one of the two forms.
enum Member {
    Message(Value),
    Json(Json),
}

fn written(
    faults: &mut Faults,
    at: Path<'_>,
    json: Result<Json, StructFault>,
    limit: Limit,
) -> Decoded<Json> {
    json.map_err(|fault| struct_fault(faults, at, &fault, limit))
}

fn parsed(
    faults: &mut Faults,
    at: Path<'_>,
    json: Result<Json, JsonFault>,
    limit: Limit,
) -> Decoded<Json> {
    let json = json.map_err(|fault| json_fault(faults, at, &fault))?;
    fits(faults, at, json, limit)
}

fn fits(faults: &mut Faults, at: Path<'_>, json: Json, limit: Limit) -> Decoded<Json> {
    if json.len() > limit.bytes { Err(too_large(faults, at, limit)) } else { Ok(json) }
}

fn too_large(faults: &mut Faults, at: Path<'_>, limit: Limit) -> Faulted {
    let Limit { bytes, reason, advice } = limit;
    let message =
        format_args!("It has more than the {bytes} bytes allowed as JSON text; {advice}.");
    faults.add_with(at, reason, message, |fault| fault.with("limit", bytes))
}

fn json_fault(faults: &mut Faults, at: Path<'_>, fault: &JsonFault) -> Faulted {
    let message =
        format_args!("The text {fault}; send one JSON value of the type that the field takes.");
    faults.add_with(at, Reason::BadJson, message, |violation| violation.with("fault", fault))
}

fn struct_fault(faults: &mut Faults, at: Path<'_>, fault: &StructFault, limit: Limit) -> Faulted {
    let StructFault { kind, place } = fault;
    let at = at.field(place);
    match *kind {
        FaultKind::NotFinite => faults.add(
            at,
            Reason::BadJson,
            "The number is NaN or an infinity, which JSON does not have; send null or a string.",
        ),
        FaultKind::NotExact(number) => {
            let message = format_args!(
                "The whole number {number:e} is 2^53 or more, where a Struct's doubles are not exact; use the text form."
            );
            faults.add_with(at, Reason::NumberNotExact, message, |violation| {
                violation.with("number", format_args!("{number:e}"))
            })
        }
        FaultKind::NoKind => faults.add(
            at,
            Reason::BadJson,
            "The Value has no kind; set one of its fields, null_value for null.",
        ),
        FaultKind::TooDeep => {
            let message =
                format_args!("It nests deeper than {MAX_NESTING} levels; make it flatter.");
            faults.add_with(at, Reason::BadJson, message, |violation| {
                violation.with("limit", MAX_NESTING)
            })
        }
        FaultKind::TooLarge => too_large(faults, at, limit),
    }
}
