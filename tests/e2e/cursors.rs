//! Cursors: which are refused, and that a watch goes on where it stood, across connections, restarts and its own end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{DeleteSessionRequest, Scope, WatchStart, watch_response::Kind},
};
use tokio::task::JoinSet;

use crate::{
    harness::{Service, owning_server, with_server, within},
    judge::{faulty, refused},
    make::{
        app_scope, append, append_all, create, get_state, increment, key, operations, plain, scope,
        session_scope, set, setting, update, user_scope,
    },
    read::HasState,
    watching::{Watching, cursor, resume, watch},
};

with_server! {
    what_is_no_cursor_is_refused
    a_cursor_belongs_to_its_scope
    a_cursor_belongs_to_its_incarnation
}

owning_server! {
    a_cursor_belongs_to_its_store
    events_come_once_and_in_order_across_reconnects
}

async fn refusal(service: &Service, scope: Scope, cursor: &str) {
    let result = Watching::try_open(service, resume(scope, cursor)).await.map(|_| ());
    faulty(result, Reason::BadCursor, "cursor");
}

async fn what_is_no_cursor_is_refused(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let good = cursor(service, session_scope("s1")).await;
    Watching::open(service, resume(session_scope("s1"), &good)).await.caught_up().await;
    let long = "A".repeat(100_000);
    for bad in ["x", "!!!!", " ", "====", "💬", &good[1..], &good[..good.len() - 1], &long] {
        refusal(service, session_scope("s1"), bad).await;
    }
    // One character changed anywhere.
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        refusal(service, session_scope("s1"), std::str::from_utf8(&bytes).unwrap()).await;
    }
}

async fn a_cursor_belongs_to_its_scope(service: &Service) {
    let mut scopes =
        vec![app_scope(), user_scope(), scope("other", "", ""), scope("my_app", "bob", "")];
    for (user, id) in [("alice", "s1"), ("alice", "s2"), ("bob", "s1")] {
        let mut request = create(id, "");
        request.user_id = user.into();
        service.create_session(request).await.unwrap();
        scopes.push(scope("my_app", user, id));
    }
    for from in &scopes {
        let cursor = cursor(service, from.clone()).await;
        for to in &scopes {
            if from == to {
                Watching::open(service, resume(to.clone(), &cursor)).await.caught_up().await;
            } else {
                refusal(service, to.clone(), &cursor).await;
            }
        }
    }
}

async fn a_cursor_belongs_to_its_incarnation(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    service.append_events(append_all("s1", vec![plain(); 3])).await.unwrap();
    let mut watching =
        Watching::open(service, watch(session_scope("s1"), WatchStart::Beginning)).await;
    watching.event().await;
    let old = watching.cursor;
    let delete =
        DeleteSessionRequest { key: Some(key("s1")), allow_missing: false, ..Default::default() };
    service.delete_session(delete).await.unwrap();
    let result = Watching::try_open(service, resume(session_scope("s1"), &old)).await;
    refused(result.map(|_| ()), Reason::SessionNotFound);
    service.create_session(create("s1", "")).await.unwrap();
    service.append_events(append_all("s1", vec![plain(); 3])).await.unwrap();
    refusal(service, session_scope("s1"), &old).await;
}

async fn a_cursor_belongs_to_its_store(service: Service) {
    let other = Service::in_memory(&[]).await;
    for server in [&service, &other] {
        server.create_session(create("s1", "")).await.unwrap();
    }
    for scope in [app_scope(), user_scope(), session_scope("s1")] {
        for (from, to) in [(&service, &other), (&other, &service)] {
            let cursor = cursor(from, scope.clone()).await;
            let result = Watching::try_open(to, resume(scope.clone(), &cursor)).await;
            refused(result.map(|_| ()), Reason::CursorOfOtherStore);
        }
    }
    other.stop().await;
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_goes_on_across_a_restart() {
    let service = Service::on_sqlite(&[]).await;
    service.create_session(create("s1", r#"{"n":0}"#)).await.unwrap();
    let mut old = Vec::new();
    for scope in [session_scope("s1"), user_scope(), app_scope()] {
        let mut watching =
            Watching::open(&service, watch(scope.clone(), WatchStart::Snapshot)).await;
        watching.until_caught_up().await;
        old.push((scope, watching));
    }
    service.append_event(append("s1", setting(r#"{"n":1,"user:u":1,"app:a":1}"#))).await.unwrap();
    let service = service.restart().await;
    // What was stored before the stop may come before the end or after it, but comes once.
    service.append_event(append("s1", setting(r#"{"n":2,"user:u":2}"#))).await.unwrap();
    for (scope, mut watching) in old {
        let end = loop {
            match watching.message().await {
                Ok(message) => assert!(message.is_some(), "a watch that is stopped says so"),
                Err(status) => break status,
            }
        };
        refused::<()>(Err(end), Reason::Draining);
        let mut resumed = Watching::open(&service, resume(scope.clone(), &watching.cursor)).await;
        resumed.folded = watching.folded;
        let kinds = resumed.until_caught_up().await;
        let state = service.get_state(get_state(scope.clone())).await.unwrap().state();
        assert_eq!(Value::Object(resumed.folded.clone()), state, "{kinds:?}");
        if !scope.session_id.is_empty() {
            let last = kinds.last();
            assert!(matches!(last, Some(Kind::Event(event)) if event.sequence == 2), "{kinds:?}");
        }
        service.update_state(update(app_scope(), set(r#"{"app:a":3}"#))).await.unwrap();
        assert_eq!(resumed.change().await.0, json!({"app:a": 3}));
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_ahead_of_a_store_that_was_put_back_is_refused() {
    let service = Service::on_sqlite(&[]).await;
    service.create_session(create("s1", "")).await.unwrap();
    let mut copy = Vec::new();
    let service = service.restart_after(|file| copy = std::fs::read(file).unwrap()).await;
    service.append_event(append("s1", setting(r#"{"app:a":1,"user:u":1}"#))).await.unwrap();
    let mut cursors = Vec::new();
    for scope in [session_scope("s1"), user_scope(), app_scope()] {
        cursors.push((scope.clone(), cursor(&service, scope).await));
    }
    let service = service.restart_after(|file| std::fs::write(file, copy).unwrap()).await;
    for (scope, cursor) in cursors {
        refusal(&service, scope, &cursor).await;
    }
    service.stop().await;
}

/// Writers to the session and beside it, and watchers that lose their connection after a number of messages that differs each
/// time: all see every event once and in order, and end with the state that is.
async fn events_come_once_and_in_order_across_reconnects(service: Service) {
    const EVENTS: usize = 240;
    let service = Arc::new(service);
    service.create_session(create("s1", r#"{"n":0,"app:n":0}"#)).await.unwrap();
    let written = Arc::new(AtomicBool::new(false));
    let mut watchers = JoinSet::new();
    for watcher in 0..3 {
        let (service, written) = (Arc::clone(&service), Arc::clone(&written));
        watchers.spawn(async move {
            let begin = watch(session_scope("s1"), WatchStart::Beginning);
            let mut watching = Watching::open(&service, begin).await;
            let mut folded = json!({"n": 0, "app:n": 0}).as_object().unwrap().clone();
            let mut sequence = 0;
            let mut step: u64 = watcher;
            // Whether all was written before the watch was opened, so that its end is the end.
            let mut last_round = false;
            loop {
                // A small generator of numbers, so that a run can be repeated.
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                watching.folded = folded;
                for _ in 0..=(step >> 33) % 12 {
                    if let Kind::Event(event) = watching.next().await {
                        sequence += 1;
                        assert_eq!(event.sequence, sequence);
                    }
                    if watching.caught_up {
                        break;
                    }
                }
                folded = watching.folded;
                if last_round && watching.caught_up {
                    return (sequence, Value::Object(folded));
                }
                last_round = written.load(Ordering::SeqCst);
                let again = resume(session_scope("s1"), &watching.cursor);
                watching = Watching::open(&service, again).await;
            }
        });
    }
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let service = Arc::clone(&service);
        writers.spawn(async move {
            let key = format!("own{writer}");
            for at in 0..EVENTS / 4 {
                let delta = operations([
                    increment("n", 1),
                    increment(&key, 1),
                    increment("app:n", 1),
                    increment(&format!("user:{at}"), 1),
                ]);
                let mut event = plain();
                event.state_delta = Some(delta);
                service.append_event(append("s1", event)).await.unwrap();
                let beside = operations([increment("app:n", 1), increment("user:beside", 1)]);
                service.update_state(update(user_scope(), beside)).await.unwrap();
            }
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    written.store(true, Ordering::SeqCst);
    let state = service.get_state(get_state(session_scope("s1"))).await.unwrap().state();
    assert_eq!(state["app:n"], 2 * EVENTS);
    while let Some(ended) = within("the watchers", watchers.join_next()).await {
        assert_eq!(ended.unwrap(), (EVENTS as i64, state.clone()));
    }
    Arc::into_inner(service).unwrap().stop().await;
}
