//! Partial events: answered with sequence 0, never stored, whatever they carry.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{AppendEventRequest, AppendEventsRequest, Event, GetSessionRequest},
};

use crate::{
    harness::{Service, with_server},
    judge::{faulty, refused},
    make::{
        append, append_all, create, event, expecting, get, get_with_events, increment, operations,
        plain, saying, setting, setting_in,
    },
    read::{HasState, body_text, ids, sequences},
};

with_server! {
    a_partial_event_changes_nothing
    a_partial_event_has_to_be_valid_and_to_have_a_session
    partial_events_stand_among_others_in_a_batch
    the_same_id_is_free_after_a_partial_event
}

async fn a_partial_event_changes_nothing(service: &Service) {
    let created = service.create_session(create("s1", r#"{"a":1}"#)).await.unwrap().session;
    let partial = Event {
        partial: true,
        invocation_id: "turn".into(),
        branch: "root".into(),
        event_time: Some(prost_types::Timestamp { seconds: 9, nanos: 0 }),
        state_delta: setting(r#"{"a":2,"user:b":2,"temp:c":2}"#).state_delta,
        event_id: "p1".into(),
        ..saying(r#"{"text": "Hel"}"#)
    };
    let request =
        AppendEventRequest { precondition: expecting(77), ..append("s1", partial.clone()) };
    let answer = service.append_event(request).await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(answer.state(), json!({"a": 1}));
    let event = answer.event.unwrap();
    assert_eq!((event.sequence, &*event.event_id, event.partial), (0, "p1", true));
    assert_eq!((&*event.invocation_id, &*event.branch), ("turn", "root"));
    assert_eq!(event.event_time, partial.event_time);
    assert_eq!(body_text(&event), r#"{"text": "Hel"}"#);

    assert_eq!(service.get_session(get("s1")).await.unwrap().session, created);
    let within = GetSessionRequest { invocation_id: "turn".into(), ..get_with_events("s1") };
    let read = service.get_session(within).await.unwrap();
    assert_eq!((read.state(), read.events.len()), (json!({"a": 1}), 0));
}

async fn a_partial_event_has_to_be_valid_and_to_have_a_session(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let bad = Event { partial: true, ..saying("{") };
    let result = service.append_event(append("s1", bad)).await;
    faulty(result, Reason::BadJson, "event.body_json");
    let lost = Event { partial: true, ..plain() };
    refused(service.append_event(append("none", lost)).await, Reason::SessionNotFound);
}

async fn partial_events_stand_among_others_in_a_batch(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let counted = |id: &str, partial| Event {
        partial,
        state_delta: Some(operations([increment("n", 1)])),
        ..event(id)
    };
    let batch = vec![
        counted("p1", true),
        counted("e1", false),
        counted("p2", true),
        counted("e2", false),
        counted("p3", true),
    ];
    let answer = service.append_events(append_all("s1", batch)).await.unwrap();
    assert_eq!(ids(&answer.events), ["p1", "e1", "p2", "e2", "p3"]);
    assert_eq!(sequences(&answer.events), [0, 1, 0, 2, 0]);
    assert_eq!(answer.replayed, [false; 5]);
    let session = answer.session.unwrap();
    assert_eq!((session.last_sequence, session.state()), (2, json!({"n": 2})));
    // Nothing but partial ones: no commit, and no precondition.
    let only = AppendEventsRequest {
        precondition: expecting(77),
        ..append_all("s1", vec![counted("p4", true), counted("p5", true)])
    };
    let answer = service.append_events(only).await.unwrap();
    assert_eq!(sequences(&answer.events), [0, 0]);
    assert_eq!(answer.session.unwrap().last_sequence, 2);
    // A fault is named at the place that the event has in the request.
    let typed = vec![counted("p6", true), counted("e3", false), setting(r#"{"n":"x"}"#)];
    service.append_events(append_all("s1", typed)).await.unwrap();
    let state = r#"{"n":9223372036854775807}"#;
    service.append_event(append("s1", setting(state))).await.unwrap();
    let full = vec![counted("p7", true), plain(), counted("p8", true), counted("e4", false)];
    let result = service.append_events(append_all("s1", full)).await;
    faulty(result, Reason::NumberOverflow, "events[3].state_delta.operations[0]");
}

async fn the_same_id_is_free_after_a_partial_event(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let fragment = Event { partial: true, event_id: "e1".into(), ..saying(r#"{"text":"Hel"}"#) };
    for _ in 0..2 {
        let answer = service.append_event(append("s1", fragment.clone())).await.unwrap();
        assert!(!answer.replayed);
    }
    let whole = Event { event_id: "e1".into(), ..saying(r#"{"text":"Hello"}"#) };
    let answer = service.append_event(append("s1", whole)).await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(answer.event.unwrap().sequence, 1);
    // An event of a turn whose temp: keys are read with the answer.
    let event = setting_in("turn", r#"{"temp:a":1}"#);
    service.append_event(append("s1", event)).await.unwrap();
    let fragment = Event { partial: true, invocation_id: "turn".into(), ..plain() };
    let answer = service.append_event(append("s1", fragment)).await.unwrap();
    assert_eq!(answer.state(), json!({"temp:a": 1}));
}
