//! From JSON text to `google.protobuf.Struct`, in one pass.

use std::{collections::BTreeMap, fmt::Write};

use prost_types::{ListValue, NullValue, Struct, Value, value::Kind};

use crate::domain::{
    error::Error,
    json::{Head, Json, Reader},
    session::State,
};

/// Messages inside one another that a client decodes: the default of protobuf in every language that has one. An object takes three
/// levels (Struct, its entry, the Value within), an array two.
const DEPTH: usize = 100;

/// An integer of so many bytes is below 2^53, and exact as a double.
const ALWAYS_EXACT_BYTES: usize = 15;

/// Why JSON cannot be a Struct in this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Clients could not decode it.
    TooDeep,
    /// It takes more bytes than there is room for.
    TooLarge,
}

impl From<Misfit> for Error {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::TooDeep => Self::TooDeep,
            Misfit::TooLarge => Self::AnswerTooLarge,
        }
    }
}

/// A message, and whether a number in it had to be rounded.
pub type Built<T> = Result<(T, bool), Misfit>;

/// An object as a message that lies `depth` levels below the answer. `room` only stops what is certainly larger than it: the caller
/// measures the whole.
pub fn object(json: &Json, depth: usize, room: usize) -> Built<Struct> {
    build(json.as_str(), room, |builder| match builder.reader.head() {
        Head::Object => builder.object(depth),
        // A body or a set that is no object was not stored by this service; it shows as an empty one.
        _ => Ok(Struct::default()),
    })
}

/// Any value, likewise.
pub fn value(json: &Json, depth: usize, room: usize) -> Built<Value> {
    build(json.as_str(), room, |builder| builder.value(depth))
}

/// State with the prefixes of its keys, likewise.
pub fn state(state: &State, depth: usize, room: usize) -> Built<Struct> {
    let mut fields = BTreeMap::new();
    let (mut room, mut rounded) = (room, false);
    shallow(depth)?;
    for entry in &state.0 {
        let key = entry.key.as_str();
        spend(&mut room, ENTRY_BYTES + key.len())?;
        let mut builder = Builder { reader: Reader::new(entry.value.as_str()), rounded, room };
        fields.insert(key.to_owned(), builder.value(depth + 2)?);
        (room, rounded) = (builder.room, builder.rounded);
    }
    Ok((Struct { fields }, rounded))
}

/// Tags and lengths of an entry, of its key and of its value, never more than there are.
const ENTRY_BYTES: usize = 4;

fn build<'a, T>(
    text: &'a str,
    room: usize,
    read: impl FnOnce(&mut Builder<'a>) -> Result<T, Misfit>,
) -> Built<T> {
    let mut builder = Builder { reader: Reader::new(text), rounded: false, room };
    let message = read(&mut builder)?;
    Ok((message, builder.rounded))
}

struct Builder<'a> {
    reader: Reader<'a>,
    rounded: bool,
    room: usize,
}

impl Builder<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, Misfit> {
        shallow(depth)?;
        let kind = match self.reader.head() {
            Head::Object => Kind::StructValue(self.object(depth + 1)?),
            Head::Array => Kind::ListValue(self.array(depth + 1)?),
            Head::String(text) => {
                let text = text.decode().into_owned();
                spend(&mut self.room, 2 + text.len())?;
                Kind::StringValue(text)
            }
            Head::Number(text) => {
                spend(&mut self.room, 9)?;
                Kind::NumberValue(self.number(text))
            }
            Head::Literal(text) => {
                spend(&mut self.room, 2)?;
                match text {
                    "true" => Kind::BoolValue(true),
                    "false" => Kind::BoolValue(false),
                    _ => Kind::NullValue(NullValue::NullValue.into()),
                }
            }
        };
        Ok(Value { kind: Some(kind) })
    }

    /// The members behind the bracket that was read. Of a key that is there twice the last one counts.
    fn object(&mut self, depth: usize) -> Result<Struct, Misfit> {
        shallow(depth)?;
        let mut fields = BTreeMap::new();
        while let Some(key) = self.reader.next_key() {
            let key = key.decode().into_owned();
            spend(&mut self.room, ENTRY_BYTES + key.len())?;
            fields.insert(key, self.value(depth + 2)?);
        }
        Ok(Struct { fields })
    }

    fn array(&mut self, depth: usize) -> Result<ListValue, Misfit> {
        shallow(depth)?;
        let mut values = Vec::new();
        while self.reader.has_item() {
            spend(&mut self.room, 2)?;
            values.push(self.value(depth + 1)?);
        }
        Ok(ListValue { values })
    }

    /// The nearest double. A number with a point or an exponent is one already; an integer may be none.
    fn number(&mut self, text: &str) -> f64 {
        let double = text.parse().unwrap_or(f64::NAN);
        let integer = !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        if integer && text.len() > ALWAYS_EXACT_BYTES {
            let mut exact = String::with_capacity(text.len());
            // Writing to a string does not fail.
            let _ = write!(exact, "{double:.0}");
            self.rounded |= exact != text;
        }
        double
    }
}

fn shallow(depth: usize) -> Result<(), Misfit> {
    if depth > DEPTH { Err(Misfit::TooDeep) } else { Ok(()) }
}

fn spend(room: &mut usize, bytes: usize) -> Result<(), Misfit> {
    *room = room.checked_sub(bytes).ok_or(Misfit::TooLarge)?;
    Ok(())
}
