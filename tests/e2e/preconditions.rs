//! Preconditions: each kind of condition, on each scope, in each write that takes one; all that fail are reported.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, CreateSessionRequest, GetSessionRequest, KeyCheck,
        Precondition, RewindSessionRequest, Session, UpdateStateRequest, key_check::Condition,
    },
};
use tonic::Status;

use crate::{
    harness::{Service, with_server},
    judge::{detail, faulty, list, metadata, refused},
    make::{
        app_scope, append, append_all, check, checking, create, expecting, get, plain, rewind,
        session_scope, set, setting, update, user_scope, value,
    },
    read::HasState,
};

with_server! {
    an_expected_sequence_holds_or_refuses
    each_condition_on_a_key_holds_or_refuses
    versions_that_an_answer_has_hold_until_the_key_changes
    values_are_compared_as_json_in_both_forms
    all_that_fail_is_reported_at_once
    a_wider_scopes_version_is_expected_alike
    a_batch_is_checked_once_before_its_first
    a_rewind_is_checked_as_well
    a_condition_must_be_one
}

async fn with(service: &Service, precondition: Option<Precondition>) -> Result<i64, Status> {
    let request = AppendEventRequest { precondition, ..append("s1", plain()) };
    service.append_event(request).await.map(|answer| answer.event.unwrap().sequence)
}

async fn an_expected_sequence_holds_or_refuses(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    assert_eq!(with(service, expecting(0)).await.unwrap(), 1);
    assert_eq!(with(service, expecting(1)).await.unwrap(), 2);
    assert_eq!(with(service, None).await.unwrap(), 3);
    for stale in [0, 2, 4, i64::MAX] {
        let status = refused(with(service, expecting(stale)).await, Reason::SequenceConflict);
        let found = metadata(&status);
        assert_eq!(found["expected"], stale.to_string());
        assert_eq!(found["actual"], "3");
        assert!(!found.contains_key("keys"), "{found:?}");
    }
    assert_eq!(with(service, expecting(3)).await.unwrap(), 4);
    let negative = with(service, expecting(-1)).await;
    faulty(negative, Reason::BadValue, "precondition.expected_sequence");
}

async fn each_condition_on_a_key_holds_or_refuses(service: &Service) {
    service.create_session(create("s1", r#"{"old":1,"null":null}"#)).await.unwrap();
    service.append_event(append("s1", setting(r#"{"new":2}"#))).await.unwrap();
    for (key, condition, holds) in [
        ("old", Condition::Exists(true), true),
        ("old", Condition::Exists(false), false),
        ("null", Condition::Exists(true), true),
        ("missing", Condition::Exists(false), true),
        ("missing", Condition::Exists(true), false),
        ("old", Condition::Version(0), true),
        ("old", Condition::Version(1), false),
        ("new", Condition::Version(1), true),
        ("new", Condition::Version(0), false),
        ("missing", Condition::Version(0), false),
        ("old", Condition::ValueJson("1".into()), true),
        ("old", Condition::ValueJson("2".into()), false),
        ("null", Condition::ValueJson("null".into()), true),
        ("missing", Condition::ValueJson("null".into()), false),
        ("new", Condition::Value(value("2")), true),
        ("new", Condition::Value(value("\"2\"")), false),
    ] {
        let result = with(service, checking([check(key, condition.clone())])).await;
        assert_eq!(result.is_ok(), holds, "{key} {condition:?}: {result:?}");
        if !holds {
            let status = refused(result, Reason::KeyConflict);
            assert_eq!(list(&status, "keys"), [key]);
            assert!(!metadata(&status).contains_key("expected"));
        }
    }
}

async fn versions_that_an_answer_has_hold_until_the_key_changes(service: &Service) {
    let known = |session: Option<Session>| {
        let mut versions: Vec<_> = session.unwrap().versions.into_iter().collect();
        versions.sort();
        versions
    };
    let versions = |wanted: &[(&str, i64)]| -> Vec<_> {
        wanted.iter().map(|&(key, version)| (key.to_owned(), version)).collect()
    };
    let request = create("s1", r#"{"own":1,"app:a":1}"#);
    let request = CreateSessionRequest { include_versions: true, ..request };
    let created = service.create_session(request).await.unwrap();
    assert_eq!(known(created.session), versions(&[("app:a", 1), ("own", 0)]));

    let mut event = setting(r#"{"new":2,"user:u":1,"temp:t":1}"#);
    (event.event_id, event.invocation_id) = ("e1".into(), "turn".into());
    let (include_versions, return_state) = (true, true);
    let request = AppendEventRequest { include_versions, return_state, ..append("s1", event) };
    let answer = service.append_event(request.clone()).await.unwrap();
    assert!(answer.session.as_ref().unwrap().state().get("temp:t").is_some());
    let all = versions(&[("app:a", 1), ("new", 1), ("own", 0), ("user:u", 1)]);
    assert_eq!(known(answer.session), all);
    let batch = AppendEventsRequest {
        events: vec![plain()],
        include_versions,
        return_state,
        ..append_all("s1", vec![])
    };
    assert_eq!(known(service.append_events(batch).await.unwrap().session), all);

    let get = GetSessionRequest { include_versions, ..get("s1") };
    assert_eq!(known(service.get_session(get.clone()).await.unwrap().session), all);
    let past = GetSessionRequest { as_of_sequence: Some(0), ..get.clone() };
    let past = known(service.get_session(past).await.unwrap().session);
    assert_eq!(past, versions(&[("app:a", 1), ("own", 0)]));

    // Only if they are asked for, with the state that they belong to.
    let without_state = GetSessionRequest { without_state: true, ..get.clone() };
    let not_asked = GetSessionRequest { include_versions: false, ..get };
    for request in [without_state, not_asked] {
        assert_eq!(known(service.get_session(request).await.unwrap().session), []);
    }
    let replay = AppendEventRequest { return_state: false, ..request };
    assert_eq!(known(service.append_event(replay).await.unwrap().session), []);

    for (key, version) in all {
        let as_read = || checking([check(&key, Condition::Version(version))]);
        with(service, as_read()).await.unwrap();
        service.append_event(append("s1", setting(&format!("{{{key:?}:9}}")))).await.unwrap();
        refused(with(service, as_read()).await, Reason::KeyConflict);
    }
}

async fn values_are_compared_as_json_in_both_forms(service: &Service) {
    let state = r#"{"k":{"a":[1,2.50],"b":"\u0041"},"n":100,"big":9007199254740993}"#;
    service.create_session(create("s1", state)).await.unwrap();
    let text = |text: &str| Condition::ValueJson(text.into());
    for (key, condition, holds) in [
        ("k", text(r#" { "b" : "A", "a":[1.0, 2.5] } "#), true),
        ("k", text(r#"{"b":"A","a":[2.5,1]}"#), false),
        ("k", text(r#"{"b":"A","a":[1,2.5],"c":null}"#), false),
        ("k", Condition::Value(value(r#"{"b":"A","a":[1,2.5]}"#)), true),
        ("n", text("1e2"), true),
        ("n", text("100.0"), true),
        ("n", text("101"), false),
        ("big", text("9007199254740993"), true),
        ("big", text("9007199254740992"), false),
        ("big", text("9007199254740993.0"), true),
        ("big", text("9007199254740992.0"), false),
    ] {
        let result = with(service, checking([check(key, condition.clone())])).await;
        assert_eq!(result.is_ok(), holds, "{key} {condition:?}");
    }
}

async fn all_that_fail_is_reported_at_once(service: &Service) {
    service.create_session(create("s1", r#"{"a":1,"user:u":1}"#)).await.unwrap();
    let keys: Vec<KeyCheck> = vec![
        check("a", Condition::Exists(false)),
        check("user:u", Condition::Version(9)),
        check("a", Condition::Exists(true)),
        check("app:missing", Condition::ValueJson("1".into())),
    ];
    let precondition = Precondition { expected_sequence: Some(7), keys, ..Default::default() };
    let status = refused(with(service, Some(precondition.clone())).await, Reason::SequenceConflict);
    assert_eq!((&*detail(&status, "expected"), &*detail(&status, "actual")), ("7", "0"));
    assert_eq!(list(&status, "keys"), ["a", "user:u", "app:missing"]);
    let precondition = Precondition { expected_sequence: Some(0), ..precondition };
    let status = refused(with(service, Some(precondition)).await, Reason::KeyConflict);
    assert_eq!(list(&status, "keys"), ["a", "user:u", "app:missing"]);
    assert_eq!(service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence, 0);

    // Very many are cut, and say how many there were.
    let keys = (0..100).map(|at| check(&format!("k{at}"), Condition::Exists(true)));
    let status = refused(with(service, checking(keys)).await, Reason::KeyConflict);
    let named = list(&status, "keys");
    assert_eq!((named.len(), &*named[0], &*named[20]), (21, "k0", "and 80 more"));
}

async fn a_wider_scopes_version_is_expected_alike(service: &Service) {
    for (scope, state) in
        [(app_scope(), r#"{"app:n":1}"#), (user_scope(), r#"{"user:n":1,"app:n":2}"#)]
    {
        let request = |expected| UpdateStateRequest {
            precondition: expecting(expected),
            ..update(scope.clone(), set(state))
        };
        service.update_state(request(0)).await.unwrap();
        let status = refused(service.update_state(request(0)).await, Reason::SequenceConflict);
        assert_eq!((&*detail(&status, "expected"), &*detail(&status, "actual")), ("0", "1"));
        service.update_state(request(1)).await.unwrap();
    }
    // A session's scope expects its last sequence.
    service.create_session(create("s1", "")).await.unwrap();
    let request = |expected| UpdateStateRequest {
        precondition: expecting(expected),
        ..update(session_scope("s1"), set(r#"{"own":1,"app:n":3}"#))
    };
    service.update_state(request(0)).await.unwrap();
    service.update_state(request(1)).await.unwrap();
    refused(service.update_state(request(1)).await, Reason::SequenceConflict);

    // Conditions may be on keys of the scope and of those above it, and on no others.
    let check_key = |scope, key| UpdateStateRequest {
        precondition: checking([check(key, Condition::Exists(true))]),
        ..update(scope, set("{}"))
    };
    service.update_state(check_key(user_scope(), "app:n")).await.unwrap();
    for (scope, key) in [(app_scope(), "user:n"), (app_scope(), "n"), (user_scope(), "n")] {
        let result = service.update_state(check_key(scope, key)).await;
        faulty(result, Reason::KeyOutsideScope, "precondition.keys[0].key");
    }
}

async fn a_batch_is_checked_once_before_its_first(service: &Service) {
    service.create_session(create("s1", r#"{"a":0}"#)).await.unwrap();
    let keys = vec![check("a", Condition::ValueJson("0".into()))];
    let request = AppendEventsRequest {
        precondition: Some(Precondition { expected_sequence: Some(0), keys, ..Default::default() }),
        ..append_all("s1", vec![setting(r#"{"a":1}"#), setting(r#"{"a":2}"#), plain()])
    };
    let answer = service.append_events(request.clone()).await.unwrap();
    assert_eq!(answer.session.unwrap().last_sequence, 3);
    let status = refused(service.append_events(request).await, Reason::SequenceConflict);
    assert_eq!(detail(&status, "actual"), "3");
    assert_eq!(list(&status, "keys"), ["a"]);
    let read = service.get_session(get("s1")).await.unwrap();
    assert_eq!((read.state(), read.session.unwrap().last_sequence), (json!({"a": 2}), 3));
}

async fn a_rewind_is_checked_as_well(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_event(append("s1", setting(r#"{"a":1}"#))).await.unwrap();
    let request = |precondition| RewindSessionRequest { precondition, ..rewind("s1", 0) };
    let stale = service.rewind_session(request(expecting(0))).await;
    refused(stale, Reason::SequenceConflict);
    let wrong = checking([check("a", Condition::Version(0))]);
    refused(service.rewind_session(request(wrong)).await, Reason::KeyConflict);
    let right = Precondition {
        expected_sequence: Some(1),
        keys: vec![check("a", Condition::Version(1))],
        ..Default::default()
    };
    let answer = service.rewind_session(request(Some(right))).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence, 2);
}

async fn a_condition_must_be_one(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let one = |key: &str, condition| checking([check(key, condition)]);
    let none = checking([KeyCheck { key: "a".into(), condition: None }]);
    let field = "precondition.keys[0]";
    faulty(with(service, none).await, Reason::MissingField, field);
    let result = with(service, one("", Condition::Exists(true))).await;
    faulty(result, Reason::BadKey, "precondition.keys[0].key");
    let result = with(service, one("temp:a", Condition::Exists(true))).await;
    faulty(result, Reason::KeyOutsideScope, "precondition.keys[0].key");
    let result = with(service, one("a", Condition::Version(-1))).await;
    faulty(result, Reason::BadValue, "precondition.keys[0].version");
    let result = with(service, one("a", Condition::ValueJson("{".into()))).await;
    faulty(result, Reason::BadJson, "precondition.keys[0].value_json");
    let result = with(service, one("a", Condition::Value(Default::default()))).await;
    faulty(result, Reason::BadJson, "precondition.keys[0].value");
}
