//! Free-form JSON in either of its two forms.

use prost_types::{ListValue, Struct, Value};

use super::{
    address::Keys,
    request::{At, Decoded, Faulted},
    structs::{FaultKind, StructFault, array_text, object_text, value_text},
};
use crate::domain::{
    error::Reason,
    json::{Json, JsonFault, MAX_NESTING},
    limits::{BODY_BYTES, VALUE_BYTES},
    scope::StateKey,
};

/// JSON in the form that was sent.
pub enum Source<T> {
    Message(T),
    Text(String),
}

/// The size limit of a piece of JSON.
#[derive(Clone, Copy)]
pub struct Limit {
    bytes: usize,
    reason: Reason,
    advice: &'static str,
}

/// A value of state, or an operand.
pub const VALUE: Limit = Limit {
    bytes: VALUE_BYTES,
    reason: Reason::ValueTooLarge,
    advice: "Store large values elsewhere and keep their address here",
};

/// An event's body.
pub const BODY: Limit = Limit {
    bytes: BODY_BYTES,
    reason: Reason::EventTooLarge,
    advice: "Split the event, or store large content elsewhere",
};

pub fn object(at: At<'_>, source: Source<Struct>, limit: Limit) -> Decoded<Json> {
    match source {
        Source::Message(object) => written(at, object_text(&object, limit.bytes), limit),
        Source::Text(text) => parsed(at, Json::object(text), limit),
    }
}

pub fn array(at: At<'_>, source: Source<ListValue>, limit: Limit) -> Decoded<Json> {
    match source {
        Source::Message(list) => written(at, array_text(&list, limit.bytes), limit),
        Source::Text(text) => parsed(at, Json::array(text), limit),
    }
}

pub fn value(at: At<'_>, source: Source<Value>, limit: Limit) -> Decoded<Json> {
    match source {
        Source::Message(value) => written(at, value_text(&value, limit.bytes), limit),
        Source::Text(text) => parsed(at, Json::parse(text), limit),
    }
}

/// State keys and their values. If a key is repeated, the last value counts.
pub fn entries(at: At<'_>, source: Source<Struct>, keys: Keys) -> Decoded<Vec<(StateKey, Json)>> {
    let members: Vec<(String, Member)> = match source {
        Source::Message(Struct { fields }) => {
            fields.into_iter().map(|(key, value)| (key, Member::Message(value))).collect()
        }
        Source::Text(text) => {
            let object = Json::object(text).map_err(|fault| json_fault(at, &fault))?;
            object.members().into_iter().map(|(key, json)| (key, Member::Json(json))).collect()
        }
    };
    let mut entries = Ok(Vec::with_capacity(members.len()));
    for (key, value) in members {
        if at.is_full() {
            break;
        }
        let at = at.key(&key);
        let name = keys.read(at, key.as_str());
        let json = match value {
            Member::Message(value) => written(at, value_text(&value, VALUE.bytes), VALUE),
            Member::Json(json) => fits(at, json, VALUE),
        };
        match (name, json, &mut entries) {
            (Ok(key), Ok(json), Ok(entries)) => entries.push((key, json)),
            (Err(fault), ..) | (_, Err(fault), _) => entries = Err(fault),
            (Ok(_), Ok(_), Err(_)) => {}
        }
    }
    entries
}

/// A value of an object, in the form of the object.
enum Member {
    Message(Value),
    Json(Json),
}

fn written(at: At<'_>, json: Result<Json, StructFault>, limit: Limit) -> Decoded<Json> {
    json.map_err(|fault| struct_fault(at, &fault, limit))
}

fn parsed(at: At<'_>, json: Result<Json, JsonFault>, limit: Limit) -> Decoded<Json> {
    let json = json.map_err(|fault| json_fault(at, &fault))?;
    fits(at, json, limit)
}

fn fits(at: At<'_>, json: Json, limit: Limit) -> Decoded<Json> {
    if json.len() > limit.bytes { Err(too_large(at, limit)) } else { Ok(json) }
}

fn too_large(at: At<'_>, limit: Limit) -> Faulted {
    let Limit { bytes, reason, advice } = limit;
    let message = format!("The JSON text exceeds {bytes} bytes. {advice}.");
    at.fault(reason, message, &[("limit", &bytes)])
}

fn json_fault(at: At<'_>, fault: &JsonFault) -> Faulted {
    at.fault(Reason::BadJson, format!("The text {fault}."), &[("fault", fault)])
}

fn struct_fault(at: At<'_>, fault: &StructFault, limit: Limit) -> Faulted {
    let StructFault { kind, place } = fault;
    let at = at.field(place);
    match *kind {
        FaultKind::NotFinite => at.fault(
            Reason::BadJson,
            "The number is NaN or infinite, which JSON cannot express. Send null or a string.",
            &[],
        ),
        FaultKind::NotExact(number) => {
            let message = format!(
                "The integer {number:e} may have been rounded: the doubles of a Struct are exact below 2^53 only. Use the text form."
            );
            at.fault(Reason::NumberNotExact, message, &[("number", &format_args!("{number:e}"))])
        }
        FaultKind::NoKind => at.fault(
            Reason::BadJson,
            "The Value is empty. Set one of its fields, null_value for null.",
            &[],
        ),
        FaultKind::TooDeep => {
            let message = format!("The value is nested more than {MAX_NESTING} levels deep.");
            at.fault(Reason::BadJson, message, &[("limit", &MAX_NESTING)])
        }
        FaultKind::TooLarge => too_large(at, limit),
    }
}
