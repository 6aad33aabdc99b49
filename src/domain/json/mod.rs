//! JSON as text: one type that keeps a value byte for byte, and what is computed from it.
//!
//! Nothing here builds a general tree. Text is validated once, when it comes in ([`Json::parse`]);
//! everything after that reads it in one pass and trusts it.

mod compare;
mod fault;
mod fingerprint;
mod members;
mod merge;
mod number;
mod operate;
mod read;
mod scan;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

pub use compare::{same_tokens, same_value};
pub use fault::{JsonFault, JsonType};
pub use fingerprint::fingerprint;
pub use merge::merge_patch;
pub use operate::{Amount, OperationFault, increment, list_append};
pub use read::{Head, RawString, Reader};
pub use write::{ObjectWriter, object_text, push_string, text_bytes};

use members::Members;

/// How many arrays and objects may stand inside one another; `[[1]]` has two.
///
/// Deep enough for what people write, and low enough that recursion over a value cannot exhaust a
/// thread's stack and that serde_json (127) and the kits read what we hand out.
pub const MAX_NESTING: usize = 100;

/// What JSON counts as white space.
const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// One JSON value as the text that came, without the white space around it.
///
/// * It is valid JSON (RFC 8259) and not empty.
/// * It nests at most [`MAX_NESTING`] levels.
/// * Every escape in its strings makes a Unicode character: there is no lone surrogate.
/// * Every number fits into a double, so that it is finite for every reader.
///
/// `==` compares bytes; [`same_value`] compares values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Json(String);

impl Json {
    /// Any value.
    ///
    /// # Errors
    ///
    /// Every [`JsonFault`] but [`JsonFault::NotOfType`].
    pub fn parse(mut text: String) -> Result<Json, JsonFault> {
        let start = text.len() - text.trim_start_matches(WHITE_SPACE).len();
        if start == text.len() {
            return Err(JsonFault::Empty);
        }
        let value: &RawValue = serde_json::from_str(&text).map_err(|e| JsonFault::syntax(&e))?;
        let length = value.get().len();
        scan::check(value.get(), start)?;
        text.truncate(start + length);
        if start > 0 {
            text.drain(..start);
        }
        if text.capacity() > 2 * text.len() {
            // White space that was cut off must not stay in memory for as long as the value.
            text.shrink_to_fit();
        }
        Ok(Json(text))
    }

    /// One object.
    ///
    /// # Errors
    ///
    /// As [`Json::parse`], and [`JsonFault::NotOfType`].
    pub fn object(text: String) -> Result<Json, JsonFault> {
        Json::parse(text)?.of_type(JsonType::Object)
    }

    /// One array.
    ///
    /// # Errors
    ///
    /// As [`Json::parse`], and [`JsonFault::NotOfType`].
    pub fn array(text: String) -> Result<Json, JsonFault> {
        Json::parse(text)?.of_type(JsonType::Array)
    }

    fn of_type(self, wanted: JsonType) -> Result<Json, JsonFault> {
        let found = self.json_type();
        if found == wanted { Ok(self) } else { Err(JsonFault::NotOfType { wanted, found }) }
    }

    /// Text that was a `Json` before it was stored; it is not looked at again.
    ///
    /// Text that is no JSON makes the functions of this module answer nonsense, but neither panic
    /// nor run on.
    pub fn from_stored(text: String) -> Json {
        Json(text)
    }

    /// `null`.
    pub fn null() -> Json {
        Json("null".to_owned())
    }

    /// A string, escaped where JSON asks for it.
    pub fn string(value: &str) -> Json {
        let mut text = String::with_capacity(value.len() + 2);
        write::push_string(&mut text, "", value);
        Json(text)
    }

    /// A whole number.
    pub fn integer(value: i64) -> Json {
        Json(value.to_string())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, without copying it.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Bytes of the text.
    #[expect(
        clippy::len_without_is_empty,
        reason = "a JSON text is never empty; the length is a size to be added up"
    )]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// What kind of value it is.
    pub fn json_type(&self) -> JsonType {
        JsonType::of(&self.0)
    }

    /// A string's characters, with its escapes decoded; `None` for any other value.
    pub fn decoded(&self) -> Option<Cow<'_, str>> {
        match Reader::new(&self.0).head() {
            Head::String(raw) => Some(raw.decode()),
            _ => None,
        }
    }

    /// An object's members in order of first appearance, keys decoded, values as the bytes that
    /// came. Of a key that is there twice the last value counts. Empty for any other value.
    pub fn members(&self) -> Vec<(String, Json)> {
        let mut reader = Reader::new(&self.0);
        let Head::Object = reader.head() else {
            return Vec::new();
        };
        let mut members = Members::default();
        while let Some(key) = reader.next_key() {
            members.put(key.decode(), reader.skip_value());
        }
        members
            .into_entries()
            .map(|(key, value)| (key.into_owned(), Json(value.to_owned())))
            .collect()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
