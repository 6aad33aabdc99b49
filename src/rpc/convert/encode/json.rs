//! Free-form JSON in the form asked for: as text, or as `google.protobuf.Struct`, which is built in one pass.

use std::{borrow::Cow, collections::BTreeMap};

use prost_types::{ListValue, NullValue, Struct, Value, value::Kind};

use crate::{
    domain::{
        error::Error,
        json::{Head, Json, Reader},
        limits::MESSAGE_BYTES,
    },
    rpc::convert::Form,
};

/// Messages inside one another that a client decodes: the default of protobuf in every language that has one. An object takes three
/// levels (Struct, its entry, the Value within), an array two.
const DEPTH: usize = 100;

/// Every integer of at most this many bytes is below 2^53, and exact as a double.
const ALWAYS_EXACT_BYTES: usize = 15;

/// Tags and lengths of an entry, of its key and of its value, never more than there are.
const ENTRY_BYTES: usize = 4;

/// A message or a field, and whether a number in it had to be rounded. Errors: [`Error::TooDeep`], [`Error::AnswerTooLarge`].
pub type Built<T> = Result<(T, bool), Error>;

/// The form asked for, and what happens to a value that `Struct` cannot hold: too deep, or larger than an answer.
#[derive(Clone, Copy, Debug)]
pub enum Mode {
    /// A read is refused.
    Read(Form),
    /// A write and a watch send the value as text.
    Write(Form),
}

impl Mode {
    /// One of the two fields of a `oneof`, at `depth` levels below the answer. Text is never rounded.
    pub fn encode<M, T>(
        self,
        json: Cow<'_, Json>,
        depth: usize,
        build: fn(&Json, usize) -> Built<M>,
        message: fn(M) -> T,
        text: fn(String) -> T,
    ) -> Built<T> {
        let (Self::Read(form) | Self::Write(form)) = self;
        let built = (form == Form::Struct).then(|| build(&json, depth));
        match (built, self) {
            (Some(Ok((built, rounded))), _) => Ok((message(built), rounded)),
            (Some(Err(error)), Self::Read(_)) => Err(error),
            (Some(Err(_)), Self::Write(_)) | (None, _) => {
                Ok((text(json.into_owned().into_string()), false))
            }
        }
    }
}

/// An object as a message that lies `depth` levels below the answer. It stops at what is certainly larger than an answer, so that no
/// request costs more memory than that; the caller measures the answer.
pub fn object(json: &Json, depth: usize) -> Built<Struct> {
    build(json, |builder| match builder.reader.head() {
        Head::Object => builder.object(depth),
        // A body or a set that is no object was not stored by this service; it shows as an empty one.
        _ => Ok(Struct::default()),
    })
}

/// Any value, likewise.
pub fn value(json: &Json, depth: usize) -> Built<Value> {
    build(json, |builder| builder.value(depth))
}

fn build<'a, T>(
    json: &'a Json,
    read: impl FnOnce(&mut Builder<'a>) -> Result<T, Error>,
) -> Built<T> {
    let reader = Reader::new(json.as_str());
    let mut builder = Builder { reader, rounded: false, budget: MESSAGE_BYTES };
    let message = read(&mut builder)?;
    Ok((message, builder.rounded))
}

struct Builder<'a> {
    reader: Reader<'a>,
    rounded: bool,
    budget: usize,
}

impl Builder<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        shallow(depth)?;
        let kind = match self.reader.head() {
            Head::Object => Kind::StructValue(self.object(depth + 1)?),
            Head::Array => Kind::ListValue(self.array(depth + 1)?),
            Head::String(text) => {
                let text = text.decode().into_owned();
                spend(&mut self.budget, 2 + text.len())?;
                Kind::StringValue(text)
            }
            Head::Number(text) => {
                spend(&mut self.budget, 9)?;
                Kind::NumberValue(self.number(text))
            }
            Head::Literal(text) => {
                spend(&mut self.budget, 2)?;
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
    fn object(&mut self, depth: usize) -> Result<Struct, Error> {
        shallow(depth)?;
        let mut fields = BTreeMap::new();
        while let Some(key) = self.reader.next_key() {
            let key = key.decode().into_owned();
            spend(&mut self.budget, ENTRY_BYTES + key.len())?;
            fields.insert(key, self.value(depth + 2)?);
        }
        Ok(Struct { fields })
    }

    fn array(&mut self, depth: usize) -> Result<ListValue, Error> {
        shallow(depth)?;
        let mut values = Vec::new();
        while self.reader.has_item() {
            spend(&mut self.budget, 2)?;
            values.push(self.value(depth + 1)?);
        }
        Ok(ListValue { values })
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
}

fn shallow(depth: usize) -> Result<(), Error> {
    if depth > DEPTH { Err(Error::TooDeep) } else { Ok(()) }
}

fn spend(budget: &mut usize, bytes: usize) -> Result<(), Error> {
    *budget = budget.checked_sub(bytes).ok_or(Error::AnswerTooLarge)?;
    Ok(())
}
