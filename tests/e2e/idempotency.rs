//! Idempotency: the same id with the same content is answered again and changes nothing; with other content it is refused.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, Event, RewindSessionRequest, StateDelta, UpdateStateRequest,
        event::BodyForm,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{detail, refused},
    make::{
        STRUCT, app_scope, append, append_all, create, event, expecting, get, increment,
        operations, plain, rewind, scope, session_scope, set, set_if_absent, set_struct, structure,
        update, user_scope,
    },
    read::{HasState, sequences, set_by},
};

with_server! {
    a_repetition_may_spell_its_json_in_another_way
    other_content_under_the_same_id_is_refused
    what_the_answer_looks_like_is_no_content
    one_batch_may_name_an_event_twice
    repetitions_keep_away_from_temporary_keys
    a_request_id_counts_within_its_scope
    a_rewind_is_repeated_by_the_id_of_its_marker
}

fn counted(event_id: &str) -> Event {
    Event { state_delta: Some(operations([increment("n", 1)])), ..event(event_id) }
}

async fn last_sequence(service: &Service) -> i64 {
    service.get_session(get("s1")).await.unwrap().session.unwrap().last_sequence
}

async fn a_repetition_may_spell_its_json_in_another_way(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let content = |delta: StateDelta, body: BodyForm| Event {
        state_delta: Some(delta),
        body_form: Some(body),
        ..event("e1")
    };
    let text = |text: &str| BodyForm::BodyJson(text.into());
    let body = r#"{"a":[1,2.5,"x"],"b":{"c":null}}"#;
    let first = content(set(r#"{"x":1,"y":{"z":[1]}}"#), text(body));
    let stored = service.append_event(append("s1", first)).await.unwrap();
    for again in [
        content(set_struct(r#"{"x":1,"y":{"z":[1]}}"#), BodyForm::Body(structure(body))),
        content(
            set(r#"{"y": {"z": [1.0]}, "x": 1e0}"#),
            text(r#" { "b": {"c":null}, "a": [1.0, 25e-1, "\u0078"] } "#),
        ),
    ] {
        let answer = service.append_event(append("s1", again)).await.unwrap();
        assert!(answer.replayed);
        assert_eq!(answer.event, stored.event, "the spelling that came first");
    }
}

async fn other_content_under_the_same_id_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let first = Event {
        invocation_id: "turn".into(),
        branch: "root".into(),
        event_time: Some(prost_types::Timestamp { seconds: 1, nanos: 0 }),
        state_delta: Some(StateDelta {
            remove: vec!["gone".into()],
            operations: vec![set_if_absent("d", "1")],
            ..set(r#"{"x":1}"#)
        }),
        body_form: Some(BodyForm::BodyJson(r#"{"text":"hi"}"#.into())),
        ..event("e1")
    };
    service.append_event(append("s1", first.clone())).await.unwrap();
    let change = |change: fn(&mut Event)| {
        let mut event = first.clone();
        change(&mut event);
        event
    };
    for other in [
        change(|it| it.author = "user".into()),
        change(|it| it.invocation_id = "turn2".into()),
        change(|it| it.invocation_id.clear()),
        change(|it| it.branch = "root.child".into()),
        change(|it| it.event_time = None),
        change(|it| it.event_time.as_mut().unwrap().nanos = 1),
        change(|it| it.body_form = None),
        change(|it| it.body_form = Some(BodyForm::BodyJson(r#"{"text":"ho"}"#.into()))),
        change(|it| it.state_delta = None),
        change(|it| it.state_delta = Some(set(r#"{"x":1}"#))),
        change(|it| it.state_delta.as_mut().unwrap().remove = vec!["other".into()]),
        change(|it| it.state_delta.as_mut().unwrap().operations[0] = set_if_absent("d", "2")),
        change(|it| it.state_delta.as_mut().unwrap().operations[0] = increment("d", 1)),
    ] {
        let status =
            refused(service.append_event(append("s1", other)).await, Reason::EventIdReused);
        assert_eq!(detail(&status, "event_id"), "e1");
    }
    assert_eq!(last_sequence(service).await, 1);
}

async fn what_the_answer_looks_like_is_no_content(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_event(append("s1", counted("e1"))).await.unwrap();
    let again = AppendEventRequest {
        json_form: STRUCT,
        return_state: false,
        ..append("s1", counted("e1"))
    };
    let again = service.append_event(again).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.state_if_any(), None);
    assert_eq!(set_by(&again.event.unwrap()), json!({"n": 1}));
}

async fn one_batch_may_name_an_event_twice(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let twice = append_all("s1", vec![counted("e1"), counted("e1")]);
    let answer = service.append_events(twice).await.unwrap();
    assert_eq!(answer.replayed, [false, true]);
    assert_eq!(sequences(&answer.events), [1, 1]);
    assert_eq!(answer.session.unwrap().state(), json!({"n": 1}));
    let other = append_all("s1", vec![counted("e2"), event("e2")]);
    refused(service.append_events(other).await, Reason::EventIdReused);
    // Without ids each is its own.
    let plain = append_all("s1", vec![plain(), plain()]);
    assert_eq!(service.append_events(plain).await.unwrap().replayed, [false, false]);
    assert_eq!(last_sequence(service).await, 3);
}

async fn repetitions_keep_away_from_temporary_keys(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let with_temp = Event {
        invocation_id: "turn".into(),
        state_delta: Some(operations([increment("temp:n", 1), increment("n", 1)])),
        ..event("e1")
    };
    let first = service.append_event(append("s1", with_temp.clone())).await.unwrap();
    assert_eq!(first.state(), json!({"n": 1, "temp:n": 1}));
    let again = service.append_event(append("s1", with_temp.clone())).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.state(), json!({"n": 1, "temp:n": 1}), "not raised a second time");
    // What it did to a temp: key is part of what it asked for.
    let mut other = with_temp;
    other.state_delta.as_mut().unwrap().operations[0] = increment("temp:n", 2);
    refused(service.append_event(append("s1", other)).await, Reason::EventIdReused);
}

async fn a_request_id_counts_within_its_scope(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let request = |scope, delta| UpdateStateRequest {
        request_id: "r1".into(),
        author: "operator".into(),
        precondition: None,
        ..update(scope, delta)
    };
    let raise = || operations([increment("app:n", 1)]);
    let scopes = [
        app_scope(),
        user_scope(),
        scope("my_app", "bob", ""),
        session_scope("s1"),
        session_scope("s2"),
    ];
    for (at, scope) in (1..).zip(scopes.clone()) {
        let answer = service.update_state(request(scope, raise())).await.unwrap();
        assert!(!answer.replayed);
        assert_eq!(answer.state()["app:n"], at);
    }
    for scope in scopes {
        let again =
            UpdateStateRequest { precondition: expecting(77), ..request(scope.clone(), raise()) };
        let again = service.update_state(again).await.unwrap();
        assert!(again.replayed);
        assert_eq!(again.state()["app:n"], 5, "what is visible now");
        let other = request(scope.clone(), operations([increment("app:n", 2)]));
        let status = refused(service.update_state(other).await, Reason::RequestIdReused);
        assert_eq!(detail(&status, "request_id"), "r1");
        // Who asks again does not matter: the delta makes the request.
        let another = UpdateStateRequest { author: "x".into(), ..request(scope.clone(), raise()) };
        assert!(service.update_state(another).await.unwrap().replayed);
        // Without an id every request is its own.
        let unnamed = UpdateStateRequest { request_id: String::new(), ..update(scope, set("{}")) };
        assert!(!service.update_state(unnamed).await.unwrap().replayed);
    }
    // A set in another order and form is the same delta.
    let named =
        |delta| UpdateStateRequest { request_id: "r2".into(), ..update(app_scope(), delta) };
    service.update_state(named(set(r#"{"app:a":1,"app:b":[2]}"#))).await.unwrap();
    for same in [set(r#"{ "app:b":[2.0],"app:a":1 }"#), set_struct(r#"{"app:a":1,"app:b":[2]}"#)] {
        assert!(service.update_state(named(same)).await.unwrap().replayed);
    }
}

async fn a_rewind_is_repeated_by_the_id_of_its_marker(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_events(append_all("s1", vec![counted("e1"), counted("e2")])).await.unwrap();
    let request = RewindSessionRequest {
        event_id: "marker".into(),
        author: "user".into(),
        precondition: expecting(2),
        ..rewind("s1", 1)
    };
    let first = service.rewind_session(request.clone()).await.unwrap();
    assert!(!first.replayed);
    service.append_event(append("s1", counted("e3"))).await.unwrap();
    let again = service.rewind_session(request.clone()).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.event, first.event);
    assert_eq!(again.state(), json!({"n": 2}), "nothing is taken back a second time");
    assert_eq!(last_sequence(service).await, 4);
    for other in [
        RewindSessionRequest { to_sequence: Some(0), ..request.clone() },
        RewindSessionRequest { author: "x".into(), ..request.clone() },
        RewindSessionRequest { event_id: "e1".into(), ..request },
    ] {
        refused(service.rewind_session(other).await, Reason::EventIdReused);
    }
    // Nor is the marker's id free for an event.
    refused(service.append_event(append("s1", event("marker"))).await, Reason::EventIdReused);
}
