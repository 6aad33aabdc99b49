//! From `google.protobuf.Struct` to JSON text, without a tree in between.

use std::fmt::Write;

use prost_types::{ListValue, Struct, Value, value::Kind};

use crate::domain::json::{Json, MAX_NESTING};

/// From here on a double no longer tells every whole number from its neighbours.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Bytes of the place that a fault names: a path cut where keys are long.
const PLACE_BYTES: usize = 120;

/// Why a Struct has no JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct StructFault {
    pub kind: FaultKind,
    /// Path within the value, as `usage.tokens[2]`; empty for the value itself.
    pub place: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultKind {
    /// NaN or an infinity.
    NotFinite,
    /// A whole number that a double may have changed.
    NotExact(f64),
    /// A `Value` of no kind.
    NoKind,
    /// Nested beyond [`MAX_NESTING`].
    TooDeep,
    /// The text exceeds what is allowed.
    TooLarge,
}

/// An object as text of at most `limit` bytes.
pub fn object_text(object: &Struct, limit: usize) -> Result<Json, StructFault> {
    write(limit, |writer| writer.object(object, 1))
}

/// An array as text of at most `limit` bytes.
pub fn array_text(list: &ListValue, limit: usize) -> Result<Json, StructFault> {
    write(limit, |writer| writer.array(list, 1))
}

/// Any value as text of at most `limit` bytes.
pub fn value_text(value: &Value, limit: usize) -> Result<Json, StructFault> {
    write(limit, |writer| writer.value(value, 0))
}

type Written = Result<(), StructFault>;

fn write(limit: usize, fill: impl FnOnce(&mut Writer) -> Written) -> Result<Json, StructFault> {
    let mut writer = Writer { text: String::new(), limit };
    fill(&mut writer)?;
    Ok(Json::from_stored(writer.text))
}

struct Writer {
    text: String,
    limit: usize,
}

impl Writer {
    /// `depth` counts the arrays and objects that are open.
    fn value(&mut self, value: &Value, depth: usize) -> Written {
        let Value { kind } = value;
        match kind {
            None => fault(FaultKind::NoKind),
            Some(Kind::NullValue(_)) => self.push("null"),
            Some(Kind::BoolValue(true)) => self.push("true"),
            Some(Kind::BoolValue(false)) => self.push("false"),
            Some(Kind::NumberValue(number)) => self.number(*number),
            Some(Kind::StringValue(text)) => self.string(text),
            Some(Kind::StructValue(object)) => self.object(object, depth + 1),
            Some(Kind::ListValue(list)) => self.array(list, depth + 1),
        }
    }

    fn object(&mut self, object: &Struct, depth: usize) -> Written {
        let Struct { fields } = object;
        shallow(depth)?;
        self.text.push('{');
        for (at, (key, value)) in fields.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.string(key)?;
            self.text.push(':');
            self.value(value, depth).map_err(|fault| within(key, fault))?;
        }
        self.push("}")
    }

    fn array(&mut self, list: &ListValue, depth: usize) -> Written {
        let ListValue { values } = list;
        shallow(depth)?;
        self.text.push('[');
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.text.push(',');
            }
            self.value(value, depth).map_err(|fault| within(&format!("[{at}]"), fault))?;
        }
        self.push("]")
    }

    /// Whole doubles become integers, all but negative zero, which an integer cannot be.
    fn number(&mut self, number: f64) -> Written {
        if !number.is_finite() {
            return fault(FaultKind::NotFinite);
        }
        let whole = number.fract() == 0.0;
        if whole && number.abs() >= EXACT_BELOW {
            return fault(FaultKind::NotExact(number));
        }
        if whole && (number != 0.0 || number.is_sign_positive()) {
            // Writing to a string does not fail.
            let _ = write!(self.text, "{}", number as i64);
            self.push("")
        } else {
            match serde_json::Number::from_f64(number) {
                Some(number) => self.push(&number.to_string()),
                None => fault(FaultKind::NotFinite),
            }
        }
    }

    fn string(&mut self, text: &str) -> Written {
        crate::domain::json::push_string(&mut self.text, "", text);
        self.push("")
    }

    fn push(&mut self, text: &str) -> Written {
        self.text.push_str(text);
        if self.text.len() > self.limit { fault(FaultKind::TooLarge) } else { Ok(()) }
    }
}

fn fault(kind: FaultKind) -> Written {
    Err(StructFault { kind, place: String::new() })
}

fn shallow(depth: usize) -> Written {
    if depth > MAX_NESTING { fault(FaultKind::TooDeep) } else { Ok(()) }
}

/// Prepends a step to a fault's place. Long places are truncated at the front, so that the inner end of the path stays.
fn within(step: &str, fault: StructFault) -> StructFault {
    let StructFault { kind, place } = fault;
    if kind == FaultKind::TooLarge || kind == FaultKind::TooDeep {
        return StructFault { kind, place };
    }
    let place = match place.as_bytes().first() {
        None => step.to_owned(),
        Some(b'[' | b'.') => format!("{step}{place}"),
        Some(_) => format!("{step}.{place}"),
    };
    let from = place.ceil_char_boundary(place.len().saturating_sub(PLACE_BYTES));
    StructFault { kind, place: place[from..].to_owned() }
}
