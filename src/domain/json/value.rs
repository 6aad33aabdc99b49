//! The type of JSON values.

use std::borrow::Cow;
use std::fmt;

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use serde::de::IgnoredAny;

use super::escape::push_string;
use super::fault::{JsonFault, JsonType};
use super::read::{Head, Reader};
use super::scan;

/// White space as JSON defines it.
pub(super) const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Members in order of first appearance. hashbrown's hash is seeded like std's, and faster on short keys.
pub(super) type Map<K, V> = IndexMap<K, V, DefaultHashBuilder>;

/// One JSON value as the text that came, without the white space around it.
///
/// * It is valid JSON (RFC 8259) and not empty.
/// * It nests at most [`MAX_NESTING`](super::MAX_NESTING) levels.
/// * Its strings have no lone surrogates.
/// * Its numbers are finite as doubles.
///
/// `==` compares bytes; [`same_value`](super::same_value) compares values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Json(String);

impl Json {
    pub fn parse(text: String) -> Result<Json, JsonFault> {
        let trimmed = text.trim_matches(WHITE_SPACE);
        if trimmed.is_empty() {
            return Err(JsonFault::Empty);
        }
        let _: IgnoredAny =
            serde_json::from_str(&text).map_err(|error| JsonFault::Syntax(error.to_string()))?;
        scan::check(&text)?;
        Ok(Json(if trimmed.len() == text.len() { text } else { trimmed.to_owned() }))
    }

    pub fn object(text: String) -> Result<Json, JsonFault> {
        Json::parse(text)?.of_type(JsonType::Object)
    }

    pub fn array(text: String) -> Result<Json, JsonFault> {
        Json::parse(text)?.of_type(JsonType::Array)
    }

    fn of_type(self, wanted: JsonType) -> Result<Json, JsonFault> {
        let found = self.json_type();
        if found == wanted { Ok(self) } else { Err(JsonFault::NotOfType { wanted, found }) }
    }

    /// Trusts text that was a `Json` before it was stored.
    ///
    /// On any other text the functions of [this module](super) return nonsense, but they neither panic nor loop.
    pub fn from_stored(text: String) -> Json {
        Json(text)
    }

    pub fn null() -> Json {
        Json("null".to_owned())
    }

    pub fn string(value: &str) -> Json {
        let mut text = String::with_capacity(value.len() + 2);
        push_string(&mut text, "", value);
        Json(text)
    }

    pub fn integer(value: i64) -> Json {
        Json(value.to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

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

    pub fn json_type(&self) -> JsonType {
        match self.0.as_bytes() {
            [b'{', ..] => JsonType::Object,
            [b'[', ..] => JsonType::Array,
            [b'"', ..] => JsonType::String,
            [b't' | b'f', ..] => JsonType::Bool,
            [b'-' | b'0'..=b'9', ..] => JsonType::Number,
            _ => JsonType::Null,
        }
    }

    /// A string's characters; `None` for any other value.
    pub fn decoded(&self) -> Option<Cow<'_, str>> {
        match Reader::new(&self.0).head() {
            Head::String(text) => Some(text.decode()),
            _ => None,
        }
    }

    /// An object's members in order of first appearance, keys decoded, values as the bytes that came. If a key comes twice, its
    /// last value counts. Empty for any other value.
    pub fn members(&self) -> Vec<(String, Json)> {
        let mut reader = Reader::new(&self.0);
        let mut members = Map::with_capacity_and_hasher(8, DefaultHashBuilder::default());
        if let Head::Object = reader.head() {
            while let Some(key) = reader.next_key() {
                members.insert(key.decode(), reader.skip_value());
            }
        }
        let owned = |(key, value): (Cow<'_, str>, &str)| (key.into_owned(), Json(value.to_owned()));
        members.into_iter().map(owned).collect()
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
