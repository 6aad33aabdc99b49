//! JSON against another implementation of it, and damage.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};

use super::*;

const LIMIT: usize = 1 << 20;

fn kinds() -> MessageDescriptor {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let files = protox::compile([format!("{folder}/kinds.proto")], [folder]).unwrap();
    let mut pool = DescriptorPool::new();
    pool.add_file_descriptor_set(files).unwrap();
    pool.get_message_by_name("kinds.Kinds").unwrap()
}

/// What a library makes of a text.
fn reference(kind: &MessageDescriptor, text: &str) -> Result<DynamicMessage, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let message = DynamicMessage::deserialize(kind.clone(), &mut json)?;
    json.end().map(|()| message)
}

fn read(kind: &MessageDescriptor, text: &str) -> Result<Vec<u8>, String> {
    from_json(kind, text.as_bytes(), LIMIT).map_err(|fault| match fault {
        Fault::Wrong(error) => error,
        Fault::TooLarge => "too large".into(),
    })
}

fn written(kind: &MessageDescriptor, message: &[u8]) -> Result<String, String> {
    let mut text = Vec::new();
    Codec::Json.encode(message, kind, &mut text)?;
    Ok(String::from_utf8(text).unwrap())
}

/// Both ways agree with the library.
fn check(kind: &MessageDescriptor, text: &str) {
    let expected = reference(kind, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let message = read(kind, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let decoded = DynamicMessage::decode(kind.clone(), &message[..]).unwrap();
    assert!(decoded == expected, "{text}");
    // As a service writes it, without what has its default.
    let written = written(kind, &expected.encode_to_vec()).unwrap();
    assert!(reference(kind, &written).unwrap() == expected, "{text} became {written}");
    let library = serde_json::to_value(&expected).unwrap();
    assert_eq!(wholes(library), wholes(serde_json::from_str(&written).unwrap()), "{text}");
}

/// Whole numbers, with a fraction or without.
fn wholes(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(list) => list.into_iter().map(wholes).collect(),
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, wholes(value))).collect(),
        other => other,
    }
}

#[test]
fn every_kind_is_read_and_written_as_the_library_does() {
    let kind = kinds();
    for text in [
        "{}",
        r#"{"aDouble": -8.733542285131274e-166}"#,
        r#"{"aDouble": 0.1, "aFloat": 2.5, "anInt32": -3, "anInt64": "-9007199254740993"}"#,
        r#"{"aUint32": 4294967295, "aUint64": "18446744073709551615", "aSint32": -7}"#,
        r#"{"aSint64": -8, "aFixed32": 9, "aFixed64": "10", "anSfixed32": -11, "anSfixed64": "-12"}"#,
        r#"{"aDouble": "Infinity", "aFloat": "-Infinity"}"#,
        r#"{"aDouble": 1e300, "aFloat": 0.25, "anInt32": 1e3, "anInt64": 5.0}"#,
        r#"{"aBool": true, "aString": "a\"\\\u0000\n\u00e9\ud83d\ude00", "someBytes": "/+8="}"#,
        r#"{"someBytes": "_-8"}"#,
        r#"{"color": "COLOR_RED", "colors": ["COLOR_RED", 0, 7]}"#,
        r#"{"child": {"child": {"child": {}}}, "anOptional": 0}"#,
        r#"{"an_int32": 1, "called": "x"}"#,
        r#"{"renamed": "x"}"#,
        r#"{"one": ""}"#,
        r#"{"other": 0}"#,
        r#"{"anyChoice": null}"#,
        r#"{"numbers": [1, "2", 0], "texts": ["", "a"], "children": [{}, {"aBool": true}]}"#,
        r#"{"byName": {"": {}, "b": {"aBool": true}}, "byNumber": {"-1": "x", "0": ""}}"#,
        r#"{"byBool": {"true": 1.5, "false": 0}}"#,
        r#"{"anObject": {"a": {"b": [1, -0.5, "c", null, true, [], {}]}}, "aList": [[], [[]]]}"#,
        r#"{"anObject": {}, "aList": [], "aValue": null}"#,
        r#"{"aValue": {"a": 1}}"#,
        r#"{"aValue": [1e15, 123456789.25]}"#,
        r#"{"aValue": ""}"#,
        r#"{"values": {"a": null, "b": {"c": [null]}, "": 0}}"#,
        r#"{"aTime": "2026-11-28T01:02:03.5Z", "aDuration": "-1.5s", "aMask": "aB,c.dE"}"#,
        r#"{"aMask": "", "aWrapper": "5"}"#,
        r#"{"anAny": {"@type": "type.googleapis.com/kinds.Kinds", "aBool": true}}"#,
        r#"{"aDouble": null, "child": null, "numbers": null, "byName": null, "aTime": null}"#,
    ] {
        check(&kind, text);
    }
}

#[test]
fn a_wrapper_of_a_default_is_there() {
    let kind = kinds();
    let message = read(&kind, r#"{"aWrapper": 0}"#).unwrap();
    assert_eq!(written(&kind, &message).unwrap(), r#"{"aWrapper":"0"}"#);
}

#[test]
fn what_is_wrong_is_refused_and_says_where() {
    let kind = kinds();
    for (text, expected) in [
        ("[]", "an object"),
        ("{", "EOF"),
        ("{} {}", "trailing"),
        (r#"{"no": 1}"#, "Kinds has no field 'no'"),
        (r#"{"child": {"no": 1}}"#, "child: Kinds has no field 'no'"),
        (r#"{"anInt32": 1, "an_int32": 2}"#, "'an_int32' is there twice"),
        (r#"{"one": "a", "other": 2}"#, "'other' is there twice, or excluded"),
        (r#"{"anInt32": 2147483648}"#, "anInt32: expected an integer that fits"),
        (r#"{"anInt32": 1.5}"#, "expected an integer"),
        (r#"{"aUint64": -1}"#, "expected an integer"),
        (r#"{"aUint64": 1e300}"#, "expected an integer"),
        (r#"{"aDouble": true}"#, "expected a number"),
        (r#"{"aDouble": "x"}"#, "expected a number"),
        (r#"{"aBool": 1}"#, "expected true or false"),
        (r#"{"aString": 1}"#, "expected a text"),
        (r#"{"aString": "\ud800"}"#, "hex escape"),
        (r#"{"someBytes": "*"}"#, "expected base64"),
        (r#"{"color": "PINK"}"#, "expected a name of Color"),
        (r#"{"numbers": 1}"#, "an array"),
        (r#"{"numbers": [null]}"#, "numbers"),
        (r#"{"texts": {}}"#, "an array"),
        (r#"{"child": []}"#, "an object"),
        (r#"{"byNumber": {"a": ""}}"#, "expected an integer"),
        (r#"{"byName": {"a": null}}"#, "byName"),
        (r#"{"anObject": [1]}"#, "an object"),
        (r#"{"aList": {}}"#, "an array"),
        (r#"{"aTime": "yesterday"}"#, "aTime"),
    ] {
        // The library takes the last of two.
        assert!(reference(&kind, text).is_err() || expected.contains("twice"), "{text}");
        let error = read(&kind, text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let empty = read(&kind, r#"{"numbers": [], "texts": [], "byName": {}}"#);
    assert_eq!(empty, Ok(Vec::new()));
    let deep = format!(r#"{{"aValue": {}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    assert!(read(&kind, &deep).unwrap_err().contains("recursion"));
}

#[test]
fn a_message_larger_than_the_limit_is_refused_as_it_grows() {
    let kind = kinds();
    let text = format!(r#"{{"aList": [{}0]}}"#, "0,".repeat(999));
    let message = from_json(&kind, text.as_bytes(), LIMIT).ok().unwrap();
    assert!(message.len() > 11_000, "each takes 11 bytes: {}", message.len());
    assert!(from_json(&kind, text.as_bytes(), message.len()).is_ok());
    let refused = from_json(&kind, text.as_bytes(), message.len() - 1);
    assert!(matches!(refused, Err(Fault::TooLarge)));
    // No message takes more for its JSON than the account was asked for.
    assert!(message.len() < text.len() * crate::request::BINARY_FOR_JSON);
}

#[test]
fn damaged_messages_are_errors() {
    let kind = kinds();
    for (text, sent) in [
        (r#"{"aString": "abc"}"#, 1),
        (r#"{"aDouble": 1}"#, 1),
        (r#"{"aUint64": "300"}"#, 1),
        (r#"{"byName": {"a": {"aBool": true}}}"#, 1),
    ] {
        let message = read(&kind, text).unwrap();
        written(&kind, &message[..message.len() - sent]).unwrap_err();
    }
    let nested = (0..200).fold(Vec::new(), |inner: Vec<u8>, _| {
        let mut outer = Vec::new();
        prost::encoding::bytes::encode(17, &inner, &mut outer);
        outer
    });
    assert!(written(&kind, &nested).unwrap_err().contains("too deep"));
}

#[test]
fn fields_of_later_versions_are_passed_over() {
    let kind = kinds();
    let mut message = read(&kind, r#"{"numbers": [1]}"#).unwrap();
    prost::encoding::string::encode(1000, &"later".to_owned(), &mut message);
    assert_eq!(written(&kind, &message).unwrap(), r#"{"numbers":[1]}"#);
}

#[test]
fn what_is_decompressed_is_bounded() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&[7; 1000]).unwrap();
    let packed = encoder.finish().unwrap();
    assert_eq!(decompressed(&packed, 1000).ok().unwrap(), vec![7; 1000]);
    assert!(matches!(decompressed(&packed, 999), Err(Refused::TooLarge)));
    assert!(matches!(decompressed(&packed[..9], 1000), Err(Refused::Invalid(..))));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no other", |it| it.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_comes_back(value in any_json(), numbers in any::<Vec<i32>>(), bytes in any::<Vec<u8>>()) {
        let kind = kinds();
        let some_bytes = base64::engine::general_purpose::STANDARD.encode(bytes);
        let text = json!({"aValue": value, "numbers": numbers, "someBytes": some_bytes});
        let message = read(&kind, &text.to_string()).unwrap();
        let back: Value = serde_json::from_str(&written(&kind, &message).unwrap()).unwrap();
        prop_assert_eq!(wholes(back["aValue"].clone()), wholes(text["aValue"].clone()));
    }
}
