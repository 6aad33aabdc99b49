//! Extensions of ADK's interface: operations, state without sessions, past states, forks, expiry.

use std::time::Duration;

use adk_core::{
    ErrorCategory, Event,
    identity::{AdkIdentity, AppName, SessionId, UserId},
};
use adk_session::{AppendEventRequest, SessionService};
use chrono::TimeDelta;
use futures_util::{StreamExt as _, TryStreamExt as _};
use prost_types::Timestamp;
use serde_json::{Value, json};
use sessiond_adk::{
    Delta, Point, Scope, StoredEvent,
    proto::v1::{self, event_service_client::EventServiceClient, session::Expiration},
};
use sessiond_adk_testing::{Cut, Store, TIMEOUT, builder};

use crate::harness::{
    APP, EAGER, Fixture, NO_RETRY, USER, assert_error, behind, identity, ids, key, listing, named,
    object, on_each_store, refused, setting,
};

on_each_store! {
    concurrent_increments_all_count
    operations_are_evaluated_by_the_server
    an_operation_on_another_type_is_refused_with_its_event
    keys_can_be_removed
    state_is_read_and_changed_without_a_session
    a_scope_refuses_keys_of_other_scopes
    the_past_can_be_read
    events_hidden_by_a_rewind_can_be_read
    the_log_is_read_page_by_page
    a_fork_is_independent_of_its_source
    a_fork_of_a_missing_session_or_event_is_refused
    a_session_expires
    an_expiry_is_postponed_and_removed
    an_invalid_expiry_is_refused
    unchecked_ids_are_checked
    operations_whose_answer_is_lost_count_once
    a_fork_whose_answer_is_lost_succeeds
}

fn s1() -> AdkIdentity {
    identity(APP, USER, "s1")
}

fn app() -> Scope {
    Scope::App(APP.try_into().unwrap())
}

fn user() -> Scope {
    Scope::User(APP.try_into().unwrap(), USER.try_into().unwrap())
}

async fn concurrent_increments_all_count(f: Fixture) {
    f.create("s1", json!({"own": 100})).await;
    let writers = (0..8).map(|_| {
        let service = f.service.clone();
        tokio::spawn(async move {
            for _ in 0..25 {
                let delta = Delta::new().increment("own", 1).increment("app:all", 2);
                service.append_with(&s1(), Event::new("turn"), delta).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let state = f.get("s1").await.state().all();
    assert_eq!(state, object(json!({"own": 300, "app:all": 400})));
}

async fn operations_are_evaluated_by_the_server(f: Fixture) {
    f.create("s1", json!({"list": [1], "object": {"a": 1, "b": 2}, "there": 1, "n": 1})).await;
    let delta = Delta::new()
        .increment("n", -3)
        .increment_by("ratio", 0.5)
        .append("list", [2, 3])
        .append_bounded("last", ["a", "b", "c"], 2)
        .set_if_absent("there", 2)
        .set_if_absent("new", json!({"x": null}))
        .merge("object", json!({"b": null, "c": 3}))
        .set("event", "from the delta");
    let mut event = setting(json!({"event": "from the event", "own": 1, "temp:note": 1}));
    event.id = "e1".into();
    let stored = f.service.append_with(&s1(), event, delta).await.unwrap();
    let became = json!({
        "n": -2, "ratio": 0.5, "list": [1, 2, 3], "last": ["b", "c"], "new": {"x": null},
        "object": {"a": 1, "c": 3}, "event": "from the delta", "own": 1,
    });
    assert_eq!(stored.id, "e1");
    assert_eq!(stored.actions.state_delta, object(became.clone()));
    let mut state = became;
    state["there"] = json!(1);
    let session = f.get("s1").await;
    assert_eq!(session.state().all(), object(state));
    assert_eq!(session.events().at(0).unwrap().actions.state_delta, stored.actions.state_delta);
}

async fn an_operation_on_another_type_is_refused_with_its_event(f: Fixture) {
    f.create("s1", json!({"text": "x"})).await;
    let delta = Delta::new().set("own", 1).increment("text", 1);
    let outcome = f.service.append_with(&s1(), named("e1"), delta).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.type_mismatch");
    let session = f.get("s1").await;
    assert!(session.events().is_empty());
    assert_eq!(session.state().all(), object(json!({"text": "x"})));
}

async fn keys_can_be_removed(f: Fixture) {
    f.create("s1", json!({"own": 1, "app:a": 2, "stays": 3})).await;
    let delta = Delta::new().remove("own").remove("app:a").remove("never there");
    f.service.append_with(&s1(), named("e1"), delta).await.unwrap();
    assert_eq!(f.get("s1").await.state().all(), object(json!({"stays": 3})));
}

async fn state_is_read_and_changed_without_a_session(f: Fixture) {
    assert!(f.service.state(&app()).await.unwrap().is_empty());
    let delta = Delta::new().set("app:theme", "dark");
    let state = f.service.update_state(&app(), delta).await.unwrap();
    assert_eq!(state, object(json!({"app:theme": "dark"})));
    let delta = Delta::new().set("user:language", "en").increment("app:visits", 1);
    let state = f.service.update_state(&user(), delta).await.unwrap();
    let wanted = object(json!({"app:theme": "dark", "app:visits": 1, "user:language": "en"}));
    assert_eq!(state, wanted);
    assert_eq!(f.service.state(&user()).await.unwrap(), wanted);
    let state = f.service.state(&app()).await.unwrap();
    assert_eq!(state, object(json!({"app:theme": "dark", "app:visits": 1})));
    assert_eq!(f.create("s1", json!({})).await.state().all(), wanted);

    let session = Scope::Session(s1());
    let delta = Delta::from(object(json!({"own": null, "user:language": "de"})));
    let state = f.service.update_state(&session, delta).await.unwrap();
    assert_eq!(state, f.service.state(&session).await.unwrap());
    assert_eq!((&state["own"], &state["user:language"]), (&Value::Null, &json!("de")));
    let missing = f.service.state(&Scope::Session(identity(APP, USER, "nowhere"))).await;
    assert_error(missing, ErrorCategory::NotFound, "session.not_found");
}

async fn a_scope_refuses_keys_of_other_scopes(f: Fixture) {
    for (scope, key) in [(app(), "user:x"), (app(), "x"), (user(), "x"), (user(), "temp:x")] {
        let outcome = f.service.update_state(&scope, Delta::new().set(key, 1)).await;
        assert_error(outcome, ErrorCategory::InvalidInput, "session.key_outside_scope");
    }
}

async fn the_past_can_be_read(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 1..=3 {
        let mut event = setting(json!({"own": n, "app:a": n}));
        event.id = format!("e{n}");
        f.append("s1", event).await;
    }
    let then = f.service.get_as_of(&s1(), Point::Event("e2")).await.unwrap();
    assert_eq!(ids(&*then), ["e1", "e2"]);
    assert_eq!(then.state().all(), object(json!({"own": 2, "app:a": 2})), "the wider scopes too");
    assert_eq!(f.get("s1").await.state().get("own"), Some(json!(3)));
    let outcome = f.service.get_as_of(&s1(), Point::Event("e4")).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.event_not_found");
    let created = f.service.get_as_of(&s1(), Point::Sequence(0)).await.unwrap();
    assert_eq!((ids(&*created), created.state().all()), (vec![], object(json!({}))));
    let outcome = f.service.get_as_of(&s1(), Point::Sequence(4)).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.beyond_last_sequence");
}

async fn events_hidden_by_a_rewind_can_be_read(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 1..=3 {
        f.append("s1", named(&format!("e{n}"))).await;
    }
    f.service.rewind("s1", "e1").await.unwrap();
    let then = f.service.get_as_of(&s1(), Point::Event("e3")).await.unwrap();
    assert_eq!(ids(&*then), ["e1", "e2", "e3"]);
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
}

/// Sequences, ids, and whether a rewind has hidden them.
async fn log(f: &Fixture, after: i64, include_rewound: bool) -> Vec<(i64, String, bool)> {
    let events = f.service.list_events(&s1(), after, include_rewound);
    let told = |stored: StoredEvent| (stored.sequence, stored.event.id, stored.is_rewound);
    events.map_ok(told).try_collect().await.unwrap()
}

async fn the_log_is_read_page_by_page(f: Fixture) {
    f.create("s1", json!({})).await;
    let wire = |n| v1::Event { event_id: format!("e{n}"), ..v1::Event::default() };
    for numbers in [1..=1000, 1001..=1100] {
        let request = v1::AppendEventsRequest {
            key: Some(key("s1")),
            events: numbers.map(wire).collect(),
            ..v1::AppendEventsRequest::default()
        };
        EventServiceClient::new(f.service.channel()).append_events(request).await.unwrap();
    }
    let all: Vec<_> = (1..=1100).map(|n| (n, format!("e{n}"), false)).collect();
    assert_eq!(log(&f, 0, false).await, all);
    assert_eq!(log(&f, 1098, false).await, all[1098..]);
    assert_eq!(log(&f, 1100, false).await, []);
    f.service.rewind("s1", "e1098").await.unwrap();
    assert_eq!(log(&f, 1097, false).await, all[1097..1098]);
    let whole = log(&f, 1097, true).await;
    let hidden: Vec<_> = whole.iter().map(|(sequence, _, hidden)| (*sequence, *hidden)).collect();
    assert_eq!(hidden, [(1098, false), (1099, true), (1100, true), (1101, true)]);
    let missing = identity(APP, USER, "missing");
    let mut missing = f.service.list_events(&missing, 0, false);
    let error = missing.next().await.unwrap();
    assert_error(error, ErrorCategory::NotFound, "session.not_found");
    assert!(missing.next().await.is_none());
}

async fn a_fork_is_independent_of_its_source(f: Fixture) {
    f.create("s1", json!({"app:a": 1, "own": 0})).await;
    for n in 1..=3 {
        let mut event = setting(json!({"own": n}));
        event.id = format!("e{n}");
        f.append("s1", event).await;
    }
    let fork = f
        .service
        .fork(&s1(), Some(Point::Event("e2")), Some("s2".try_into().unwrap()))
        .await
        .unwrap();
    assert_eq!((fork.app_name(), fork.user_id(), fork.id()), (APP, USER, "s2"));
    assert_eq!(ids(&*fork), ["e1", "e2"]);
    assert_eq!(fork.state().all(), object(json!({"app:a": 1, "own": 2})));
    f.append("s2", setting(json!({"own": "other"}))).await;
    assert_eq!(f.get("s1").await.state().get("own"), Some(json!(3)));

    let early = f.service.fork(&s1(), Some(Point::Sequence(1)), None).await.unwrap();
    assert_eq!((ids(&*early), early.state().get("own")), (vec!["e1".to_owned()], Some(json!(1))));
    let whole = f.service.fork(&s1(), None, None).await.unwrap();
    assert_eq!(ids(&*whole), ["e1", "e2", "e3"]);
    let again = f.service.fork(&s1(), None, Some("s2".try_into().unwrap())).await;
    assert_error(again, ErrorCategory::InvalidInput, "session.already_exists");
}

async fn a_fork_of_a_missing_session_or_event_is_refused(f: Fixture) {
    let outcome = f.service.fork(&s1(), None, None).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
    f.create("s1", json!({})).await;
    let outcome = f.service.fork(&s1(), Some(Point::Event("e1")), None).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.event_not_found");
}

async fn a_session_expires(f: Fixture) {
    f.create("s1", json!({"own": 1, "user:a": 2})).await;
    f.create("s2", json!({})).await;
    let until_gone = async {
        f.service.expire(&s1(), Some(Duration::from_millis(1))).await.unwrap().unwrap();
        // Each call waits for the server, so this does not spin.
        while f.service.get_for_identity(&s1()).await.is_ok() {}
    };
    tokio::time::timeout(TIMEOUT, until_gone).await.expect("it does not expire");
    let gone = f.service.get_for_identity(&s1()).await;
    assert_error(gone, ErrorCategory::NotFound, "session.not_found");
    let late = f.try_append("s1", named("e1")).await;
    assert_error(late, ErrorCategory::NotFound, "session.not_found");
    let listed = f.service.list(listing(USER)).await.unwrap();
    assert_eq!(listed.iter().map(|session| session.id()).collect::<Vec<_>>(), ["s2"]);
    let anew = f.create("s1", json!({})).await;
    assert_eq!(anew.state().all(), object(json!({"user:a": 2})), "as after a deletion");
}

async fn an_expiry_is_postponed_and_removed(f: Fixture) {
    f.create("s1", json!({"own": 1})).await;
    let before = f.stored("s1").await.session.unwrap();
    assert_eq!(before.expiration, None);
    let hour = Duration::from_secs(3600);
    let first = f.service.expire(&s1(), Some(hour)).await.unwrap().unwrap();
    // By the server's clock, which has moved on since the creation.
    let created = before.create_time.unwrap();
    assert!(first.timestamp() >= created.seconds + 3600, "{first} {created:?}");
    assert!(first.timestamp() < created.seconds + 3600 + 3600, "{first} {created:?}");
    let second = f.service.expire(&s1(), Some(2 * hour)).await.unwrap().unwrap();
    assert!(second - first >= TimeDelta::hours(1), "{first} {second}");
    let stored = f.stored("s1").await.session.unwrap();
    let wanted = Timestamp {
        seconds: second.timestamp(),
        nanos: i32::try_from(second.timestamp_subsec_nanos()).unwrap(),
    };
    assert_eq!(stored.expiration, Some(Expiration::ExpireTime(wanted)));
    assert_eq!(stored.labels, before.labels, "nothing else has changed");
    assert_eq!(stored.state_form, before.state_form);

    assert_eq!(f.service.expire(&s1(), None).await.unwrap(), None);
    assert_eq!(f.stored("s1").await.session.unwrap().expiration, None);
}

async fn an_invalid_expiry_is_refused(f: Fixture) {
    let hour = Duration::from_secs(3600);
    let missing = f.service.expire(&s1(), Some(hour)).await;
    assert_error(missing, ErrorCategory::NotFound, "session.not_found");
    f.create("s1", json!({})).await;
    for bad in [Duration::ZERO, Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
        let outcome = f.service.expire(&s1(), Some(bad)).await;
        assert_error(outcome, ErrorCategory::InvalidInput, "session.bad_value");
    }
    assert_eq!(f.stored("s1").await.session.unwrap().expiration, None);
}

/// Without application and user, the server would look the id up among all sessions.
async fn unchecked_ids_are_checked(f: Fixture) {
    f.create("s1", json!({"own": 1})).await;
    let unchecked = |app, user, session| {
        AdkIdentity::new(
            AppName::new_unchecked(app),
            UserId::new_unchecked(user),
            SessionId::new_unchecked(session),
        )
    };
    for bad in [
        unchecked("", "", "s1"),
        unchecked(APP, "", "s1"),
        unchecked("", USER, "s1"),
        unchecked(APP, USER, ""),
    ] {
        let s = &f.service;
        let invalid = |error: adk_core::AdkError| {
            assert_eq!(error.category, ErrorCategory::InvalidInput, "{error:?}");
        };
        let request = AppendEventRequest { identity: bad.clone(), event: named("e1") };
        invalid(refused(s.append_event_for_identity(request).await));
        invalid(refused(s.get_for_identity(&bad).await));
        invalid(refused(s.delete_for_identity(&bad).await));
        invalid(refused(s.append_with(&bad, named("e1"), Delta::new()).await));
        invalid(refused(s.get_as_of(&bad, Point::Event("e1")).await));
        invalid(refused(s.get_events(&bad, &[]).await));
        invalid(refused(s.get_within(&bad, "turn-1").await));
        invalid(refused(s.end_invocation(&bad, "turn-1").await));
        invalid(refused(s.fork(&bad, None, None).await));
        invalid(refused(s.rewind_to(&bad, 0).await));
        invalid(refused(s.expire(&bad, None).await));
        let scope = Scope::Session(bad);
        invalid(refused(s.state(&scope).await));
        invalid(refused(s.update_state(&scope, Delta::new().set("own", 2)).await));
    }
    let nobody = Scope::User(APP.try_into().unwrap(), UserId::new_unchecked(""));
    assert_eq!(refused(f.service.state(&nobody).await).category, ErrorCategory::InvalidInput);
    let session = f.get("s1").await;
    assert!(session.events().is_empty() && session.state().get("own") == Some(json!(1)));
}

async fn operations_whose_answer_is_lost_count_once(f: Fixture) {
    f.create("s1", json!({})).await;
    let (proxy, service) = behind(&f.server, Cut::Close, EAGER).await;
    let delta = || Delta::new().increment("app:n", 1);
    proxy.cut_next(2);
    let state = service.update_state(&app(), delta()).await.unwrap();
    assert_eq!(state, object(json!({"app:n": 1})));
    proxy.cut_next(2);
    let event = service.append_with(&s1(), Event::new("turn"), delta()).await.unwrap();
    assert_eq!(event.actions.state_delta, object(json!({"app:n": 2})));
    assert_eq!(proxy.left_to_cut(), 0);
    assert_eq!(f.service.state(&app()).await.unwrap(), object(json!({"app:n": 2})));
}

async fn a_fork_whose_answer_is_lost_succeeds(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    let (proxy, service) = behind(&f.server, Cut::Close, EAGER).await;
    // The source is read before the fork.
    proxy.cut_after(1);
    let fork = service.fork(&s1(), None, Some("s2".try_into().unwrap())).await.unwrap();
    assert_eq!(proxy.left_to_cut(), 0);
    assert_eq!(ids(&*fork), ["e1"]);

    // Another's session of that id is not taken for the fork.
    f.create("s3", json!({})).await;
    proxy.cut_after(1);
    let outcome = service.fork(&s1(), None, Some("s3".try_into().unwrap())).await;
    assert_eq!(proxy.left_to_cut(), 0);
    assert_error(outcome, ErrorCategory::InvalidInput, "session.already_exists");
}

#[tokio::test]
async fn clones_share_one_connection() {
    let f = Fixture::start(Store::Memory).await;
    f.create("s1", json!({})).await;
    let (proxy, service) = behind(&f.server, Cut::Close, NO_RETRY).await;
    let appends = (0..16).map(|n| {
        let clone = service.clone();
        tokio::spawn(async move { clone.append_event("s1", named(&format!("e{n}"))).await })
    });
    let appends: Vec<_> = appends.collect();
    // The connection lives as long as any clone.
    drop(service);
    for append in appends {
        append.await.unwrap().unwrap();
    }
    assert_eq!(f.get("s1").await.events().len(), 16);
    assert_eq!(proxy.connections(), 1);
    // Another service makes another connection.
    builder(proxy.address()).connect().await.unwrap();
    assert_eq!(proxy.connections(), 2);
}
