//! Watches: where they begin, what they tell of each scope, and what they leave out.

use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        Event, StateSnapshot, WatchRequest, WatchStart, event::BodyForm, state_snapshot,
        watch_response::Kind,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::refused,
    make::{
        STRUCT, app_scope, append, append_all, create, get, get_state, increment, operating, plain,
        remove, scope, session_scope, set, setting, setting_in, update, user_scope,
    },
    read::{HasState, body_text, set_by},
    watching::{Watching, resume, watch},
};

with_server! {
    a_snapshot_is_followed_by_what_comes_after_it
    from_the_beginning_every_event_comes
    from_now_only_what_is_new_comes
    a_cursor_goes_on_right_behind_its_message
    an_applications_watch_sees_its_own_changes
    what_is_not_committed_is_not_seen
    answers_come_in_the_form_asked_for
    a_watch_of_nothing_is_refused
    a_slow_consumer_ends_with_the_state_that_is
}

async fn a_snapshot_is_followed_by_what_comes_after_it(service: &Service) {
    service.create_session(create("s1", r#"{"own":1,"user:u":1,"app:a":1}"#)).await.unwrap();
    service.append_event(append("s1", setting(r#"{"own":2}"#))).await.unwrap();
    // Snapshot is where a watch begins that says nothing else.
    for start in [WatchStart::Snapshot, WatchStart::Unspecified] {
        let mut watching = Watching::open(service, watch(session_scope("s1"), start)).await;
        let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
        let StateSnapshot { state_form, state_rounded, last_sequence, .. } = &snapshot;
        assert!(matches!(state_form, Some(state_snapshot::StateForm::StateJson(_))));
        assert!(!state_rounded);
        let read = service.get_session(get("s1")).await.unwrap();
        assert_eq!(snapshot.state(), read.state());
        assert_eq!(*last_sequence, read.session.unwrap().last_sequence);
        watching.caught_up().await;
        let stored = service.append_event(append("s1", setting(r#"{"own":3}"#))).await.unwrap();
        assert_eq!(watching.event().await, stored.event.unwrap());
    }
}

async fn from_the_beginning_every_event_comes(service: &Service) {
    service.create_session(create("s1", r#"{"own":0}"#)).await.unwrap();
    // More than are read at once.
    let events = (1..=250).map(|at| setting(&json!({"own": at}).to_string())).collect();
    service.append_events(append_all("s1", events)).await.unwrap();
    service.update_state(update(app_scope(), set(r#"{"app:a":1}"#))).await.unwrap();
    let request = watch(session_scope("s1"), WatchStart::Beginning);
    let mut watching = Watching::open(service, request).await;
    for at in 1..=250 {
        let event = watching.event().await;
        assert_eq!((event.sequence, set_by(&event)), (at, json!({"own": at})));
    }
    assert_eq!(watching.change().await.0, json!({"app:a": 1}), "what came since its creation");
    watching.caught_up().await;
    service.append_event(append("s1", plain())).await.unwrap();
    assert_eq!(watching.event().await.sequence, 251);
}

async fn from_now_only_what_is_new_comes(service: &Service) {
    service.create_session(create("s1", r#"{"own":0,"user:u":0}"#)).await.unwrap();
    service.append_event(append("s1", plain())).await.unwrap();
    for scope in [session_scope("s1"), user_scope(), app_scope()] {
        let mut watching = Watching::open(service, watch(scope, WatchStart::Now)).await;
        watching.caught_up().await;
        service.update_state(update(app_scope(), set(r#"{"app:a":1}"#))).await.unwrap();
        assert_eq!(watching.change().await, (json!({"app:a": 1}), vec![]));
    }
}

async fn a_cursor_goes_on_right_behind_its_message(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_events(append_all("s1", vec![plain(); 5])).await.unwrap();
    let begin = || watch(session_scope("s1"), WatchStart::Beginning);
    let mut watching = Watching::open(service, begin()).await;
    for at in 1..=5 {
        assert_eq!(watching.event().await.sequence, at);
        // It overrides where to begin.
        let request = WatchRequest { cursor: watching.cursor.clone(), ..begin() };
        let mut resumed = Watching::open(service, request).await;
        for next in at + 1..=5 {
            assert_eq!(resumed.event().await.sequence, next);
        }
        resumed.caught_up().await;
    }
    watching.caught_up().await;
    // Behind a snapshot, and behind the message that all is caught up.
    let mut watching =
        Watching::open(service, watch(session_scope("s1"), WatchStart::Snapshot)).await;
    watching.next().await;
    let behind_snapshot = watching.cursor.clone();
    watching.caught_up().await;
    service.append_event(append("s1", plain())).await.unwrap();
    for cursor in [behind_snapshot, watching.cursor.clone()] {
        let mut resumed = Watching::open(service, resume(session_scope("s1"), &cursor)).await;
        assert_eq!(resumed.event().await.sequence, 6);
        resumed.caught_up().await;
    }
}

async fn an_applications_watch_sees_its_own_changes(service: &Service) {
    let mut watching = Watching::open(service, watch(app_scope(), WatchStart::Snapshot)).await;
    assert!(matches!(watching.next().await, Kind::Snapshot(_)));
    watching.caught_up().await;
    service.create_session(create("s1", r#"{"own":1,"user:u":1,"app:a":1}"#)).await.unwrap();
    assert_eq!(watching.change().await, (json!({"app:a": 1}), vec![]));
    service.append_event(append("s1", setting(r#"{"own":2,"user:u":2}"#))).await.unwrap();
    service.append_event(append("s1", operating(increment("app:a", 1)))).await.unwrap();
    assert_eq!(watching.change().await.0, json!({"app:a": 2}), "what it became");
    // Another application's is its own.
    service.update_state(update(scope("other", "", ""), set(r#"{"app:a":9}"#))).await.unwrap();
    service.update_state(update(app_scope(), set(r#"{"app:b":3}"#))).await.unwrap();
    assert_eq!(watching.change().await.0, json!({"app:b": 3}));
    // The beginning of a scope without a log is its present state, in changes.
    let mut watching = Watching::open(service, watch(app_scope(), WatchStart::Beginning)).await;
    watching.until_caught_up().await;
    assert_eq!(Value::Object(watching.folded), json!({"app:a": 2, "app:b": 3}));
}

async fn what_is_not_committed_is_not_seen(service: &Service) {
    service.create_session(create("s1", r#"{"text":"x"}"#)).await.unwrap();
    let mut watching = Watching::open(service, watch(session_scope("s1"), WatchStart::Now)).await;
    watching.caught_up().await;
    let fragment = Event { partial: true, ..setting(r#"{"app:a":1}"#) };
    service.append_event(append("s1", fragment)).await.unwrap();
    let refused_event = operating(increment("text", 1));
    let result = service.append_event(append("s1", refused_event.clone())).await;
    refused(result, Reason::TypeMismatch);
    let batch = append_all("s1", vec![setting(r#"{"app:a":2}"#), refused_event]);
    refused(service.append_events(batch).await, Reason::TypeMismatch);
    let with_temp = setting_in("turn", r#"{"temp:t":1,"own":1}"#);
    service.append_event(append("s1", with_temp.clone())).await.unwrap();
    let event = watching.event().await;
    assert_eq!((event.sequence, set_by(&event)), (1, json!({"own": 1})), "temp: keys never come");
}

async fn answers_come_in_the_form_asked_for(service: &Service) {
    service.create_session(create("s1", r#"{"own":1}"#)).await.unwrap();
    let request =
        WatchRequest { json_form: STRUCT, ..watch(session_scope("s1"), WatchStart::Snapshot) };
    let mut watching = Watching::open(service, request).await;
    let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
    assert!(matches!(snapshot.state_form, Some(state_snapshot::StateForm::State(_))));
    assert_eq!(snapshot.state(), json!({"own": 1}));
    watching.caught_up().await;
    let body = r#"{"a": [1]}"#;
    let event = Event {
        body_form: Some(BodyForm::BodyJson(body.into())),
        ..setting(r#"{"app:big":9007199254740993}"#)
    };
    service.append_event(append("s1", event)).await.unwrap();
    let event = watching.event().await;
    assert!(matches!(event.body_form, Some(BodyForm::Body(_))) && event.rounded);
    service.update_state(update(app_scope(), set(r#"{"app:a":[1]}"#))).await.unwrap();
    let Kind::StateChange(change) = watching.next().await else { panic!() };
    let form = change.delta.unwrap().set_form;
    assert!(matches!(form, Some(sessiond::proto::v1::state_delta::SetForm::Set(_))));
    // The bytes that came, where text is asked for.
    let mut text = Watching::open(service, watch(session_scope("s1"), WatchStart::Beginning)).await;
    assert_eq!(body_text(&text.event().await), body);
}

async fn a_watch_of_nothing_is_refused(service: &Service) {
    let result = Watching::try_open(service, watch(session_scope("none"), WatchStart::Now)).await;
    refused(result.map(|_| ()), Reason::SessionNotFound);
    // An application or user that was never written to is there and empty.
    let mut watching = Watching::open(service, watch(user_scope(), WatchStart::Snapshot)).await;
    let Kind::Snapshot(snapshot) = watching.next().await else { panic!() };
    assert_eq!(snapshot.state(), json!({}));
}

async fn a_slow_consumer_ends_with_the_state_that_is(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut scopes = Vec::new();
    for scope in [session_scope("s1"), user_scope(), app_scope()] {
        let request = watch(scope.clone(), WatchStart::Snapshot);
        scopes.push((scope, Watching::open(service, request).await));
    }
    let large = "x".repeat(2000);
    for round in 0..300 {
        let delta = json!({"user:u": round, "app:a": [round, large], "app:b": round / 10});
        let delta = set(&delta.to_string());
        service.update_state(update(user_scope(), delta)).await.unwrap();
        let own = setting(&json!({"own": round, "app:c": [round, large]}).to_string());
        service.append_event(append("s1", own)).await.unwrap();
    }
    service.update_state(update(app_scope(), remove(&["app:b"]))).await.unwrap();
    for (scope, watching) in &mut scopes {
        let state = service.get_state(get_state(scope.clone())).await.unwrap().state();
        // Nothing has been read until now; every change of the last round is among what comes.
        while Value::Object(watching.folded.clone()) != state {
            watching.next().await;
        }
    }
}
