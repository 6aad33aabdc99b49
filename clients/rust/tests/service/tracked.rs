//! Appends from tracked sessions: refused only if others have changed a key that they overwrite.

use adk_core::{ErrorCategory, identity::AdkIdentity};
use adk_session::Session as _;
use serde_json::{Value, json};
use sessiond_adk::{Delta, TrackedSession};
use sessiond_adk_testing::{Cut, Store, builder};

use crate::harness::{
    APP, EAGER, Fixture, NO_RETRY, USER, behind, identity, ids, on_each_store, refused, setting,
};

on_each_store! {
    disjoint_keys_are_merged
    a_key_that_others_have_changed_is_a_conflict
    a_value_changed_and_changed_back_is_a_conflict
    an_own_value_changed_and_changed_back_is_a_conflict
    an_append_of_another_key_brings_the_values_of_others
    operations_never_conflict
    own_writes_do_not_conflict
    writers_of_one_key_lose_no_update
    a_missing_session_is_not_found
}

fn s1() -> AdkIdentity {
    identity(APP, USER, "s1")
}

async fn tracked(f: &Fixture) -> TrackedSession {
    f.service.get_tracked(&s1()).await.unwrap()
}

async fn state(f: &Fixture) -> Value {
    json!(f.get("s1").await.state().all())
}

async fn create(f: &Fixture) -> TrackedSession {
    let state = json!({"a": 1, "b": 1, "gone": 1, "user:u": 1, "app:x": 1, "big": 0.1});
    f.create("s1", state).await;
    tracked(f).await
}

async fn disjoint_keys_are_merged(f: Fixture) {
    let mut session = create(&f).await;
    f.append("s1", setting(json!({"b": 2, "user:v": 2, "app:y": 2}))).await;
    let event = setting(json!({"a": 2, "user:u": 2, "app:x": 2, "new": 2, "temp:t": 1}));
    let stored = f.service.append_from(&mut session, event, Delta::new().remove("gone")).await;
    assert_eq!(stored.unwrap().actions.state_delta["gone"], Value::Null);
    let mut wanted = json!({
        "a": 2, "b": 2, "user:u": 2, "user:v": 2, "app:x": 2, "app:y": 2, "new": 2, "big": 0.1
    });
    assert_eq!(state(&f).await, wanted);
    wanted["temp:t"] = json!(1);
    let says = "the changes of others are taken over, and the invocation's temp: keys";
    assert_eq!(json!(session.state().all()), wanted, "{says}");
    assert_eq!(session.events().len(), 1, "events of others are not");
    let read = f.get("s1").await;
    assert_eq!(session.last_update_time(), read.last_update_time());
    assert_eq!((session.id(), session.app_name(), session.user_id()), ("s1", APP, USER));
}

fn delta(change: &Value) -> Delta {
    let strings = |name: &str| -> Vec<String> {
        serde_json::from_value(change[name].clone()).unwrap_or_default()
    };
    let set = change["set"].as_object().cloned().unwrap_or_default();
    let delta = set.into_iter().fold(Delta::new(), |delta, (key, value)| delta.set(key, value));
    let delta = strings("remove").into_iter().fold(delta, Delta::remove);
    strings("increment").into_iter().fold(delta, |delta, key| delta.increment(key, 1))
}

/// The cases of clients/cases/conflict.json.
async fn a_key_that_others_have_changed_is_a_conflict(f: Fixture) {
    let table: Value = serde_json::from_str(include_str!("../../../cases/conflict.json")).unwrap();
    for case in table["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let id = identity(APP, USER, name);
        f.create(name, table["state"].clone()).await;
        let mut session = f.service.get_tracked(&id).await.unwrap();
        let empty = || setting(json!({}));
        if case["others"] != json!({}) {
            f.service.append_with(&id, empty(), delta(&case["others"])).await.unwrap();
        }
        let before = json!(f.get(name).await.state().all());
        let own = setting(case["own"].get("set").cloned().unwrap_or_else(|| json!({})));
        let mut rest = case["own"].clone();
        rest["set"] = json!({});
        let appended = f.service.append_from(&mut session, own.clone(), delta(&rest)).await;
        if case["keys"] == json!([]) {
            appended.unwrap_or_else(|error| panic!("{name}: {error}"));
        } else {
            let error = refused(appended);
            let found = (error.category, error.code);
            assert_eq!(found, (ErrorCategory::InvalidInput, "session.key_conflict"), "{name}");
            let keys = error.details.metadata["keys"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(keys).unwrap(), case["keys"], "{name}");
            assert!(!error.is_retryable());
            assert_eq!(json!(f.get(name).await.state().all()), before, "{name}");
            assert_eq!((session.events().len(), session.state().get("a")), (0, Some(json!(1))));
            // An append of another key brings the changes into the object.
            let other = setting(json!({"free": 1}));
            f.service.append_from(&mut session, other, Delta::new()).await.unwrap();
            f.service.append_from(&mut session, own, delta(&rest)).await.unwrap();
        }
        let last = setting(json!({"a": 5, "new": 5, "user:u": 5, "app:x": 5}));
        f.service.append_from(&mut session, last, Delta::new()).await.unwrap();
    }
}

async fn a_value_changed_and_changed_back_is_a_conflict(f: Fixture) {
    let mut session = create(&f).await;
    for value in [2, 1] {
        f.append("s1", setting(json!({"a": value, "app:x": value}))).await;
    }
    for key in ["a", "app:x"] {
        let event = setting(json!({key: 3}));
        let error = refused(f.service.append_from(&mut session, event, Delta::new()).await);
        assert_eq!(error.code, "session.key_conflict", "{key}");
    }
}

/// The version of a key that the object has written itself is known without another read.
async fn an_own_value_changed_and_changed_back_is_a_conflict(f: Fixture) {
    let mut session = create(&f).await;
    let delta = Delta::new().set("a", 5).increment("counted", 5).set("user:u", 5);
    let delta = delta.set("app:x", 5).increment("app:counted", 5);
    f.service.append_from(&mut session, setting(json!({})), delta).await.unwrap();
    let keys = ["a", "counted", "user:u", "app:x", "app:counted"];
    for value in [2, 5] {
        f.append("s1", setting(keys.map(|key| (key, json!(value))).into_iter().collect())).await;
    }
    for key in keys {
        let event = setting(json!({key: 3}));
        let error = refused(f.service.append_from(&mut session, event, Delta::new()).await);
        assert_eq!(error.code, "session.key_conflict", "{key}");
    }
}

/// The session then shows their values, so that writing from it is no conflict until they write the key again.
async fn an_append_of_another_key_brings_the_values_of_others(f: Fixture) {
    let mut session = create(&f).await;
    for key in ["a", "user:u", "app:x"] {
        f.append("s1", setting(json!({key: 2}))).await;
        let mine = setting(json!({"mine": 1}));
        f.service.append_from(&mut session, mine, Delta::new()).await.unwrap();
        assert_eq!(session.state().get(key), Some(json!(2)));
        let mut late = session.clone();
        // The second value is what the copy shows.
        for value in [3, 2] {
            let event = setting(json!({key: value}));
            f.service.append_from(&mut session, event, Delta::new()).await.unwrap();
        }
        let event = setting(json!({key: 4}));
        let error = refused(f.service.append_from(&mut late, event, Delta::new()).await);
        assert_eq!(error.details.metadata["keys"], json!(json!([key]).to_string()));
    }
}

async fn operations_never_conflict(f: Fixture) {
    let mut session = create(&f).await;
    f.append("s1", setting(json!({"a": 5}))).await;
    let delta = Delta::new().increment("a", 1).set_if_absent("b", 9);
    f.service.append_from(&mut session, setting(json!({})), delta).await.unwrap();
    assert_eq!(session.state().get("a"), Some(json!(6)));
    f.service.append_from(&mut session, setting(json!({"a": 7})), Delta::new()).await.unwrap();
}

async fn own_writes_do_not_conflict(f: Fixture) {
    let mut session = create(&f).await;
    for value in 1..=3 {
        let event = setting(json!({"a": value, "user:u": value, "app:x": value, "new": value}));
        let delta =
            if value == 2 { Delta::new().remove("gone") } else { Delta::new().set("gone", 1) };
        f.service.append_from(&mut session, event, delta).await.unwrap();
    }
    let read = f.get("s1").await;
    assert_eq!((session.state().all(), ids(&session)), (read.state().all(), ids(&*read)));
    let copied = session.clone();
    f.append("s1", setting(json!({"a": 9}))).await;
    for mut session in [session, copied] {
        let event = setting(json!({"a": 10}));
        refused(f.service.append_from(&mut session, event, Delta::new()).await);
    }
}

/// Reads, computes and writes, and reads again after a conflict.
async fn writers_of_one_key_lose_no_update(f: Fixture) {
    const WRITERS: usize = 4;
    const UPDATES: usize = 10;
    f.create("s1", json!({"user:n": 0})).await;
    let writers = (0..WRITERS).map(|_| {
        let service = f.service.clone();
        tokio::spawn(async move {
            for _ in 0..UPDATES {
                loop {
                    let mut session = service.get_tracked(&s1()).await.unwrap();
                    let n = session.state().get("user:n").and_then(|n| n.as_u64()).unwrap();
                    let event = setting(json!({"user:n": n + 1}));
                    match service.append_from(&mut session, event, Delta::new()).await {
                        Ok(_) => break,
                        Err(error) => assert_eq!(error.code, "session.key_conflict"),
                    }
                }
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(state(&f).await, json!({"user:n": WRITERS * UPDATES}));
}

async fn a_missing_session_is_not_found(f: Fixture) {
    assert_eq!(refused(f.service.get_tracked(&s1()).await).code, "session.not_found");
}

#[tokio::test]
async fn versions_take_no_further_call() {
    let f = Fixture::start(Store::Memory).await;
    create(&f).await;
    let (proxy, service) = behind(&f.server, Cut::Close, NO_RETRY).await;
    let before = proxy.answers();
    let mut session = service.get_tracked(&s1()).await.unwrap();
    assert_eq!(proxy.answers() - before, 1);
    service.append_from(&mut session, setting(json!({"a": 2})), Delta::new()).await.unwrap();
    assert_eq!(proxy.answers() - before, 2);
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_no_conflict() {
    let f = Fixture::start(Store::Memory).await;
    let mut session = create(&f).await;
    let (proxy, service) = behind(&f.server, Cut::Torn, EAGER).await;
    for value in [2, 3] {
        proxy.cut_next(1);
        let event = setting(json!({"a": value, "app:x": value}));
        service.append_from(&mut session, event, Delta::new()).await.unwrap();
    }
    let read = f.get("s1").await;
    assert_eq!((session.state().all(), ids(&session)), (read.state().all(), ids(&*read)));
    assert_eq!(read.state().get("a"), Some(json!(3)));
}

#[tokio::test]
async fn an_address_may_be_a_uri() {
    let f = Fixture::start(Store::Memory).await;
    f.create("s1", json!({})).await;
    let address = f.server.address();
    for uri in [format!("sessiond://{address}?attempts=3"), format!("http://{address}")] {
        builder(&uri).connect().await.unwrap().get_tracked(&s1()).await.unwrap();
    }
}
