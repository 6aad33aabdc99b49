//! Binary messages as JSON, by their descriptors and in one pass: nothing is built between the two.
//!
//! A field comes once, and the elements of a list one after another, as every encoder writes them.

use std::{fmt, io::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use prost::{
    bytes::Buf as _,
    encoding::{self, DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use crate::codec::is_written_apart;

/// Messages within messages.
const DEPTH: usize = 128;

/// Whole numbers below it are written without a fraction, as they were sent.
const EXACT: f64 = 9_007_199_254_740_992.0;

type Result<T = ()> = std::result::Result<T, String>;

/// Appends a message. Errors: it is not of its kind.
pub fn to_json(kind: &MessageDescriptor, message: &[u8], out: &mut Vec<u8>) -> Result {
    Writer { out, depth: 0 }.message(kind, message)
}

struct Writer<'o> {
    out: &'o mut Vec<u8>,
    depth: usize,
}

/// Reads a value by its type on the wire.
macro_rules! read {
    ($kind:ident, $type:ty, $wire:expr, $bytes:expr) => {{
        let mut value = <$type>::default();
        encoding::$kind::merge($wire, &mut value, $bytes, DecodeContext::default())
            .map_err(|error| error.to_string())?;
        value
    }};
}

impl Writer<'_> {
    fn message(&mut self, kind: &MessageDescriptor, message: &[u8]) -> Result {
        if self.depth == DEPTH {
            return Err("it is nested too deep".into());
        }
        self.depth += 1;
        match kind.full_name() {
            "google.protobuf.Struct" => self.only(kind, message, [b'{', b'}'])?,
            "google.protobuf.ListValue" => self.only(kind, message, [b'[', b']'])?,
            "google.protobuf.Value" => self.any(kind, message)?,
            _ if is_written_apart(kind) => {
                let read = DynamicMessage::decode(kind.clone(), message);
                let read = read.map_err(|error| error.to_string())?;
                serde_json::to_writer(&mut *self.out, &read).map_err(|error| error.to_string())?;
            }
            _ => self.fields(kind, message)?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn fields(&mut self, kind: &MessageDescriptor, mut message: &[u8]) -> Result {
        self.out.push(b'{');
        // The list or the map that is open, by its number, and how it ends.
        let mut open = None;
        while message.has_remaining() {
            let Some((field, wire)) = next(kind, &mut message)? else { continue };
            if open.is_none_or(|(number, _)| number != field.number()) {
                self.out.extend(open.take().map(|(_, end)| end));
                self.comma();
                self.text(field.json_name())?;
                self.out.push(b':');
                if field.is_map() || field.is_list() {
                    let [begin, end] = if field.is_map() { *b"{}" } else { *b"[]" };
                    self.out.push(begin);
                    open = Some((field.number(), end));
                }
            }
            self.elements(&field, wire, &mut message)?;
        }
        self.out.extend(open.map(|(_, end)| end));
        self.out.push(b'}');
        Ok(())
    }

    /// The only field of a message, in the place of the message.
    fn only(
        &mut self,
        kind: &MessageDescriptor,
        mut message: &[u8],
        [begin, end]: [u8; 2],
    ) -> Result {
        self.out.push(begin);
        while message.has_remaining() {
            if let Some((field, wire)) = next(kind, &mut message)? {
                self.elements(&field, wire, &mut message)?;
            }
        }
        self.out.push(end);
        Ok(())
    }

    /// A JSON value of any type.
    fn any(&mut self, kind: &MessageDescriptor, mut message: &[u8]) -> Result {
        while message.has_remaining() {
            if let Some((field, wire)) = next(kind, &mut message)? {
                return self.value(&field.kind(), wire, &mut message);
            }
        }
        self.out.extend(b"null");
        Ok(())
    }

    /// What a field of a list, of a map or of one value has at one place.
    fn elements(&mut self, field: &FieldDescriptor, wire: WireType, bytes: &mut &[u8]) -> Result {
        let (kind, packed) = (field.kind(), wire == WireType::LengthDelimited);
        if !field.is_list() && !field.is_map() {
            return self.value(&kind, wire, bytes);
        }
        let wire = kind.wire_type();
        if packed && wire != WireType::LengthDelimited {
            let mut packed = delimited(bytes)?;
            while packed.has_remaining() {
                self.comma();
                self.value(&kind, wire, &mut packed)?;
            }
            return Ok(());
        }
        self.comma();
        match &kind {
            Kind::Message(entry) if field.is_map() => self.entry(entry, delimited(bytes)?),
            _ => self.value(&kind, wire, bytes),
        }
    }

    fn entry(&mut self, entry: &MessageDescriptor, mut bytes: &[u8]) -> Result {
        let (mut key, mut value) = (None, None);
        while bytes.has_remaining() {
            let Some((field, wire)) = next(entry, &mut bytes)? else { continue };
            let at = bytes;
            skip(field.number(), wire, &mut bytes)?;
            *if field.number() == 1 { &mut key } else { &mut value } = Some((wire, at));
        }
        let (names, values) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let begin = self.out.len();
        self.value_or_default(&names.kind(), key)?;
        if self.out.get(begin) != Some(&b'"') {
            self.out.insert(begin, b'"');
            self.out.push(b'"');
        }
        self.out.push(b':');
        self.value_or_default(&values.kind(), value)
    }

    /// What has its default is not sent, and is there in a map.
    fn value_or_default(&mut self, kind: &Kind, sent: Option<(WireType, &[u8])>) -> Result {
        let wire = kind.wire_type();
        let zeros: &[u8] = if wire == WireType::LengthDelimited { &[0] } else { &[0; 8] };
        let (wire, mut bytes) = sent.unwrap_or((wire, zeros));
        self.value(kind, wire, &mut bytes)
    }

    fn value(&mut self, kind: &Kind, wire: WireType, bytes: &mut &[u8]) -> Result {
        match kind {
            Kind::Message(kind) => return self.message(kind, delimited(bytes)?),
            Kind::Enum(names) => self.name(names, read!(int32, i32, wire, bytes)),
            Kind::String => {
                let text = str::from_utf8(delimited(bytes)?).map_err(|error| error.to_string())?;
                return self.text(text);
            }
            Kind::Bytes => {
                let base64 = STANDARD.encode(delimited(bytes)?);
                return self.text(&base64);
            }
            Kind::Bool => self.put(read!(bool, bool, wire, bytes)),
            Kind::Double => self.number(read!(double, f64, wire, bytes)),
            Kind::Float => self.number(read!(float, f32, wire, bytes)),
            Kind::Int32 => self.put(read!(int32, i32, wire, bytes)),
            Kind::Sint32 => self.put(read!(sint32, i32, wire, bytes)),
            Kind::Sfixed32 => self.put(read!(sfixed32, i32, wire, bytes)),
            Kind::Uint32 => self.put(read!(uint32, u32, wire, bytes)),
            Kind::Fixed32 => self.put(read!(fixed32, u32, wire, bytes)),
            Kind::Int64 => self.quoted(read!(int64, i64, wire, bytes)),
            Kind::Sint64 => self.quoted(read!(sint64, i64, wire, bytes)),
            Kind::Sfixed64 => self.quoted(read!(sfixed64, i64, wire, bytes)),
            Kind::Uint64 => self.quoted(read!(uint64, u64, wire, bytes)),
            Kind::Fixed64 => self.quoted(read!(fixed64, u64, wire, bytes)),
        }
        Ok(())
    }

    fn name(&mut self, names: &EnumDescriptor, number: i32) {
        match names.get_value(number) {
            _ if names.full_name() == "google.protobuf.NullValue" => self.out.extend(b"null"),
            Some(value) => self.quoted(value.name()),
            None => self.put(number),
        }
    }

    fn number<T: Copy + fmt::Debug + Into<f64>>(&mut self, number: T) {
        let value: f64 = number.into();
        if value.is_nan() {
            self.quoted("NaN");
        } else if value.is_infinite() {
            self.quoted(if value > 0.0 { "Infinity" } else { "-Infinity" });
        } else if value.fract() == 0.0 && value.abs() < EXACT {
            self.put(format_args!("{value:.0}"));
        } else {
            // The shortest text that reads as the same number.
            self.put(format_args!("{number:?}"));
        }
    }

    fn text(&mut self, text: &str) -> Result {
        serde_json::to_writer(&mut *self.out, text).map_err(|error| error.to_string())
    }

    fn put(&mut self, value: impl fmt::Display) {
        // Writing to memory does not fail.
        let _ = write!(self.out, "{value}");
    }

    fn quoted(&mut self, value: impl fmt::Display) {
        let _ = write!(self.out, "\"{value}\"");
    }

    /// Parts what is to come from what is before it.
    fn comma(&mut self) {
        if !matches!(self.out.last(), Some(b'{' | b'[')) {
            self.out.push(b',');
        }
    }
}

/// The next field that its kind knows, and its type on the wire; `None`: one that it does not know was skipped.
fn next(
    kind: &MessageDescriptor,
    bytes: &mut &[u8],
) -> Result<Option<(FieldDescriptor, WireType)>> {
    let (number, wire) = decode_key(bytes).map_err(|error| error.to_string())?;
    match kind.get_field(number) {
        Some(field) => Ok(Some((field, wire))),
        None => skip(number, wire, bytes).map(|()| None),
    }
}

fn skip(number: u32, wire: WireType, bytes: &mut &[u8]) -> Result {
    skip_field(wire, number, bytes, DecodeContext::default()).map_err(|error| error.to_string())
}

fn delimited<'b>(bytes: &mut &'b [u8]) -> Result<&'b [u8]> {
    let length = decode_varint(bytes).map_err(|error| error.to_string())?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let (value, rest) = bytes.split_at_checked(length).ok_or("it ends within a field")?;
    *bytes = rest;
    Ok(value)
}
