//! Whether two JSON texts mean the same value.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// Deeper than any value that is stored; below it texts are compared as they are.
const MAX_DEPTH: usize = 128;

/// Whether two values are the same: objects without order (of duplicate keys the
/// last counts), strings unescaped, numbers as they are written, so that `1` and
/// `1.0` differ and no digit is lost.
pub fn same(one: &str, other: &str) -> bool {
    same_within(one.trim(), other.trim(), MAX_DEPTH)
}

fn same_within(one: &str, other: &str, depth: usize) -> bool {
    if one == other {
        return true;
    }
    if depth == 0 {
        return super::compact(one) == super::compact(other);
    }
    let same = |a: &RawValue, b: &RawValue| same_within(a.get(), b.get(), depth - 1);
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => {
            let read = |text| serde_json::from_str::<BTreeMap<String, &RawValue>>(text).ok();
            let (Some(one), Some(other)) = (read(one), read(other)) else {
                return false;
            };
            let mut pairs = one.iter().zip(&other);
            one.len() == other.len() && pairs.all(|((k, a), (l, b))| k == l && same(a, b))
        }
        (Some(b'['), Some(b'[')) => {
            let read = |text| serde_json::from_str::<Vec<&RawValue>>(text).ok();
            let (Some(one), Some(other)) = (read(one), read(other)) else {
                return false;
            };
            one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| same(a, b))
        }
        (Some(b'"'), Some(b'"')) => {
            let read = |text| serde_json::from_str::<String>(text).ok();
            read(one).is_some_and(|text| Some(text) == read(other))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys_white_space_and_escapes_do_not_matter() {
        assert!(same(
            r#"{"a":1,"b":[1, {"x":"é"}]}"#,
            r#"{ "b":[1,{"x":"\u00e9"}],"a":1 }"#
        ));
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
