//! The past: a session as of any of its events, in all three scopes, also in the middle of a batch.

use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{GetSessionRequest, StateDelta},
};

use crate::{
    harness::{Service, on_each_store},
    judge::{detail, faulty, refused},
    make::{
        app_scope, append, append_all, create, get, get_with_events, plain, remove, rewind, set,
        setting, setting_in, update, user_scope,
    },
    read::{HasState, instant, sequences},
};

on_each_store! {
    every_event_is_a_moment_of_all_three_scopes
    the_middle_of_a_batch_is_a_moment
    a_removed_key_is_there_before_its_removal
    the_past_of_wider_scopes_holds_what_others_did
    a_moment_has_its_own_last_sequence_and_events
    what_has_not_happened_yet_is_no_moment
    temporary_keys_are_of_the_present
}

pub async fn as_of(service: &Service, id: &str, sequence: i64) -> Value {
    let request = GetSessionRequest { as_of_sequence: Some(sequence), ..get(id) };
    service.get_session(request).await.unwrap().state()
}

async fn every_event_is_a_moment_of_all_three_scopes(service: &Service) {
    let at = |n: i64| json!({"own": n, "user:u": n, "app:a": n});
    service.create_session(create("s1", &at(0).to_string())).await.unwrap();
    for n in 1..=20 {
        let answer = service.append_event(append("s1", setting(&at(n).to_string()))).await.unwrap();
        assert_eq!(answer.state(), at(n));
    }
    for n in 0..=20 {
        assert_eq!(as_of(service, "s1", n).await, at(n));
    }
    assert_eq!(service.get_session(get("s1")).await.unwrap().state(), at(20));
}

async fn the_middle_of_a_batch_is_a_moment(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let at = |n: i64| json!({"own": n, "user:u": n, "app:a": n});
    let events = (1..=5).map(|n| setting(&at(n).to_string())).collect();
    service.append_events(append_all("s1", events)).await.unwrap();
    assert_eq!(as_of(service, "s1", 0).await, json!({}));
    for n in 1..=5 {
        assert_eq!(as_of(service, "s1", n).await, at(n));
    }
}

async fn a_removed_key_is_there_before_its_removal(service: &Service) {
    let state = r#"{"own":1,"user:u":1,"app:a":1}"#;
    service.create_session(create("s1", state)).await.unwrap();
    let delta = remove(&["own", "user:u", "app:a", "never"]);
    let event = sessiond::proto::v1::Event { state_delta: Some(delta), ..plain() };
    service.append_event(append("s1", event)).await.unwrap();
    service.append_event(append("s1", setting(r#"{"own":null,"app:a":3}"#))).await.unwrap();
    assert_eq!(as_of(service, "s1", 0).await, json!({"own": 1, "user:u": 1, "app:a": 1}));
    assert_eq!(as_of(service, "s1", 1).await, json!({}));
    assert_eq!(as_of(service, "s1", 2).await, json!({"own": null, "app:a": 3}));
}

async fn the_past_of_wider_scopes_holds_what_others_did(service: &Service) {
    service.update_state(update(app_scope(), set(r#"{"app:a":"before"}"#))).await.unwrap();
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", r#"{"user:u":"s2 created"}"#)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    service.append_event(append("s2", setting(r#"{"app:a":"s2"}"#))).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    let delta = StateDelta { remove: vec!["app:a".into()], ..set(r#"{"user:u":"update"}"#) };
    service.update_state(update(user_scope(), delta)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();

    // Each event saw what was there at its own commit.
    assert_eq!(as_of(service, "s1", 0).await, json!({"app:a": "before"}));
    let first = json!({"app:a": "before", "user:u": "s2 created"});
    assert_eq!(as_of(service, "s1", 1).await, first);
    assert_eq!(as_of(service, "s1", 2).await, json!({"app:a": "s2", "user:u": "s2 created"}));
    assert_eq!(as_of(service, "s1", 3).await, json!({"user:u": "update"}));
    assert_eq!(as_of(service, "s2", 0).await, first);
    assert_eq!(as_of(service, "s2", 1).await, json!({"app:a": "s2", "user:u": "s2 created"}));
}

async fn a_moment_has_its_own_last_sequence_and_events(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    for seconds in [30, 10, 20] {
        let mut event = plain();
        event.event_time = Some(prost_types::Timestamp { seconds, nanos: 0 });
        service.append_event(append("s1", event)).await.unwrap();
    }
    service.rewind_session(rewind("s1", 1)).await.unwrap();
    for (at, events, last_event_time) in
        [(1, vec![1], 30), (2, vec![1, 2], 10), (3, vec![1, 2, 3], 20)]
    {
        let request = GetSessionRequest { as_of_sequence: Some(at), ..get_with_events("s1") };
        let read = service.get_session(request).await.unwrap();
        assert_eq!(sequences(&read.events), events, "before the marker all are there");
        assert!(read.events.iter().all(|event| !event.rewound));
        let session = read.session.unwrap();
        assert_eq!(session.last_sequence, at);
        assert_eq!(instant(&session.last_event_time), (last_event_time, 0));
    }
    let request = GetSessionRequest { as_of_sequence: Some(4), ..get_with_events("s1") };
    assert_eq!(sequences(&service.get_session(request).await.unwrap().events), [1]);
    let request = GetSessionRequest { as_of_sequence: Some(0), ..get_with_events("s1") };
    let read = service.get_session(request).await.unwrap();
    let session = read.session.unwrap();
    assert_eq!((read.events.len(), session.last_sequence), (0, 0));
    assert_eq!(session.last_event_time, session.create_time);
}

async fn what_has_not_happened_yet_is_no_moment(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    let request = |at| GetSessionRequest { as_of_sequence: Some(at), ..get("s1") };
    service.get_session(request(1)).await.unwrap();
    for beyond in [2, i64::MAX] {
        let result = service.get_session(request(beyond)).await;
        let status = refused(result, Reason::BeyondLastSequence);
        assert_eq!(detail(&status, "last_sequence"), "1");
    }
    let result = service.get_session(request(-1)).await;
    faulty(result, Reason::BadValue, "as_of_sequence");
}

async fn temporary_keys_are_of_the_present(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let event = setting_in("turn", r#"{"a":1,"temp:t":1}"#);
    service.append_event(append("s1", event)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    let request =
        GetSessionRequest { as_of_sequence: Some(1), invocation_id: "turn".into(), ..get("s1") };
    // They were never stored, so the past shows those that the invocation has now.
    let state = service.get_session(request).await.unwrap().state();
    assert_eq!(state, json!({"a": 1, "temp:t": 1}));
}
