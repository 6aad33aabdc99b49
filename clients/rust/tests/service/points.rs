//! ADK's expectations of a session service, one by one.

use std::time::Duration;

use adk_core::{Content, ErrorCategory, ErrorComponent, Event};
use adk_session::{CreateRequest, GetRequest, SessionService};
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use sessiond_adk::SessiondSessionService;
use sessiond_adk_testing::{Store, TIMEOUT, builder};

use crate::harness::{
    APP, Fixture, NO_RETRY, USER, assert_error, creation, getting, identity, ids, named, object,
    on_each_store, refused, setting,
};

on_each_store! {
    create_answers_with_the_session
    create_sets_a_creation_label
    create_without_an_id_makes_one
    create_with_a_taken_id_is_an_error
    create_anew_under_the_id_of_a_deleted_session_begins_empty
    get_of_a_missing_session_is_not_found_with_adks_code
    get_reads_the_newest_events
    get_reads_events_since_a_time_inclusively
    get_takes_the_newest_first_and_of_those_the_ones_since
    delete_of_a_missing_session_is_a_no_op
    redelivery_of_an_equal_event_changes_nothing
    another_event_of_the_same_id_is_refused
    a_stale_writer_is_not_refused
    last_update_time_is_the_last_events_time_even_when_older_than_the_creation
    events_of_equal_time_keep_their_order
    partial_events_are_not_stored_and_change_no_state
    null_in_a_delta_is_stored
    changes_of_application_and_user_state_are_seen_by_other_sessions
    delete_leaves_application_and_user_state
    a_snapshot_does_not_follow_the_session
    health_check_succeeds
}

async fn create_answers_with_the_session(f: Fixture) {
    let before = Utc::now() - TimeDelta::seconds(60);
    let state = json!({"app:a": 1, "user:b": [2], "c": {"d": null}, "temp:e": 5, "session:f": 6});
    let session = f.create("s1", state).await;
    assert_eq!((session.app_name(), session.user_id(), session.id()), (APP, USER, "s1"));
    assert_eq!(session.try_identity().unwrap(), identity(APP, USER, "s1"));
    let wanted = json!({"app:a": 1, "user:b": [2], "c": {"d": null}, "session:f": 6});
    assert_eq!(session.state().all(), object(wanted.clone()));
    assert!(session.events().is_empty());
    assert!(session.last_update_time() > before);
    let read = f.get("s1").await;
    assert_eq!(read.state().all(), object(wanted));
    assert_eq!(read.last_update_time(), session.last_update_time());
}

/// The adapters in other languages use the same label.
async fn create_sets_a_creation_label(f: Fixture) {
    let mut marks = Vec::new();
    for id in ["s1", "s2"] {
        f.create(id, json!({})).await;
        let labels = f.stored(id).await.session.unwrap().labels;
        assert_eq!(labels.keys().collect::<Vec<_>>(), ["sessiond-adk/creation"]);
        marks.push(labels["sessiond-adk/creation"].clone());
    }
    assert!(marks[0] != marks[1] && !marks[0].is_empty(), "{marks:?}");
}

async fn create_without_an_id_makes_one(f: Fixture) {
    let request = || CreateRequest { session_id: None, ..creation("", json!({"own": 1})) };
    let first = f.service.create(request()).await.unwrap();
    let second = f.service.create(request()).await.unwrap();
    assert_ne!(first.id(), second.id());
    assert!(!first.id().is_empty());
    assert_eq!(f.get(first.id()).await.state().get("own"), Some(json!(1)));
}

/// ADK's in-memory service replaces the session and its events. Its other stores refuse as sessiond does.
async fn create_with_a_taken_id_is_an_error(f: Fixture) {
    f.create("s1", json!({"own": 1})).await;
    f.append("s1", named("e1")).await;
    let again = f.service.create(creation("s1", json!({"own": 2, "app:a": 3}))).await;
    assert_error(again, ErrorCategory::InvalidInput, "session.already_exists");
    let session = f.get("s1").await;
    assert_eq!(session.state().all(), object(json!({"own": 1})));
    assert_eq!(ids(&*session), ["e1"]);
}

async fn create_anew_under_the_id_of_a_deleted_session_begins_empty(f: Fixture) {
    f.create("s1", json!({"own": 1})).await;
    f.append("s1", named("e1")).await;
    f.delete("s1").await;
    let session = f.create("s1", json!({})).await;
    assert!(session.state().all().is_empty());
    f.append("s1", named("e1")).await;
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
}

async fn get_of_a_missing_session_is_not_found_with_adks_code(f: Fixture) {
    let error = refused(f.service.get(getting("nowhere")).await);
    assert_eq!(
        (error.component, error.category),
        (ErrorComponent::Session, ErrorCategory::NotFound)
    );
    assert_eq!(error.code, "session.not_found");
    assert!(error.is_not_found() && !error.is_retryable());
    assert!(error.message.contains("nowhere"), "{}", error.message);
    let error = refused(f.service.get_for_identity(&identity(APP, USER, "nowhere")).await);
    assert_eq!(error.code, "session.not_found");

    // A session of another user or application is missing, too.
    f.create("s1", json!({})).await;
    let bobs = GetRequest { user_id: "bob".into(), ..getting("s1") };
    assert_error(f.service.get(bobs).await, ErrorCategory::NotFound, "session.not_found");
    let other = GetRequest { app_name: "other".into(), ..getting("s1") };
    assert_error(f.service.get(other).await, ErrorCategory::NotFound, "session.not_found");
}

/// Appends `e1` to `e5`, a second apart.
async fn five_events(f: &Fixture) -> DateTime<Utc> {
    f.create("s1", json!({})).await;
    let start = DateTime::from_timestamp(1_700_000_000, 123_456_789).unwrap();
    for n in 1..=5 {
        let mut event = named(&format!("e{n}"));
        event.timestamp = start + TimeDelta::seconds(n);
        f.append("s1", event).await;
    }
    start
}

async fn get_reads_the_newest_events(f: Fixture) {
    five_events(&f).await;
    for (recent, wanted) in [
        (None, &["e1", "e2", "e3", "e4", "e5"][..]),
        (Some(0), &[]),
        (Some(1), &["e5"]),
        (Some(2), &["e4", "e5"]),
        (Some(5), &["e1", "e2", "e3", "e4", "e5"]),
        (Some(6), &["e1", "e2", "e3", "e4", "e5"]),
        (Some(usize::MAX), &["e1", "e2", "e3", "e4", "e5"]),
    ] {
        let request = GetRequest { num_recent_events: recent, ..getting("s1") };
        let session = f.service.get(request).await.unwrap();
        assert_eq!(ids(&*session), wanted, "{recent:?}");
    }
}

async fn get_reads_events_since_a_time_inclusively(f: Fixture) {
    let start = five_events(&f).await;
    let nanosecond = TimeDelta::nanoseconds(1);
    let third = start + TimeDelta::seconds(3);
    for (after, wanted) in [
        (third - nanosecond, &["e3", "e4", "e5"][..]),
        (third, &["e3", "e4", "e5"]),
        (third + nanosecond, &["e4", "e5"]),
        (start + TimeDelta::days(1), &[]),
        (DateTime::UNIX_EPOCH, &["e1", "e2", "e3", "e4", "e5"]),
        (DateTime::<Utc>::MIN_UTC, &["e1", "e2", "e3", "e4", "e5"]),
        (DateTime::<Utc>::MAX_UTC, &[]),
    ] {
        let request = GetRequest { after: Some(after), ..getting("s1") };
        assert_eq!(ids(&*f.service.get(request).await.unwrap()), wanted, "{after}");
    }
}

/// As ADK's stores do. It matters if times do not follow the log.
async fn get_takes_the_newest_first_and_of_those_the_ones_since(f: Fixture) {
    f.create("s1", json!({})).await;
    let start = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    for (id, seconds) in [("e1", 10), ("e2", 20), ("e3", 0), ("e4", 30)] {
        let mut event = named(id);
        event.timestamp = start + TimeDelta::seconds(seconds);
        f.append("s1", event).await;
    }
    let request = GetRequest {
        num_recent_events: Some(3),
        after: Some(start + TimeDelta::seconds(10)),
        ..getting("s1")
    };
    assert_eq!(ids(&*f.service.get(request).await.unwrap()), ["e2", "e4"]);
}

async fn delete_of_a_missing_session_is_a_no_op(f: Fixture) {
    f.delete("nowhere").await;
    f.create("s1", json!({})).await;
    f.delete("s1").await;
    f.delete("s1").await;
    f.service.delete_for_identity(&identity(APP, USER, "s1")).await.unwrap();
    assert_eq!(refused(f.service.get(getting("s1")).await).code, "session.not_found");
}

async fn redelivery_of_an_equal_event_changes_nothing(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut event = setting(json!({"own": 1, "app:a": 2, "user:b": 3, "temp:c": 4, "d": 5}));
    event.provider_metadata = (0..20).map(|n| (format!("k{n}"), n.to_string())).collect();
    event.actions.artifact_delta = (0..20).map(|n| (format!("f{n}"), n)).collect();
    f.append("s1", event.clone()).await;
    f.append("s1", setting(json!({"own": "newer"}))).await;
    // Its hash maps have another order.
    let again: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
    f.append("s1", again).await;
    let session = f.get("s1").await;
    assert_eq!(session.events().len(), 2);
    assert_eq!(session.state().get("own"), Some(json!("newer")));
}

async fn another_event_of_the_same_id_is_refused(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    let mut other = named("e1");
    other.actions.state_delta = object(json!({"own": 1}));
    let outcome = f.try_append("s1", other).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.event_id_reused");
    assert!(f.get("s1").await.state().all().is_empty());
}

async fn a_stale_writer_is_not_refused(f: Fixture) {
    f.create("s1", json!({"mine": 0, "yours": 0})).await;
    let read_before = f.get("s1").await;
    f.append("s1", setting(json!({"yours": 1}))).await;
    assert_eq!(read_before.state().get("yours"), Some(json!(0)));
    f.append("s1", setting(json!({"mine": 1}))).await;
    let wanted = object(json!({"mine": 1, "yours": 1}));
    assert_eq!(f.get("s1").await.state().all(), wanted);
}

async fn last_update_time_is_the_last_events_time_even_when_older_than_the_creation(f: Fixture) {
    let created = f.create("s1", json!({})).await.last_update_time();
    let mut event = named("e1");
    event.timestamp = DateTime::from_timestamp(1_000_000_000, 1).unwrap();
    assert!(event.timestamp < created);
    f.append("s1", event.clone()).await;
    assert_eq!(f.get("s1").await.last_update_time(), event.timestamp);
}

async fn events_of_equal_time_keep_their_order(f: Fixture) {
    f.create("s1", json!({})).await;
    let time = Utc::now();
    let wanted: Vec<_> = (0..30).rev().map(|n| format!("e{n:02}")).collect();
    for id in &wanted {
        let mut event = named(id);
        event.timestamp = time;
        f.append("s1", event).await;
    }
    assert_eq!(ids(&*f.get("s1").await), wanted);
}

/// ADK's runner never appends chunks of a streamed answer, but its in-memory service would store them.
async fn partial_events_are_not_stored_and_change_no_state(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut chunk = setting(json!({"own": 1, "app:a": 1}));
    chunk.llm_response.partial = true;
    chunk.set_content(Content::new("model").with_text("Hel"));
    f.append("s1", chunk.clone()).await;
    let session = f.get("s1").await;
    assert!(session.events().is_empty() && session.state().all().is_empty());

    // The last one has the id of its chunks and is stored.
    let mut whole = Event::with_id(&chunk.id, "turn-1");
    whole.set_content(Content::new("model").with_text("Hello"));
    f.append("s1", whole).await;
    assert_eq!(ids(&*f.get("s1").await), [chunk.id.as_str()]);
    let missing = f.try_append("nowhere", chunk).await;
    assert_error(missing, ErrorCategory::NotFound, "session.not_found");
}

async fn null_in_a_delta_is_stored(f: Fixture) {
    f.create("s1", json!({"own": 1, "app:a": 1, "initial": null})).await;
    f.append("s1", setting(json!({"own": null, "app:a": null, "user:b": null}))).await;
    let session = f.get("s1").await;
    let wanted = json!({"own": null, "app:a": null, "user:b": null, "initial": null});
    assert_eq!(session.state().all(), object(wanted));
    assert_eq!(session.state().get("own"), Some(Value::Null));
    let delta = json!({"own": null, "app:a": null, "user:b": null});
    assert_eq!(session.events().at(0).unwrap().actions.state_delta, object(delta));
}

async fn changes_of_application_and_user_state_are_seen_by_other_sessions(f: Fixture) {
    f.create("s1", json!({})).await;
    f.create("s2", json!({})).await;
    let bobs = CreateRequest { user_id: "bob".into(), ..creation("s3", json!({})) };
    f.service.create(bobs).await.unwrap();
    f.append("s1", setting(json!({"app:a": 1, "user:b": 2, "own": 3}))).await;
    assert_eq!(f.get("s2").await.state().all(), object(json!({"app:a": 1, "user:b": 2})));
    let bobs = f.service.get_for_identity(&identity(APP, "bob", "s3")).await.unwrap();
    assert_eq!(bobs.state().all(), object(json!({"app:a": 1})));
}

async fn delete_leaves_application_and_user_state(f: Fixture) {
    f.create("s1", json!({"app:a": 1, "user:b": 2, "own": 3})).await;
    f.delete("s1").await;
    let session = f.create("s2", json!({})).await;
    assert_eq!(session.state().all(), object(json!({"app:a": 1, "user:b": 2})));
}

async fn a_snapshot_does_not_follow_the_session(f: Fixture) {
    let session = f.create("s1", json!({"own": 1})).await;
    f.append("s1", setting(json!({"own": 2}))).await;
    assert_eq!(session.state().get("own"), Some(json!(1)));
    assert_eq!(session.events().len(), 0);
    assert!(session.events().at(0).is_none() && session.state().get("other").is_none());
}

async fn health_check_succeeds(f: Fixture) {
    f.service.health_check().await.unwrap();
}

/// No server, a killed server, or another server: none of them looks like a missing session.
#[tokio::test]
async fn transport_failures_do_not_look_like_a_missing_session() {
    let mut f = Fixture::start(Store::Memory).await;
    f.create("s1", json!({})).await;
    let address = f.server.address().to_owned();
    f.server.kill();
    let builder = || builder(&address).retry(NO_RETRY);
    let service = builder().connect_lazy().unwrap();
    let outcome = service.get(getting("s1")).await;
    assert_error(outcome, ErrorCategory::Unavailable, "session.unavailable");
    let outcome = service.append_event("s1", named("e1")).await;
    assert_error(outcome, ErrorCategory::Unavailable, "session.unavailable");
    let outcome = service.health_check().await;
    assert_error(outcome, ErrorCategory::Unavailable, "session.unavailable");
    assert_error(builder().connect().await, ErrorCategory::Unavailable, "session.unavailable");

    // A listener that never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let service = SessiondSessionService::builder(silent.local_addr().unwrap().to_string())
        .deadline(Duration::from_millis(200))
        .connect_lazy()
        .unwrap();
    let asking = service.get(getting("s1"));
    let outcome = tokio::time::timeout(TIMEOUT, asking).await.expect("nothing bounds the call");
    let error = refused(outcome);
    assert_eq!((error.category, error.code), (ErrorCategory::Timeout, "session.deadline_exceeded"));
    assert!(error.is_retryable());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "these functions are tested, and no call is made")]
async fn connect_refuses_a_bad_address() {
    let outcome = SessiondSessionService::connect("no where").await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.bad_address");
    let outcome = SessiondSessionService::connect_lazy("no where");
    assert_error(outcome, ErrorCategory::InvalidInput, "session.bad_address");
}
