//! Watches: commits come once and in order, also across a restart of the server.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use adk_core::{ErrorCategory, Result};
use adk_session::{AppendEventRequest, SessionService};
use chrono::{TimeDelta, Utc};
use futures_util::{StreamExt as _, future::join_all, stream::BoxStream};
use prost::Message as _;
use serde_json::json;
use sessiond_adk::{
    Change, ChangeKind, Delta, Retry, Scope, Since,
    proto::v1::{self, WatchRequest, WatchResponse},
};
use sessiond_adk_testing::{Cut, Proxy, ScriptedServer, Server, Store, TIMEOUT, builder};
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{
    APP, EAGER, Fixture, NO_RETRY, USER, assert_error, behind, blocking, creation, identity, named,
    object, on_each_store, refused, setting,
};

on_each_store! {
    a_watch_starts_with_the_state_and_sends_later_changes
    a_watch_from_the_beginning_sends_every_event
    a_watch_from_now_sends_later_changes
    a_watch_of_an_application_sends_its_state
    a_watch_resumes_after_a_cursor
    a_watch_ends_with_its_session
    a_watch_tells_what_a_rewind_hides
    a_watch_of_a_missing_session_is_not_found
    a_bad_cursor_is_refused
    a_watch_outlives_its_connection
}

type Watch = BoxStream<'static, Result<Change>>;

fn s1() -> Scope {
    Scope::Session(identity(APP, USER, "s1"))
}

async fn next(watch: &mut Watch) -> Result<Change> {
    let next = tokio::time::timeout(TIMEOUT, watch.next()).await;
    next.expect("the watch sent nothing").expect("the watch has ended")
}

/// A short form of the next message: `state {…}`, `event e1`, `change {…}`, `caught up`, `deleted`.
async fn next_text(watch: &mut Watch) -> String {
    match next(watch).await.unwrap().kind {
        ChangeKind::Snapshot { state, .. } => format!("state {}", json!(state)),
        ChangeKind::Event(told) => format!("event {}", told.event.id),
        ChangeKind::State(change) => format!("change {}", json!(change)),
        ChangeKind::CaughtUp => "caught up".into(),
        ChangeKind::Deleted => "deleted".into(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_ended(end: Option<Result<Change>>) {
    assert!(end.is_none(), "{end:?}");
}

/// The next messages of all watches, of which each is equal.
async fn expect_of_all(watches: impl IntoIterator<Item = &mut Watch>, wanted: &str) {
    for text in join_all(watches.into_iter().map(next_text)).await {
        assert_eq!(text, wanted);
    }
}

/// Neither a watch nor a call waits for a stream, of which the server allows 256 on a connection.
#[tokio::test]
async fn a_thousand_watches_have_five_connections() {
    let server = Server::start(Store::Memory);
    let (proxy, service) = behind(&server, Cut::Close, EAGER).await;
    for n in 0..10 {
        service.create(creation(&format!("s{n}"), json!({}))).await.unwrap();
    }
    let session = |n: usize| identity(APP, USER, &format!("s{}", n % 10));
    let of_sessions = |n| service.watch(&Scope::Session(session(n)), Since::Now);
    let application = Scope::App(APP.try_into().unwrap());
    let mut of_sessions: Vec<_> = (0..500).map(of_sessions).collect();
    let mut of_application: Vec<_> =
        (0..500).map(|_| service.watch(&application, Since::Now)).collect();
    for some in of_sessions.chunks_mut(100).chain(of_application.chunks_mut(100)) {
        expect_of_all(some, "caught up").await;
    }
    assert_eq!(proxy.connections(), 5, "200 watches each");

    for n in 0..10 {
        let request = AppendEventRequest { identity: session(n), event: named("e1") };
        service.append_event_for_identity(request).await.unwrap();
    }
    expect_of_all(&mut of_sessions, "event e1").await;
    let delta = Delta::new().set("app:a", 1);
    service.update_state(&application, delta).await.unwrap();
    let told = r#"change {"app:a":1}"#;
    expect_of_all(of_sessions.iter_mut().chain(&mut of_application), told).await;

    drop((of_sessions, of_application));
    proxy.until_open(1).await;
    expect_of_all(&mut [service.watch(&application, Since::Now)], "caught up").await;
    assert_eq!(proxy.connections(), 5, "the first one is still there");
}

#[tokio::test]
async fn watches_share_a_channel_of_the_caller() {
    let server = Server::start(Store::Memory);
    let proxy = Proxy::start(server.address(), Cut::Close).await;
    let channel = Endpoint::from_shared(format!("http://{}", proxy.address())).unwrap();
    let service = builder("unused").with_channel(channel.connect_lazy());
    let application = Scope::App(APP.try_into().unwrap());
    let mut watches: Vec<_> = (0..201).map(|_| service.watch(&application, Since::Now)).collect();
    expect_of_all(&mut watches, "caught up").await;
    assert_eq!(proxy.connections(), 1);
}

async fn a_watch_starts_with_the_state_and_sends_later_changes(f: Fixture) {
    f.create("s1", json!({"own": 1, "app:a": 2})).await;
    f.append("s1", named("e1")).await;
    let mut watch = f.service.watch(&s1(), Since::Snapshot);
    assert_eq!(next_text(&mut watch).await, r#"state {"app:a":2,"own":1}"#);
    assert_eq!(next_text(&mut watch).await, "caught up");
    let mut event = setting(json!({"own": null, "user:b": [3]}));
    event.id = "e2".into();
    event.llm_response.interaction_id = Some("whole".into());
    f.append("s1", event.clone()).await;
    match next(&mut watch).await.unwrap().kind {
        ChangeKind::Event(told) => {
            assert_eq!(json!(told.event), json!(event));
            assert_eq!(told.event.timestamp, event.timestamp);
            assert_eq!((told.sequence, told.rewind_to_sequence), (2, None));
        }
        other => panic!("{other:?}"),
    }
    let app = Scope::App(APP.try_into().unwrap());
    let delta = Delta::new().set("app:c", 4).remove("app:a");
    f.service.update_state(&app, delta).await.unwrap();
    assert_eq!(next_text(&mut watch).await, r#"change {"app:a":null,"app:c":4}"#);
}

async fn a_watch_from_the_beginning_sends_every_event(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 0..250 {
        f.append("s1", named(&format!("e{n}"))).await;
    }
    let mut watch = f.service.watch(&s1(), Since::Beginning);
    for n in 0..250 {
        assert_eq!(next_text(&mut watch).await, format!("event e{n}"));
    }
    assert_eq!(next_text(&mut watch).await, "caught up");
}

async fn a_watch_from_now_sends_later_changes(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    let mut watch = f.service.watch(&s1(), Since::Now);
    assert_eq!(next_text(&mut watch).await, "caught up");
    f.append("s1", named("e2")).await;
    assert_eq!(next_text(&mut watch).await, "event e2");
}

async fn a_watch_of_an_application_sends_its_state(f: Fixture) {
    f.create("s1", json!({"app:a": 1, "own": 1})).await;
    let mut watch = f.service.watch(&Scope::App(APP.try_into().unwrap()), Since::Snapshot);
    assert_eq!(next_text(&mut watch).await, r#"state {"app:a":1}"#);
    assert_eq!(next_text(&mut watch).await, "caught up");
    f.append("s1", setting(json!({"app:a": 2, "own": 2, "user:b": 2}))).await;
    assert_eq!(next_text(&mut watch).await, r#"change {"app:a":2}"#);
}

async fn a_watch_resumes_after_a_cursor(f: Fixture) {
    f.create("s1", json!({})).await;
    for n in 1..=3 {
        f.append("s1", named(&format!("e{n}"))).await;
    }
    let mut watch = f.service.watch(&s1(), Since::Beginning);
    next(&mut watch).await.unwrap();
    let cursor = next(&mut watch).await.unwrap().cursor;
    drop(watch);
    f.append("s1", named("e4")).await;
    let mut watch = f.service.watch(&s1(), Since::Cursor(cursor));
    assert_eq!(next_text(&mut watch).await, "event e3");
    assert_eq!(next_text(&mut watch).await, "event e4");
}

async fn a_watch_ends_with_its_session(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut watch = f.service.watch(&s1(), Since::Now);
    assert_eq!(next_text(&mut watch).await, "caught up");
    f.delete("s1").await;
    assert_eq!(next_text(&mut watch).await, "deleted");
    assert_ended(watch.next().await);
    assert_ended(watch.next().await);
}

async fn a_watch_tells_what_a_rewind_hides(f: Fixture) {
    f.create("s1", json!({})).await;
    let began = Utc::now();
    for n in 1..=3 {
        f.append("s1", named(&format!("e{n}"))).await;
    }
    f.service.rewind("s1", "e1").await.unwrap();
    let mut watch = f.service.watch(&s1(), Since::Beginning);
    let mut found = Vec::new();
    for _ in 1..=4 {
        let ChangeKind::Event(told) = next(&mut watch).await.unwrap().kind else { panic!() };
        assert!((told.commit_time - began).abs() < TimeDelta::minutes(1), "{told:?}");
        found.push((told.sequence, told.rewind_to_sequence));
    }
    assert_eq!(found, [(1, None), (2, None), (3, None), (4, Some(1))]);
    let mut watch = f.service.watch(&s1(), Since::Snapshot);
    let ChangeKind::Snapshot { last_sequence, .. } = next(&mut watch).await.unwrap().kind else {
        panic!()
    };
    assert_eq!(last_sequence, 4);
}

async fn a_watch_of_a_missing_session_is_not_found(f: Fixture) {
    let mut watch = f.service.watch(&s1(), Since::Now);
    assert_error(next(&mut watch).await, ErrorCategory::NotFound, "session.not_found");
    assert_ended(watch.next().await);
    let nobody = adk_core::identity::AppName::new_unchecked("");
    let mut watch = f.service.watch(&Scope::App(nobody), Since::Now);
    assert_eq!(refused(next(&mut watch).await).category, ErrorCategory::InvalidInput);
    assert_ended(watch.next().await);
}

async fn a_bad_cursor_is_refused(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut watch = f.service.watch(&s1(), Since::Cursor("not a cursor".into()));
    assert_error(next(&mut watch).await, ErrorCategory::InvalidInput, "session.bad_cursor");
    assert_ended(watch.next().await);
}

async fn a_watch_outlives_its_connection(f: Fixture) {
    f.create("s1", json!({})).await;
    // Fewer attempts than losses: each message resets the count.
    let retry = Retry { attempts: 4, ..Retry::default() };
    let (proxy, service) = behind(&f.server, Cut::Torn, retry).await;
    // First the answer to the watch is cut, then those to other calls on the same connection.
    proxy.cut_next(1);
    let mut watch = service.watch(&s1(), Since::Beginning);
    assert_eq!(next_text(&mut watch).await, "caught up");
    for n in 1..=6 {
        proxy.cut_next(1);
        service.append_event("s1", named(&format!("e{n}"))).await.unwrap();
        assert_eq!(proxy.left_to_cut(), 0);
        assert_eq!(next_text(&mut watch).await, format!("event e{n}"));
    }
}

#[tokio::test]
async fn a_watch_outlives_the_server() {
    let mut server = Server::start_on_socket(Store::Sqlite);
    let service = builder(server.address())
        .retry(Retry { attempts: 1000, ..Retry::default() })
        .connect()
        .await
        .unwrap();
    service.create(creation("s1", json!({}))).await.unwrap();
    let mut watch = service.watch(&s1(), Since::Snapshot);
    assert_eq!(next_text(&mut watch).await, "state {}");
    assert_eq!(next_text(&mut watch).await, "caught up");
    let mut wanted = Vec::new();
    let mut events = Vec::new();
    for n in 1..=3 {
        let id = format!("e{n}");
        service.append_event("s1", named(&id)).await.unwrap();
        wanted.push(format!("event {id}"));
        // A crash, and a graceful shutdown, which ends watches with a status.
        let end = if n % 2 == 0 { Server::kill } else { Server::stop };
        server = blocking(server, end).await;
        let waiting = service.clone();
        let id = format!("f{n}");
        wanted.push(format!("event {id}"));
        let waiting = tokio::spawn(async move { waiting.append_event("s1", named(&id)).await });
        server = blocking(server, Server::restart).await;
        waiting.await.unwrap().unwrap();
        while events.len() < wanted.len() {
            events.push(next_text(&mut watch).await);
        }
    }
    assert_eq!(events, wanted);
    let session = service.get_for_identity(&identity(APP, USER, "s1")).await.unwrap();
    assert_eq!(session.state().all(), object(json!({})));
}

/// A server that stops may not have sent anything yet.
#[tokio::test]
async fn a_watch_goes_on_at_the_cursor_of_a_server_that_stops() {
    let metadata = [("retryable", "yes"), ("cursor", "3")].map(|(k, v)| (k.into(), v.into()));
    let details = ErrorDetails::with_error_info("DRAINING", "sessiond", HashMap::from(metadata));
    let draining = Status::with_error_details(Code::Unavailable, "stopping", details);
    let deleted = v1::watch_response::Kind::SessionDeleted(v1::SessionDeleted::default());
    let deleted = WatchResponse { kind: Some(deleted), cursor: String::new() }.encode_to_vec();
    let has_stopped = AtomicBool::new(false);
    let server = ScriptedServer::start(move |_| match has_stopped.swap(true, Relaxed) {
        false => Err(draining.clone()),
        true => Ok(deleted.clone()),
    })
    .await;
    let service = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let mut watch = service.watch(&s1(), Since::Now);
    assert_eq!(next_text(&mut watch).await, "deleted");
    let requests = server.messages();
    let cursor = |message: &Vec<u8>| WatchRequest::decode(&message[..]).unwrap().cursor;
    assert_eq!(requests.iter().map(cursor).collect::<Vec<_>>(), ["", "3"]);
}

#[tokio::test]
async fn a_watch_over_the_limit_is_told_when_to_retry() {
    let server = Server::start_with(Store::Memory, &["--max-watches", "1"]);
    let service = builder(server.address()).retry(NO_RETRY).connect().await.unwrap();
    service.create(creation("s1", json!({}))).await.unwrap();
    let mut first = service.watch(&s1(), Since::Now);
    assert_eq!(next_text(&mut first).await, "caught up");
    let mut second = service.watch(&s1(), Since::Now);
    let error = refused(next(&mut second).await);
    assert_eq!((error.category, error.code), (ErrorCategory::RateLimited, "session.overloaded"));
    assert!(error.is_retryable() && error.retry.retry_after().is_some(), "{error:?}");
}

#[tokio::test]
async fn a_watch_of_a_server_that_is_gone_ends_with_an_error() {
    let mut f = Fixture::start(Store::Memory).await;
    f.create("s1", json!({})).await;
    let settings = builder(f.server.address()).retry(NO_RETRY);
    let mut watch = settings.connect().await.unwrap().watch(&s1(), Since::Now);
    assert_eq!(next_text(&mut watch).await, "caught up");
    f.server.kill();
    assert_error(next(&mut watch).await, ErrorCategory::Unavailable, "session.unavailable");
    assert_ended(watch.next().await);
}
