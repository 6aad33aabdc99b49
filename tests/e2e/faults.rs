//! Many faults at once: all reported, in the order of the request, twenty of them by name, within what clients take.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventsRequest, CreateSessionRequest, Event, KeyCheck, ListSessionsRequest,
        Precondition, RewindSessionRequest, Session, UpdateSessionRequest, UpdateStateRequest,
        WatchRequest, key_check::Condition, session::Expiration,
    },
};
use tonic_types::StatusExt;

use crate::{
    harness::{Service, with_server},
    judge::{detail, list, metadata, refused, violations},
    make::{
        address, append, append_all, check, checking, create, event, get, increment, key,
        operating, operations, plain, remove, render, rewind, saying, scope, set, setting, update,
    },
    watching::Watching,
};

with_server! {
    everything_at_fault_is_reported_in_order
    every_request_is_read_to_its_end
    more_than_twenty_faults_are_counted
    the_first_fault_gives_its_reason
    a_hostile_request_gets_a_status_that_clients_take
    long_lists_in_metadata_are_cut
    what_is_quoted_is_cut_at_64_bytes
}

fn named(wanted: &[(&str, &str)]) -> Vec<(String, String)> {
    wanted.iter().map(|&(field, reason)| (field.to_owned(), reason.to_owned())).collect()
}

async fn everything_at_fault_is_reported_in_order(service: &Service) {
    let bad = Event {
        event_id: "x".repeat(129),
        author: "\0".into(),
        branch: "x".repeat(1025),
        event_time: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
        state_delta: Some(sessiond::proto::v1::StateDelta {
            remove: vec![String::new(), "fine".into()],
            operations: vec![increment("", 1), increment("fine", 1)],
            ..set(r#"{"":1}"#)
        }),
        ..saying("{")
    };
    let request = AppendEventsRequest {
        key: Some(address("", "alice", "")),
        events: vec![plain(), bad],
        precondition: Some(Precondition {
            expected_sequence: Some(-1),
            keys: vec![KeyCheck { key: "temp:k".into(), condition: None }],
            ..Default::default()
        }),
        return_state: true,
        json_form: 77,
        include_versions: true,
    };
    let status = refused(service.append_events(request).await, Reason::MissingField);
    let wanted = [
        ("key.app_name", "MISSING_FIELD"),
        ("key.session_id", "MISSING_FIELD"),
        ("events[1].event_id", "BAD_ID"),
        ("events[1].author", "BAD_VALUE"),
        ("events[1].branch", "FIELD_TOO_LONG"),
        ("events[1].event_time", "BAD_VALUE"),
        ("events[1].state_delta.set_json[\"\"]", "BAD_KEY"),
        ("events[1].state_delta.remove[0]", "BAD_KEY"),
        ("events[1].state_delta.operations[0].key", "BAD_KEY"),
        ("events[1].body_json", "BAD_JSON"),
        ("precondition.expected_sequence", "BAD_VALUE"),
        ("precondition.keys[0].key", "KEY_OUTSIDE_SCOPE"),
        ("precondition.keys[0]", "MISSING_FIELD"),
        ("json_form", "BAD_VALUE"),
    ];
    assert_eq!(violations(&status), named(&wanted));
    assert_eq!((&*detail(&status, "field"), &*detail(&status, "more")), ("key.app_name", "13"));
    let descriptions = status.get_details_bad_request().unwrap().field_violations;
    assert!(descriptions.iter().all(|fault| fault.description.len() > 20), "{descriptions:?}");
}

async fn every_request_is_read_to_its_end(service: &Service) {
    let missing = "MISSING_FIELD";
    let request = CreateSessionRequest {
        session: Some(Session {
            display_name: "x".repeat(257),
            expiration: Some(Expiration::Ttl(prost_types::Duration { seconds: -1, nanos: 0 })),
            labels: [("k".to_owned(), "v".repeat(64))].into(),
            ..Default::default()
        }),
        json_form: -1,
        app_name: String::new(),
        ..create("\0", "[]")
    };
    let status = refused(service.create_session(request).await, Reason::MissingField);
    let wanted = [
        ("app_name", missing),
        ("session_id", "BAD_ID"),
        ("state_json", "BAD_JSON"),
        ("session.ttl", "BAD_VALUE"),
        ("session.display_name", "FIELD_TOO_LONG"),
        ("session.labels[\"k\"]", "FIELD_TOO_LONG"),
        ("json_form", "BAD_VALUE"),
    ];
    assert_eq!(violations(&status), named(&wanted));

    let request =
        UpdateSessionRequest { key: None, session: None, update_mask: None, ..Default::default() };
    let status = refused(service.update_session(request).await, Reason::MissingField);
    assert_eq!(violations(&status), named(&[("key", missing), ("update_mask", missing)]));

    let request = RewindSessionRequest { to_sequence: None, key: None, ..rewind("", 0) };
    let status = refused(service.rewind_session(request).await, Reason::MissingField);
    assert_eq!(violations(&status), named(&[("key", missing), ("to_sequence", missing)]));

    let request = ListSessionsRequest { page_size: -1, order: 9, ..Default::default() };
    let status = refused(service.list_sessions(request).await, Reason::MissingField);
    let wanted = [("app_name", missing), ("page_size", "BAD_VALUE"), ("order", "BAD_VALUE")];
    assert_eq!(violations(&status), named(&wanted));

    let request = UpdateStateRequest { delta: None, ..update(scope("", "", "s1"), set("{}")) };
    let status = refused(service.update_state(request).await, Reason::MissingField);
    let wanted = [("scope.app_name", missing), ("scope.user_id", missing), ("delta", missing)];
    assert_eq!(violations(&status), named(&wanted));

    let status = refused(service.render_template(render("", "")).await, Reason::MissingField);
    assert_eq!(violations(&status), named(&[("key.session_id", missing), ("template", missing)]));
    let status = refused(service.end_invocation(Default::default()).await, Reason::MissingField);
    assert_eq!(violations(&status), named(&[("key", missing), ("invocation_id", missing)]));
    let status = refused(service.list_key_changes(Default::default()).await, Reason::MissingField);
    assert_eq!(violations(&status), named(&[("scope", missing), ("key", missing)]));

    let request = WatchRequest { start: 9, json_form: 9, ..Default::default() };
    let result = Watching::try_open(service, request).await.map(|_| ());
    let status = refused(result, Reason::MissingField);
    let wanted = [("scope", missing), ("start", "BAD_VALUE"), ("json_form", "BAD_VALUE")];
    assert_eq!(violations(&status), named(&wanted));
}

async fn more_than_twenty_faults_are_counted(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for (count, shown, last) in
        [(20, 20, "events[19].event_id"), (21, 21, ""), (35, 21, ""), (999, 21, "")]
    {
        let events = vec![event(&"x".repeat(129)); count];
        let result = service.append_events(append_all("s1", events)).await;
        let status = refused(result, Reason::BadId);
        let faults = status.get_details_bad_request().unwrap().field_violations;
        assert_eq!(faults.len(), shown);
        assert_eq!(faults.last().unwrap().field, last);
        if last.is_empty() {
            assert_eq!(faults[20].description, format!("and {} more", count - 20));
        }
        assert_eq!(detail(&status, "more"), (count - 1).to_string());
    }
}

async fn the_first_fault_gives_its_reason(service: &Service) {
    let events = vec![saying("{"), event(&"x".repeat(129))];
    let status = refused(service.append_events(append_all("s1", events)).await, Reason::BadJson);
    assert_eq!(detail(&status, "field"), "events[0].body_json");
    let events = vec![event(&"x".repeat(129)), saying("{")];
    let status = refused(service.append_events(append_all("s1", events)).await, Reason::BadId);
    assert_eq!(detail(&status, "field"), "events[0].event_id");
}

/// Texts that take much room on the wire, or that end a message early where they are put into one carelessly.
fn hostile(bytes: usize) -> Vec<String> {
    ["\u{1}", "\"", "'", "\\", "%", "\n", "é", "💬", "\u{7f}", "\u{2028}", "<", "{}"]
        .into_iter()
        .map(|part| part.repeat(bytes / part.len()))
        .collect()
}

/// The judge of the harness holds each status to its size and its form.
async fn a_hostile_request_gets_a_status_that_clients_take(service: &Service) {
    for text in hostile(512) {
        let whole = address(&text, &text, &text);
        let mut request = get("");
        request.key = Some(whole.clone());
        let status = refused(service.get_session(request.clone()).await, Reason::SessionNotFound);
        assert!(status.message().len() < 900);
        let mut taken = create(&text, &json!({&text: "x", "n": 1}).to_string());
        (taken.app_name, taken.user_id) = (text.clone(), text.clone());
        service.create_session(taken.clone()).await.unwrap();
        refused(service.create_session(taken).await, Reason::SessionExists);
        request.key.as_mut().unwrap().user_id.clear();
        refused(service.get_session(request).await, Reason::MissingField);

        let send = async |event| {
            let mut request = append("", event);
            request.key = Some(whole.clone());
            service.append_event(request).await
        };
        let status = refused(send(operating(increment(&text, 1))).await, Reason::TypeMismatch);
        assert_eq!(detail(&status, "key"), text, "whole, in the metadata");
        let keys: Vec<_> = (0..100)
            .map(|at| format!("{}{at:03}", &text[..text.floor_char_boundary(500)]))
            .collect();
        let removed: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mut events = vec![Event { state_delta: Some(remove(&removed)), ..plain() }];
        events.extend(keys.iter().map(|key| Event {
            event_id: key.clone(),
            ..setting(&format!("{{\"{}\":", "x".repeat(300)))
        }));
        let mut batch = append_all("", events);
        batch.key = Some(whole.clone());
        refused(service.append_events(batch).await, Reason::BadId);
        let checks = keys.iter().map(|key| check(key, Condition::Exists(true)));
        let mut request = append("", plain());
        (request.key, request.precondition) = (Some(whole.clone()), checking(checks));
        refused(service.append_event(request).await, Reason::KeyConflict);
        let bad = json!({&text[..]: {&text[..]: 1}}).to_string().replace(":1", ":");
        refused(send(saying(&bad)).await, Reason::BadJson);
    }
}

async fn long_lists_in_metadata_are_cut(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let template: String = (0..5000).map(|at| format!("{{key_{at}}}")).collect();
    let status =
        refused(service.render_template(render("s1", &template)).await, Reason::MissingStateKey);
    let keys = list(&status, "keys");
    assert_eq!((keys.len(), &*keys[0], &*keys[20]), (21, "key_0", "and 4980 more"));
    let template: String = (0..300).map(|at| format!("{{{}{at}}}", "k".repeat(500))).collect();
    let status =
        refused(service.render_template(render("s1", &template)).await, Reason::MissingStateKey);
    let keys = list(&status, "keys");
    assert!(keys.len() < 21 && keys.last().unwrap().starts_with("and 29"), "{keys:?}");
}

async fn what_is_quoted_is_cut_at_64_bytes(service: &Service) {
    let id = |bytes: usize| "é".repeat(bytes / 2);
    for (bytes, cut) in [(64, false), (66, true), (512, true)] {
        let status = refused(service.get_session(get(&id(bytes))).await, Reason::SessionNotFound);
        let shown = if cut { format!("'{}…'", id(64)) } else { format!("'{}'", id(64)) };
        assert!(status.message().contains(&shown), "{}", status.message());
        assert_eq!(detail(&status, "session_id"), id(bytes), "whole, in the metadata");
        assert_eq!(metadata(&status)["user_id"], "alice");
    }
    service.create_session(create("s1", "")).await.unwrap();
    let operations = operations([increment(&format!("\0{}", "k".repeat(200)), 1)]);
    let bad = Event { state_delta: Some(operations), ..plain() };
    refused(service.append_event(append("s1", bad)).await, Reason::BadKey);
    let path = "p".repeat(3000);
    let request = UpdateSessionRequest {
        key: Some(key("s1")),
        session: None,
        update_mask: Some(prost_types::FieldMask { paths: vec![path] }),
        ..Default::default()
    };
    let status = refused(service.update_session(request).await, Reason::BadMask);
    assert!(status.message().contains(&format!("'{}…'", "p".repeat(64))));
}
