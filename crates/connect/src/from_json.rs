//! JSON as binary messages, by their descriptors and in one pass: nothing is built between the two.

use std::fmt;

use prost::{
    Message as _,
    encoding::{self, WireType, encode_key, encode_varint},
};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};
use serde::{
    Deserializer,
    de::{
        DeserializeSeed, Error, Expected, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
        value::MapAccessDeserializer,
    },
};

use crate::codec::{base64, in_snake_case, is_written_apart};

const VALUE: &str = "google.protobuf.Value";

/// Why a text is no message.
pub enum Fault {
    /// What is wrong, and where.
    Wrong(String),
    /// The message takes more bytes than it may.
    TooLarge,
}

/// The message of a text.
pub fn from_json(kind: &MessageDescriptor, text: &[u8], limit: usize) -> Result<Vec<u8>, Fault> {
    let mut out = Out { bytes: Vec::with_capacity(text.len().min(limit)), limit };
    // Nothing is the empty message, as in binary.
    let mut text = serde_json::Deserializer::from_slice(if text.is_empty() { b"{}" } else { text });
    let kind = Kind::Message(kind.clone());
    let whole = Place { number: WHOLE, kind: &kind, form: Form::Element, out: &mut out };
    let read = whole.deserialize(&mut text).and_then(|()| text.end());
    match read {
        _ if out.bytes.len() > limit => Err(Fault::TooLarge),
        Ok(()) => Ok(out.bytes),
        Err(error) => Err(Fault::Wrong(error.to_string())),
    }
}

/// In the place of a field's number: a whole message, which is behind no length.
const WHOLE: u32 = 0;

struct Out {
    bytes: Vec<u8>,
    limit: usize,
}

impl Out {
    /// Writes a message of a field.
    fn message<E: Error>(
        &mut self,
        number: u32,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if number == WHOLE {
            return write(self);
        }
        encode_key(number, WireType::LengthDelimited, &mut self.bytes);
        let begin = self.bytes.len();
        write(self)?;
        let mut length = Vec::new();
        encode_varint((self.bytes.len() - begin) as u64, &mut length);
        self.bytes.splice(begin..begin, length);
        self.check()
    }

    /// The caller tells the error from others by the length.
    fn check<E: Error>(&self) -> Result<(), E> {
        if self.bytes.len() > self.limit { Err(E::custom("it is too large")) } else { Ok(()) }
    }
}

/// Where a JSON value belongs.
struct Place<'a> {
    /// Of the field.
    number: u32,
    /// Of a value of the field.
    kind: &'a Kind,
    form: Form,
    out: &'a mut Out,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A field of one value. Null leaves it out, as it does a list or a map.
    One,
    List,
    Map,
    /// A value of a list or a map, or a whole message.
    Element,
}

/// A value that holds no others.
enum Scalar<'t> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(&'t str),
}

impl<'a> Place<'a> {
    fn of(field: &FieldDescriptor, kind: &'a Kind, out: &'a mut Out) -> Self {
        let form = match field {
            _ if field.is_map() => Form::Map,
            _ if field.is_list() => Form::List,
            _ => Form::One,
        };
        Self { number: field.number(), kind, form, out }
    }

    /// The kind of a place for one message.
    fn message(&self) -> Option<&'a MessageDescriptor> {
        match (self.form, self.kind) {
            (Form::One | Form::Element, Kind::Message(kind)) => Some(kind),
            _ => None,
        }
    }

    /// Writes a field of the message that belongs here.
    fn within<E: Error>(
        self,
        field: u32,
        write: impl FnOnce(Place<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let field = self.message().and_then(|kind| kind.get_field(field));
        let field = field.ok_or_else(|| self.wrong::<E>())?;
        self.out.message(self.number, |out| write(Place::of(&field, &field.kind(), out)))
    }

    fn wrong<E: Error>(&self) -> E {
        E::custom(format_args!("expected {}", self as &dyn Expected))
    }

    fn scalar<E: Error>(self, value: Scalar<'_>) -> Result<(), E> {
        let Some(kind) = self.message() else {
            let is_fit = !matches!(self.form, Form::List | Form::Map);
            return match is_fit.then(|| put(self.number, self.kind, &value, self.out)).flatten() {
                Some(()) => self.out.check(),
                None => Err(self.wrong()),
            };
        };
        match (kind.full_name(), value) {
            (VALUE, value) => {
                let field = match &value {
                    Scalar::Null => 1,
                    Scalar::Integer(_) | Scalar::Float(_) => 2,
                    Scalar::Text(_) => 3,
                    Scalar::Bool(_) => 4,
                };
                self.within(field, |place| place.scalar(value))
            }
            // A DynamicMessage of many paths takes many times their bytes.
            ("google.protobuf.FieldMask", Scalar::Text(paths)) => {
                self.out.message(self.number, |out| {
                    for path in paths.split(',').filter(|path| !path.is_empty()) {
                        put(1, &Kind::String, &Scalar::Text(&in_snake_case(path)), out);
                    }
                    Ok(())
                })
            }
            ("google.protobuf.Timestamp" | "google.protobuf.Duration", Scalar::Text(text)) => {
                let message = DynamicMessage::deserialize(kind.clone(), text.into_deserializer())?;
                self.message_of(&message)
            }
            (name, value) if name.ends_with("Value") && is_written_apart(kind) => {
                self.within(1, |place| place.scalar(value))
            }
            _ => Err(self.wrong()),
        }
    }

    fn message_of<E: Error>(self, message: &DynamicMessage) -> Result<(), E> {
        self.out.message(self.number, |out| message.encode(&mut out.bytes).map_err(E::custom))
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.form, self.kind) {
            (Form::List, _) => "an array",
            (Form::Map, _) => "an object",
            (_, Kind::Message(kind)) => match kind.name() {
                "ListValue" => "an array",
                "Duration" | "FieldMask" | "Timestamp" => "a text",
                _ => "an object",
            },
            (_, Kind::Bool) => "true or false",
            (_, Kind::String) => "a text",
            (_, Kind::Bytes) => "base64",
            (_, Kind::Enum(names)) => return write!(f, "a name of {}", names.name()),
            (_, Kind::Float | Kind::Double) => "a number",
            _ => "an integer that fits the field",
        })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.message() {
            Some(kind) if kind.full_name() == VALUE => self.scalar(Scalar::Null),
            _ if self.form == Form::Element => Err(self.wrong()),
            _ => Ok(()),
        }
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.scalar(Scalar::Integer(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.scalar(Scalar::Integer(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.scalar(Scalar::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        match self.message().map(MessageDescriptor::full_name) {
            Some(VALUE) => self.within(6, |place| place.visit_seq(list)),
            Some("google.protobuf.ListValue") => self.within(1, |place| place.visit_seq(list)),
            None if self.form == Form::List => {
                let Self { number, kind, form: _, out } = self;
                let form = Form::Element;
                while list.next_element_seed(Place { number, kind, form, out })?.is_some() {}
                Ok(())
            }
            _ => Err(self.wrong()),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        match (self.message(), self.kind) {
            (None, Kind::Message(entry)) if self.form == Form::Map => {
                entries(self.number, entry, map, self.out)
            }
            (None, _) => Err(self.wrong()),
            (Some(kind), _) => match kind.full_name() {
                VALUE => self.within(5, |place| place.visit_map(map)),
                "google.protobuf.Struct" => self.within(1, |place| place.visit_map(map)),
                "google.protobuf.Any" => {
                    let json = MapAccessDeserializer::new(map);
                    self.message_of(&DynamicMessage::deserialize(kind.clone(), json)?)
                }
                "google.protobuf.ListValue" => Err(self.wrong()),
                _ if is_written_apart(kind) => Err(self.wrong()),
                _ => self.out.message(self.number, |out| fields(kind, map, out)),
            },
        }
    }
}

fn fields<'de, A: MapAccess<'de>>(
    kind: &MessageDescriptor,
    mut map: A,
    out: &mut Out,
) -> Result<(), A::Error> {
    let mut seen = Vec::new();
    while let Some(name) = map.next_key::<String>()? {
        let by_name = || kind.get_field_by_name(&name);
        let Some(field) = kind.get_field_by_json_name(&name).or_else(by_name) else {
            return Err(Error::custom(format_args!("{} has no field '{name}'", kind.name())));
        };
        let begin = out.bytes.len();
        map.next_value_seed(Place::of(&field, &field.kind(), out))
            .map_err(|error| A::Error::custom(format_args!("{name}: {error}")))?;
        // Those of a choice exclude each other.
        let choice = field.containing_oneof().and_then(|it| it.fields().next());
        let taken = choice.map_or(field.number(), |first| first.number());
        if out.bytes.len() > begin {
            if seen.contains(&taken) {
                let text = format_args!("'{name}' is there twice, or excluded by another field");
                return Err(Error::custom(text));
            }
            seen.push(taken);
        }
    }
    Ok(())
}

fn entries<'de, A: MapAccess<'de>>(
    number: u32,
    entry: &MessageDescriptor,
    mut map: A,
    out: &mut Out,
) -> Result<(), A::Error> {
    let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    while let Some(name) = map.next_key::<String>()? {
        out.message(number, |out| {
            let place = Place { number: 1, kind: &key, form: Form::Element, out };
            place.scalar::<A::Error>(Scalar::Text(&name))?;
            map.next_value_seed(Place { number: 2, kind: &value, form: Form::Element, out })
        })?;
    }
    Ok(())
}

impl Scalar<'_> {
    /// A number that a field of integers holds, also as text, as JSON has the large ones.
    fn integer<T: TryFrom<i128>>(&self) -> Option<T> {
        let value = match self {
            Self::Integer(value) => *value,
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole, and i128 holds more than any field"
            )]
            Self::Float(value) if value.fract() == 0.0 => *value as i128,
            Self::Text(text) => text.parse().ok()?,
            _ => return None,
        };
        value.try_into().ok()
    }

    fn float(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "the field is a double")]
            Self::Integer(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
            Self::Null | Self::Bool(_) => None,
        }
    }

    fn bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            Self::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// Writes a value with its key; `None`: the field does not take it.
fn put(number: u32, kind: &Kind, value: &Scalar<'_>, out: &mut Out) -> Option<()> {
    macro_rules! put {
        ($type:ident, $value:expr) => {
            encoding::$type::encode(number, &$value, &mut out.bytes)
        };
    }
    match kind {
        Kind::Double => put!(double, value.float()?),
        #[expect(clippy::cast_possible_truncation, reason = "the field is a float")]
        Kind::Float => put!(float, value.float()? as f32),
        Kind::Int32 => put!(int32, value.integer()?),
        Kind::Int64 => put!(int64, value.integer()?),
        Kind::Uint32 => put!(uint32, value.integer()?),
        Kind::Uint64 => put!(uint64, value.integer()?),
        Kind::Sint32 => put!(sint32, value.integer()?),
        Kind::Sint64 => put!(sint64, value.integer()?),
        Kind::Fixed32 => put!(fixed32, value.integer()?),
        Kind::Fixed64 => put!(fixed64, value.integer()?),
        Kind::Sfixed32 => put!(sfixed32, value.integer()?),
        Kind::Sfixed64 => put!(sfixed64, value.integer()?),
        Kind::Bool => put!(bool, value.bool()?),
        Kind::String => {
            let Scalar::Text(text) = value else { return None };
            encode_key(number, WireType::LengthDelimited, &mut out.bytes);
            encode_varint(text.len() as u64, &mut out.bytes);
            out.bytes.extend_from_slice(text.as_bytes());
        }
        Kind::Bytes => match value {
            Scalar::Text(text) => put!(bytes, base64(text.as_bytes()).ok()?),
            _ => return None,
        },
        Kind::Enum(names) => {
            let number = match value {
                Scalar::Null if names.full_name() == "google.protobuf.NullValue" => 0,
                Scalar::Text(name) => names.get_value_by_name(name)?.number(),
                _ => value.integer()?,
            };
            put!(int32, number);
        }
        Kind::Message(_) => return None,
    }
    Some(())
}
