//! Limits of names, labels, templates and pages: the last legal size and one beyond.

use prost_types::FieldMask;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, CreateSessionRequest, EndInvocationRequest, Event, EventSelection,
        GetSessionRequest, GetStateRequest, ListEventsRequest, ListKeyChangesRequest,
        ListSessionsRequest, RewindSessionRequest, Session, UpdateSessionRequest,
        UpdateStateRequest,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, refused, violations},
    make::{
        APP, append, append_all, create, get, get_state, increment, key, list_events, operating,
        plain, remove, render, rewind, session_scope, set, setting, update, user_scope,
    },
    read::{HasState, changed_to},
    sessions::labels,
};

with_server! {
    addresses_have_at_most_512_bytes
    names_have_their_sizes
    no_name_holds_a_nul
    keys_have_at_most_512_bytes_with_their_prefix
    labels_are_at_most_64_of_63_bytes
    a_template_has_at_most_256_kib
    a_page_has_at_most_1000_items_and_100_by_default
    numbers_are_not_negative
}

/// A text of `bytes` bytes, the last of them parts of characters of several bytes.
fn name(bytes: usize) -> String {
    let mut name = "é".repeat(bytes / 2);
    if bytes % 2 == 1 {
        name.push('x');
    }
    name
}

async fn addresses_have_at_most_512_bytes(service: &Service) {
    let at = |app: usize, user: usize, session: usize| CreateSessionRequest {
        app_name: name(app),
        user_id: name(user),
        ..create(&name(session), r#"{"own":1,"user:u":1,"app:a":1}"#)
    };
    let created = service.create_session(at(512, 512, 512)).await.unwrap();
    let whole = created.session.unwrap().key.unwrap();
    let mut request = append("", plain());
    request.key = Some(whole.clone());
    assert_eq!(service.append_event(request).await.unwrap().session.unwrap().key, Some(whole));
    for (request, field) in
        [(at(513, 1, 1), "app_name"), (at(1, 513, 1), "user_id"), (at(1, 1, 513), "session_id")]
    {
        faulty(service.create_session(request).await, Reason::BadId, field);
    }
    for (request, field) in [(at(0, 1, 1), "app_name"), (at(1, 0, 1), "user_id")] {
        faulty(service.create_session(request).await, Reason::MissingField, field);
    }
    service.create_session(at(1, 1, 1)).await.unwrap();
    let status = refused(service.get_session(get(&name(513))).await, Reason::BadId);
    assert_eq!(violations(&status)[0].0, "key.session_id");
    assert_eq!((&*detail(&status, "bytes"), &*detail(&status, "limit")), ("513", "512"));
    let request =
        ListSessionsRequest { app_name: APP.into(), user_id: name(513), ..Default::default() };
    faulty(service.list_sessions(request).await, Reason::BadId, "user_id");
}

async fn names_have_their_sizes(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let whole = Event {
        event_id: name(128),
        invocation_id: name(128),
        author: name(256),
        branch: name(1024),
        ..plain()
    };
    let stored = service.append_event(append("s1", whole.clone())).await.unwrap().event.unwrap();
    assert_eq!(
        (&stored.event_id, &stored.invocation_id, &stored.author, &stored.branch),
        (&whole.event_id, &whole.invocation_id, &whole.author, &whole.branch)
    );
    for (event, reason, field) in [
        (Event { event_id: name(129), ..plain() }, Reason::BadId, "event.event_id"),
        (Event { invocation_id: name(129), ..plain() }, Reason::BadId, "event.invocation_id"),
        (Event { author: name(257), ..plain() }, Reason::FieldTooLong, "event.author"),
        (Event { branch: name(1025), ..plain() }, Reason::FieldTooLong, "event.branch"),
    ] {
        faulty(service.append_event(append("s1", event)).await, reason, field);
    }
    // An event without an author counts as one.
    let nobodys = Event { author: String::new(), ..plain() };
    assert_eq!(
        service.append_event(append("s1", nobodys)).await.unwrap().event.unwrap().author,
        ""
    );

    let named = |bytes| CreateSessionRequest {
        session: Some(Session { display_name: name(bytes), ..Default::default() }),
        ..create("", "")
    };
    let created = service.create_session(named(256)).await.unwrap().session.unwrap();
    assert_eq!(created.display_name, name(256));
    let result = service.create_session(named(257)).await;
    faulty(result, Reason::FieldTooLong, "session.display_name");
    let request = |author, request_id| UpdateStateRequest {
        author,
        request_id,
        ..update(user_scope(), set(r#"{"user:u":1}"#))
    };
    service.update_state(request(name(256), name(128))).await.unwrap();
    let result = service.update_state(request(name(257), String::new())).await;
    faulty(result, Reason::FieldTooLong, "author");
    let result = service.update_state(request(String::new(), name(129))).await;
    faulty(result, Reason::BadId, "request_id");
    let marker = |event_id, author| RewindSessionRequest { event_id, author, ..rewind("s1", 0) };
    service.rewind_session(marker(name(127), name(256))).await.unwrap();
    let result = service.rewind_session(marker(name(129), String::new())).await;
    faulty(result, Reason::BadId, "event_id");
    let result = service.rewind_session(marker(String::new(), name(257))).await;
    faulty(result, Reason::FieldTooLong, "author");
    let filter =
        |author, invocation_id| ListEventsRequest { author, invocation_id, ..list_events("s1") };
    service.list_events(filter(name(256), name(128))).await.unwrap();
    let result = service.list_events(filter(name(257), String::new())).await;
    faulty(result, Reason::FieldTooLong, "author");
    let result = service.list_events(filter(String::new(), name(129))).await;
    faulty(result, Reason::BadId, "invocation_id");
    let end = |bytes| EndInvocationRequest { key: Some(key("s1")), invocation_id: name(bytes) };
    service.end_invocation(end(128)).await.unwrap();
    faulty(service.end_invocation(end(129)).await, Reason::BadId, "invocation_id");
    faulty(service.end_invocation(end(0)).await, Reason::MissingField, "invocation_id");
}

async fn no_name_holds_a_nul(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    faulty(service.create_session(create("a\0b", "")).await, Reason::BadId, "session_id");
    for (event, reason, field) in [
        (Event { event_id: "\0".into(), ..plain() }, Reason::BadId, "event.event_id"),
        (Event { invocation_id: "\0".into(), ..plain() }, Reason::BadId, "event.invocation_id"),
        (Event { author: "\0".into(), ..plain() }, Reason::BadValue, "event.author"),
        (Event { branch: "\0".into(), ..plain() }, Reason::BadValue, "event.branch"),
        (setting(r#"{"a\u0000b":1}"#), Reason::BadKey, "event.state_delta.set_json[\"a\0b\"]"),
        (operating(increment("\0", 1)), Reason::BadKey, "event.state_delta.operations[0].key"),
    ] {
        faulty(service.append_event(append("s1", event)).await, reason, field);
    }
    // In a value it is a character like any other.
    let answer = service.append_event(append("s1", setting(r#"{"k":"a\u0000b"}"#))).await.unwrap();
    assert_eq!(answer.state()["k"], "a\0b");
}

async fn keys_have_at_most_512_bytes_with_their_prefix(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for prefix in ["", "app:", "user:", "temp:", "other:"] {
        let of = |bytes: usize| format!("{prefix}{}", "k".repeat(bytes - prefix.len()));
        let state = |bytes| format!("{{\"{}\":1}}", of(bytes));
        let event = |bytes| Event { invocation_id: "turn".into(), ..setting(&state(bytes)) };
        let answer = service.append_event(append("s1", event(512))).await.unwrap();
        assert_eq!(answer.state()[of(512)], 1);
        let status = refused(service.append_event(append("s1", event(513))).await, Reason::BadKey);
        assert!(violations(&status)[0].0.starts_with("event.state_delta.set_json[\""));
        let created = create("s2", &state(513));
        refused(service.create_session(created).await, Reason::BadKey);
        let removal = Event { state_delta: Some(remove(&[&of(513)])), ..plain() };
        let result = service.append_event(append("s1", removal)).await;
        faulty(result, Reason::BadKey, "event.state_delta.remove[0]");
        let keys = GetStateRequest { keys: vec![of(513)], ..get_state(session_scope("s1")) };
        faulty(service.get_state(keys).await, Reason::BadKey, "keys[0]");
    }
    let changes = |bytes| ListKeyChangesRequest {
        scope: Some(session_scope("s1")),
        key: "k".repeat(bytes),
        ..Default::default()
    };
    let found = service.list_key_changes(changes(512)).await.unwrap().changes;
    assert_eq!(changed_to(&found[0]), Some(serde_json::json!(1)));
    faulty(service.list_key_changes(changes(513)).await, Reason::BadKey, "key");
    faulty(service.list_key_changes(changes(0)).await, Reason::MissingField, "key");
}

async fn labels_are_at_most_64_of_63_bytes(service: &Service) {
    let many = |count: usize| -> Vec<(String, String)> {
        (0..count).map(|at| (format!("{at:063}"), name(63))).collect()
    };
    let with = |labels: Vec<(String, String)>| CreateSessionRequest {
        session: Some(Session { labels: labels.into_iter().collect(), ..Default::default() }),
        ..create("", "")
    };
    let created = service.create_session(with(many(64))).await.unwrap().session.unwrap();
    assert_eq!(created.labels, many(64).into_iter().collect());
    let one = |key: &str, value: &str| with(vec![(key.to_owned(), value.to_owned())]);
    service.create_session(one(&name(63), &name(63))).await.unwrap();
    for (request, reason, field) in [
        (with(many(65)), Reason::BadValue, "session.labels".to_owned()),
        (one(&name(64), ""), Reason::FieldTooLong, format!("session.labels[\"{}\"]", name(64))),
        (one("k", &name(64)), Reason::FieldTooLong, "session.labels[\"k\"]".into()),
        (one("", "v"), Reason::BadValue, "session.labels[\"\"]".into()),
        (one("k\0", "v"), Reason::BadValue, "session.labels[\"k\0\"]".into()),
        (one("k", "v\0"), Reason::BadValue, "session.labels[\"k\"]".into()),
    ] {
        faulty(service.create_session(request).await, reason, &field);
    }
    // All that is at fault.
    let bad = [("a", name(64)), ("b", "v\0".into()), ("c", "fine".into())];
    let bad = with(bad.map(|(key, value)| (key.to_owned(), value)).into());
    let status = refused(service.create_session(bad).await, Reason::FieldTooLong);
    let fields: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["session.labels[\"a\"]", "session.labels[\"b\"]"]);
    let update = UpdateSessionRequest {
        key: created.key,
        session: with(many(65)).session,
        update_mask: Some(FieldMask { paths: vec!["labels".into()] }),
        ..Default::default()
    };
    faulty(service.update_session(update).await, Reason::BadValue, "session.labels");
    let list = ListSessionsRequest {
        app_name: APP.into(),
        labels: labels(&[("", "x")]),
        ..Default::default()
    };
    faulty(service.list_sessions(list).await, Reason::BadValue, "labels[\"\"]");
}

async fn a_template_has_at_most_256_kib(service: &Service) {
    service.create_session(create("s1", r#"{"k":"v"}"#)).await.unwrap();
    let template = |bytes: usize| format!("{{k}}{}", "x".repeat(bytes - 3));
    let text = service.render_template(render("s1", &template(256 * 1024))).await.unwrap().text;
    assert_eq!(text.len(), 256 * 1024 - 2);
    let result = service.render_template(render("s1", &template(256 * 1024 + 1))).await;
    let status = faulty(result, Reason::FieldTooLong, "template");
    assert_eq!(detail(&status, "limit"), "262144");
    faulty(service.render_template(render("s1", "")).await, Reason::MissingField, "template");
}

async fn a_page_has_at_most_1000_items_and_100_by_default(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for _ in 0..2 {
        let events = (0..501).map(|at| setting(&format!("{{\"k\":{at}}}"))).collect();
        service.append_events(append_all("s1", events)).await.unwrap();
    }
    for (page_size, wanted) in
        [(0, 100), (1, 1), (999, 999), (1000, 1000), (1001, 1000), (i32::MAX, 1000)]
    {
        let request = ListEventsRequest { page_size, ..list_events("s1") };
        assert_eq!(service.list_events(request).await.unwrap().events.len(), wanted);
        let request = ListKeyChangesRequest {
            scope: Some(session_scope("s1")),
            key: "k".into(),
            page_size,
            ..Default::default()
        };
        assert_eq!(service.list_key_changes(request).await.unwrap().changes.len(), wanted);
    }
    for at in 0..101 {
        service.create_session(create(&format!("t{at}"), "")).await.unwrap();
    }
    for (page_size, wanted) in [(0, 100), (101, 101), (1001, 102)] {
        let request = ListSessionsRequest { app_name: APP.into(), page_size, ..Default::default() };
        assert_eq!(service.list_sessions(request).await.unwrap().sessions.len(), wanted);
    }
}

async fn numbers_are_not_negative(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let select = |selection| GetSessionRequest { events: Some(selection), ..get("s1") };
    let recent = EventSelection { recent: Some(-1), ..Default::default() };
    faulty(service.get_session(select(recent)).await, Reason::BadValue, "events.recent");
    let after = EventSelection { after_sequence: -1, ..Default::default() };
    faulty(service.get_session(select(after)).await, Reason::BadValue, "events.after_sequence");
    let list = ListEventsRequest { page_size: -1, ..list_events("s1") };
    faulty(service.list_events(list).await, Reason::BadValue, "page_size");
    let list =
        ListSessionsRequest { app_name: APP.into(), page_size: i32::MIN, ..Default::default() };
    faulty(service.list_sessions(list).await, Reason::BadValue, "page_size");
    let list = ListSessionsRequest { app_name: APP.into(), order: 3, ..Default::default() };
    faulty(service.list_sessions(list).await, Reason::BadValue, "order");
    let negative = crate::make::list_append("k", "[1]", -1);
    let request = AppendEventRequest { ..append("s1", operating(negative)) };
    let field = "event.state_delta.operations[0].list_append.max_length";
    faulty(service.append_event(request).await, Reason::BadValue, field);
    for (seconds, nanos) in
        [(253_402_300_800, 0), (-62_135_596_801, 0), (0, -1), (0, 1_000_000_000)]
    {
        let time = prost_types::Timestamp { seconds, nanos };
        let event = Event { event_time: Some(time), ..plain() };
        let result = service.append_event(append("s1", event)).await;
        faulty(result, Reason::BadValue, "event.event_time");
        let after = EventSelection { after_time: Some(time), ..Default::default() };
        faulty(service.get_session(select(after)).await, Reason::BadValue, "events.after_time");
    }
    for (seconds, nanos) in [(253_402_300_799, 999_999_999), (-62_135_596_800, 0)] {
        let time = prost_types::Timestamp { seconds, nanos };
        let event = Event { event_time: Some(time), ..plain() };
        let stored = service.append_event(append("s1", event)).await.unwrap().event.unwrap();
        assert_eq!(stored.event_time, Some(time));
    }
}
