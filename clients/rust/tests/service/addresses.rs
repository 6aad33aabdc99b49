//! Addresses of sessions: bare ids, full keys, and invalid ids.

use adk_core::ErrorCategory;
use adk_session::{AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, SessionService};
use futures_util::StreamExt as _;
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
    ids_are_sent_as_they_are
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

/// What some stores trim, fold or normalise. The list returns each as it was created, and that addresses its session.
async fn ids_are_sent_as_they_are(f: Fixture) {
    let similar = [
        "order-42",
        "order-42\n",
        " order-42",
        "order-42 ",
        "\torder-42\r\n",
        "ORDER-42",
        "order-42\u{a0}",
        "order-42\u{200b}",
        "\u{f6}rder-42",
        "o\u{308}rder-42",
        "\u{feff}order-42",
        " ",
        "  ",
    ];
    for id in similar {
        let state = json!({"id": id, format!("key {id}"): 1});
        assert_eq!(f.create(id, state).await.id(), id);
        f.append(id, named(id)).await;
        f.service.append_event(id, named(&format!("{id} bare"))).await.unwrap();
    }
    let listed = f.service.list(crate::harness::listing(USER)).await.unwrap();
    assert_eq!(listed.len(), similar.len());
    let shows = |session: &dyn adk_session::Session, id: &str| {
        assert_eq!(session.state().get("id"), Some(json!(id)));
        assert_eq!(session.state().get(&format!("key {id}")), Some(json!(1)));
    };
    for session in listed {
        let id = session.id();
        let s = &f.service;
        let identity = session.try_identity().unwrap();
        shows(&*session, id);
        let read = f.get(id).await;
        shows(&*read, id);
        assert_eq!(ids(&*read), [id.to_owned(), format!("{id} bare")]);
        let delta = || sessiond_adk::Delta::new().set("more", id);
        s.append_with(&identity, named(&format!("{id} with")), delta()).await.unwrap();
        let mut tracked = s.get_tracked(&identity).await.unwrap();
        shows(&tracked, id);
        s.append_from(&mut tracked, named(&format!("{id} from")), delta()).await.unwrap();
        let scope = sessiond_adk::Scope::Session(identity.clone());
        assert_eq!(s.state(&scope).await.unwrap()["id"], id);
        assert_eq!(s.update_state(&scope, delta()).await.unwrap()["id"], id);
        let events: Vec<_> = s.list_events(&identity, 0, false).collect().await;
        assert_eq!(events.len(), 5);
        shows(&*s.get_as_of(&identity, sessiond_adk::Point::Sequence(1)).await.unwrap(), id);
        let to = sessiond_adk::Point::Event(id);
        let fork = format!("{id} fork");
        let forked =
            s.fork(&identity, Some(to), Some(fork.as_str().try_into().unwrap())).await.unwrap();
        shows(&*forked, id);
        f.delete(&fork).await;
        shows(&*s.rewind(id, id).await.unwrap(), id);
        shows(&*s.rewind_to(&identity, 1).await.unwrap(), id);
        s.expire(&identity, Some(std::time::Duration::from_secs(60))).await.unwrap();
        let change = s.watch(&scope, sessiond_adk::Since::Snapshot).next().await.unwrap().unwrap();
        let sessiond_adk::ChangeKind::Snapshot { state, .. } = change.kind else {
            panic!("{change:?}")
        };
        assert_eq!(state["id"], id);
        f.delete(id).await;
        assert_error(s.get(getting(id)).await, ErrorCategory::NotFound, "session.not_found");
    }
    assert!(f.service.list(crate::harness::listing(USER)).await.unwrap().is_empty());
}
