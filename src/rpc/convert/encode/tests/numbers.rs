//! From text to Struct: what comes back, and what is said of numbers that do not.

use proptest::prelude::*;
use prost_types::{Value, value::Kind};

use super::json;
use crate::{
    domain::{
        json::{Json, same_value},
        token::StoreId,
    },
    rpc::convert::{
        decode::{self, BareIds, json::VALUE},
        encode::json as structs,
    },
};

fn value_text(value: &Value) -> Json {
    let text = decode::decode(value, BareIds::Allowed, StoreId([7; 16]), |at, value| {
        decode::json::written(at, VALUE, value)
    });
    text.unwrap()
}

/// The double and whether it was rounded.
fn double(text: &str) -> (f64, bool) {
    let (value, rounded) = structs::value(&json(text), 0).unwrap();
    match value.kind {
        Some(Kind::NumberValue(number)) => (number, rounded),
        other => panic!("no number: {other:?}"),
    }
}

#[test]
fn only_integers_that_are_no_double_count_as_rounded() {
    for (text, number, rounded) in [
        ("0", 0.0, false),
        ("-7", -7.0, false),
        ("9007199254740992", 9_007_199_254_740_992.0, false),
        ("9007199254740993", 9_007_199_254_740_992.0, true),
        ("-9007199254740993", -9_007_199_254_740_992.0, true),
        ("9007199254740994", 9_007_199_254_740_994.0, false),
        ("9223372036854775807", 9_223_372_036_854_775_807.0, true),
        ("18446744073709551616", 18_446_744_073_709_551_616.0, false),
        ("18446744073709551617", 18_446_744_073_709_551_616.0, true),
        ("100000000000000000000000", 1e23, true),
        ("99999999999999991611392", 1e23, false),
        ("1e23", 1e23, false),
        ("0.1", 0.1, false),
        ("0.30000000000000004", 0.1 + 0.2, false),
        ("3.141592653589793238462643", std::f64::consts::PI, false),
        ("9007199254740993.0", 9_007_199_254_740_992.0, false),
    ] {
        assert_eq!(double(text), (number, rounded), "{text}");
    }
    assert!(double("-0.0").0.is_sign_negative());
}

#[test]
fn a_rounded_number_is_seen_wherever_it_stands() {
    for text in [r#"{"a":[{"b":9007199254740993}],"z":1}"#, r#"{"a":9007199254740993,"b":[1,2]}"#] {
        assert!(structs::object(&json(text), 0).unwrap().1, "{text}");
    }
    let text = r#"{"9007199254740993":"9007199254740993","a":9007199254740992}"#;
    assert!(!structs::object(&json(text), 0).unwrap().1);
}

#[test]
fn strings_and_keys_come_decoded_and_the_last_of_two_counts() {
    let text = r#" { "k\u00e9\ud83e\udd80" : "a\n\"\\\/" , "d":1, "d" : [ null , true,false ] } "#;
    let (object, _) = structs::object(&json(text), 0).unwrap();
    let text = value_text(&Value { kind: Some(Kind::StructValue(object)) });
    let expected = "{\"d\":[null,true,false],\"ké🦀\":\"a\\n\\\"\\\\/\"}";
    assert_eq!(text.as_str(), expected);
}

/// JSON text of values that a Struct holds exactly, with white space and escapes as they come.
fn exact_text() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|it| it.to_string()),
        (-9_007_199_254_740_991i64..=9_007_199_254_740_991).prop_map(|it| it.to_string()),
        any::<f64>()
            .prop_filter("exact", |it| it.is_finite() && (it.fract() != 0.0 || it.abs() < 9e15))
            .prop_map(|it| serde_json::to_string(&it).unwrap()),
        any::<String>().prop_map(|it| serde_json::to_string(&it).unwrap()),
        "[a-z]{0,4}".prop_map(|it| {
            let escaped: String = it.chars().map(|c| format!("\\u{:04x}", c as u32)).collect();
            format!("\"{escaped}\"")
        }),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        let space = prop::sample::select(vec!["", " ", "\n\t"]);
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..8), space.clone())
                .prop_map(|(items, space)| format!("[{space}{}]", items.join(","))),
            (prop::collection::btree_map(any::<String>(), inner, 0..8), space).prop_map(
                |(members, space)| {
                    let member = |(key, value): (String, String)| {
                        format!("{}{space}:{value}", serde_json::to_string(&key).unwrap())
                    };
                    let members: Vec<_> = members.into_iter().map(member).collect();
                    format!("{{{}}}", members.join(","))
                }
            ),
        ]
    })
}

proptest! {
    /// What a Struct can hold exactly goes through it unchanged, and is not said to be rounded.
    #[test]
    fn text_comes_back_from_a_struct_as_the_same_value(text in exact_text()) {
        let before = json(text);
        let (message, rounded) = structs::value(&before, 0).unwrap();
        prop_assert!(!rounded);
        let after = value_text(&message);
        prop_assert!(same_value(&before, &after), "{} became {}", before, after);
    }

    /// Whatever integer it is, it is said to be rounded exactly when another number comes out.
    #[test]
    fn rounding_is_said_exactly_when_it_happens(digits in "-?[1-9][0-9]{0,30}") {
        let (number, rounded) = double(&digits);
        prop_assert_eq!(rounded, format!("{number:.0}") != digits);
    }
}
