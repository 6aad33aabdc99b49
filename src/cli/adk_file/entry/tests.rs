//! Entries of ADK are read, and an event that is written is read back as it was.

use proptest::prelude::*;
use prost_types::Timestamp;

use super::*;

fn adk(text: &str) -> v1::Event {
    from_adk(text).unwrap().unwrap()
}

fn set(event: &v1::Event) -> Vec<(String, Json)> {
    set_members(event.state_delta.as_ref().unwrap())
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, Json)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), Json::parse((*v).to_owned()).unwrap())).collect()
}

#[test]
fn a_python_event_is_read_with_its_body_byte_for_byte() {
    let text = r#"{ "invocation_id": "i", "author": "user", "content": {"n": 1.00},
        "actions": {"state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "escalate": null},
        "branch": null, "id": "e", "timestamp": 1733043686.8428597 }"#;
    let entry = adk(text);
    assert_eq!((entry.event_id.as_str(), entry.invocation_id.as_str()), ("e", "i"));
    assert_eq!((entry.author.as_str(), entry.branch.as_str()), ("user", ""));
    assert_eq!(entry.event_time.map(time::format).unwrap(), "2024-12-01T09:01:26.842859700Z");
    assert_eq!(set(&entry), owned(&[("a", "1.0"), ("user:b", "null")]));
    let delta = r#""state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "#;
    assert_eq!(body_of(&entry).unwrap(), text.replace(delta, ""));
}

#[test]
fn a_java_event_is_read_with_its_removals() {
    let entry = adk(
        r#"{"id":"e","invocationId":"i","author":"a","branch":"x.y","timestamp":1733043686842,
           "actions":{"stateDelta":{"gone":"__ADK_SENTINEL_REMOVED__","also":{"__ADK_SENTINEL_REMOVED__": true},
           "kept":"__ADK_SENTINEL_REMOVED__ not"}}}"#,
    );
    assert_eq!((entry.invocation_id.as_str(), entry.branch.as_str()), ("i", "x.y"));
    assert_eq!(entry.state_delta.as_ref().unwrap().remove, ["gone", "also"]);
    assert_eq!(set(&entry), owned(&[("kept", "\"__ADK_SENTINEL_REMOVED__ not\"")]));
    assert!(body_of(&entry).unwrap().ends_with("\"actions\":{}}"));
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
fn a_body_of_adk_needs_no_note_to_come_back() {
    let text = r#"{"content":{"n":1},"actions":{"state_delta":{"a":1},"escalate":null},"id":"e","author":"x","invocation_id":"i","timestamp":1733043686.5}"#;
    let (again, note) = write(&v1::Event { sequence: 3, ..adk(text) }).unwrap();
    assert_eq!(again, text);
    assert_eq!(note, Note { sequence: 3, ..Note::default() });
}

#[test]
fn a_camel_case_body_gets_its_delta_in_camel_case() {
    let text = r#"{"id":"e","author":"","invocationId":"i","actions":{"stateDelta":{"a":1},"transferToAgent":null}}"#;
    let (again, note) = write(&adk(text)).unwrap();
    assert_eq!(again, text);
    assert_eq!(note.added, [""; 0]);
}

#[test]
fn what_adk_expects_is_added_and_noted() {
    let event = v1::Event {
        event_id: "e".to_owned(),
        author: "a".to_owned(),
        event_time: Some(Timestamp { seconds: 5, nanos: 1 }),
        state_delta: delta(&owned(&[("k", "[ 1 ]")]), Vec::new()),
        ..Default::default()
    };
    let (text, note) = write(&event).unwrap();
    assert_eq!(
        text,
        r#"{"id":"e","author":"a","timestamp":5.000000001,"actions":{"state_delta":{"k":[ 1 ]}}}"#
    );
    assert!(note.no_body && note.fields.is_empty());
    assert_eq!(note.added, ["id", "author", "timestamp", "actions"]);
    assert_eq!(from_export(&text, &note).unwrap(), event);
}

#[test]
fn a_note_of_another_entry_is_refused() {
    let note = Note { added: vec!["id".to_owned()], ..Note::default() };
    assert!(from_export(r#"{"author":"a","id":"e"}"#, &note).is_err());
    assert!(from_export("{}", &note).is_err());
    for (name, text) in [("body_json", "[1]"), ("event_time", "soon"), ("later", "x")] {
        let fields = [(name.to_owned(), text.to_owned())].into();
        assert!(from_export("{}", &Note { fields, ..Note::default() }).is_err(), "{name}");
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
        Just("é\\\""),
    ];
    let space = || "[ \n]{0,2}";
    proptest::collection::vec((space(), key, space(), inner), 0..5).prop_map(|members| {
        let members =
            members.iter().map(|(a, key, b, value)| format!("{a}\"{key}\"{b}:{a}{value}{b}"));
        format!("{{{} }}", members.collect::<Vec<_>>().join(","))
    })
}

fn event() -> impl Strategy<Value = v1::Event> {
    let text = || prop_oneof![Just(String::new()), ".{1,5}"];
    let set = proptest::collection::btree_map(".{0,3}", value(), 0..3);
    let time = (-62_135_596_800..253_402_300_799_i64, 0..1_000_000_000);
    let texts = (text(), text(), text(), text());
    let body = proptest::option::weighted(0.9, object_of(value()));
    let removed = proptest::collection::vec(".{0,3}", 0..2);
    (1..i64::MAX, texts, time, set, removed, body).prop_map(
        |(sequence, (event_id, invocation_id, author, branch), time, set, remove, body)| {
            let json = |(key, value)| (key, Json::parse(value).unwrap());
            v1::Event {
                sequence,
                event_id,
                invocation_id,
                author,
                branch,
                event_time: Some(Timestamp { seconds: time.0, nanos: time.1 }),
                state_delta: delta(&set.into_iter().map(json).collect::<Vec<_>>(), remove),
                body_form: body.map(BodyForm::BodyJson),
                ..Default::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_as_it_was(event in event()) {
        let (text, note) = write(&event).unwrap();
        prop_assert_eq!(Json::object(text.clone()).map(Json::into_string), Ok(text.clone()));
        let note = serde_json::from_str(&serde_json::to_string(&note).unwrap()).unwrap();
        prop_assert_eq!(from_export(&text, &note).unwrap(), event);
    }

    #[test]
    fn what_adk_writes_never_panics(text in object_of(value())) {
        if let Ok(Some(entry)) = from_adk(&text) {
            prop_assert!(Json::object(body_of(&entry).unwrap().to_owned()).is_ok());
            let (again, note) = write(&entry).unwrap();
            prop_assert_eq!(from_export(&again, &note).unwrap(), entry);
        }
    }
}
