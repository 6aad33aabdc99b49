//! Catching up: more than a watch reads at once, in order and without a gap, from wherever it stood; and its sign of life.

use serde_json::{Value, json};
use sessiond::proto::v1::{Event, WatchStart, watch_response::Kind};

use crate::{
    harness::{Service, with_server},
    make::{append, append_all, create, get_state, plain, session_scope, setting, user_scope},
    read::HasState,
    watching::{Watching, cursor, resume, watch},
};

with_server! {
    a_change_is_resumed_behind_wherever_it_was_cut
    a_batch_is_told_event_by_event
    a_watch_that_has_nothing_to_say_says_that_it_lives
}

async fn a_change_is_resumed_behind_wherever_it_was_cut(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let mut last = cursor(service, session_scope("s1")).await;
    // Changes of both shared scopes, made in turn, some with several keys.
    for at in 0..60 {
        let state = json!({format!("user:k{at}"): at, format!("app:k{at}"): at, "app:last": at});
        service.append_event(append("s2", setting(&state.to_string()))).await.unwrap();
    }
    let mut folded = serde_json::Map::new();
    let mut told = 0;
    for take in (1..8).cycle() {
        let mut watching = Watching::open(service, resume(session_scope("s1"), &last)).await;
        watching.folded = folded;
        for _ in 0..take {
            if let Kind::StateChange(_) = watching.next().await {
                told += 1;
            }
            if watching.caught_up {
                break;
            }
        }
        (folded, last) = (watching.folded, watching.cursor);
        if watching.caught_up {
            break;
        }
    }
    let state = service.get_state(get_state(user_scope())).await.unwrap().state();
    assert_eq!(Value::Object(folded), state);
    assert_eq!(told, 120, "one for each change of a scope, none twice");
}

async fn a_batch_is_told_event_by_event(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let mut own = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    own.caught_up().await;
    let fragment = Event { partial: true, ..plain() };
    let batch = vec![setting(r#"{"app:n":1}"#), fragment, setting(r#"{"app:n":2}"#)];
    let answer = service.append_events(append_all("s1", batch)).await.unwrap();
    assert_eq!(own.event().await, answer.events[0]);
    assert_eq!(own.event().await, answer.events[2]);
    // Another session is told of the newest.
    let mut other =
        Watching::open(service, watch(session_scope("s2"), WatchStart::Beginning)).await;
    other.until_caught_up().await;
    assert_eq!(other.folded["app:n"], 2);
}

async fn a_watch_that_has_nothing_to_say_says_that_it_lives(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    let Some(Kind::Heartbeat(heartbeat)) = watching.message().await.unwrap() else { panic!() };
    assert!(heartbeat.server_time.unwrap().seconds > 1_700_000_000);
    // Its cursor is good like any other.
    service.append_event(append("s1", plain())).await.unwrap();
    let mut resumed = Watching::open(service, resume(session_scope("s1"), &watching.cursor)).await;
    assert_eq!(resumed.event().await.sequence, 1);
    assert_eq!(watching.event().await.sequence, 1);
}
