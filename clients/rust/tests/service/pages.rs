//! State that does not fit into one answer, and shared values that are damaged.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use adk_core::ErrorCategory;
use adk_session::SessionService;
use futures_util::StreamExt as _;
use prost::Message;
use serde_json::json;
use sessiond_adk::{
    ChangeKind, Delta, Point, Scope, Since,
    proto::v1::{
        AppendEventResponse, CreateSessionResponse, Event, ForkSessionResponse, GetSessionResponse,
        GetStateResponse, ListSessionsResponse, RewindSessionResponse, Session, StateSnapshot,
        UpdateStateResponse, WatchResponse, get_state_response::StateForm, watch_response::Kind,
    },
};
use sessiond_adk_testing::{ScriptedServer, builder};

use crate::harness::{
    APP, EAGER, USER, assert_error, creation, getting, identity, key, listing, named, object,
};

/// A server whose answers leave out the state, and whose pages hold one key each. The pages are of the life `pages_of`.
async fn small_answers(pages_of: &'static str) -> ScriptedServer {
    let pages = AtomicUsize::new(0);
    ScriptedServer::start(move |path| {
        let session = Some(Session {
            key: Some(key("s1")),
            uid: "life-1".into(),
            state_omitted: true,
            ..Session::default()
        });
        let event = Some(Event { event_id: "e1".into(), sequence: 1, ..Event::default() });
        Ok(match path.rsplit('/').next().unwrap() {
            "CreateSession" => {
                CreateSessionResponse { session, ..Default::default() }.encode_to_vec()
            }
            "ForkSession" => ForkSessionResponse { session }.encode_to_vec(),
            "RewindSession" => {
                RewindSessionResponse { session, event, ..Default::default() }.encode_to_vec()
            }
            "GetSession" => GetSessionResponse { session, ..Default::default() }.encode_to_vec(),
            "ListSessions" => {
                let sessions = session.into_iter().collect();
                ListSessionsResponse { sessions, ..Default::default() }.encode_to_vec()
            }
            "AppendEvent" => {
                AppendEventResponse { session, event, ..Default::default() }.encode_to_vec()
            }
            "UpdateState" => {
                UpdateStateResponse { state_omitted: true, ..Default::default() }.encode_to_vec()
            }
            "Watch" => {
                let snapshot = StateSnapshot { state_omitted: true, ..Default::default() };
                WatchResponse { kind: Some(Kind::Snapshot(snapshot)), cursor: "c".into() }
                    .encode_to_vec()
            }
            "GetState" => {
                // The last key is too large even for a page of its own.
                let page = pages.fetch_add(1, Ordering::Relaxed) % 4;
                let text =
                    [r#"{"app:a":1.0}"#, r#"{"user:b":[2]}"#, r#"{"c":18446744073709551615}"#];
                GetStateResponse {
                    uid: pages_of.into(),
                    state_form: text.get(page).map(|text| StateForm::StateJson((*text).into())),
                    state_omitted: page == 3,
                    versions: HashMap::from([(["app:a", "user:b", "c", ""][page].into(), 7)]),
                    next_page_token: if page < 3 { "more".into() } else { String::new() },
                    ..GetStateResponse::default()
                }
                .encode_to_vec()
            }
            other => panic!("{other}"),
        })
    })
    .await
}

#[tokio::test]
async fn pages_are_put_together_wherever_state_is_returned() {
    let server = small_answers("life-1").await;
    let s = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let wanted = object(json!({"app:a": 1.0, "user:b": [2], "c": u64::MAX}));
    let identity = identity(APP, USER, "s1");
    let scope = Scope::Session(identity.clone());
    assert_eq!(s.create(creation("s1", json!({}))).await.unwrap().state().all(), wanted);
    assert_eq!(s.get(getting("s1")).await.unwrap().state().all(), wanted);
    for limit in [None, Some(1)] {
        let request = adk_session::ListRequest { limit, ..listing(USER) };
        assert_eq!(s.list(request).await.unwrap()[0].state().all(), wanted);
    }
    assert_eq!(s.state(&scope).await.unwrap(), wanted);
    assert_eq!(s.update_state(&scope, Delta::new()).await.unwrap(), wanted);
    assert_eq!(s.get_within(&identity, "turn-1").await.unwrap().state().all(), wanted);
    assert_eq!(s.fork(&identity, None, None).await.unwrap().state().all(), wanted);
    let mut tracked = s.get_tracked(&identity).await.unwrap();
    assert_eq!(adk_session::Session::state(&tracked).all(), wanted);
    s.append_from(&mut tracked, named("e1"), Delta::new()).await.unwrap();
    assert_eq!(adk_session::Session::state(&tracked).all(), wanted);
    match s.watch(&scope, Since::Snapshot).next().await.unwrap().unwrap().kind {
        ChangeKind::Snapshot { state, .. } => assert_eq!(state, wanted),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn state_as_of_an_event_is_not_that_of_another_moment() {
    let server = small_answers("life-1").await;
    let service = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let outcome = service.get_as_of(&identity(APP, USER, "s1"), Point::Sequence(1)).await;
    assert_error(outcome, ErrorCategory::Internal, "session.unexpected_answer");
    assert!(!server.calls().iter().any(|path| path.ends_with("/GetState")));
}

#[tokio::test]
async fn pages_of_another_life_are_not_mixed_in() {
    let server = small_answers("life-2").await;
    let s = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let outcome = s.get(getting("s1")).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.replaced");
    for limit in [None, Some(1)] {
        let request = adk_session::ListRequest { limit, ..listing(USER) };
        assert!(s.list(request).await.unwrap().is_empty());
    }
}
