//! What is taken as JSON, what comes back, and that hostile stored text does no harm.

mod fingerprint;
mod merge;
pub(super) mod samples;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use samples::{json, nested, tree, value, write_styled};

const SYNTAX: &str = "is not valid JSON: ";

#[test]
fn a_string_takes_as_many_bytes_as_it_is_written_with() {
    for text in ["", "plain", "\u{1}\u{8}\n\"\\é", "\u{1f}\u{7f}"] {
        let written = Json::string(text);
        assert_eq!(text_bytes(text), written.len() - 2, "{text:?}");
    }
}

fn fault(text: &str) -> String {
    Json::parse(text.to_owned()).unwrap_err()
}

#[test]
fn every_type_comes_back_byte_for_byte_without_outer_space() {
    let cases = [
        ("null", JsonType::Null, "null"),
        (" true\n", JsonType::Bool, "true"),
        ("\tfalse", JsonType::Bool, "false"),
        ("\r-0.0e+1 ", JsonType::Number, "-0.0e+1"),
        ("12345678901234567890123", JsonType::Number, "12345678901234567890123"),
        (r#" "\u0041\/ü" "#, JsonType::String, r#""\u0041\/ü""#),
        (" [ 1 , 2 ] ", JsonType::Array, "[ 1 , 2 ]"),
        (r#"{ "a":1, "a" :2 }"#, JsonType::Object, r#"{ "a":1, "a" :2 }"#),
    ];
    for (text, json_type, kept) in cases {
        let json = json(text);
        assert_eq!(json.as_str(), kept);
        assert_eq!(json.len(), kept.len());
        assert_eq!(json.json_type(), json_type);
        assert_eq!(json.to_string(), kept);
        assert_eq!(json.into_string(), kept);
    }
}

#[test]
fn empty_text_is_not_json() {
    assert_eq!(fault(""), "is empty");
    assert_eq!(fault(" \t\r\n"), "is empty");
    // Only JSON's own white space is dropped.
    assert!(fault("\u{a0}").starts_with(SYNTAX));
    assert!(fault("\u{feff}1").starts_with(SYNTAX));
}

#[test]
fn the_grammar_is_kept() {
    for text in [
        "nul",
        "{",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "'a'",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "NaN",
        "Infinity",
        "\"a",
        "\"\n\"",
        r#""\x""#,
        r#""\u12g4""#,
        "1 2",
        "{} x",
        "[1 2]",
        "// x\n1",
        "{\"a\" 1}",
        "]",
        "[}",
        "\0",
        "\"\\",
    ] {
        assert!(fault(text).starts_with(SYNTAX), "{text}");
    }
    let syntax = format!("{SYNTAX}expected value at line 2 column 3");
    assert_eq!(fault("\n[1x".replace("1x", " x]").as_str()), syntax);
}

#[test]
fn objects_and_arrays_are_told_apart() {
    assert_eq!(Json::object("{}".to_owned()), Ok(json("{}")));
    assert_eq!(Json::array("[]".to_owned()), Ok(json("[]")));
    let fault = "must be a JSON value of type object, but has type array";
    assert_eq!(Json::object("[]".to_owned()), Err(fault.to_owned()));
    let fault = "must be a JSON value of type array, but has type string";
    assert_eq!(Json::array(r#""[]""#.to_owned()), Err(fault.to_owned()));
    assert_eq!(Json::array(String::new()), Err("is empty".to_owned()));
}

#[test]
fn nesting_ends_at_the_limit() {
    for kind in [JsonType::Array, JsonType::Object] {
        let deepest = nested(kind, MAX_NESTING);
        assert_eq!(json(&deepest).as_str(), deepest);
        let beyond = "nests arrays and objects more than 100 levels deep";
        assert_eq!(fault(&nested(kind, MAX_NESTING + 1)), beyond);
        // A million levels must not exhaust the stack.
        assert_eq!(fault(&nested(kind, 1_000_000)), beyond);
    }
    // Width is not depth, and brackets in strings do not nest.
    json(&format!("[{}[]]", "[],{},".repeat(1000)));
    json(&format!("[\"{}\"]", r#"\"[{"#.repeat(1000)));
}

#[test]
fn surrogates_come_in_pairs() {
    for text in [
        r#""\ud83d\ude00""#,
        r#""\uD83D\uDE00\ud7ff\ue000""#,
        r#""\\ud800""#,
        r#""\\\ud83d\ude00""#,
        r#"{"\ud83d\ude00":"\ud83d\ude00"}"#,
    ] {
        assert_eq!(json(text).as_str(), text);
    }
    for (text, offset) in [
        (r#""\ud800""#, 1),
        (r#""a\udfff""#, 2),
        (r#""\ud83d\ud83d\ude00""#, 1),
        (r#""\ude00\ud83d""#, 1),
        (r#""\ud800\\udc00""#, 1),
        (r#""\ud800\n""#, 1),
        (r#""\ud83d\ude00\udbff""#, 13),
        (r#"  {"\uDC00":1}"#, 4),
        (r#"  ["\uD800"]"#, 4),
        (r#"[1, "\\", "\uD800x"]"#, 11),
    ] {
        let expected = format!("has an unpaired surrogate escape at byte {offset}");
        assert_eq!(fault(text), expected, "{text}");
    }
}

#[test]
fn numbers_fit_into_a_double() {
    for text in [
        "1.7976931348623157e308",
        "-1.7976931348623157E+308",
        "1e-400",
        "0e999999999999999999999",
        "0.00001e312",
    ] {
        assert_eq!(json(text).as_str(), text);
    }
    json(&"9".repeat(308));
    json(&format!("1{}", "0".repeat(308)));
    json(&format!("0.{}", "9".repeat(100_000)));
    for text in ["1e400", "-1e309", "1.8E308", "[1, 2e+999]", r#"{"a":1e99999999999999999999}"#] {
        assert!(fault(text).starts_with("has the number "), "{text}");
    }
    let overflow =
        |number: &str| format!("has the number {number}, which is beyond the range of a double");
    assert_eq!(fault("[1e400]"), overflow("1e400"));
    assert_eq!(fault("-9e999,"), fault("-9e999,"));
    let cut = format!("{}…", "9".repeat(40));
    assert_eq!(fault(&"9".repeat(309)), overflow(&cut));
    assert_eq!(fault(&"9".repeat(1 << 20)), overflow(&cut));
    assert_eq!(json(r#""1e400""#).as_str(), r#""1e400""#);
}

#[test]
fn faults_tell_what_is_wrong_in_bounded_sentences() {
    let cases = [
        (fault(" "), "is empty"),
        (fault("[1,"), "is not valid JSON: EOF while parsing a value at line 1 column 3"),
        (
            Json::object("1".to_owned()).unwrap_err(),
            "must be a JSON value of type object, but has type number",
        ),
        (
            fault(&nested(JsonType::Array, 101)),
            "nests arrays and objects more than 100 levels deep",
        ),
        (fault(r#""\ud800""#), "has an unpaired surrogate escape at byte 1"),
        (fault("1e400"), "has the number 1e400, which is beyond the range of a double"),
    ];
    for (fault, text) in cases {
        assert_eq!(fault, text);
    }
    assert!(fault(&"9".repeat(1 << 20)).len() < 200);
    assert!(fault(&"x".repeat(1 << 20)).len() < 200);
}

#[test]
fn types_have_their_json_names() {
    let names = ["null", "boolean", "number", "string", "array", "object"];
    let values = ["null", "true", "-1", "\"\"", "[]", "{}"];
    for (name, value) in names.into_iter().zip(values) {
        assert_eq!(json(value).json_type().to_string(), name);
    }
}

#[test]
fn members_keep_their_place_and_the_last_value_counts() {
    let object = json(r#" { "b" : [ 1 ] , "a":{"x" :"}\""},"\u0062":2.50, "":null,"a":  "\n"} "#);
    let members: Vec<(String, String)> =
        object.members().into_iter().map(|(key, value)| (key, value.into_string())).collect();
    let expected = [("b", "2.50"), ("a", r#""\n""#), ("", "null")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(members, expected);
    for other in ["{}", "{ }", "[1]", "\"{}\"", "null", "1"] {
        assert_eq!(json(other).members(), []);
    }
}

#[test]
fn members_of_large_objects_are_found_as_well() {
    let member = |key: usize, value: usize| format!(r#""{key}":{value}"#);
    for count in 1..40 {
        let ascending: Vec<String> = (0..count).map(|key| member(key, key)).collect();
        let mut twice: Vec<String> = (0..count).map(|key| member(key, 99)).collect();
        twice.extend((0..count).rev().map(|key| member(key, key)));
        let ascending = json(&format!("{{{}}}", ascending.join(",")));
        let twice = json(&format!("{{{}}}", twice.join(",")));
        assert_eq!(twice.members(), ascending.members());
        assert!(same_value(&twice, &ascending));
        let changed = json(&ascending.as_str().replace(":0", ":1"));
        assert!(!same_value(&twice, &changed));
        assert_eq!(merge_patch(Some(&changed), &twice), ascending);
    }
}

#[test]
fn plain_values_are_written() {
    assert_eq!(Json::null().as_str(), "null");
    assert_eq!(Json::integer(i64::MIN).as_str(), "-9223372036854775808");
    let text = "\0\u{1f}\u{8}\t\n\u{c}\r\"\\/ü😀\u{7f}";
    let written = r#""\u0000\u001f\b\t\n\f\r\"\\/ü😀""#.replace("😀", "😀\u{7f}");
    assert_eq!(Json::string(text).as_str(), written);
    assert_eq!(Json::string(text).decoded().unwrap(), text);
    assert_eq!(Json::integer(1).decoded(), None);
    assert_eq!(Json::null().decoded(), None);
}

#[test]
fn objects_are_written_from_parts() {
    assert_eq!(object_text([]).as_str(), "{}");
    let object = object_text([("app:a\"b", "[ 1]"), ("", "null"), ("u\n", "2")]);
    assert_eq!(object.as_str(), r#"{"app:a\"b":[ 1],"":null,"u\n":2}"#);
}

#[test]
fn items_are_read_byte_for_byte_and_written_back() {
    let items = json("[ 1.00, [2, 3] ,{}]").items();
    assert_eq!(items, [json("1.00"), json("[2, 3]"), json("{}")]);
    assert_eq!(Json::of_items(&items).as_str(), "[1.00,[2, 3],{}]");
    assert_eq!(Json::of_items(&[""; 0]).as_str(), "[]");
    assert_eq!(json(r#"{"a":[1]}"#).items(), []);
}

proptest! {
    #[test]
    fn exactly_what_serde_json_reads_is_taken(value in value(), seed: u64, edits: Vec<(usize, u8)>) {
        let mut text = write_styled(&value, seed).into_string().into_bytes();
        for (position, byte) in edits.into_iter().take(2) {
            let position = position % text.len();
            text[position] = byte;
        }
        if let Ok(text) = String::from_utf8(text) {
            let expected = serde_json::from_str::<Value>(&text);
            let taken = Json::parse(text.clone());
            prop_assert_eq!(taken.is_ok(), expected.is_ok(), "{} {:?} {:?}", text, taken, expected);
        }
    }

    #[test]
    fn escapes_of_every_kind_are_checked_like_serde_json(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                r"\ud83d", r"\ude00", r"\uDBFF", r"\uDFFF", r"\u0041", r"\\", r"\n", "u", "x", r"\/",
            ]),
            0..8,
        ),
    ) {
        let text = format!("\"{}\"", parts.concat());
        let expected = serde_json::from_str::<String>(&text).ok();
        let found = Json::parse(text).ok();
        let found = found.as_ref().and_then(Json::decoded);
        prop_assert_eq!(found.as_deref(), expected.as_deref());
    }

    #[test]
    fn numbers_are_checked_like_serde_json(text in "-?[0-9]{1,320}(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?") {
        let expected = serde_json::from_str::<Value>(&text).is_ok();
        prop_assert_eq!(Json::parse(text).is_ok(), expected);
    }

    #[test]
    fn strings_survive(text: String) {
        let written = Json::string(&text);
        prop_assert_eq!(Json::parse(written.as_str().to_owned()).unwrap(), written.clone());
        prop_assert_eq!(serde_json::from_str::<String>(written.as_str()).unwrap(), text.clone());
        prop_assert_eq!(written.decoded().unwrap(), text);
    }

    #[test]
    fn members_are_those_of_serde_json_and_write_back(value in value(), seed: u64) {
        let object = write_styled(&serde_json::json!({ "v": value, "w": [value.clone()], "": value }), seed);
        let members = object.members();
        for (key, value) in &members {
            prop_assert!(object.as_str().contains(value.as_str()));
            prop_assert_eq!(&tree(value), &tree(&object)[key]);
        }
        prop_assert_eq!(tree(&Json::of_members(&members)), tree(&object));
    }

    #[test]
    fn stored_text_that_is_no_json_does_no_harm(
        a in "[\\[\\]{}\",:\\\\u0-9deE. ü-]{0,40}",
        b in "[\\[\\]{}\",:\\\\uncd8 a]{0,40}",
    ) {
        let texts = [a.clone(), b.clone(), format!("{{\"a\":{a}"), format!("{{{b}}}"), format!("[{a}]")];
        for text in texts {
            let json = Json::from_stored(text);
            let patch = Json::from_stored(format!("{{\"a\":{{\"b\":1}},\"\":null,{b}}}"));
            json.members();
            json.decoded();
            fingerprint(&json);
            same_value(&json, &patch);
            merge_patch(Some(&json), &patch);
            merge_patch(Some(&patch), &json);
            list_append(Some(&json), &Json::from_stored(format!("[{b}]")), 2, &mut None);
            let _ = increment(Some(&json), Amount::Whole(1));
        }
    }
}

#[test]
fn stored_text_that_is_too_deep_does_no_harm() {
    for kind in [JsonType::Array, JsonType::Object] {
        let deep = Json::from_stored(nested(kind, 1_000_000));
        let spaced = Json::from_stored(nested(kind, 1_000_000) + " ");
        assert_eq!(fingerprint(&deep), fingerprint(&deep.clone()));
        assert!(same_value(&deep, &spaced));
        assert!(!same_value(&deep, &Json::from_stored(nested(kind, 1_000_001))));
        assert!(deep.members().len() < 2);
    }
    let deep = Json::from_stored(nested(JsonType::Object, 1_000_000));
    let merged = merge_patch(Some(&deep), &json(r#"{"b":1}"#));
    assert_eq!(merged.len(), deep.len() + r#","b":1"#.len());
    let array = Json::from_stored(nested(JsonType::Array, 1_000_000));
    assert_eq!(list_append(None, &array, 1, &mut None), array);
}
