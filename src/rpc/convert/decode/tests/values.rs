//! JSON in its two forms: both make the same text, and what cannot be text is refused.

use proptest::prelude::*;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use prost_types::{NullValue, Struct, Value, value::Kind};

use super::*;
use crate::{
    domain::{
        json::{Json, MAX_NESTING},
        token::StoreId,
    },
    proto::v1::{CreateSessionRequest, create_session_request::StateForm},
    rpc::convert::decode::{
        json::{VALUE, written},
        read::At,
    },
};

/// The text, or field and message of the fault.
fn text_within(bytes: usize, value: &Value) -> Result<String, (String, String)> {
    let (_, reason, advice) = VALUE;
    let limit = (bytes, reason, advice);
    let write = |at: At<'_>, value: &Value| written(at, limit, value).map(Json::into_string);
    decode::decode(value, BareIds::Allowed, StoreId([7; 16]), write).map_err(|error| {
        let violation = violations::<()>(Err(error)).remove(0);
        (violation.field.to_string(), violation.message)
    })
}

fn text(value: &Value) -> Result<String, (String, String)> {
    text_within(usize::MAX, value)
}

#[track_caller]
fn assert_fault(result: Result<String, (String, String)>, field: &str, word: &str) {
    let (actual, message) = result.unwrap_err();
    assert_eq!(actual, field);
    assert!(message.contains(word), "{message}");
}

fn create(form: StateForm) -> CreateSessionRequest {
    CreateSessionRequest {
        app_name: "a".into(),
        user_id: "u".into(),
        state_form: Some(form),
        ..Default::default()
    }
}

/// Key and value of every entry of a created state.
fn entries(form: StateForm) -> Vec<(String, String)> {
    let (new, _) = create_session(create(form)).unwrap();
    let entries = new.state.into_iter();
    entries.map(|(key, value)| (key.as_str().to_owned(), value.into_string())).collect()
}

#[test]
fn whole_doubles_become_integers_and_others_stay_shortest() {
    for (double, expected) in [
        (42.0, "42"),
        (0.0, "0"),
        (-0.0, "-0.0"),
        (-1.0, "-1"),
        (9_007_199_254_740_991.0, "9007199254740991"),
        (-9_007_199_254_740_991.0, "-9007199254740991"),
        (0.1, "0.1"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1.5e-7, "1.5e-7"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (5e-324, "5e-324"),
        (4_503_599_627_370_495.5, "4503599627370495.5"),
    ] {
        assert_eq!(text(&number(double)).unwrap(), expected);
    }
}

#[test]
fn what_a_double_may_have_changed_is_refused_with_its_place() {
    for bad in [9_007_199_254_740_992.0, -9_007_199_254_740_992.0, 1e300] {
        let body =
            structure_value([("usage", list([structure_value([("tokens.in", number(bad))])]))]);
        assert_fault(text(&body), "usage[0].tokens.in", &format!("{bad:e} may have been rounded"));
    }
}

fn structure_value(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    of(Kind::StructValue(structure(fields)))
}

#[test]
fn what_json_does_not_have_is_refused() {
    for (value, kind) in [
        (number(f64::NAN), "NaN or infinite"),
        (number(f64::INFINITY), "NaN or infinite"),
        (number(f64::NEG_INFINITY), "NaN or infinite"),
        (Value { kind: None }, "Value is empty"),
    ] {
        assert_fault(text(&value), "", kind);
        let nested = list([of(Kind::BoolValue(true)), value]);
        assert_fault(text(&nested), "[1]", kind);
    }
}

#[test]
fn a_null_of_any_number_is_null() {
    assert_eq!(text(&of(Kind::NullValue(NullValue::NullValue.into()))).unwrap(), "null");
    assert_eq!(text(&of(Kind::NullValue(7))).unwrap(), "null");
}

#[test]
fn nesting_ends_where_it_ends_for_text() {
    let nested = |levels| (0..levels).fold(number(1.0), |inner, _| list([inner]));
    let deepest = text(&nested(MAX_NESTING)).unwrap();
    assert!(Json::parse(deepest).is_ok());
    assert_fault(text(&nested(MAX_NESTING + 1)), "", "nested more than");
}

#[test]
fn a_text_ends_at_its_limit() {
    let value = of(Kind::StringValue("\u{1}".repeat(10)));
    assert!(text_within(62, &value).is_ok());
    assert_fault(text_within(61, &value), "", "exceeds 61 bytes");
    assert_fault(text_within(2, &list([number(1.0)])), "", "exceeds 2 bytes");
    assert_fault(text_within(2, &number(0.5)), "", "exceeds 2 bytes");
}

#[test]
fn both_forms_make_the_same_entries() {
    let object = structure([
        ("app:a", of(Kind::StringValue("é\"\\\n".into()))),
        ("b", list([number(1.0), of(Kind::BoolValue(false))])),
        ("temp:", structure_value([("x", number(2.5))])),
    ]);
    let expected = [
        ("app:a".to_owned(), r#""é\"\\\n""#.to_owned()),
        ("b".to_owned(), "[1,false]".to_owned()),
        ("temp:".to_owned(), r#"{"x":2.5}"#.to_owned()),
    ];
    assert_eq!(entries(StateForm::State(object)), expected);
    let text = r#" {"app:a":"é\"\\\n" , "b":[1,false],"temp:":{"x":2.5}} "#;
    assert_eq!(entries(StateForm::StateJson(text.into())), expected);
}

#[test]
fn of_a_key_that_is_there_twice_the_last_value_counts() {
    let text = r#"{"k":1,"x":0,"\u006b":{"a": 1e2}}"#;
    let expected = [("k".to_owned(), r#"{"a": 1e2}"#.to_owned()), ("x".to_owned(), "0".to_owned())];
    assert_eq!(entries(StateForm::StateJson(text.into())), expected);
}

#[test]
fn faults_of_text_are_told_apart_in_words() {
    for (text, word) in [
        ("", "is empty"),
        ("  \n", "is empty"),
        ("{", "not valid JSON"),
        ("{}{}", "not valid JSON"),
        ("[]", "of type object"),
        (r#"{"a":"\ud800"}"#, "surrogate"),
        (r#"{"a":1e400}"#, "range of a double"),
        (r#"{"a":NaN}"#, "not valid JSON"),
    ] {
        let found = violations(create_session(create(StateForm::StateJson(text.into()))));
        assert_eq!((found.len(), &*found[0].field), (1, "state_json"), "{text}");
        assert_eq!(found[0].reason.as_str(), "BAD_JSON", "{text}");
        assert!(found[0].message.contains(word), "{text}: {}", found[0].message);
    }
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(100), "]".repeat(100));
    let result = create_session(create(StateForm::StateJson(deep)));
    assert_faults(result, &[("state_json", "BAD_JSON")]);
}

#[test]
fn faults_of_single_entries_name_the_key() {
    let bad = structure([
        ("", number(1.0)),
        ("a", number(f64::NAN)),
        ("b", structure_value([("c", list([number(1e17)]))])),
        ("c\0", Value { kind: None }),
    ]);
    assert_faults(
        create_session(create(StateForm::State(bad))),
        &[
            ("state[\"\"]", "BAD_KEY"),
            ("state[\"a\"]", "BAD_JSON"),
            ("state[\"b\"].c[0]", "NUMBER_NOT_EXACT"),
            ("state[\"c\0\"]", "BAD_KEY"),
            ("state[\"c\0\"]", "BAD_JSON"),
        ],
    );
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(of(Kind::NullValue(0))),
        any::<bool>().prop_map(|it| of(Kind::BoolValue(it))),
        (-9_007_199_254_740_991i64..=9_007_199_254_740_991).prop_map(|it| number(it as f64)),
        any::<f64>()
            .prop_filter("exact", |it| it.is_finite() && (it.fract() != 0.0 || it.abs() < 9e15))
            .prop_map(number),
        any::<String>().prop_map(|it| of(Kind::StringValue(it))),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(list),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|fields| of(Kind::StructValue(Struct { fields }))),
        ]
    })
}

/// What an independent reader makes of the text. It parses numbers itself, since serde_json's may be off by a bit.
fn read_back(text: &str) -> Value {
    let raw = |value: Box<RawValue>| read_back(value.get());
    of(match text.as_bytes()[0] {
        b'{' => {
            let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap();
            let fields = members.into_iter().map(|(key, value)| (key, raw(value))).collect();
            Kind::StructValue(Struct { fields })
        }
        b'[' => {
            let items: Vec<Box<RawValue>> = serde_json::from_str(text).unwrap();
            return list(items.into_iter().map(raw).collect::<Vec<_>>());
        }
        b'"' => Kind::StringValue(serde_json::from_str(text).unwrap()),
        b't' | b'f' => Kind::BoolValue(text == "true"),
        b'n' => Kind::NullValue(0),
        _ => Kind::NumberValue(text.parse().unwrap()),
    })
}

proptest! {
    /// The text says what the message said, and is text that a request may hold.
    #[test]
    fn text_says_what_the_message_said(value in any_value()) {
        let text = text(&value).unwrap();
        prop_assert!(Json::parse(text.clone()).is_ok());
        prop_assert_eq!(read_back(&text), value);
    }
}
