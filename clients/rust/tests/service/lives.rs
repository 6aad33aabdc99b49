//! Sessions that were deleted and created anew under their id.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use adk_core::{ErrorCategory, Result};
use adk_session::SessionService;
use prost::Message as _;
use serde_json::json;
use sessiond_adk::{
    Delta, Point, SessionRef, TrackedSession,
    proto::v1::{Event, GetSessionResponse, ListEventsResponse, Session},
};
use sessiond_adk_testing::{ScriptedServer, builder};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{
    APP, EAGER, Fixture, USER, assert_error, identity, ids, key, named, object, on_each_store,
    setting,
};

on_each_store! {
    no_write_reaches_the_successor
    writes_to_the_session_that_is_meant_succeed
    a_deleted_life_is_deleted_once
    every_session_of_a_user_is_deleted_by_its_life
    without_a_uid_any_life_is_meant
}

/// A session object, whose session was deleted and created anew with as many events.
async fn replaced(f: &Fixture) -> TrackedSession {
    f.create("s1", json!({"cart": ["old"]})).await;
    f.append("s1", setting(json!({"cart": ["old", "secret"]}))).await;
    let late = f.service.get_tracked(&identity(APP, USER, "s1")).await.unwrap();
    assert!(!late.uid().is_empty());
    f.delete("s1").await;
    f.create("s1", json!({"cart": ["new"]})).await;
    f.append("s1", named("e1")).await;
    late
}

async fn no_write_reaches_the_successor(f: Fixture) {
    let mut late = replaced(&f).await;
    let before = f.stored("s1").await;
    let cart = || setting(json!({"cart": ["late"]}));
    let add = || Delta::new().increment("app:n", 1);
    let hour = Some(Duration::from_secs(3600));
    let s = &f.service;
    let first = Some(Point::Sequence(0));
    let uid = late.uid().to_owned();
    let key = identity(APP, USER, "s1");
    let stored = SessionRef::new(&key, &uid);
    let outcomes: [(&str, Result<()>); 10] = [
        ("append_from", s.append_from(&mut late, cart(), Delta::new()).await.map(drop)),
        ("append_from an operation", s.append_from(&mut late, named("e2"), add()).await.map(drop)),
        ("append_with", s.append_with(&late, cart(), add()).await.map(drop)),
        ("append_with a uid", s.append_with(stored, cart(), add()).await.map(drop)),
        ("rewind_to", s.rewind_to(&late, 0).await.map(drop)),
        ("rewind_to a uid", s.rewind_to(stored, 0).await.map(drop)),
        ("fork", s.fork(&late, None, None).await.map(drop)),
        ("fork up to", s.fork(&late, first, None).await.map(drop)),
        ("expire", s.expire(&late, hour).await.map(drop)),
        ("expire never", s.expire(&late, None).await.map(drop)),
    ];
    for (name, outcome) in outcomes {
        let error = outcome.err().unwrap_or_else(|| panic!("{name} is not refused"));
        let found = (error.category, error.code, error.is_retryable());
        assert_eq!(found, (ErrorCategory::InvalidInput, "session.replaced", false), "{name}");
    }
    assert_eq!(late.uid(), uid, "the object is still that of the deleted session");
    assert_eq!(f.stored("s1").await, before);
    assert_eq!(f.service.list(crate::harness::listing(USER)).await.unwrap().len(), 1);
}

async fn writes_to_the_session_that_is_meant_succeed(f: Fixture) {
    f.create("s1", json!({"cart": 0})).await;
    let mut session = f.service.get_tracked(&identity(APP, USER, "s1")).await.unwrap();
    f.service.append_from(&mut session, named("e1"), Delta::new().set("cart", 1)).await.unwrap();
    f.service.append_with(&session, named("e2"), Delta::new().increment("cart", 1)).await.unwrap();
    f.service.expire(&session, Some(Duration::from_secs(3600))).await.unwrap();
    let fork = f.service.fork(&session, None, None).await.unwrap();
    assert_eq!(fork.state().all(), object(json!({"cart": 2})));
    let rewound = f.service.rewind_to(&session, 1).await.unwrap();
    assert_eq!((ids(&*rewound), rewound.state().get("cart")), (vec!["e1".into()], Some(json!(1))));
    let uid = f.service.get_tracked(&identity(APP, USER, "s1")).await.unwrap().uid().to_owned();
    assert_eq!(uid, session.uid());
    f.service.delete_session(&session).await.unwrap();
    assert_eq!(f.service.list(crate::harness::listing(USER)).await.unwrap().len(), 1, "the fork");
}

async fn a_deleted_life_is_deleted_once(f: Fixture) {
    let late = replaced(&f).await;
    for _ in 0..2 {
        f.service.delete_session(&late).await.unwrap();
    }
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
}

async fn every_session_of_a_user_is_deleted_by_its_life(f: Fixture) {
    for id in ["s1", "s2", "s3"] {
        f.create(id, json!({})).await;
    }
    f.service.delete_all_sessions(APP, USER).await.unwrap();
    assert!(f.service.list(crate::harness::listing(USER)).await.unwrap().is_empty());
}

/// ADK's own methods address a session by its id, and have no object of it.
async fn without_a_uid_any_life_is_meant(f: Fixture) {
    replaced(&f).await;
    let identity = identity(APP, USER, "s1");
    f.append("s1", named("e2")).await;
    f.service.append_with(&identity, named("e3"), Delta::new()).await.unwrap();
    f.service.append_with(SessionRef::new(&identity, ""), named("e4"), Delta::new()).await.unwrap();
    assert_eq!(ids(&*f.get("s1").await), ["e1", "e2", "e3", "e4"]);
}

/// A rewind reads the session, and again after a conflict. What was created meanwhile is not rewound.
#[tokio::test]
async fn a_rewind_does_not_go_on_in_the_successor() {
    let heads = AtomicUsize::new(0);
    let server = ScriptedServer::start(move |path| match path.rsplit('/').next().unwrap() {
        "GetSession" => {
            let uid = format!("life-{}", heads.fetch_add(1, Ordering::Relaxed));
            let session =
                Session { key: Some(key("s1")), uid, last_sequence: 2, ..Session::default() };
            Ok(GetSessionResponse { session: Some(session), ..GetSessionResponse::default() }
                .encode_to_vec())
        }
        "ListEvents" => {
            let event = Event { event_id: "e1".into(), sequence: 1, ..Event::default() };
            Ok(ListEventsResponse { events: vec![event], ..ListEventsResponse::default() }
                .encode_to_vec())
        }
        "RewindSession" => {
            let metadata = HashMap::from([("retryable".to_owned(), "no".to_owned())]);
            let details = ErrorDetails::with_error_info("SEQUENCE_CONFLICT", "sessiond", metadata);
            Err(Status::with_error_details(Code::Aborted, "scripted", details))
        }
        other => panic!("{other}"),
    })
    .await;
    let service = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let outcome = service.rewind("s1", "e1").await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.replaced");
    let rewinds = server.calls().iter().filter(|path| path.ends_with("/RewindSession")).count();
    assert_eq!(rewinds, 1);
}
