//! JSON as text: it comes back byte for byte from everywhere, and what is no JSON is refused.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        Event, GetStateRequest, GetStateResponse, ListKeyChangesRequest, SetIfAbsent,
        StateOperation, WatchStart, get_state_response::StateForm, key_change::ValueForm,
        set_if_absent, state_operation::Operation, watch_response::Kind,
    },
};

use crate::{
    harness::{Service, owning_server, with_server},
    judge::{faulty, refused, violations},
    make::{
        TEXT, append, create, event, get, get_state, get_with_events, list_append, list_events,
        merge_patch, operating, saying, session_scope, set, set_if_absent, setting, update,
    },
    read::{HasState, body_text, state_text},
    watching::{Watching, watch},
};

with_server! {
    values_come_back_byte_for_byte
    of_keys_that_come_twice_the_last_value_counts
    white_space_around_a_text_is_dropped
    what_is_no_json_is_refused
    what_is_json_of_another_type_is_refused
    json_of_both_forms_is_one_value
}

owning_server! { bodies_come_back_byte_for_byte }

/// Texts that a parser which writes anew would change.
const VALUES: [&str; 24] = [
    "1e5",
    "1E+05",
    "1.0",
    "1.50",
    "-0",
    "-0.0",
    "0.1e1",
    "9007199254740993",
    "123456789012345678901234567890",
    "-9223372036854775809",
    "1.7976931348623157e308",
    "4.9e-324",
    "1e-400",
    "3.141592653589793238462643383279",
    r#""\u0041\/\b\f\n\r\t\"\\""#,
    r#""\ud83d\ude00 😀 \u00e9 é e\u0301""#,
    r#""\u0000""#,
    "\"\u{2028}\u{7f}\u{10ffff}\"",
    "[ 1 ,\t2 ,\n [ ] ]",
    r#"{ "b" : 1 , "a" : { } }"#,
    r#"{"same":1,"same":2}"#,
    r#"{"":{"":""}}"#,
    "null",
    "[true,false,null]",
];

/// As deep as it may be.
fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

async fn bodies_come_back_byte_for_byte(service: Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut bodies: Vec<String> = VALUES
        .iter()
        .map(|value| format!("{{ \"value\":{value} ,\"twice\":1,\"twice\" : 2}}"))
        .collect();
    bodies.push(format!("{{\"deep\":{}}}", nested(99)));
    for (at, body) in bodies.iter().enumerate() {
        let saying = Event { event_id: format!("e{at}"), ..saying(body) };
        for replayed in [false, true] {
            let answer = service.append_event(append("s1", saying.clone())).await.unwrap();
            assert_eq!(answer.replayed, replayed);
            assert_eq!(body_text(&answer.event.unwrap()), body);
        }
    }
    let read = service.get_session(get_with_events("s1")).await.unwrap().events;
    let listed = service.list_events(list_events("s1")).await.unwrap().events;
    let request = watch(session_scope("s1"), WatchStart::Beginning);
    let mut watching = Watching::open(&service, request).await;
    for (at, body) in bodies.iter().enumerate() {
        let watched = watching.event().await;
        for event in [&read[at], &listed[at], &watched] {
            assert_eq!(body_text(event), body);
        }
    }
    service.stop().await;
}

/// What a key's value is in a state's text.
fn value_in<'a>(state: &'a str, key: &str) -> &'a str {
    let name = format!("{}:", json!(key));
    let start = state.find(&name).unwrap_or_else(|| panic!("no {key} in {state}")) + name.len();
    let end = state[start..].find(",\"§").map_or(state.len() - 1, |end| start + end);
    &state[start..end]
}

async fn values_come_back_byte_for_byte(service: &Service) {
    let members: Vec<String> =
        VALUES.iter().enumerate().map(|(at, value)| format!("\"§{at:02}\":{value}")).collect();
    let state = format!("{{{}}}", members.join(","));
    let created = service.create_session(create("s1", &state)).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let appended = service.append_event(append("s2", setting(&state))).await.unwrap();
    let read = service.get_session(get("s1")).await.unwrap();
    for (at, value) in VALUES.iter().enumerate() {
        let key = format!("§{at:02}");
        for session in [&created.session, &appended.session, &read.session] {
            assert_eq!(value_in(state_text(session.as_ref().unwrap()), &key), *value);
        }
        // One by one, through operations, and from the history.
        let scope = session_scope("s2");
        let single = GetStateRequest { keys: vec![key.clone()], ..get_state(scope.clone()) };
        let GetStateResponse { state_form, .. } = service.get_state(single).await.unwrap();
        assert_eq!(state_form, Some(StateForm::StateJson(format!("{{\"{key}\":{value}}}"))));
        let absent = operating(set_if_absent(&format!("new{at}"), value));
        service.append_event(append("s2", absent)).await.unwrap();
        for key in [key, format!("new{at}")] {
            let request = ListKeyChangesRequest {
                scope: Some(scope.clone()),
                key,
                json_form: TEXT,
                ..Default::default()
            };
            let changes = service.list_key_changes(request).await.unwrap().changes;
            assert_eq!(changes[0].value_form, Some(ValueForm::ValueJson((*value).into())));
        }
    }
    // What is added to keeps the bytes of what was there.
    let list = "[1e5 , \"\\u0041\"]";
    service.create_session(create("s3", &format!("{{\"§l\":{list}}}"))).await.unwrap();
    service.append_event(append("s3", operating(list_append("§l", "[ 2.0 ]", 0)))).await.unwrap();
    let merged = operating(merge_patch("§m", r#"{"a":1.50,"b":{"c":"\u0041"}}"#));
    let answer = service.append_event(append("s3", merged)).await.unwrap();
    let text = state_text(answer.session.as_ref().unwrap());
    let added = value_in(text, "§l");
    assert!(
        added.contains("1e5") && added.contains("\"\\u0041\"") && added.contains("2.0"),
        "{added}"
    );
    let merged = value_in(text, "§m");
    assert!(merged.contains("1.50") && merged.contains("\"\\u0041\""), "{merged}");
}

async fn of_keys_that_come_twice_the_last_value_counts(service: &Service) {
    let twice = r#"{"a":1,"app:b":1,"a":[2],"\u0061":3,"app:b":null}"#;
    let created = service.create_session(create("s1", twice)).await.unwrap();
    assert_eq!(created.state(), json!({"a": 3, "app:b": null}));
    let answer = service.append_event(append("s1", setting(r#"{"a":4,"a":5}"#))).await.unwrap();
    assert_eq!(answer.state()["a"], 5);
}

async fn white_space_around_a_text_is_dropped(service: &Service) {
    service.create_session(create("s1", " \n\t{\"a\": 1}\r\n")).await.unwrap();
    let body = "\r\n {\"a\" : 1}\t ";
    let answer = service.append_event(append("s1", saying(body))).await.unwrap();
    assert_eq!(body_text(&answer.event.unwrap()), "{\"a\" : 1}");
}

async fn what_is_no_json_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let deep = format!("{{\"k\":{}}}", nested(100));
    let lone = [
        r#"{"k":"\ud800"}"#,
        r#"{"k":"\udc00\ud800"}"#,
        r#"{"\ud800":1}"#,
        r#"{"k":"\ud800\u0041"}"#,
    ];
    let wrong = [
        "",
        " ",
        "\n",
        "{",
        "}",
        "{}{}",
        "{} x",
        "nul",
        "{k:1}",
        "{'k':1}",
        r#"{"k":1,}"#,
        r#"{"k":[1,]}"#,
        r#"{"k":01}"#,
        r#"{"k":.5}"#,
        r#"{"k":5.}"#,
        r#"{"k":+1}"#,
        r#"{"k":NaN}"#,
        r#"{"k":Infinity}"#,
        r#"{"k":0x1}"#,
        r#"{"k":1e400}"#,
        r#"{"k":-1e999}"#,
        r#"{"k":"\x41"}"#,
        r#"{"k":"\u12"}"#,
        "{\"k\":\"\n\"}",
        "{\"k\":\"\u{0}\"}",
        "/**/{}",
        "{}//",
        "\u{feff}{}",
        r#"{"k" 1}"#,
        r#"{"k":1 "l":2}"#,
        r#"{"k":tru}"#,
        &deep,
    ];
    for text in wrong.into_iter().chain(lone) {
        let result = service.append_event(append("s1", saying(text))).await;
        faulty(result, Reason::BadJson, "event.body_json");
        let result = service.append_event(append("s1", setting(text))).await;
        faulty(result, Reason::BadJson, "event.state_delta.set_json");
        let mut request = create("s2", "{}");
        let form = sessiond::proto::v1::create_session_request::StateForm::StateJson(text.into());
        request.state_form = Some(form);
        faulty(service.create_session(request).await, Reason::BadJson, "state_json");
        for (operation, field) in [
            (list_append("k", text, 0), "list_append.values_json"),
            (set_if_absent("k", text), "set_if_absent.value_json"),
            (merge_patch("k", text), "merge_patch.patch_json"),
        ] {
            let result = service.append_event(append("s1", operating(operation))).await;
            let field = format!("event.state_delta.operations[0].{field}");
            faulty(result, Reason::BadJson, &field);
        }
    }
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), json!({}));
}

async fn what_is_json_of_another_type_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let path = |field: &str| format!("event.state_delta.operations[0].{field}");
    for text in ["null", "1", "\"{}\"", "true", "[]", "[{}]"] {
        let result = service.append_event(append("s1", saying(text))).await;
        faulty(result, Reason::BadJson, "event.body_json");
        let result = service.append_event(append("s1", setting(text))).await;
        faulty(result, Reason::BadJson, "event.state_delta.set_json");
        let result = service.append_event(append("s1", operating(merge_patch("k", text)))).await;
        faulty(result, Reason::BadJson, &path("merge_patch.patch_json"));
        if !text.starts_with('[') {
            let appending = operating(list_append("k", text, 0));
            let result = service.append_event(append("s1", appending)).await;
            faulty(result, Reason::BadJson, &path("list_append.values_json"));
        }
    }
    // A text with several faults and a neighbour: each is named.
    let two = Event { state_delta: Some(set("[]")), ..saying("[]") };
    let status = refused(service.append_event(append("s1", two)).await, Reason::BadJson);
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["event.state_delta.set_json", "event.body_json"]);
    // An operation whose value is not there at all.
    let none = SetIfAbsent { value_form: None };
    let none = StateOperation { key: "k".into(), operation: Some(Operation::SetIfAbsent(none)) };
    let result = service.append_event(append("s1", operating(none))).await;
    faulty(result, Reason::MissingField, &path("set_if_absent"));
    let empty = set_if_absent::ValueForm::ValueJson("  ".into());
    let empty = SetIfAbsent { value_form: Some(empty) };
    let empty = StateOperation { key: "k".into(), operation: Some(Operation::SetIfAbsent(empty)) };
    let result = service.append_event(append("s1", operating(empty))).await;
    faulty(result, Reason::BadJson, &path("set_if_absent.value_json"));
}

async fn json_of_both_forms_is_one_value(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let delta = crate::make::set_struct(r#"{"a":{"b":[1,2.5,null,"é\n",true]},"app:c":-7}"#);
    let answer = service.update_state(update(session_scope("s1"), delta)).await.unwrap();
    assert_eq!(answer.state(), json!({"a": {"b": [1, 2.5, null, "é\n", true]}, "app:c": -7}));
    let mut watching =
        Watching::open(service, watch(session_scope("s1"), WatchStart::Snapshot)).await;
    let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
    assert_eq!(snapshot.state(), answer.state());
    assert_eq!(
        service.append_event(append("s1", event("e"))).await.unwrap().state(),
        answer.state()
    );
}
