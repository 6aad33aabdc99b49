//! `temp:` keys: visible within their invocation, never stored.

use std::collections::HashMap;

use adk_core::{ErrorCategory, Event, identity::AdkIdentity};
use adk_session::SessionService as _;
use serde_json::json;
use sessiond_adk::Delta;
use sessiond_adk_testing::{ScriptedServer, Server, Store, builder};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{
    APP, Fixture, NO_RETRY, USER, assert_error, body, identity, ids, named, object, on_each_store,
    refused, setting,
};

on_each_store! {
    temp_keys_are_visible_within_their_invocation_only
    temp_keys_are_not_read_back
    an_event_without_an_invocation_drops_temp_keys
    an_event_is_stored_without_large_temp_keys
    an_event_is_stored_without_temp_keys_that_add_up
    large_temp_keys_do_not_hide_another_refusal
    a_session_is_created_without_large_temp_keys
}

const SECRET: &str = "a-secret-that-nobody-else-writes";

fn s1() -> AdkIdentity {
    identity(APP, USER, "s1")
}

/// The merged state as this invocation sees it.
async fn within(f: &Fixture, turn: &str) -> serde_json::Value {
    json!(f.service.get_within(&s1(), turn).await.unwrap().state().all())
}

async fn temp_keys_are_visible_within_their_invocation_only(f: Fixture) {
    f.create("s1", json!({"temp:begin": 1, "own": 0})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": 1}))).await;
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": SECRET, "own": 1}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": 1}));
    assert_eq!(f.service.get_within(&s1(), "turn-1").await.unwrap().events().len(), 1);
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    assert_eq!(within(&f, "turn-1").await, json!({"own": 1}));
}

async fn temp_keys_are_not_read_back(f: Fixture) {
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

async fn an_event_without_an_invocation_drops_temp_keys(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut event = setting(json!({"temp:note": 1, "own": 2}));
    event.invocation_id = String::new();
    f.append("s1", event).await;
    assert_eq!(f.get("s1").await.state().all(), object(json!({"own": 2})));
}

async fn an_event_is_stored_without_large_temp_keys(f: Fixture) {
    f.create("s1", json!({"own": 0})).await;
    let large = |n: usize| ("temp:page".to_owned(), json!("x".repeat(n * 1024)));
    // More than a value may have, a delta, and a message.
    let several = (0..6).map(|n| (format!("temp:{n}"), large(200).1));
    let deltas: [HashMap<_, _>; 3] =
        [[large(300)].into(), several.collect(), [large(5 * 1024)].into()];
    for (n, mut delta) in deltas.into_iter().enumerate() {
        delta.insert("own".into(), json!(n));
        let event = setting(json!(delta));
        // The second is a retry after a lost answer.
        for event in [event.clone(), event] {
            f.append("s1", event).await;
        }
        assert_eq!(within(&f, "turn-1").await, json!({"own": n}));
    }
    let parts = ["x".repeat(200 * 1024), "y".repeat(100 * 1024)];
    let [first, second] = parts.map(|part| Delta::new().append("temp:list", [part]));
    f.service.append_with(&s1(), named("e4"), first).await.unwrap();
    f.service.append_with(&s1(), named("e5"), second.increment("own", 1)).await.unwrap();
    let session = f.get("s1").await;
    assert_eq!((session.events().len(), session.state().get("own")), (5, Some(json!(3))));
}

/// Each of them is small enough, but not all of them in one invocation.
async fn an_event_is_stored_without_temp_keys_that_add_up(f: Fixture) {
    f.create("s1", json!({})).await;
    let events: Vec<_> = (0..6)
        .map(|n| setting(json!({format!("temp:{n}"): "x".repeat(200 * 1024), "own": n})))
        .collect();
    for event in &events {
        f.append("s1", event.clone()).await;
    }
    // As after lost answers.
    for event in &events {
        f.append("s1", event.clone()).await;
    }
    let session = f.get("s1").await;
    assert_eq!((session.events().len(), session.state().get("own")), (6, Some(json!(5))));
    let held = f.service.get_within(&s1(), "turn-1").await.unwrap().state().all();
    assert!(held.contains_key("temp:4") && !held.contains_key("temp:5"));
}

async fn large_temp_keys_do_not_hide_another_refusal(f: Fixture) {
    f.create("s1", json!({})).await;
    let large = "x".repeat(300 * 1024);
    let outcome = f.try_append("s1", setting(json!({"temp:page": large, "own": large}))).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.value_too_large");
    let mut event = setting(json!({"temp:page": large}));
    event.invocation_id = "i".repeat(200);
    let outcome = f.try_append("s1", event).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.bad_id");
    f.append("s1", named("e1")).await;
    let mut event = setting(json!({"temp:page": large}));
    event.id = "e1".into();
    let outcome = f.try_append("s1", event).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.event_id_reused");
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
}

async fn a_session_is_created_without_large_temp_keys(f: Fixture) {
    let session = f.create("s1", json!({"temp:page": "x".repeat(300 * 1024), "own": 1})).await;
    assert_eq!(session.state().all(), object(json!({"own": 1})));
}

/// Nothing is sent again if the server says that another key or scope is too large.
#[tokio::test]
async fn temp_keys_are_kept_if_something_else_is_too_large() {
    for (reason, name, value, calls) in [
        ("STATE_TOO_LARGE", "scope", "invocation", 2),
        ("STATE_TOO_LARGE", "scope", "session", 1),
        ("VALUE_TOO_LARGE", "key", "temp:note", 2),
        ("VALUE_TOO_LARGE", "key", "own", 1),
        ("VALUE_TOO_LARGE", "limit", "1", 2),
        ("MESSAGE_TOO_LARGE", "limit", "1", 2),
        ("EVENT_TOO_LARGE", "limit", "1", 1),
    ] {
        let server = ScriptedServer::start(move |_| {
            let metadata = HashMap::from([(name.to_owned(), value.to_owned())]);
            let details = ErrorDetails::with_error_info(reason, "sessiond", metadata);
            Err(Status::with_error_details(Code::ResourceExhausted, "too large", details))
        });
        let server = server.await;
        let service = builder(server.address()).connect_lazy().unwrap();
        let error = refused(service.append_event("s1", event_of("turn-1")).await);
        assert_eq!(error.details.metadata.get("reason"), Some(&json!(reason)));
        assert_eq!(server.calls().len(), calls, "{reason} {value}");
        refused(service.append_event("s1", setting(json!({"own": 1}))).await);
        assert_eq!(server.calls().len(), calls + 1, "without temp: keys nothing is sent again");
    }
}

#[tokio::test]
async fn temp_keys_never_reach_the_disk() {
    let mut f = Fixture::start(Store::Sqlite).await;
    f.create("s1", json!({"temp:begin": SECRET})).await;
    f.append("s1", setting(json!({"temp:note": SECRET, "own": "kept-on-the-disk"}))).await;
    f.server.kill();
    let bytes = f.server.stored_bytes();
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("kept-on-the-disk"));
    assert!(!holds(SECRET));
}

/// A server that holds the `temp:` keys of one invocation only.
async fn with_one_invocation() -> Fixture {
    let server = Server::start_with(Store::Memory, &["--max-invocations", "1"]);
    let service = builder(server.address()).connect().await.unwrap();
    let f = Fixture { server, service };
    f.create("s1", json!({})).await;
    f
}

/// An event `event-of-{turn}` with a `temp:` key and a key of the session. Equal on each call.
fn event_of(turn: &str) -> Event {
    let mut event = setting(json!({"temp:note": turn, "own": turn}));
    event.id = format!("event-of-{turn}");
    event.invocation_id = turn.into();
    event.timestamp = chrono::DateTime::UNIX_EPOCH;
    event
}

/// The event is not lost when its `temp:` keys are.
#[tokio::test]
async fn an_event_is_stored_without_temp_keys_if_the_server_is_full() {
    let f = with_one_invocation().await;
    for turn in ["turn-1", "turn-2"] {
        f.append("s1", event_of(turn)).await;
    }
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
    assert_eq!(within(&f, "turn-1").await, json!({"temp:note": "turn-1", "own": "turn-2"}));
    assert_eq!(within(&f, "turn-2").await, json!({"own": "turn-2"}));
}

#[tokio::test]
async fn every_change_of_temp_keys_is_dropped_if_the_server_is_full() {
    let f = with_one_invocation().await;
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

/// A full queue refuses the whole event, which can be sent again with its `temp:` keys.
#[tokio::test]
async fn temp_keys_are_kept_if_something_else_is_full() {
    for what in [Some("write_queue"), Some("read_queue"), Some("watches"), Some("forks"), None] {
        let server = ScriptedServer::start(move |_| {
            let what = what.map(|what| ("what".to_owned(), what.to_owned()));
            let retryable = ("retryable".to_owned(), "yes".to_owned());
            let metadata: HashMap<_, _> = what.into_iter().chain([retryable]).collect();
            let details = ErrorDetails::with_error_info("OVERLOADED", "sessiond", metadata);
            Err(Status::with_error_details(Code::ResourceExhausted, "full", details))
        });
        let server = server.await;
        let service = builder(server.address()).retry(NO_RETRY).connect_lazy().unwrap();
        let error = refused(service.append_event("s1", event_of("turn-1")).await);
        assert_eq!(error.category, ErrorCategory::RateLimited, "{error:?}");
        assert_eq!((error.code, error.is_retryable()), ("session.overloaded", true));
        let what = what.map(Into::into);
        assert_eq!(error.details.metadata.get("what"), what.as_ref());
        assert_eq!(server.calls(), ["/sessiond.v1.EventService/AppendEvent"], "{what:?}");
    }
}

/// A refusal of the `temp:` keys is handled at once, even though the server calls it retryable.
#[tokio::test]
async fn an_event_does_not_wait_for_its_temp_keys() {
    let server = ScriptedServer::start(|_| {
        let metadata = [("what", "temp_invocations"), ("retryable", "yes")];
        let metadata: HashMap<String, String> =
            metadata.map(|(name, value)| (name.into(), value.into())).into();
        let details = ErrorDetails::with_error_info("OVERLOADED", "sessiond", metadata);
        Err(Status::with_error_details(Code::ResourceExhausted, "full", details))
    });
    let server = server.await;
    let service = builder(server.address()).connect_lazy().unwrap();
    refused(service.append_event("s1", event_of("turn-1")).await);
    // With the keys, and once without them.
    assert_eq!(server.calls().len(), 2);
}

/// A caller that has lost the answer appends the event again, when the server may hold its `temp:` keys.
#[tokio::test]
async fn an_event_stored_without_temp_keys_is_stored_once() {
    let f = with_one_invocation().await;
    f.append("s1", event_of("turn-1")).await;
    f.append("s1", event_of("turn-2")).await;
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    f.append("s1", event_of("turn-2")).await;
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
    // Another event with the same id is still refused.
    let mut other = event_of("turn-2");
    other.author = "another".into();
    let outcome = f.try_append("s1", other).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.event_id_reused");
}

/// An event stored with its `temp:` keys is recognized when the server can no longer hold them.
#[tokio::test]
async fn an_event_stored_with_temp_keys_is_stored_once() {
    let f = with_one_invocation().await;
    f.append("s1", event_of("turn-1")).await;
    f.service.end_invocation(&s1(), "turn-1").await.unwrap();
    f.append("s1", event_of("turn-2")).await;
    f.append("s1", event_of("turn-1")).await;
    assert_eq!(ids(&*f.get("s1").await), ["event-of-turn-1", "event-of-turn-2"]);
}
