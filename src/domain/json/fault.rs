//! The type of a JSON value, and what can be wrong with a text or an operation.

use std::fmt;

use super::MAX_NESTING;

/// Bytes of an overflowing number that a message shows; the number itself may have a megabyte.
const SHOWN_NUMBER_BYTES: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonType {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
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

/// Why a text is refused as JSON.
///
/// `Display` is a predicate of at most about 200 bytes that follows the name of the field: "is empty", "is not valid JSON: …".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum JsonFault {
    Empty,
    /// The message of serde_json, with line and column.
    Syntax(String),
    NotOfType {
        wanted: JsonType,
        found: JsonType,
    },
    TooDeep,
    /// An escape such as `\ud800` that is half of a surrogate pair.
    LoneSurrogate {
        /// Byte of the backslash in the text, from 0.
        offset: usize,
    },
    /// A number beyond the range of a double.
    NumberOverflow {
        /// Truncated if it is long.
        number: String,
    },
}

impl JsonFault {
    pub(super) fn number_overflow(text: &str) -> JsonFault {
        let mut number = format!("{text:.SHOWN_NUMBER_BYTES$}");
        if number.len() < text.len() {
            number.push('…');
        }
        JsonFault::NumberOverflow { number }
    }
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonFault::Empty => f.write_str("is empty"),
            JsonFault::Syntax(message) => write!(f, "is not valid JSON: {message}"),
            JsonFault::NotOfType { wanted, found } => {
                write!(f, "must be a JSON value of type {wanted} but is of type {found}")
            }
            JsonFault::TooDeep => {
                write!(f, "nests arrays and objects more than {MAX_NESTING} levels deep")
            }
            JsonFault::LoneSurrogate { offset } => {
                write!(f, "has an unpaired surrogate escape at byte {offset}")
            }
            JsonFault::NumberOverflow { number } => {
                write!(f, "has the number {number}, which is beyond the range of a double")
            }
        }
    }
}

impl std::error::Error for JsonFault {}

/// Why an operation fails on the current value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationFault {
    TypeMismatch {
        found: JsonType,
    },
    /// The sum is beyond an integer of 64 bits, or not a finite double.
    NumberOverflow,
    /// The result would nest deeper than [`super::MAX_NESTING`].
    TooDeep,
}
