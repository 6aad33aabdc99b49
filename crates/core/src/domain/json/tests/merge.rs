//! RFC 7396: its own examples, its own algorithm, and bytes that stay.

use proptest::prelude::*;
use serde_json::Value;

use super::samples::{json, nested, small_object, tree, write_styled};
use super::*;

#[track_caller]
fn merged(current: &str, patch: &str, expected: &str) {
    let result = merge_patch(Some(&json(current)), &json(patch));
    assert_eq!(result.as_str(), expected, "{current} {patch}");
}

/// Appendix A, the cases in which both sides are objects; the rest is refused here.
#[test]
fn examples_of_the_rfc() {
    merged(r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
    merged(r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#);
    merged(r#"{"a":"b"}"#, r#"{"a":null}"#, "{}");
    merged(r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#);
    merged(r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#);
    merged(r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#);
    merged(r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#);
    merged(r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#);
    merged(r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#);
    merged("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#);
    // The example of section 3.
    merged(
        r#"{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}"#,
        r#"{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}"#,
        r#"{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}"#,
    );
}

#[test]
fn a_missing_value_counts_as_an_empty_object() {
    let patch = json(r#"{ "a" : { "b":null, "c" : [ null ] }, "d":null, "e\u0041": 1.50 }"#);
    let result = merge_patch(None, &patch);
    assert_eq!(result.as_str(), r#"{"a":{"c":[ null ]},"eA":1.50}"#);
    assert_eq!(merge_patch(None, &json("{ }")).as_str(), "{}");
}

#[test]
fn unnamed_members_keep_bytes_and_order() {
    merged(
        r#"{ "z\u0041" : [ 1 , 2 ],"b":1e0, "a\/":{ "x" : "\u0041", "y":{ } } }"#,
        r#"{"b":2, "a/":{"n":[ ]}}"#,
        r#"{"z\u0041":[ 1 , 2 ],"b":2,"a\/":{"x":"\u0041","y":{ },"n":[ ]}}"#,
    );
    merged(r#"{ "a" :1 }"#, "{}", r#"{ "a" :1 }"#);
    merged(r#"{ "a" :1 }"#, r#"{"b":null}"#, r#"{"a":1}"#);
}

#[test]
fn an_object_replaces_other_values_without_its_nulls() {
    merged(r#"{"a":1}"#, r#"{"a":{"b":{"c":null,"d":2},"e":null}}"#, r#"{"a":{"b":{"d":2}}}"#);
    merged(r#"{"a":[{"b":1}]}"#, r#"{"a":{"c":1}}"#, r#"{"a":{"c":1}}"#);
    merged(r#"{"a":null}"#, r#"{"a":{}}"#, r#"{"a":{}}"#);
    // Nulls inside lists are values.
    merged("{}", r#"{"a":[null,{"b":null}]}"#, r#"{"a":[null,{"b":null}]}"#);
}

#[test]
fn the_last_of_equal_keys_counts_on_either_side() {
    merged(r#"{"a":1,"b":0,"a":{"x":1}}"#, r#"{"a":{"y":2}}"#, r#"{"a":{"x":1,"y":2},"b":0}"#);
    merged(r#"{"a":{"x":1},"a":1}"#, r#"{"a":{"y":2}}"#, r#"{"a":{"y":2}}"#);
    merged(r#"{"a":1,"b":0,"\u0061":2}"#, r#"{"a":null}"#, r#"{"b":0}"#);
    merged(r#"{"a":1,"a":2}"#, r#"{"a":3}"#, r#"{"a":3}"#);
    merged(r#"{"c":1,"c":2}"#, r#"{"a":3}"#, r#"{"c":1,"c":2,"a":3}"#);
    merged(r#"{"a":1}"#, r#"{"a":null,"a":2}"#, r#"{"a":2}"#);
    merged(r#"{"a":1}"#, r#"{"a":{"x":1},"a":null}"#, "{}");
}

#[test]
fn equal_keys_do_not_multiply_a_patch() {
    let current = format!("{{{}\"b\":0}}", r#""a":0,"#.repeat(10_000));
    let patch = json(&format!(r#"{{"a":"{}"}}"#, "x".repeat(1000)));
    let result = merge_patch(Some(&json(&current)), &patch);
    assert_eq!(result.len(), patch.len() + r#","b":0"#.len());
}

#[test]
fn the_deepest_patch_makes_no_deeper_value() {
    let deepest = json(&nested(JsonType::Object, MAX_NESTING));
    assert_eq!(merge_patch(None, &deepest), deepest);
    assert_eq!(merge_patch(Some(&deepest), &deepest), deepest);
}

/// The algorithm of section 2.
fn reference(target: Option<Value>, patch: &Value) -> Value {
    let Value::Object(changes) = patch else {
        return patch.clone();
    };
    let mut result = match target {
        Some(Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    for (key, change) in changes {
        let old = result.remove(key);
        if !change.is_null() {
            result.insert(key.clone(), reference(old, change));
        }
    }
    Value::Object(result)
}

proptest! {
    #[test]
    fn merges_as_the_rfc_says(target in small_object(), patch in small_object(), seed: u64) {
        let (current, change) = (write_styled(&target, seed), write_styled(&patch, !seed));
        let result = merge_patch(Some(&current), &change);
        let result = Json::object(result.into_string()).unwrap();
        prop_assert_eq!(tree(&result), reference(Some(tree(&current)), &tree(&change)));
        let fresh = merge_patch(None, &change);
        prop_assert_eq!(tree(&fresh), reference(None, &tree(&change)));
    }

    #[test]
    fn unnamed_members_keep_their_bytes(target in small_object(), patch in small_object(), seed: u64) {
        let (current, change) = (write_styled(&target, seed), write_styled(&patch, !seed));
        let named = change.members();
        let untouched = |members: Vec<(String, Json)>| -> Vec<(String, Json)> {
            let is_named = |key: &str| named.iter().any(|(other, _)| other == key);
            members.into_iter().filter(|(key, _)| !is_named(key)).collect()
        };
        let result = merge_patch(Some(&current), &change);
        prop_assert_eq!(untouched(result.members()), untouched(current.members()));
    }
}
