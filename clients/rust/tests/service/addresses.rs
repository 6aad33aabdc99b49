//! Addresses of sessions: bare ids, full keys, and invalid ids.

use adk_core::ErrorCategory;
use adk_session::{AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, SessionService};
use serde_json::json;

use crate::harness::{
    APP, Fixture, USER, assert_error, creation, getting, identity, ids, named, on_each_store,
    refused,
};

on_each_store! {
    append_by_bare_id_finds_the_one_session
    append_by_bare_id_of_two_users_is_refused
    append_by_identity_needs_no_unique_id
    append_to_a_missing_session_is_not_found
    an_empty_id_is_invalid_input
    an_invalid_id_is_invalid_input
}

async fn append_by_bare_id_finds_the_one_session(f: Fixture) {
    f.create("s1", json!({})).await;
    f.create("s2", json!({})).await;
    f.service.append_event("s1", named("e1")).await.unwrap();
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
    assert!(f.get("s2").await.events().is_empty());
}

/// ADK's in-memory service takes any of them.
async fn append_by_bare_id_of_two_users_is_refused(f: Fixture) {
    f.create("s1", json!({})).await;
    let bobs = CreateRequest { user_id: "bob".into(), ..creation("s1", json!({})) };
    f.service.create(bobs).await.unwrap();
    let outcome = f.service.append_event("s1", named("e1")).await;
    assert_error(outcome, ErrorCategory::InvalidInput, "session.ambiguous_id");
    assert!(f.get("s1").await.events().is_empty());
}

async fn append_by_identity_needs_no_unique_id(f: Fixture) {
    f.create("s1", json!({})).await;
    let bobs = CreateRequest { user_id: "bob".into(), ..creation("s1", json!({})) };
    f.service.create(bobs).await.unwrap();
    let identity = identity(APP, "bob", "s1");
    let request = AppendEventRequest { identity: identity.clone(), event: named("e1") };
    f.service.append_event_for_identity(request).await.unwrap();
    assert!(f.get("s1").await.events().is_empty());
    assert_eq!(ids(&*f.service.get_for_identity(&identity).await.unwrap()), ["e1"]);
}

async fn append_to_a_missing_session_is_not_found(f: Fixture) {
    let outcome = f.service.append_event("nowhere", named("e1")).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
    let outcome = f.try_append("nowhere", named("e1")).await;
    assert_error(outcome, ErrorCategory::NotFound, "session.not_found");
}

/// Calls every method that takes an id with an invalid one.
async fn refuse_everywhere(f: &Fixture, bad: &str) {
    let s = &f.service;
    let invalid = |outcome: adk_core::Result<()>| {
        let error = refused(outcome);
        assert_eq!(error.category, ErrorCategory::InvalidInput, "{error:?}");
    };
    let (app, user, session) = (bad.to_owned(), bad.to_owned(), bad.to_owned());
    let create = |request| async { s.create(request).await.map(drop) };
    invalid(create(CreateRequest { app_name: app.clone(), ..creation("s1", json!({})) }).await);
    invalid(create(CreateRequest { user_id: user.clone(), ..creation("s1", json!({})) }).await);
    invalid(create(creation(bad, json!({}))).await);
    let get = |request| async { s.get(request).await.map(drop) };
    invalid(get(GetRequest { app_name: app.clone(), ..getting("s1") }).await);
    invalid(get(GetRequest { user_id: user.clone(), ..getting("s1") }).await);
    invalid(get(getting(bad)).await);
    let list = |app_name: &str, user_id: &str| {
        let (app_name, user_id) = (app_name.to_owned(), user_id.to_owned());
        let request = adk_session::ListRequest { app_name, user_id, limit: None, offset: None };
        async { s.list(request).await.map(drop) }
    };
    invalid(list(bad, USER).await);
    invalid(list(APP, bad).await);
    let delete = |app_name: &str, user_id: &str, session_id: &str| {
        let (app_name, user_id) = (app_name.to_owned(), user_id.to_owned());
        s.delete(DeleteRequest { app_name, user_id, session_id: session_id.to_owned() })
    };
    invalid(delete(bad, USER, "s1").await);
    invalid(delete(APP, bad, "s1").await);
    invalid(delete(APP, USER, &session).await);
    invalid(s.append_event(bad, named("e1")).await);
    invalid(s.delete_all_sessions(bad, USER).await);
    invalid(s.delete_all_sessions(APP, bad).await);
    invalid(s.rewind(bad, "e1").await.map(drop));
    invalid(s.rewind_steps(bad, 0).await.map(drop));
    invalid(s.rewind_steps(bad, 1).await.map(drop));
    assert_eq!(ids(&*f.get("s1").await), ["e1"], "and nothing has changed");
}

async fn an_empty_id_is_invalid_input(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    refuse_everywhere(&f, "").await;
}

async fn an_invalid_id_is_invalid_input(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("e1")).await;
    refuse_everywhere(&f, "a\0b").await;
    refuse_everywhere(&f, &"x".repeat(513)).await;
}
