//! Free-form JSON in the form asked for: as text, or as `google.protobuf.Struct`, which is built in one pass.

use std::{borrow::Cow, collections::BTreeMap};

use prost_types::{ListValue, NullValue, Struct, Value, value::Kind};

use crate::{
    domain::json::{Head, Reader},
    rpc::prelude::*,
};

/// Messages inside one another that a client decodes: the default of protobuf in every language that has one. An object takes three
/// levels (Struct, its entry, the Value within), an array two.
const DEPTH: usize = 100;

/// Every integer of at most this many bytes is below 2^53, and exact as a double.
const ALWAYS_EXACT_BYTES: usize = 15;

/// Tags and lengths of an entry, of its key and of its value, never more than there are.
const ENTRY_BYTES: usize = 4;

/// A message, and whether a number in it had to be rounded. `None`: it is nested too deep, or larger than an answer.
pub type Built<T> = Option<(T, bool)>;

#[derive(Clone, Copy, Debug)]
pub struct Mode {
    pub form: Form,
    /// Whether state comes with the versions of its keys.
    pub with_versions: bool,
    /// Part of every uid.
    pub store: StoreId,
    pub depth: usize,
}

impl Mode {
    pub fn as_text(self) -> Self {
        Self { form: Form::Text, ..self }
    }

    /// That of a message within this one.
    pub fn inner(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// One of the two fields of a `oneof` of the message, and whether a number was rounded, which text never is. What is nested too deep
    /// for a `Struct`, or larger than an answer as one, is text.
    pub fn encode<M, T>(
        self,
        json: Cow<'_, Json>,
        build: fn(&Json, usize) -> Built<M>,
        message: fn(M) -> T,
        text: fn(String) -> T,
    ) -> (T, bool) {
        if self.form == Form::Struct
            && let Some((built, rounded)) = build(&json, self.depth + 1)
        {
            return (message(built), rounded);
        }
        (text(json.into_owned().into_string()), false)
    }
}

#[cfg(test)]
impl From<Form> for Mode {
    fn from(form: Form) -> Self {
        Self { form, with_versions: false, store: StoreId([0; 16]), depth: 0 }
    }
}

/// An object as a message that lies `depth` levels below the answer. It stops at what is certainly larger than an answer, so that no
/// request costs more memory than that; the caller measures the answer.
pub fn object(json: &Json, depth: usize) -> Built<Struct> {
    let mut builder = Builder::new(json);
    let built = match builder.reader.head() {
        Head::Object => builder.object(depth)?,
        // A body or a set that is no object was not stored by this service; it shows as an empty one.
        _ => Struct::default(),
    };
    Some((built, builder.rounded))
}

pub fn value(json: &Json, depth: usize) -> Built<Value> {
    let mut builder = Builder::new(json);
    Some((builder.value(depth)?, builder.rounded))
}

struct Builder<'a> {
    reader: Reader<'a>,
    rounded: bool,
    budget: usize,
}

impl<'a> Builder<'a> {
    fn new(json: &'a Json) -> Self {
        Self { reader: Reader::new(json.as_str()), rounded: false, budget: MESSAGE_BYTES }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        shallow(depth)?;
        let (bytes, kind) = match self.reader.head() {
            Head::Object => (0, Kind::StructValue(self.object(depth + 1)?)),
            Head::Array => (0, Kind::ListValue(self.array(depth + 1)?)),
            Head::String(text) => {
                let text = text.decode().into_owned();
                (2 + text.len(), Kind::StringValue(text))
            }
            Head::Number(text) => (9, Kind::NumberValue(self.number(text))),
            Head::Literal("true") => (2, Kind::BoolValue(true)),
            Head::Literal("false") => (2, Kind::BoolValue(false)),
            Head::Literal(_) => (2, Kind::NullValue(NullValue::NullValue.into())),
        };
        self.spend(bytes)?;
        Some(Value { kind: Some(kind) })
    }

    /// The members behind the bracket that was read. Of a key that is there twice the last one counts.
    fn object(&mut self, depth: usize) -> Option<Struct> {
        shallow(depth)?;
        let mut fields = BTreeMap::new();
        while let Some(key) = self.reader.next_key() {
            let key = key.decode().into_owned();
            self.spend(ENTRY_BYTES + key.len())?;
            fields.insert(key, self.value(depth + 2)?);
        }
        Some(Struct { fields })
    }

    fn array(&mut self, depth: usize) -> Option<ListValue> {
        shallow(depth)?;
        let mut values = Vec::new();
        while self.reader.has_item() {
            self.spend(2)?;
            values.push(self.value(depth + 1)?);
        }
        Some(ListValue { values })
    }

    /// The nearest double. A number with a point or an exponent is one already; an integer may be none.
    fn number(&mut self, text: &str) -> f64 {
        let double = text.parse().unwrap_or(f64::NAN);
        let integer = !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'));
        if integer && text.len() > ALWAYS_EXACT_BYTES {
            self.rounded |= format!("{double:.0}") != text;
        }
        double
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.budget = self.budget.checked_sub(bytes)?;
        Some(())
    }
}

fn shallow(depth: usize) -> Option<()> {
    (depth <= DEPTH).then_some(())
}
