//! State that does not fit into one answer, shared values that are damaged, and empty pages before others.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use adk_core::ErrorCategory;
use adk_session::SessionService;
use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use prost::Message;
use serde_json::json;
use sessiond_adk::{
    ChangeKind, Delta, Point, Scope, Since,
    proto::v1::{
        AppendEventResponse, CreateSessionResponse, DeleteSessionResponse, Event,
        ForkSessionResponse, GetSessionResponse, GetStateResponse, ListEventsResponse,
        ListSessionsRequest, ListSessionsResponse, RewindSessionResponse, Session, StateSnapshot,
        UpdateStateResponse, WatchResponse, get_state_response::StateForm, session,
        watch_response::Kind,
    },
};
use sessiond_adk_testing::{ScriptedServer, builder};

use crate::harness::{
    APP, EAGER, USER, assert_error, creation, getting, identity, ids, key, listing, named, object,
};

const EPOCH: DateTime<Utc> = DateTime::UNIX_EPOCH;

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

/// A server that reads many rows before it finds what is asked for: each page comes behind an empty one with a token.
async fn empty_pages_first() -> ScriptedServer {
    let lists = AtomicUsize::new(0);
    ScriptedServer::start(move |path| {
        let session = Session {
            key: Some(key("s1")),
            state_form: Some(session::StateForm::StateJson("{}".into())),
            ..Session::default()
        };
        let event = Event { event_id: "e1".into(), sequence: 1, ..Event::default() };
        let method = path.rsplit('/').next().unwrap();
        // ListEvents has the other pages of GetSession, and here an empty one, too.
        let is_empty =
            method == "GetSession" || lists.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let next_page_token = if is_empty { "more".into() } else { String::new() };
        let text = if is_empty { "{}" } else { r#"{"a":1}"# };
        let state_form = Some(StateForm::StateJson(text.into()));
        let found = !is_empty;
        Ok(match method {
            "GetSession" => {
                GetSessionResponse { session: Some(session), next_page_token, events: vec![] }
                    .encode_to_vec()
            }
            "ListSessions" => {
                let sessions = found.then_some(session).into_iter().collect();
                ListSessionsResponse { sessions, next_page_token }.encode_to_vec()
            }
            "ListEvents" => {
                let events = found.then_some(event).into_iter().collect();
                ListEventsResponse { events, next_page_token }.encode_to_vec()
            }
            "GetState" => GetStateResponse { state_form, next_page_token, ..Default::default() }
                .encode_to_vec(),
            other => panic!("{other}"),
        })
    })
    .await
}

#[tokio::test]
async fn reading_goes_on_behind_empty_pages() {
    let server = empty_pages_first().await;
    let s = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    let identity = identity(APP, USER, "s1");
    for limit in [None, Some(1)] {
        let request = adk_session::ListRequest { limit, ..listing(USER) };
        assert_eq!(s.list(request).await.unwrap().len(), 1, "{limit:?}");
    }
    for (num_recent_events, after) in [(None, None), (Some(1), None), (None, Some(EPOCH))] {
        let request = adk_session::GetRequest { num_recent_events, after, ..getting("s1") };
        let found = s.get(request).await.unwrap();
        assert_eq!(ids(found.as_ref()), ["e1"], "{num_recent_events:?} {after:?}");
    }
    let log: Vec<_> = s.list_events(&identity, 0, false).collect().await;
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].as_ref().unwrap().sequence, 1);
    let then = s.get_as_of(&identity, Point::Event("e1")).await.unwrap();
    assert_eq!(ids(then.as_ref()), ["e1"]);
    let state = s.state(&Scope::Session(identity)).await.unwrap();
    assert_eq!(state, object(json!({"a": 1})));
}

#[tokio::test]
async fn sessions_behind_an_empty_page_are_deleted() {
    let lists = AtomicUsize::new(0);
    let server = ScriptedServer::start(move |path| {
        if path.ends_with("/DeleteSession") {
            return Ok(DeleteSessionResponse {}.encode_to_vec());
        }
        let page = lists.fetch_add(1, Ordering::Relaxed);
        let session = Session { key: Some(key("s1")), ..Session::default() };
        let sessions = if page == 1 { vec![session] } else { vec![] };
        let next_page_token = if page.is_multiple_of(2) { "more".into() } else { String::new() };
        Ok(ListSessionsResponse { sessions, next_page_token }.encode_to_vec())
    })
    .await;
    let s = builder(server.address()).retry(EAGER).connect_lazy().unwrap();
    s.delete_all_sessions(APP, USER).await.unwrap();
    let calls: Vec<_> = server.calls().into_iter().zip(server.messages()).collect();
    let methods: Vec<_> = calls.iter().map(|(path, _)| path.rsplit('/').next().unwrap()).collect();
    let list = "ListSessions";
    assert_eq!(methods, [list, list, "DeleteSession", list, list]);
    let lists = calls.iter().filter(|(path, _)| path.ends_with(list));
    let token = |message: &Vec<u8>| ListSessionsRequest::decode(&message[..]).unwrap().page_token;
    assert_eq!(lists.map(|(_, sent)| token(sent)).collect::<Vec<_>>(), ["", "more", "", "more"]);
}
