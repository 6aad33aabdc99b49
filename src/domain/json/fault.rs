//! What a JSON value is, and what can be wrong with a text that should be one.

use std::fmt;

/// Bytes of a number that a fault repeats; the number itself may be a megabyte.
const SHOWN_NUMBER_BYTES: usize = 40;

/// The six kinds of value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonType {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list of values.
    Array,
    /// Members by key.
    Object,
}

impl JsonType {
    /// The type of a value's text, which its first byte tells.
    pub(super) fn of(text: &str) -> JsonType {
        match text.as_bytes().first() {
            Some(b'{') => JsonType::Object,
            Some(b'[') => JsonType::Array,
            Some(b'"') => JsonType::String,
            Some(b't' | b'f') => JsonType::Bool,
            Some(b'-' | b'0'..=b'9') => JsonType::Number,
            _ => JsonType::Null,
        }
    }
}

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonType::Null => "null",
            JsonType::Bool => "boolean",
            JsonType::Number => "number",
            JsonType::String => "string",
            JsonType::Array => "array",
            JsonType::Object => "object",
        })
    }
}

/// Why a text is not taken as JSON.
///
/// `Display` is a predicate of at most some 200 bytes that follows the name of the field: "is
/// empty", "is not valid JSON: …".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsonFault {
    /// Nothing but white space.
    Empty,
    /// Not the grammar of RFC 8259.
    Syntax {
        /// Line of the fault, from 1.
        line: usize,
        /// Byte in that line, from 1; 0 where the fault is the end of the line before.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A value of another type than the field takes.
    NotOfType {
        /// The type that the field takes.
        wanted: JsonType,
        /// The type that came.
        found: JsonType,
    },
    /// Arrays and objects inside one another beyond the limit.
    TooDeep {
        /// The limit, [`super::MAX_NESTING`].
        limit: usize,
    },
    /// An escape such as `\ud800` that is half a character.
    LoneSurrogate {
        /// Byte of the escape's backslash in the text, from 0.
        offset: usize,
    },
    /// A number beyond the range of a double.
    NumberOverflow {
        /// The number, cut when it is long.
        number: String,
    },
}

impl JsonFault {
    pub(super) fn syntax(error: &serde_json::Error) -> JsonFault {
        let (line, column) = (error.line(), error.column());
        let mut message = error.to_string();
        if let Some(end) = message.rfind(&format!(" at line {line} column {column}")) {
            message.truncate(end);
        }
        JsonFault::Syntax { line, column, message }
    }

    pub(super) fn number_overflow(number: &str) -> JsonFault {
        let number = match number.get(..SHOWN_NUMBER_BYTES) {
            Some(shown) if shown.len() < number.len() => format!("{shown}…"),
            _ => number.to_owned(),
        };
        JsonFault::NumberOverflow { number }
    }
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonFault::Empty => f.write_str("is empty"),
            JsonFault::Syntax { line, column, message } => {
                write!(f, "is not valid JSON: {message} at line {line}, column {column}")
            }
            JsonFault::NotOfType { wanted, found } => {
                write!(f, "must be a JSON value of type {wanted} but is of type {found}")
            }
            JsonFault::TooDeep { limit } => {
                write!(f, "nests arrays and objects more than {limit} levels deep")
            }
            JsonFault::LoneSurrogate { offset } => {
                write!(f, "has half of a surrogate pair, which is no character, at byte {offset}")
            }
            JsonFault::NumberOverflow { number } => {
                write!(f, "has the number {number}, which is beyond the range of a double")
            }
        }
    }
}

impl std::error::Error for JsonFault {}
