//! One text for all texts that mean the same value.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::value::RawValue;

/// Deeper than any value that is stored; below it texts are only compacted.
const MAX_DEPTH: usize = 128;

/// The value with sorted keys (of duplicates the last counts), strings escaped in one way and
/// nothing between tokens. Numbers stay as they are written, so that `1` and `1.0` differ and
/// no digit is lost. The text must be JSON.
pub fn canonical(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    write(text.trim(), MAX_DEPTH, &mut out);
    out
}

/// Whether two texts mean the same value.
pub fn same(one: &str, other: &str) -> bool {
    one == other || canonical(one) == canonical(other)
}

fn write(value: &str, depth: usize, out: &mut String) {
    if depth > 0 && try_write(value, depth, out).is_ok() {
        return;
    }
    out.push_str(&super::compact(value));
}

/// Writes nothing when the value cannot be read.
fn try_write(value: &str, depth: usize, out: &mut String) -> Result<(), serde_json::Error> {
    match value.as_bytes().first() {
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(value)?;
            out.push('{');
            for (position, (key, value)) in members.iter().enumerate() {
                let comma = if position == 0 { "" } else { "," };
                let _ = write!(out, "{comma}{}:", super::quote(key));
                write(value.get(), depth - 1, out);
            }
            out.push('}');
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(value)?;
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                out.push_str(if position == 0 { "" } else { "," });
                write(item.get(), depth - 1, out);
            }
            out.push(']');
        }
        Some(b'"') => out.push_str(&super::quote(&serde_json::from_str::<String>(value)?)),
        _ => out.push_str(value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys_white_space_and_escapes_do_not_matter() {
        let one = r#"{"a":1.0,"b":[1, {"x":"é"}]}"#;
        assert_eq!(canonical(r#" { "b":[1,{"x":"\u00e9"}],"a" :1.0 }"#), canonical(one));
        assert_eq!(canonical(one), r#"{"a":1.0,"b":[1,{"x":"é"}]}"#);
        assert!(same(r#"{"a":2,"a":1}"#, r#"{"a":1}"#));
        assert!(same(" null", "null "));
    }

    #[test]
    fn what_differs_is_told_apart_to_the_last_digit() {
        for (one, other) in [
            ("1", "1.0"),
            ("12345678901234567890123", "12345678901234567890124"),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":1}"#, r#"{"b":1}"#),
            (r#""1""#, "1"),
            ("{}", "[]"),
            ("null", "false"),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn deep_values_do_not_exhaust_the_stack() {
        let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(5000), "]".repeat(5000));
        assert!(same(&deep("1"), &deep(" 1")));
        assert!(!same(&deep("1"), &deep("2")));
    }
}
