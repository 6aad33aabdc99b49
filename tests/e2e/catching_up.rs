//! Catching up: more than a watch reads at once, in order and without a gap, from wherever it stood; and its sign of life.

use serde_json::{Value, json};
use sessiond::proto::v1::{Event, StateDelta, WatchStart, watch_response::Kind};

use crate::{
    harness::{Service, on_each_store},
    make::{
        app_scope, append, append_all, create, get_state, plain, remove, session_scope, set,
        setting, update, user_scope,
    },
    read::HasState,
    watching::{Watching, cursor, resume, watch},
};

on_each_store! {
    changes_come_in_their_order_however_many_there_are
    a_change_is_resumed_behind_wherever_it_was_cut
    events_and_changes_are_caught_up_on_together
    of_what_changed_meanwhile_the_newest_is_told
    a_batch_is_told_event_by_event
    a_watch_that_has_nothing_to_say_says_that_it_lives
}

/// What a change sets, where it is one.
fn set_by_change(kind: Kind) -> Value {
    match kind {
        Kind::StateChange(change) => crate::read::set_in(&change.delta.unwrap()),
        kind => panic!("no change: {kind:?}"),
    }
}

async fn changes_come_in_their_order_however_many_there_are(service: &Service) {
    let start = cursor(service, app_scope()).await;
    for at in 0..250 {
        let delta = set(&json!({format!("app:k{at}"): at}).to_string());
        service.update_state(update(app_scope(), delta)).await.unwrap();
    }
    let mut watching = Watching::open(service, resume(app_scope(), &start)).await;
    let found: Vec<_> = watching.until_caught_up().await.into_iter().map(set_by_change).collect();
    let wanted: Vec<_> = (0..250).map(|at| json!({format!("app:k{at}"): at})).collect();
    assert_eq!(found, wanted);
}

async fn a_change_is_resumed_behind_wherever_it_was_cut(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    let mut last = cursor(service, session_scope("s1")).await;
    // Changes of both wider scopes, made in turn, some with several keys.
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

async fn events_and_changes_are_caught_up_on_together(service: &Service) {
    service.create_session(create("s1", r#"{"n":0}"#)).await.unwrap();
    let start = cursor(service, session_scope("s1")).await;
    for at in 0..130 {
        service.append_event(append("s1", setting(&json!({"n": at}).to_string()))).await.unwrap();
        let delta = set(&json!({format!("user:k{}", at % 20): at}).to_string());
        service.update_state(update(user_scope(), delta)).await.unwrap();
    }
    let mut watching = Watching::open(service, resume(session_scope("s1"), &start)).await;
    let mut sequences = Vec::new();
    for kind in watching.until_caught_up().await {
        if let Kind::Event(event) = kind {
            sequences.push(event.sequence);
        }
    }
    assert_eq!(sequences, (1..=130).collect::<Vec<_>>());
    let state = service.get_state(get_state(session_scope("s1"))).await.unwrap().state();
    assert_eq!(Value::Object(watching.folded), state);
}

async fn of_what_changed_meanwhile_the_newest_is_told(service: &Service) {
    let start = cursor(service, user_scope()).await;
    for at in 0..20 {
        let delta = StateDelta {
            remove: vec![format!("user:gone{}", at - 1)],
            ..set(&json!({"user:k": at, format!("user:gone{at}"): at, "app:k": at}).to_string())
        };
        service.update_state(update(user_scope(), delta)).await.unwrap();
    }
    service.update_state(update(user_scope(), remove(&["app:k"]))).await.unwrap();
    let mut watching = Watching::open(service, resume(user_scope(), &start)).await;
    // Every removal is told, for nobody knows who has seen the key.
    watching.folded.insert("user:gone7".into(), json!(7));
    watching.folded.insert("app:k".into(), json!(3));
    watching.until_caught_up().await;
    assert_eq!(Value::Object(watching.folded), json!({"user:k": 19, "user:gone19": 19}));
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
