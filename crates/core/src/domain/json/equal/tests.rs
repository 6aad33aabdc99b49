//! Equality by value.

use proptest::prelude::*;

use super::super::tests::samples::{canonical, json, nested, value, write_styled};
use super::super::{JsonType, MAX_NESTING};
use super::*;

#[track_caller]
fn check(a: &str, b: &str, equal: bool) {
    assert_eq!(same_value(&json(a), &json(b)), equal, "{a} {b}");
    assert_eq!(same_value(&json(b), &json(a)), equal, "{b} {a}");
}

#[test]
fn numbers_have_one_normal_form() {
    for (text, expected) in [
        ("-0", "0"),
        ("-0.00e99999999999999999999", "0"),
        ("17", "17"),
        ("-170.0e-1", "-17"),
        ("0.0025E+5", "25e1"),
        ("-1700", "-17e2"),
        ("1e308", "1e308"),
        ("1200e-5", "12e-3"),
        ("-0.5", "-5e-1"),
        ("1e-99999999999999999999", "1e-9223372036854775808"),
        // No double has it, but a store might.
        ("1e999999999999", "1e999999999999"),
    ] {
        assert_eq!(normal(text), expected, "{text}");
    }
}

#[test]
fn numbers_are_compared_by_value() {
    for (a, b) in [
        ("1", "1.0"),
        ("0", "-0"),
        ("0", "-0.0"),
        ("-0", "0e5"),
        ("100", "1e2"),
        ("0.1", "1e-1"),
        ("9007199254740992", "9007199254740992.0"),
        ("-9223372036854775808", "-9223372036854775808.0"),
        ("100000000000000000000", "1e20"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("9007199254740993", "9007199254740993.0"),
        ("0.1", "0.10"),
    ] {
        check(a, b, true);
        check(&format!("[{a}]"), &format!("[ {b} ]"), true);
    }
    for (a, b) in [
        ("1", "2"),
        ("1", "-1"),
        ("1", "1.5"),
        ("1", "\"1\""),
        ("9007199254740993", "9007199254740992"),
        ("9007199254740993", "9007199254740992.0"),
        ("9223372036854775807", "9223372036854775808.0"),
        ("18446744073709551616", "18446744073709551617"),
        ("123456789012345678901234567890", "123456789012345678901234567891"),
        ("100000000000000000000001", "1e23"),
        ("0.1", "0.2"),
        ("0.1", "0.1000000000000000055511151231257827"),
    ] {
        check(a, b, false);
        check(&format!("[ {a} ]"), &format!("[{b}]"), false);
    }
}

#[test]
fn objects_have_no_order_and_arrays_have() {
    check(r#"{"a":1,"b":[1,2]}"#, r#"{ "b":[1.0, 2], "\u0061":1 }"#, true);
    check("[1,2]", "[2,1]", false);
    check("[1,2]", "[1,2,3]", false);
    check("[1,2,3]", "[1,2]", false);
    check("[]", "{}", false);
    check("[[]]", "[{}]", false);
    check(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false);
    check(r#"{"a":1,"c":null}"#, r#"{"a":1,"b":null}"#, false);
    check(r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#, false);
    check(r#"{"a":{"b":[{"c":1e0}]}}"#, r#"{"a":{"b":[{"c":1}]}}"#, true);
}

#[test]
fn the_last_of_equal_keys_counts() {
    check(r#"{"a":1,"a":2}"#, r#"{"a":2}"#, true);
    check(r#"{"a":1,"a":2}"#, r#"{"a":1}"#, false);
    check(r#"{"a":1,"\u0061":2,"b":0}"#, r#"{"b":0,"a":9,"a":2}"#, true);
    check(r#"{"a":1,"a":1}"#, r#"{"a":1,"b":1}"#, false);
}

#[test]
fn strings_are_compared_by_characters() {
    check(r#""\u00e4\/\n""#, "\"ä/\\u000A\"", true);
    check(r#""\ud83d\ude00""#, r#""😀""#, true);
    check(r#""\\u0041""#, r#""A""#, false);
    check(r#""a""#, r#""A""#, false);
    // No normalisation: a letter with a mark is not the composed letter.
    check("\"a\u{308}\"", "\"ä\"", false);
    check("null", "false", false);
    check("null", r#""null""#, false);
}

#[test]
fn the_deepest_value_is_compared_to_its_core() {
    let deep = nested(JsonType::Object, MAX_NESTING);
    check(&deep, &deep.replace('0', "0.0"), true);
    check(&deep, &deep.replace('0', "1"), false);
}

#[test]
fn white_space_between_tokens_does_not_count_and_within_strings_does() {
    let json = |text: &str| Json::parse(text.to_owned()).unwrap();
    let same = |a: &str, b: &str| same_tokens(&json(a), &json(b));
    assert!(same("{ \"a b\" :\t[1 ,\n2], \"\\\" \" : \"\\\\\"\r}", r#"{"a b":[1,2],"\" ":"\\"}"#));
    assert!(!same(r#"{"a b":1}"#, r#"{"ab":1}"#));
    assert!(!same(r#"["\" "]"#, r#"["\""]"#));
    assert!(!same(r#"["\\", " "]"#, r#"["\\",""]"#));
    assert!(!same("[1, 2]", "[12]"));
    assert!(!same("[1.0]", "[1]"));
    assert!(!same("[1]", "[1,2]"));
}

#[test]
fn a_minified_value_keeps_its_strings_and_numbers() {
    let text = "{ \"a b\\\" : \" : [ 1.0 , 12345678901234567890123 ],\r\n\"\\\\\" : \"\\n é\" }";
    let expected = "{\"a b\\\" : \":[1.0,12345678901234567890123],\"\\\\\":\"\\n é\"}";
    assert_eq!(minified(text).as_str(), expected);
}

proptest! {
    #[test]
    fn minifying_changes_no_value(value in value(), seed: u64) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(minified(&pretty).into_string(), value.to_string());
        let styled = write_styled(&value, seed);
        prop_assert!(same_tokens(&minified(styled.as_str()), &styled));
    }

    #[test]
    fn the_way_it_is_written_does_not_count(value in value(), one: u64, other: u64) {
        let (one, other) = (write_styled(&value, one), write_styled(&value, other));
        prop_assert!(same_value(&one, &other), "{} {}", one, other);
    }

    #[test]
    fn equal_values_have_equal_fingerprints(a in any::<f64>(), b in any::<i64>(), c in any::<u64>()) {
        let texts = [format!("{a:?}"), format!("{a:.0}"), format!("{a:e}"), b.to_string(),
            format!("{b}.0"), format!("{:.0}", b as f64), c.to_string(), format!("{c}e0")];
        let numbers: Vec<Json> = texts.into_iter().filter_map(|text| Json::parse(text).ok()).collect();
        for one in &numbers {
            for other in &numbers {
                let same = same_value(one, other);
                prop_assert_eq!(same, fingerprint(one) == fingerprint(other), "{} {}", one, other);
            }
        }
    }

    #[test]
    fn random_values_are_told_apart(a in value(), b in value()) {
        let (one, other) = (write_styled(&a, 1), write_styled(&b, 2));
        prop_assert_eq!(same_value(&one, &other), canonical(&a) == canonical(&b));
    }
}
