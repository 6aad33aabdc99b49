//! Addresses: bare session ids, half addresses, and that no call reaches another user's data.

use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventsRequest, DeleteSessionRequest, EndInvocationRequest,
        ForkSessionRequest, GetSessionRequest, ListEventsRequest, RenderTemplateRequest,
        RewindSessionRequest, SessionKey, UpdateSessionRequest,
    },
};

use crate::{
    harness::{Service, with_server},
    judge::{detail, metadata, refused, violations},
    make::{
        address, append, append_all, bare, create, get, get_state, list_events, plain, render,
        rewind, scope, set, setting, update,
    },
    read::{HasState, set_by},
};

with_server! {
    a_bare_id_is_enough_where_one_session_has_it
    a_bare_id_of_several_sessions_is_refused
    half_an_address_is_none
    a_bare_id_is_enough_for_these_calls_alone
    nobody_reaches_what_is_anothers
    ids_are_taken_as_they_are
}

with_server! { ["--require-full-keys"] bare_ids_are_refused_where_whole_keys_are_required }

async fn create_at(service: &Service, key: &SessionKey) {
    let request = sessiond::proto::v1::CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        ..create(&key.session_id, &json!({"of": key.user_id}).to_string())
    };
    service.create_session(request).await.unwrap();
}

fn get_at(key: SessionKey) -> GetSessionRequest {
    GetSessionRequest { key: Some(key), ..get("") }
}

fn append_at(key: SessionKey) -> AppendEventRequest {
    AppendEventRequest { key: Some(key), ..append("", plain()) }
}

fn append_all_at(key: SessionKey) -> AppendEventsRequest {
    AppendEventsRequest { key: Some(key), ..append_all("", vec![plain(), plain()]) }
}

async fn a_bare_id_is_enough_where_one_session_has_it(service: &Service) {
    let whole = address("app", "alice", "only");
    create_at(service, &whole).await;
    let read = service.get_session(get_at(bare("only"))).await.unwrap();
    assert_eq!(read.state(), json!({"of": "alice"}));
    assert_eq!(read.session.unwrap().key, Some(whole.clone()), "the answer names it whole");
    let answer = service.append_event(append_at(bare("only"))).await.unwrap();
    assert_eq!(answer.session.unwrap().key, Some(whole.clone()));
    let answer = service.append_events(append_all_at(bare("only"))).await.unwrap();
    assert_eq!(answer.session.unwrap().last_sequence, 3);
    let status = refused(service.get_session(get_at(bare("none"))).await, Reason::SessionNotFound);
    assert_eq!(detail(&status, "session_id"), "none");
    // Also for temp: keys, which belong to the session and not to how it was named.
    let mut event = setting(r#"{"temp:t":1}"#);
    event.invocation_id = "turn".into();
    let request = AppendEventRequest { event: Some(event), ..append_at(bare("only")) };
    assert_eq!(service.append_event(request).await.unwrap().state()["temp:t"], 1);
    let request = GetSessionRequest { invocation_id: "turn".into(), ..get_at(whole) };
    assert_eq!(service.get_session(request).await.unwrap().state()["temp:t"], 1);
}

async fn a_bare_id_of_several_sessions_is_refused(service: &Service) {
    let (alices, bobs) = (address("app", "alice", "same"), address("app", "bob", "same"));
    let elsewhere = address("other", "alice", "same");
    create_at(service, &alices).await;
    create_at(service, &bobs).await;
    for result in [
        service.get_session(get_at(bare("same"))).await.map(|_| ()),
        service.append_event(append_at(bare("same"))).await.map(|_| ()),
        service.append_events(append_all_at(bare("same"))).await.map(|_| ()),
    ] {
        let status = refused(result, Reason::AmbiguousSessionId);
        assert_eq!(metadata(&status).len(), 1, "it does not tell whose they are: {status:?}");
        assert_eq!(detail(&status, "session_id"), "same");
    }
    // With one gone the other is the only one, until there is a third.
    let delete =
        DeleteSessionRequest { key: Some(alices), allow_missing: false, ..Default::default() };
    service.delete_session(delete).await.unwrap();
    assert_eq!(service.get_session(get_at(bare("same"))).await.unwrap().state()["of"], "bob");
    create_at(service, &elsewhere).await;
    refused(service.get_session(get_at(bare("same"))).await, Reason::AmbiguousSessionId);
    assert_eq!(service.get_session(get_at(bobs)).await.unwrap().state()["of"], "bob");
}

async fn half_an_address_is_none(service: &Service) {
    create_at(service, &address("app", "alice", "s1")).await;
    for (half, missing) in [
        (address("app", "", "s1"), vec!["key.user_id"]),
        (address("", "alice", "s1"), vec!["key.app_name"]),
        (address("", "", ""), vec!["key.session_id"]),
        (address("app", "alice", ""), vec!["key.session_id"]),
        (address("", "alice", ""), vec!["key.app_name", "key.session_id"]),
    ] {
        let status = refused(service.get_session(get_at(half)).await, Reason::MissingField);
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, missing);
    }
}

async fn a_bare_id_is_enough_for_these_calls_alone(service: &Service) {
    create_at(service, &address("app", "alice", "s1")).await;
    let key = || Some(bare("s1"));
    for result in [
        service.list_events(ListEventsRequest { key: key(), ..list_events("") }).await.map(drop),
        service.update_session(UpdateSessionRequest { key: key(), ..masked() }).await.map(drop),
        service
            .rewind_session(RewindSessionRequest { key: key(), ..rewind("", 0) })
            .await
            .map(drop),
        service
            .fork_session(ForkSessionRequest { key: key(), ..Default::default() })
            .await
            .map(drop),
        service
            .delete_session(DeleteSessionRequest {
                key: key(),
                allow_missing: true,
                ..Default::default()
            })
            .await
            .map(drop),
        service
            .render_template(RenderTemplateRequest { key: key(), ..render("", "x") })
            .await
            .map(drop),
        service
            .end_invocation(EndInvocationRequest { key: key(), invocation_id: "i".into() })
            .await
            .map(drop),
    ] {
        let status = refused(result, Reason::MissingField);
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["key.app_name", "key.user_id"]);
    }
}

/// A change of a session that is valid but for its key.
fn masked() -> UpdateSessionRequest {
    UpdateSessionRequest {
        key: None,
        session: Some(Default::default()),
        update_mask: Some(prost_types::FieldMask { paths: vec!["labels".into()] }),
        ..Default::default()
    }
}

async fn bare_ids_are_refused_where_whole_keys_are_required(service: &Service) {
    create_at(service, &address("app", "alice", "only")).await;
    for result in [
        service.get_session(get_at(bare("only"))).await.map(drop),
        service.append_event(append_at(bare("only"))).await.map(drop),
        service.append_events(append_all_at(bare("only"))).await.map(drop),
    ] {
        let status = refused(result, Reason::MissingField);
        let fields: Vec<_> = violations(&status).into_iter().map(|(field, _)| field).collect();
        assert_eq!(fields, ["key.app_name", "key.user_id"]);
    }
    let whole = address("app", "alice", "only");
    assert_eq!(service.get_session(get_at(whole)).await.unwrap().state()["of"], "alice");
}

/// Names that a store which puts addresses together carelessly would mix up.
const NAMES: [&str; 12] =
    ["a", "b", "a/b", "b/a", "a:b", "a b", "a%2Fb", "'", "\"", "..", "a\u{1f}b", "A"];

async fn nobody_reaches_what_is_anothers(service: &Service) {
    let owner = address("a", "a", "a/b");
    let mut private = create("a/b", r#"{"own":"secret","user:u":"secret","app:a":"secret"}"#);
    (private.app_name, private.user_id) = ("a".into(), "a".into());
    service.create_session(private).await.unwrap();
    for app in NAMES {
        for user in NAMES {
            if (app, user) == ("a", "a") {
                continue;
            }
            for id in ["a/b", "b"] {
                let key = address(app, user, id);
                refused(service.get_session(get_at(key.clone())).await, Reason::SessionNotFound);
                refused(
                    service.append_event(append_at(key.clone())).await,
                    Reason::SessionNotFound,
                );
            }
            let seen = service.get_state(get_state(scope(app, user, ""))).await.unwrap().state();
            let wanted = if app == "a" { json!({"app:a": "secret"}) } else { json!({}) };
            assert_eq!(seen, wanted, "{app:?} {user:?}");
        }
    }
    // Nor does a delta of another user's touch it.
    let delta = set(r#"{"user:u":"other"}"#);
    service.update_state(update(scope("a", "a/b", ""), delta)).await.unwrap();
    let mine = service.get_session(get_at(owner)).await.unwrap().state();
    assert_eq!(mine, json!({"own": "secret", "user:u": "secret", "app:a": "secret"}));
}

async fn ids_are_taken_as_they_are(service: &Service) {
    // Not trimmed, not normalised: each of these is a session of its own.
    let ids = ["é", "e\u{301}", " s", "s ", "S", "s", "s\n", "💬", "\u{200b}s", "%00"];
    for id in ids {
        create_at(service, &address("app", "alice", id)).await;
    }
    for id in ids {
        let mut event = setting(&json!({"id": id}).to_string());
        event.author = id.into();
        let key = address("app", "alice", id);
        let request = AppendEventRequest { event: Some(event), ..append_at(key.clone()) };
        let answer = service.append_event(request).await.unwrap();
        let event = answer.event.unwrap();
        assert_eq!((event.sequence, &*event.author, set_by(&event)), (1, id, json!({"id": id})));
        assert_eq!(answer.session.unwrap().key, Some(key));
    }
}
