//! Entries of ADK are read, and an event that is written is read back as it was.

use proptest::prelude::*;
use prost_types::Timestamp;

use super::*;
use sessiond_core::domain::json::minified;

fn adk(text: &str) -> Event {
    from_adk(text).unwrap().unwrap()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, Json)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), Json::parse((*v).to_owned()).unwrap())).collect()
}

#[test]
fn a_python_event_is_read_with_the_values_of_its_body() {
    let text = r#"{ "invocation_id": "i", "author": "user", "content": {"n": 1.00},
        "actions": {"state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "escalate": null},
        "branch": null, "id": "e", "timestamp": 1733043686.8428597 }"#;
    let entry = adk(text);
    assert_eq!((entry.event_id.as_str(), entry.invocation_id.as_str()), ("e", "i"));
    assert_eq!((entry.author.as_str(), entry.branch.as_str()), ("user", ""));
    assert_eq!(entry.event_time.map(time::format).unwrap(), "2024-12-01T09:01:26.842859700Z");
    assert_eq!(entry.set, owned(&[("a", "1.0"), ("user:b", "null")]));
    let delta = r#""state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "#;
    let body = minified(entry.body.unwrap().as_str());
    assert_eq!(body, minified(&text.replace(delta, "")));
    assert!(body.as_str().contains(r#""n":1.00"#), "{body}");
}

#[test]
fn a_java_event_is_read_with_its_removals() {
    let entry = adk(
        r#"{"id":"e","invocationId":"i","author":"a","branch":"x.y","timestamp":1733043686842,
           "actions":{"stateDelta":{"gone":"__ADK_SENTINEL_REMOVED__","also":{"__ADK_SENTINEL_REMOVED__": true},
           "kept":"__ADK_SENTINEL_REMOVED__ not"}}}"#,
    );
    assert_eq!((entry.invocation_id.as_str(), entry.branch.as_str()), ("i", "x.y"));
    assert_eq!(entry.remove, ["gone", "also"]);
    assert_eq!(entry.set, owned(&[("kept", "\"__ADK_SENTINEL_REMOVED__ not\"")]));
    assert!(entry.body.unwrap().as_str().ends_with("\"actions\":{}}"));
}

#[test]
fn a_fragment_is_no_event() {
    assert_eq!(from_adk(r#"{"id":"e","partial":true}"#).unwrap(), None);
    assert!(from_adk(r#"{"id":"e","partial":false}"#).unwrap().is_some());
    assert!(from_adk(r#"{"id":"e","options":{"partial":true}}"#).unwrap().is_some());
}

#[test]
fn a_member_of_the_wrong_type_is_named() {
    for (text, name) in [
        (r#"{"id":1}"#, "id must be a string"),
        (r#"{"author":{}}"#, "author must be a string"),
        (r#"{"timestamp":"soon"}"#, "timestamp: `soon`"),
        (r#"{"actions":{"stateDelta":[]}}"#, "actions.stateDelta must be"),
        ("[1]", "expected a JSON object"),
    ] {
        let error = from_adk(text).unwrap_err();
        assert!(error.contains(name), "{text}: {error}");
    }
}

#[test]
fn an_event_of_adk_needs_no_exact_form_beside_it() {
    let text = r#"{"id":"e","timestamp":1733043686.5,"invocationId":"i","author":"x","content":{"parts":[{"n":1}]},"actions":{"stateDelta":{"a":1},"transferToAgent":"b"}}"#
        .replace("\"n\":1", "\"text\":\"t\"");
    assert_eq!(write(&adk(&text)).unwrap().as_str(), text);
    assert_eq!(from_export(&text), Ok((adk(&text), false)));
}

#[test]
fn what_adk_cannot_say_stands_beside_its_form() {
    let event = Event {
        event_id: "e".to_owned(),
        author: "a".to_owned(),
        event_time: Some(Timestamp { seconds: 5, nanos: 1 }),
        set: owned(&[("k", "[ 1 ]")]),
        ..Event::default()
    };
    let text = write(&event).unwrap();
    let form = r#"{"id":"e","timestamp":5.000000001,"author":"a","actions":{"stateDelta":{"k":[ 1 ]}},"sessiond":{"fingerprint":""#;
    assert!(text.as_str().starts_with(form), "{text}");
    assert_eq!(from_export(text.as_str()), Ok((event.clone(), false)));
    // ADK's form counts once it was edited.
    let edited = text.as_str().replacen("\"author\":\"a\"", "\"author\":\"b\"", 1);
    let (edited, is_edited) = from_export(&edited).unwrap();
    assert!(is_edited);
    assert_eq!((edited.author.as_str(), edited.set), ("b", event.set));
    assert!(edited.body.is_some_and(|body| !body.as_str().contains("sessiond")));
}

#[test]
fn an_exact_form_that_cannot_be_read_is_refused() {
    for exact in [r#"{"body":[1]}"#, r#"{"event_time":"soon"}"#, r#"{"later":"x"}"#, "1"] {
        assert!(from_export(&format!(r#"{{"id":"e","sessiond":{exact}}}"#)).is_err(), "{exact}");
    }
}

/// JSON text as nobody would write it: white space, odd numbers, escapes, members of ours with
/// any type, twice, anywhere.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        ".{0,4}".prop_map(|text| Json::string(&text).into_string()),
        Just("\"\\u00e9\\/\"".to_owned()),
        Just("\"2024-12-01T09:01:26Z\"".to_owned()),
        Just("{ }".to_owned()),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            object_of(inner),
        ]
    })
}

fn object_of(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("id"),
        Just("author"),
        Just("timestamp"),
        Just("actions"),
        Just("actions"),
        Just("state_delta"),
        Just("stateDelta"),
        Just("invocation_id"),
        Just("invocationId"),
        Just("branch"),
        Just("partial"),
        Just("content"),
        Just("\\u0069d"),
        Just("sessiond"),
        Just("é\\\""),
    ];
    let space = || "[ \n]{0,2}";
    proptest::collection::vec((space(), key, space(), inner), 0..5).prop_map(|members| {
        let members =
            members.iter().map(|(a, key, b, value)| format!("{a}\"{key}\"{b}:{a}{value}{b}"));
        format!("{{{} }}", members.collect::<Vec<_>>().join(","))
    })
}

fn event() -> impl Strategy<Value = Event> {
    let text = || prop_oneof![Just(String::new()), ".{1,5}"];
    let set = proptest::collection::btree_map(".{0,3}", value(), 0..3);
    let time = (-62_135_596_800..253_402_300_799_i64, 0..1_000_000_000);
    let texts = (text(), text(), text(), text());
    let body = proptest::option::weighted(0.9, object_of(value()));
    let removed = proptest::collection::vec(".{0,3}", 0..2);
    (texts, time, set, removed, body).prop_map(
        |((event_id, invocation_id, author, branch), time, set, remove, body)| Event {
            event_id,
            invocation_id,
            author,
            branch,
            event_time: Some(Timestamp { seconds: time.0, nanos: time.1 }),
            set: set.into_iter().map(|(key, text)| (key, Json::parse(text).unwrap())).collect(),
            remove,
            body: body.map(|body| Json::object(body).unwrap()),
            ..Event::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_as_it_was(event in event()) {
        let text = write(&event).unwrap();
        prop_assert!(Json::object(text.as_str().to_owned()).is_ok());
        prop_assert_eq!(from_export(text.as_str()), Ok((event.clone(), false)));
        let hidden = Event { sequence: 7, ..event };
        let (read, _) = Event::from_exact(hidden.to_exact(String::new()).unwrap().as_str()).unwrap();
        prop_assert_eq!(read, hidden);
    }

    #[test]
    fn what_adk_writes_never_panics(text in object_of(value())) {
        if let Ok(Some(entry)) = from_adk(&text) {
            prop_assert!(Json::object(entry.body.as_ref().unwrap().as_str().to_owned()).is_ok());
            prop_assert_eq!(from_export(write(&entry).unwrap().as_str()), Ok((entry, false)));
        }
    }
}
