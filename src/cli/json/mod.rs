//! JSON text as text: checked, compacted and taken apart without rewriting a number.

mod canonical;
mod members;

use std::fmt::Write as _;

use serde_json::value::RawValue;

pub use canonical::{canonical, same};
pub use members::{Object, cut, insert_first, replace};

/// The text of one JSON value, without the white space around it.
///
/// # Errors
///
/// What the parser says, with line and column.
pub fn value(text: &str) -> Result<&str, String> {
    serde_json::from_str::<&RawValue>(text).map(RawValue::get).map_err(|error| error.to_string())
}

/// The text of one JSON object, without the white space around it.
///
/// # Errors
///
/// As [`value`], and when the value is of another type.
pub fn object(text: &str) -> Result<&str, String> {
    let text = value(text)?;
    if text.starts_with('{') {
        Ok(text)
    } else {
        Err(format!("a JSON object is needed, not {}", type_of(text)))
    }
}

/// The type of a value, for messages.
pub fn type_of(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// A string as JSON text.
pub fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// An object of the given keys and value texts, in their order.
pub fn write_object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::from("{");
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        let _ = write!(text, "{}:{value}", quote(key));
    }
    text.push('}');
    text
}

/// The same value on one line: white space between tokens is dropped, tokens
/// stay byte for byte. The text must be JSON.
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut escaped = false;
    for letter in text.chars() {
        if in_string {
            in_string = escaped || letter != '"';
            escaped = !escaped && letter == '\\';
        } else if letter == '"' {
            in_string = true;
        } else if letter.is_ascii_whitespace() {
            continue;
        }
        out.push(letter);
    }
    out
}

/// Compacts a text into what serde writes out as it is.
///
/// # Errors
///
/// When the text is no JSON.
pub fn raw(text: &str) -> Result<Box<RawValue>, String> {
    RawValue::from_string(compact(text)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_trimmed_and_objects_are_objects() {
        assert_eq!(value(" 1e2 \n"), Ok("1e2"));
        assert_eq!(object("\t{ \"a\" :1}"), Ok("{ \"a\" :1}"));
        assert!(value("hello").is_err());
        assert!(value("").is_err());
        assert!(value("1 2").is_err());
        assert_eq!(object("[1]").unwrap_err(), "a JSON object is needed, not a list");
    }

    #[test]
    fn compacting_keeps_strings_and_numbers_as_they_are() {
        let text = "{ \"a b\\\" : \" : [ 1.0 , 12345678901234567890123 ],\r\n\"\\\\\" : \"\\n \" }";
        let expected = "{\"a b\\\" : \":[1.0,12345678901234567890123],\"\\\\\":\"\\n \"}";
        assert_eq!(compact(text), expected);
    }

    #[test]
    fn an_object_is_written_in_order_with_keys_escaped() {
        assert_eq!(write_object([]), "{}");
        assert_eq!(write_object([("b\"", "1"), ("a", "[]")]), r#"{"b\"":1,"a":[]}"#);
    }

    proptest! {
        #[test]
        fn compacting_changes_no_value(key in ".*", text in ".*", number in any::<i64>()) {
            let value = serde_json::json!({ key: [text, number, null, {"x": true}] });
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(compact(&pretty), value.to_string());
        }
    }
}
