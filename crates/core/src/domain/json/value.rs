//! The type of JSON values, and how strings and objects are written.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    sync::Arc,
};

use hashbrown::DefaultHashBuilder;
use indexmap::IndexMap;
use serde::de::IgnoredAny;

use super::read::{Head, Reader, check};

pub(super) const WHITE_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Members in order of first appearance. hashbrown's hash is seeded like std's, and faster on short keys.
pub(super) type Map<K, V> = IndexMap<K, V, DefaultHashBuilder>;

named! {
    JsonType {
        Null = "null",
        Bool = "boolean",
        Number = "number",
        String = "string",
        Array = "array",
        Object = "object",
    }
}

/// Every byte of a damaged value: no JSON begins with it.
const DAMAGED: &str = "\u{1}";

/// One JSON value as the text that came, without the white space around it.
///
/// * It is valid JSON (RFC 8259) and not empty.
/// * It nests at most [`MAX_NESTING`](super::MAX_NESTING) levels.
/// * Its strings have no lone surrogates.
/// * Its numbers are finite as doubles.
///
/// `==` compares bytes; [`same_value`](super::same_value) compares values. Clones share the text: a value is in the state, in an event's
/// changes, in the change set and in answers at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Json(Arc<String>);

impl Json {
    /// An error is a predicate of at most about 200 bytes that follows the name of the field: "is empty", "is not valid JSON: …".
    pub fn parse(text: String) -> Result<Json, String> {
        let trimmed = text.trim_matches(WHITE_SPACE);
        if trimmed.is_empty() {
            return Err("is empty".to_owned());
        }
        let _: IgnoredAny =
            serde_json::from_str(&text).map_err(|error| format!("is not valid JSON: {error}"))?;
        check(&text)?;
        Ok(match trimmed.len() == text.len() {
            true => Json::from_stored(text),
            false => Json::from_stored(trimmed.to_owned()),
        })
    }

    pub fn object(text: String) -> Result<Json, String> {
        Json::parse(text)?.of_type(JsonType::Object)
    }

    pub fn array(text: String) -> Result<Json, String> {
        Json::parse(text)?.of_type(JsonType::Array)
    }

    fn of_type(self, wanted: JsonType) -> Result<Json, String> {
        let found = self.json_type();
        if found == wanted {
            return Ok(self);
        }
        Err(format!("must be a JSON value of type {wanted}, but has type {found}"))
    }

    /// Text that was a `Json` before it was stored, if it still is one.
    pub fn stored(text: &str) -> Option<Json> {
        is_stored(text).then(|| Json::from_stored(text.to_owned()))
    }

    pub fn stored_object(text: &str) -> Option<Json> {
        Self::stored(text).filter(|json| json.json_type() == JsonType::Object)
    }

    /// Likewise, of a value that a state can lack: damaged text becomes a placeholder of the same length without its content. See
    /// [`Json::is_damaged`].
    pub fn stored_or_damaged(text: &str) -> Json {
        Self::stored(text).unwrap_or_else(|| Json::from_stored(DAMAGED.repeat(text.len())))
    }

    /// Whether this is what was left of a value that is damaged in its store: no answer may hold it, and no decision may depend on it.
    pub fn is_damaged(&self) -> bool {
        self.0.is_empty() || self.0.starts_with(DAMAGED)
    }

    /// Trusts text that was a `Json` before it was stored.
    ///
    /// On any other text the functions of [this module](super) return nonsense, but they neither panic nor loop.
    pub fn from_stored(mut text: String) -> Json {
        // Values stay in caches, which count their lengths.
        text.shrink_to_fit();
        Json(Arc::new(text))
    }

    pub fn null() -> Json {
        Json::from_stored("null".to_owned())
    }

    pub fn string(value: &str) -> Json {
        let mut text = String::with_capacity(value.len() + 2);
        push_string(&mut text, value);
        Json::from_stored(text)
    }

    pub fn integer(value: i64) -> Json {
        Json::from_stored(value.to_string())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn into_string(self) -> String {
        Arc::unwrap_or_clone(self.0)
    }

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
        let owned = |(key, value): (Cow<'_, str>, &str)| {
            (key.into_owned(), Json::from_stored(value.to_owned()))
        };
        members.into_iter().map(owned).collect()
    }

    pub fn of_members(members: &[(String, Json)]) -> Json {
        object_text(members.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    /// An array's items, byte for byte. Empty for any other value.
    pub fn items(&self) -> Vec<Json> {
        self.item_texts().into_iter().map(|item| Json::from_stored(item.to_owned())).collect()
    }

    pub(super) fn item_texts(&self) -> Vec<&str> {
        let mut reader = Reader::new(&self.0);
        let mut items = Vec::new();
        if let Head::Array = reader.head() {
            while reader.has_item() {
                items.push(reader.skip_value());
            }
        }
        items
    }

    pub fn of_items(items: &[impl Borrow<str>]) -> Json {
        let bytes = items.iter().map(|item| item.borrow().len() + 1).sum::<usize>();
        let mut text = String::with_capacity(bytes + 2);
        text.push('[');
        for (at, item) in items.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "," });
            text.push_str(item.borrow());
        }
        text.push(']');
        Json::from_stored(text)
    }
}

impl Borrow<str> for Json {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub fn push_string(text: &mut String, value: &str) {
    if is_plain(value) {
        text.push('"');
        text.push_str(value);
        text.push('"');
    } else {
        text.push_str(&quoted(value));
    }
}

/// Bytes of a string as JSON text, without its quotes.
pub fn text_bytes(value: &str) -> usize {
    if is_plain(value) { value.len() } else { quoted(value).len() - 2 }
}

/// Whether text from a store is JSON as [`Json::parse`] takes it, numbers beyond a double aside. The second pass is for escapes alone.
fn is_stored(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
        && !text.starts_with(WHITE_SPACE)
        && (!text.contains('\\') || check(text).is_ok())
}

/// Whether a string needs no escapes. Has no early exit, so that the compiler vectorises it.
fn is_plain(value: &str) -> bool {
    value
        .bytes()
        .fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

fn quoted(value: &str) -> String {
    // serde_json can write every string.
    serde_json::to_string(value).unwrap_or_else(|_| "\"\"".to_owned())
}

/// Writes an object from its keys, each once, and the JSON texts of their values.
pub fn object_text<'a>(
    members: impl IntoIterator<Item = (&'a str, &'a str), IntoIter: Clone>,
) -> Json {
    let members = members.into_iter();
    let bytes: usize = members.clone().map(|(key, value)| key.len() + value.len() + 4).sum();
    let mut text = String::with_capacity(bytes + 2);
    text.push('{');
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        push_string(&mut text, key);
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
    Json::from_stored(text)
}
