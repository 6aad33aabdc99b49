//! `temp:` keys: seen within their turn, never stored.

use std::collections::HashMap;

use adk_core::{ErrorCategory, Event, identity::AdkIdentity};
use adk_session::SessionService as _;
use serde_json::json;
use sessiond_adk::Delta;
use sessiond_adk_testing::{Scripted, Server, Store, patient};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{
    APP, Fixture, USER, assert_error, body, identity, ids, object, on_each_store, refused, setting,
};

on_each_store! {
    temporary_keys_are_seen_within_their_turn_only
    temporary_keys_are_not_in_what_is_read
    an_event_without_a_turn_drops_them
}

const SECRET: &str = "a-secret-that-nobody-else-writes";

fn s1() -> AdkIdentity {
    identity(APP, USER, "s1")
}

/// The merged state as it shows to this turn.
async fn within(f: &Fixture, turn: &str) -> serde_json::Value {
    json!(f.service.get_within(&s1(), turn).await.unwrap().state().all())
}

async fn temporary_keys_are_seen_within_their_turn_only(f: Fixture) {
    f.create("s1", json!({"temp:begin": 1, "own": 0})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": 1}))).await;
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": SECRET, "own": 1}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": 1}));
    assert_eq!(f.service.get_within(&s1(), "turn-1").await.unwrap().events().len(), 1);
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    assert_eq!(within(&f, "turn-1").await, json!({"own": 1}));
}

async fn temporary_keys_are_not_in_what_is_read(f: Fixture) {
    f.create("s1", json!({})).await;
    let event = setting(json!({"temp:note": SECRET, "temp:": 1, "temperature": 2}));
    f.append("s1", event).await;
    let session = f.get("s1").await;
    assert_eq!(session.state().all(), object(json!({"temperature": 2})));
    let wanted = object(json!({"temperature": 2}));
    assert_eq!(session.events().at(0).unwrap().actions.state_delta, wanted);
    let stored = f.stored("s1").await;
    assert!(!body(&stored.events[0]).contains("temp:"), "{}", body(&stored.events[0]));
}

async fn an_event_without_a_turn_drops_them(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut event = setting(json!({"temp:note": 1, "own": 2}));
    event.invocation_id = String::new();
    f.append("s1", event).await;
    assert_eq!(f.get("s1").await.state().all(), object(json!({"own": 2})));
}

#[tokio::test]
async fn temporary_keys_never_reach_the_disk() {
    let mut f = Fixture::start(Store::Sqlite).await;
    f.create("s1", json!({"temp:begin": SECRET})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": "kept-on-the-disk"}))).await;
    f.server.kill();
    let bytes = f.server.stored_bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("kept-on-the-disk"));
    assert!(!holds(SECRET));
}

/// A server that holds the temporary keys of one turn only.
async fn with_room_for_one_turn() -> Fixture {
    let server = Server::start_with(Store::Memory, &["--max-invocations", "1"]);
    let service = patient(server.address()).connect().await.unwrap();
    let f = Fixture { server, service };
    f.create("s1", json!({})).await;
    f
}

/// An event `event-of-{turn}` with a temporary key and one of the session's own; the same one whenever it is asked for.
fn event_of(turn: &str) -> Event {
    let mut event = setting(json!({"temp:note": turn, "own": turn}));
    event.id = format!("event-of-{turn}");
    event.invocation_id = turn.into();
    event.timestamp = chrono::DateTime::UNIX_EPOCH;
    event
}

/// The server holds the temporary keys of so many turns; an event is not lost for that.
#[tokio::test]
async fn an_event_is_stored_without_them_where_the_server_has_no_room() {
    let f = with_room_for_one_turn().await;
    for turn in ["turn-1", "turn-2"] {
        f.append("s1", event_of(turn)).await;
    }
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": "turn-1", "own": "turn-2"}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": "turn-2"}));
}

/// However a delta changes them.
#[tokio::test]
async fn every_change_of_them_is_dropped_where_the_server_has_no_room() {
    let f = with_room_for_one_turn().await;
    f.append("s1", event_of("turn-1")).await;
    let delta = Delta::new()
        .remove("temp:note")
        .increment("temp:n", 1)
        .append("temp:list", [1])
        .remove("own")
        .increment("n", 1);
    let stored = f.service.append_with(&s1(), event_of("turn-2"), delta).await.unwrap();
    assert_eq!(stored.actions.state_delta, object(json!({"own": null, "n": 1})));
    assert_eq!(within(&f, "turn-2").await, json!({"n": 1}));
}

/// A queue that is full is another matter: there will be room for all of the event soon.
#[tokio::test]
async fn they_are_kept_where_something_else_is_full() {
    for what in [Some("write_queue"), Some("read_queue"), Some("watches"), Some("forks"), None] {
        let server = Scripted::start(move |_| {
            let metadata: HashMap<String, String> =
                what.map(|what| ("what".into(), what.into())).into_iter().collect();
            let details = ErrorDetails::with_error_info("OVERLOADED", "sessiond", metadata);
            Err(Status::with_error_details(Code::ResourceExhausted, "full", details))
        });
        let server = server.await;
        let service = patient(server.address()).connect_lazy().unwrap();
        let error = refused(service.append_event("s1", event_of("turn-1")).await);
        assert_eq!(error.category, ErrorCategory::RateLimited, "{error:?}");
        assert_eq!((error.code, error.is_retryable()), ("session.overloaded", true));
        let what = what.map(Into::into);
        assert_eq!(error.details.metadata.get("what"), what.as_ref());
        assert_eq!(server.calls(), ["/sessiond.v1.EventService/AppendEvent"], "{what:?}");
    }
}

/// Whoever does not know that it is stored appends it again, when there may be room.
#[tokio::test]
async fn an_event_stored_without_them_is_stored_once() {
    let f = with_room_for_one_turn().await;
    f.append("s1", event_of("turn-1")).await;
    f.append("s1", event_of("turn-2")).await;
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    f.append("s1", event_of("turn-2")).await;
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
    // What is not the same event is not taken for it.
    let mut other = event_of("turn-2");
    other.author = "another".into();
    let outcome = f.try_append("s1", other).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.event_id_reused");
}

/// The same the other way round: that there is no room now does not make it another event.
#[tokio::test]
async fn an_event_stored_with_them_is_not_taken_for_another() {
    let f = with_room_for_one_turn().await;
    f.append("s1", event_of("turn-1")).await;
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    f.append("s1", event_of("turn-2")).await;
    f.append("s1", event_of("turn-1")).await;
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
}
