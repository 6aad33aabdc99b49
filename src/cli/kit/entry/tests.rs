//! Entries of kits are taken apart, and whatever is put together comes apart as it was.

use proptest::prelude::*;

use super::*;

fn kit(text: &str) -> Entry {
    Entry::of_kit(text).unwrap().unwrap()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn a_python_event_is_taken_apart_with_its_body_byte_for_byte() {
    let text = r#"{ "invocation_id": "i", "author": "user", "content": {"n": 1.00},
        "actions": {"state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "escalate": null},
        "branch": null, "id": "e", "timestamp": 1733043686.8428597 }"#;
    let entry = kit(text);
    assert_eq!((entry.event_id.as_str(), entry.invocation_id.as_str()), ("e", "i"));
    assert_eq!((entry.author.as_str(), entry.branch.as_str()), ("user", ""));
    assert_eq!(entry.event_time.map(time::format).unwrap(), "2024-12-01T09:01:26.842859700Z");
    assert_eq!(entry.set, owned(&[("a", "1.0"), ("user:b", "null")]));
    let delta = r#""state_delta": {"a": 1.0, "user:b": null, "temp:c": 1}, "#;
    assert_eq!(entry.body.unwrap(), text.replace(delta, ""));
}

#[test]
fn a_java_event_is_taken_apart_with_its_removals() {
    let entry = kit(
        r#"{"id":"e","invocationId":"i","author":"a","branch":"x.y","timestamp":1733043686842,
           "actions":{"stateDelta":{"gone":"__ADK_SENTINEL_REMOVED__","also":{"__ADK_SENTINEL_REMOVED__": true},
           "kept":"__ADK_SENTINEL_REMOVED__ not"}}}"#,
    );
    assert_eq!((entry.invocation_id.as_str(), entry.branch.as_str()), ("i", "x.y"));
    assert_eq!(entry.remove, ["gone", "also"]);
    assert_eq!(entry.set, owned(&[("kept", "\"__ADK_SENTINEL_REMOVED__ not\"")]));
    assert!(entry.body.unwrap().ends_with("\"actions\":{}}"));
}

#[test]
fn a_fragment_is_no_event() {
    assert_eq!(Entry::of_kit(r#"{"id":"e","partial":true}"#).unwrap(), None);
    assert!(Entry::of_kit(r#"{"id":"e","partial":false}"#).unwrap().is_some());
    assert!(Entry::of_kit(r#"{"id":"e","options":{"partial":true}}"#).unwrap().is_some());
}

#[test]
fn a_member_of_the_wrong_type_is_named() {
    for (text, name) in [
        (r#"{"id":1}"#, "id is a number"),
        (r#"{"author":{}}"#, "author is an object"),
        (r#"{"timestamp":"soon"}"#, "timestamp: `soon`"),
        (r#"{"actions":{"stateDelta":[]}}"#, "actions.stateDelta: "),
        ("[1]", "expected a JSON object"),
    ] {
        let error = Entry::of_kit(text).unwrap_err();
        assert!(error.contains(name), "{text}: {error}");
    }
}

#[test]
fn a_body_of_a_kit_needs_no_note_to_come_back() {
    let text = r#"{"content":{"n":1},"actions":{"state_delta":{"a":1},"escalate":null},"id":"e","author":"x","invocation_id":"i","timestamp":1733043686.5}"#;
    let (again, note) = put_together(&kit(text), 3).unwrap();
    assert_eq!(again, text);
    assert_eq!(note, Note { sequence: 3, ..Note::default() });
}

#[test]
fn a_camel_case_body_gets_its_delta_in_camel_case() {
    let text = r#"{"id":"e","author":"","invocationId":"i","actions":{"stateDelta":{"a":1},"transferToAgent":null}}"#;
    let (again, note) = put_together(&kit(text), 1).unwrap();
    assert_eq!(again, text);
    assert_eq!(note.added, [""; 0]);
}

#[test]
fn what_a_kit_expects_is_added_and_noted() {
    let event = Entry {
        event_id: "e".to_owned(),
        author: "a".to_owned(),
        event_time: Some(Timestamp { seconds: 5, nanos: 1 }),
        set: owned(&[("k", "[ 1 ]")]),
        ..Entry::default()
    };
    let (text, note) = put_together(&event, 1).unwrap();
    assert_eq!(
        text,
        r#"{"id":"e","author":"a","timestamp":5.000000001,"actions":{"state_delta":{"k":[ 1 ]}}}"#
    );
    assert!(note.no_body && note.event_time.is_none() && note.body_json.is_none());
    assert_eq!(note.added, ["id", "author", "timestamp", "actions"]);
    assert_eq!(Entry::of_export(&text, &note).unwrap(), event);
}

#[test]
fn a_note_of_another_entry_is_refused() {
    let note = Note { added: vec!["id".to_owned()], ..Note::default() };
    assert!(Entry::of_export(r#"{"author":"a","id":"e"}"#, &note).is_err());
    assert!(Entry::of_export("{}", &note).is_err());
    let note = Note { body_json: Some("[1]".to_owned()), ..Note::default() };
    assert!(Entry::of_export("{}", &note).is_err());
}

/// JSON text as nobody would write it: white space, odd numbers, escapes, members of ours with
/// any type, twice, anywhere.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        ".{0,4}".prop_map(|text| json::quote(&text)),
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

fn event() -> impl Strategy<Value = Entry> {
    let text = || prop_oneof![Just(String::new()), ".{1,5}"];
    let set = proptest::collection::btree_map(".{0,3}", value(), 0..3);
    let time = (-62_135_596_800..253_402_300_799_i64, 0..1_000_000_000);
    let texts = (text(), text(), text(), text());
    let body = proptest::option::weighted(0.9, object_of(value()));
    (texts, time, set, proptest::collection::vec(".{0,3}", 0..2), body).prop_map(
        |((event_id, invocation_id, author, branch), (seconds, nanos), set, remove, body)| Entry {
            event_id,
            invocation_id,
            author,
            branch,
            event_time: Some(Timestamp { seconds, nanos }),
            set: set.into_iter().collect(),
            remove,
            body,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_put_together_comes_apart_as_it_was(event in event(), sequence in 1..i64::MAX) {
        let (text, note) = put_together(&event, sequence).unwrap();
        prop_assert_eq!(json::object(&text), Ok(text.as_str()));
        let note = serde_json::from_str(&serde_json::to_string(&note).unwrap()).unwrap();
        prop_assert_eq!(Entry::of_export(&text, &note).unwrap(), event);
        prop_assert_eq!(note.sequence, sequence);
    }

    #[test]
    fn what_kits_write_never_panics(text in object_of(value())) {
        if let Ok(Some(entry)) = Entry::of_kit(&text) {
            let body = entry.body.clone().unwrap();
            prop_assert!(json::object(&body).is_ok());
            let (again, note) = put_together(&entry, 1).unwrap();
            prop_assert_eq!(Entry::of_export(&again, &note).unwrap(), entry);
        }
    }
}
