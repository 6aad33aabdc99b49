//! Free-form JSON in either of its two forms, text or `google.protobuf.Struct`, as text.

use std::{convert::identity, fmt::Write};

use prost_types::{ListValue, Struct, Value, value::Kind};

use super::{
    fields::Text,
    read::{At, Decoded, Faulted},
};
use crate::{
    domain::{
        json::{MAX_NESTING, push_string},
        limits::{BODY_BYTES, VALUE_BYTES},
    },
    rpc::prelude::*,
};

/// From here on a double no longer tells every whole number from its neighbours.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Bytes of the place within a Struct that a fault names: the inner end of a path, truncated where keys are long.
const PLACE_BYTES: usize = 120;

/// The size limit of a piece of JSON: bytes, and the reason and the advice if it has more.
pub type Limit = (usize, Reason, &'static str);

/// A value of state, or an operand.
pub const VALUE: Limit =
    (VALUE_BYTES, Reason::ValueTooLarge, "Store large values elsewhere, and only a reference here");

pub const BODY: Limit =
    (BODY_BYTES, Reason::EventTooLarge, "Split the event, or store large content elsewhere");

/// A `oneof` of the two forms.
pub trait Forms: Sized {
    /// Its fields, as a fault names them.
    const FIELDS: &'static str;
    fn json(self, at: At<'_>, limit: Limit) -> Decoded<Json>;
}

macro_rules! forms {
    ($(
        $form:path { $message:ident $name:literal, $text:ident }: $value:expr, $parse:ident;
    )*) => {$(
        impl Forms for $form {
            const FIELDS: &'static str = concat!($name, " or ", $name, "_json");
            fn json(self, at: At<'_>, limit: Limit) -> Decoded<Json> {
                match self {
                    Self::$message(it) => written(at.field($name), limit, &$value(it)),
                    Self::$text(text) => {
                        parsed(at.field(concat!($name, "_json")), limit, Json::$parse(text))
                    }
                }
            }
        }
    )*};
}
forms! {
    v1::event::BodyForm { Body "body", BodyJson }: object_value, object;
    v1::list_append::ValuesForm { Values "values", ValuesJson }: list_value, array;
    v1::set_if_absent::ValueForm { Value "value", ValueJson }: identity, parse;
    v1::merge_patch::PatchForm { Patch "patch", PatchJson }: object_value, object;
}

fn object_value(object: Struct) -> Value {
    Value { kind: Some(Kind::StructValue(object)) }
}

fn list_value(list: ListValue) -> Value {
    Value { kind: Some(Kind::ListValue(list)) }
}

/// The operand of an operation.
pub fn operand<F: Forms>(at: At<'_>, form: Option<F>) -> Decoded<Json> {
    form.ok_or_else(|| at.unset(F::FIELDS))?.json(at, VALUE)
}

/// State keys and their values.
pub fn entries(at: At<'_>, object: Struct) -> Decoded<Vec<(StateKey, Json)>> {
    let Struct { fields } = object;
    at.all(fields, |(key, it)| {
        let at = at.key(&key);
        let (key, value) = (StateKey::parse(at, &key), written(at, VALUE, &it));
        Ok((key?, value?))
    })
}

pub fn entries_of_text(at: At<'_>, text: String) -> Decoded<Vec<(StateKey, Json)>> {
    let object = valid(at, Json::object(text))?;
    at.all(object.members(), |(key, json)| {
        let at = at.key(&key);
        let (key, value) = (StateKey::parse(at, &key), within(at, VALUE, json));
        Ok((key?, value?))
    })
}

pub fn parsed(at: At<'_>, limit: Limit, json: Result<Json, String>) -> Decoded<Json> {
    within(at, limit, valid(at, json)?)
}

fn valid(at: At<'_>, json: Result<Json, String>) -> Decoded<Json> {
    json.map_err(|fault| {
        at.fault(Reason::BadJson, format!("The text {fault}."), &[("fault", &fault)])
    })
}

fn within(at: At<'_>, limit: Limit, json: Json) -> Decoded<Json> {
    if json.len() > limit.0 { Err(too_large(at, limit)) } else { Ok(json) }
}

fn too_large(at: At<'_>, (bytes, reason, advice): Limit) -> Faulted {
    let message = format!("The JSON text exceeds {bytes} bytes. {advice}.");
    at.fault(reason, message, &[("limit", &bytes)])
}

/// A message as text, without a tree in between.
pub fn written(at: At<'_>, limit: Limit, value: &Value) -> Decoded<Json> {
    let mut writer = Writer { at, limit, text: String::new() };
    writer.value(value, Path::REQUEST, 0)?;
    Ok(Json::from_stored(writer.text))
}

/// Each of its methods takes the place within the message; `depth` counts the arrays and objects that are open around it.
struct Writer<'a> {
    at: At<'a>,
    limit: Limit,
    text: String,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, place: Path<'_>, depth: usize) -> Decoded<()> {
        let Value { kind } = value;
        match kind {
            None => {
                let message =
                    "The Value is empty. Set one of its fields, for example null_value for null.";
                Err(self.at.field(&inner_end(place)).fault(Reason::BadJson, message, &[]))
            }
            Some(Kind::NullValue(_)) => self.push("null"),
            Some(Kind::BoolValue(true)) => self.push("true"),
            Some(Kind::BoolValue(false)) => self.push("false"),
            Some(Kind::NumberValue(number)) => self.number(*number, place),
            Some(Kind::StringValue(text)) => self.string(text),
            Some(Kind::StructValue(object)) => self.object(object, place, depth),
            Some(Kind::ListValue(list)) => self.array(list, place, depth),
        }
    }

    fn object(&mut self, object: &Struct, place: Path<'_>, depth: usize) -> Decoded<()> {
        let Struct { fields } = object;
        self.open("{", depth)?;
        for (at, (key, value)) in fields.iter().enumerate() {
            self.text.push_str(if at > 0 { "," } else { "" });
            self.string(key)?;
            self.text.push(':');
            self.value(value, place.field(key), depth + 1)?;
        }
        self.push("}")
    }

    fn array(&mut self, list: &ListValue, place: Path<'_>, depth: usize) -> Decoded<()> {
        let ListValue { values } = list;
        self.open("[", depth)?;
        for (at, value) in values.iter().enumerate() {
            self.text.push_str(if at > 0 { "," } else { "" });
            self.value(value, place.index(at), depth + 1)?;
        }
        self.push("]")
    }

    /// Whole doubles become integers, all but negative zero, which an integer cannot be.
    fn number(&mut self, number: f64, place: Path<'_>) -> Decoded<()> {
        let Some(json) = serde_json::Number::from_f64(number) else {
            let message =
                "The number is NaN or infinite, which JSON cannot express. Send null or a string.";
            return Err(self.at.field(&inner_end(place)).fault(Reason::BadJson, message, &[]));
        };
        let whole = number.fract() == 0.0;
        if whole && number.abs() >= EXACT_BELOW {
            let (at, number) = (inner_end(place), format!("{number:e}"));
            let message = format!(
                "The integer {number} may have been rounded: the doubles of a Struct are exact below 2^53 only. Use the text form."
            );
            let at = self.at.field(&at);
            return Err(at.fault(Reason::NumberNotExact, message, &[("number", &number)]));
        }
        // Writing to a string does not fail.
        let _ = if whole && (number != 0.0 || number.is_sign_positive()) {
            write!(self.text, "{}", number as i64)
        } else {
            write!(self.text, "{json}")
        };
        self.push("")
    }

    fn string(&mut self, text: &str) -> Decoded<()> {
        push_string(&mut self.text, text);
        self.push("")
    }

    fn open(&mut self, bracket: &str, depth: usize) -> Decoded<()> {
        if depth < MAX_NESTING {
            return self.push(bracket);
        }
        let message = format!("The value is nested more than {MAX_NESTING} levels deep.");
        Err(self.at.fault(Reason::BadJson, message, &[("limit", &MAX_NESTING)]))
    }

    fn push(&mut self, text: &str) -> Decoded<()> {
        self.text.push_str(text);
        if self.text.len() > self.limit.0 { Err(too_large(self.at, self.limit)) } else { Ok(()) }
    }
}

fn inner_end(place: Path<'_>) -> String {
    let place = place.to_string();
    place[place.ceil_char_boundary(place.len().saturating_sub(PLACE_BYTES))..].to_owned()
}
