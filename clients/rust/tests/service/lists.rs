//! Listing and deleting a user's sessions.

use std::collections::BTreeSet;

use adk_core::ErrorCategory;
use adk_session::{CreateRequest, ListRequest, SessionService};
use chrono::{DateTime, TimeDelta};
use futures_util::{StreamExt as _, stream};
use prost::Message as _;
use serde_json::json;
use sessiond_adk::proto::v1::{DeleteSessionResponse, ListSessionsResponse, Session};
use sessiond_adk_testing::{Cut, ScriptedServer, TIMEOUT, builder};

use crate::harness::{
    Fixture, NO_RETRY, USER, behind, creation, getting, key, listing, named, object, on_each_store,
    refused, setting,
};

on_each_store! {
    the_most_recently_used_comes_first
    limit_and_offset_cut_the_list
    sessions_come_with_their_state_and_without_events
    a_user_sees_no_other_users_sessions
    a_list_of_more_than_a_page_is_whole
    a_session_that_is_used_between_two_pages_is_listed
    more_than_a_thousand_sessions_are_listed_and_deleted
    delete_all_sessions_deletes_this_users_only
    delete_all_sessions_of_an_unknown_user_is_a_no_op
}

async fn listed(f: &Fixture, request: ListRequest) -> Vec<String> {
    let sessions = f.service.list(request).await.unwrap();
    sessions.iter().map(|session| session.id().to_owned()).collect()
}

/// Sessions `s1` to `s5`, which were used in the order 3, 1, 5, 2, 4.
async fn five_sessions(f: &Fixture) {
    let start = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    for n in 1..=5 {
        f.create(&format!("s{n}"), json!({"n": n})).await;
    }
    for (nanos, n) in [3, 1, 5, 2, 4].into_iter().enumerate() {
        let mut event = named("e1");
        event.timestamp = start + TimeDelta::nanoseconds(i64::try_from(nanos).unwrap());
        f.append(&format!("s{n}"), event).await;
    }
}

async fn the_most_recently_used_comes_first(f: Fixture) {
    five_sessions(&f).await;
    assert_eq!(listed(&f, listing(USER)).await, ["s4", "s2", "s5", "s1", "s3"]);
}

async fn limit_and_offset_cut_the_list(f: Fixture) {
    five_sessions(&f).await;
    let all = ["s4", "s2", "s5", "s1", "s3"];
    for offset in 0..7 {
        for limit in 0..7 {
            let request = ListRequest { limit: Some(limit), offset: Some(offset), ..listing(USER) };
            let wanted: Vec<_> = all.into_iter().skip(offset).take(limit).collect();
            assert_eq!(listed(&f, request).await, wanted, "{offset}, {limit}");
        }
        let request = ListRequest { offset: Some(offset), ..listing(USER) };
        assert_eq!(listed(&f, request).await, all[offset.min(5)..], "{offset}");
    }
    let request =
        ListRequest { limit: Some(usize::MAX), offset: Some(usize::MAX), ..listing(USER) };
    assert!(listed(&f, request).await.is_empty());
}

async fn sessions_come_with_their_state_and_without_events(f: Fixture) {
    five_sessions(&f).await;
    let mut event = named("e2");
    event.actions.state_delta = object(json!({"app:a": 1, "user:b": 2}));
    f.append("s1", event).await;
    for offset in [0, 3] {
        let request = ListRequest { offset: Some(offset), ..listing(USER) };
        for session in f.service.list(request).await.unwrap() {
            let n: u32 = session.id()[1..].parse().unwrap();
            let wanted = object(json!({"app:a": 1, "user:b": 2, "n": n}));
            assert_eq!(session.state().all(), wanted);
            assert!(session.events().is_empty());
            assert_eq!(session.last_update_time(), f.get(session.id()).await.last_update_time());
        }
    }
}

async fn a_user_sees_no_other_users_sessions(f: Fixture) {
    f.create("s1", json!({})).await;
    for (app_name, user_id) in [("my_app", "bob"), ("other", USER)] {
        let request = CreateRequest {
            app_name: app_name.into(),
            user_id: user_id.into(),
            ..creation("s2", json!({}))
        };
        f.service.create(request).await.unwrap();
    }
    assert_eq!(listed(&f, listing(USER)).await, ["s1"]);
    assert_eq!(listed(&f, listing("bob")).await, ["s2"]);
    assert!(listed(&f, listing("carol")).await.is_empty());
    assert!(listed(&f, listing("ALICE")).await.is_empty());
    // The server reads an empty user as every user.
    assert_eq!(
        refused(f.service.list(listing("")).await).category,
        adk_core::ErrorCategory::InvalidInput
    );
}

async fn a_list_of_more_than_a_page_is_whole(f: Fixture) {
    // 30 sessions of 250 KB of state do not fit into one answer.
    let wanted: BTreeSet<_> = (0..30).map(|n| format!("s{n:02}")).collect();
    for id in &wanted {
        f.create(id, json!({"own": "x".repeat(250_000)})).await;
    }
    let all = listed(&f, listing(USER)).await;
    assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(all.len(), wanted.len());
    let request = ListRequest { offset: Some(7), limit: Some(21), ..listing(USER) };
    assert_eq!(listed(&f, request).await, all[7..28]);
}

async fn a_session_that_is_used_between_two_pages_is_listed(f: Fixture) {
    // Two pages: 20 sessions of 250 KB of state do not fit into one answer.
    let mut wanted: Vec<_> = (0..20).map(|n| format!("s{n:02}")).collect();
    for id in &wanted {
        f.create(id, json!({"own": "x".repeat(250_000)})).await;
    }
    let (proxy, behind) = behind(&f.server, Cut::Close, NO_RETRY).await;
    for offset in [0, 3] {
        let [first, last] = [wanted[0].clone(), wanted[19].clone()];
        proxy.hold_after(0);
        let request = ListRequest { offset: Some(offset), ..listing(USER) };
        let use_both = async {
            proxy.held().await;
            for id in [&last, &first] {
                f.append(id, setting(json!({"used": offset}))).await;
            }
            proxy.release();
        };
        let (sessions, ()) = futures_util::join!(behind.list(request), use_both);
        // The least recently used session is now the most recently used one, with its new state.
        wanted.rotate_left(1);
        let sessions = sessions.unwrap();
        let ids: Vec<_> = sessions.iter().map(|session| session.id()).collect();
        assert_eq!(ids, wanted.iter().rev().skip(offset).collect::<Vec<_>>());
        if offset == 0 {
            assert_eq!(sessions[0].state().get("used"), Some(json!(offset)));
        }
    }
}

/// More than the largest page of the server.
async fn more_than_a_thousand_sessions_are_listed_and_deleted(f: Fixture) {
    const SESSIONS: usize = 2100;
    let wanted: BTreeSet<_> = (0..SESSIONS).map(|n| format!("s{n:04}")).collect();
    // Concurrently, so that the server commits them in groups.
    let creating = &f;
    stream::iter(&wanted)
        .for_each_concurrent(
            64,
            |id| async move { drop(creating.create(id, json!({"id": id})).await) },
        )
        .await;
    let sessions = f.service.list(listing(USER)).await.unwrap();
    let all: Vec<_> = sessions.iter().map(|session| session.id().to_owned()).collect();
    assert_eq!(all.len(), SESSIONS, "each of them once");
    assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), wanted);
    for session in &sessions {
        assert_eq!(session.state().get("id"), Some(json!(session.id())));
    }
    for (offset, limit) in [(0, 1001), (999, 2), (1000, 1000), (1500, usize::MAX), (2099, 5)] {
        let request = ListRequest { offset: Some(offset), limit: Some(limit), ..listing(USER) };
        let end = offset.saturating_add(limit).min(SESSIONS);
        assert_eq!(listed(&f, request).await, all[offset..end], "{offset}, {limit}");
    }
    f.service.delete_all_sessions("my_app", USER).await.unwrap();
    assert!(listed(&f, listing(USER)).await.is_empty());
}

/// A server with others who create a session for each deleted one.
#[tokio::test]
async fn delete_all_sessions_gives_up_if_there_are_always_more() {
    let server = ScriptedServer::start(|path| match path {
        "/sessiond.v1.SessionService/ListSessions" => {
            let session = Session { key: Some(key("s1")), ..Session::default() };
            let next_page_token = "more".into();
            Ok(ListSessionsResponse { sessions: vec![session], next_page_token }.encode_to_vec())
        }
        "/sessiond.v1.SessionService/DeleteSession" => Ok(DeleteSessionResponse {}.encode_to_vec()),
        other => panic!("{other}"),
    })
    .await;
    let service = builder(server.address()).connect_lazy().unwrap();
    let deleting = service.delete_all_sessions("my_app", USER);
    let outcome = tokio::time::timeout(TIMEOUT, deleting).await.expect("it goes on and on");
    let error = refused(outcome);
    assert_eq!(
        (error.category, error.code),
        (ErrorCategory::Unavailable, "session.not_all_deleted")
    );
    assert!(error.is_retryable() && error.message.contains(USER), "{error:?}");
    assert_eq!(server.calls().len(), 2 * 1000, "pages and their sessions");
}

async fn delete_all_sessions_deletes_this_users_only(f: Fixture) {
    for n in 0..40 {
        f.create(&format!("s{n}"), json!({"user:kept": 1})).await;
    }
    let bobs = CreateRequest { user_id: "bob".into(), ..creation("s1", json!({})) };
    f.service.create(bobs).await.unwrap();
    let others = CreateRequest { app_name: "other".into(), ..creation("s1", json!({})) };
    f.service.create(others).await.unwrap();
    f.service.delete_all_sessions("my_app", USER).await.unwrap();
    assert!(listed(&f, listing(USER)).await.is_empty());
    assert_eq!(refused(f.service.get(getting("s1")).await).code, "session.not_found");
    assert_eq!(listed(&f, listing("bob")).await, ["s1"]);
    let others = ListRequest { app_name: "other".into(), ..listing(USER) };
    assert_eq!(listed(&f, others).await, ["s1"]);
    let session = f.create("s1", json!({})).await;
    assert_eq!(session.state().all(), object(json!({"user:kept": 1})), "the user's state stays");
}

async fn delete_all_sessions_of_an_unknown_user_is_a_no_op(f: Fixture) {
    f.service.delete_all_sessions("my_app", "carol").await.unwrap();
}
