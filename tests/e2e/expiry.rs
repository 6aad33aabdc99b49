//! Expiry: from its instant on a session is as if deleted.

use prost_types::{Duration, FieldMask, Timestamp};
use serde_json::json;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        CreateSessionRequest, DeleteSessionRequest, GetSessionRequest, ListSessionsRequest,
        Session, UpdateSessionRequest, session::Expiration,
    },
};

use crate::{
    harness::{Service, eventually, on_each_store},
    judge::{faulty, reason, refused},
    make::{
        APP, TEXT, append, bare, create, event, get, get_state, get_with_events, key, list_events,
        plain, render, rewind, session_scope, set, update, user_scope,
    },
    read::HasState,
};

on_each_store! {
    an_expired_session_is_as_if_deleted
    an_address_is_free_from_the_instant_of_expiry
    an_expiry_can_be_moved_and_taken_back
    an_instant_of_expiry_lies_ahead
}

fn expiring(id: &str, expiration: Expiration) -> CreateSessionRequest {
    CreateSessionRequest {
        session: Some(Session { expiration: Some(expiration), ..Default::default() }),
        ..create(id, r#"{"own":1,"user:u":1}"#)
    }
}

/// So short that every test sees the end of it. No test does anything before it that needs the session.
pub fn soon() -> Expiration {
    Expiration::Ttl(Duration { seconds: 0, nanos: 300_000_000 })
}

/// Changes when a session expires; gives what it is then.
pub async fn set_expiry(
    service: &Service,
    id: &str,
    path: &str,
    expiration: Option<Expiration>,
) -> Option<Expiration> {
    let request = UpdateSessionRequest {
        key: Some(key(id)),
        session: Some(Session { expiration, ..Default::default() }),
        update_mask: Some(FieldMask { paths: vec![path.into()] }),
        ..Default::default()
    };
    service.update_session(request).await.unwrap().session.unwrap().expiration
}

/// Waits until a session is gone.
pub async fn gone(service: &Service, id: &str) {
    eventually("the expiry of a session", async || {
        let result = service.get_session(get(id)).await;
        result.err().filter(|status| reason(status) == "SESSION_NOT_FOUND")
    })
    .await;
}

async fn an_expired_session_is_as_if_deleted(service: &Service) {
    service.create_session(expiring("s1", soon())).await.unwrap();
    service.create_session(create("s2", "")).await.unwrap();
    gone(service, "s1").await;
    let not_found = Reason::SessionNotFound;
    refused(service.append_event(append("s1", plain())).await, not_found);
    refused(service.list_events(list_events("s1")).await, not_found);
    refused(service.get_state(get_state(session_scope("s1"))).await, not_found);
    refused(service.update_state(update(session_scope("s1"), set("{}"))).await, not_found);
    refused(service.render_template(render("s1", "x")).await, not_found);
    refused(service.rewind_session(rewind("s1", 0)).await, not_found);
    let bare = GetSessionRequest { key: Some(bare("s1")), ..get("") };
    refused(service.get_session(bare).await, not_found);
    let delete =
        DeleteSessionRequest { key: Some(key("s1")), allow_missing: false, ..Default::default() };
    refused(service.delete_session(delete).await, not_found);
    let list = ListSessionsRequest { app_name: APP.into(), json_form: TEXT, ..Default::default() };
    let sessions = service.list_sessions(list).await.unwrap().sessions;
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].key, Some(key("s2")));
    // What it gave to its user stays.
    let user = service.get_state(get_state(user_scope())).await.unwrap();
    assert_eq!(user.state(), json!({"user:u": 1}));
}

async fn an_address_is_free_from_the_instant_of_expiry(service: &Service) {
    service.create_session(create("s1", r#"{"own":1,"user:u":1}"#)).await.unwrap();
    service.append_event(append("s1", event("e1"))).await.unwrap();
    set_expiry(service, "s1", "ttl", Some(soon())).await;
    // Creation itself finds out, without anybody having looked before.
    let created = eventually("a free address", async || {
        let again = CreateSessionRequest { allow_existing: true, ..create("s1", r#"{"new":1}"#) };
        let answer = service.create_session(again).await.unwrap();
        answer.created.then_some(answer)
    })
    .await;
    assert_eq!(created.state(), json!({"new": 1, "user:u": 1}));
    let session = created.session.unwrap();
    assert_eq!((session.last_sequence, session.expiration), (0, None));
    let answer = service.append_event(append("s1", event("e1"))).await.unwrap();
    assert!(!answer.replayed);
    assert_eq!(service.get_session(get_with_events("s1")).await.unwrap().events.len(), 1);
}

async fn an_expiry_can_be_moved_and_taken_back(service: &Service) {
    for id in ["later", "never", "soon"] {
        let hour = Expiration::Ttl(Duration { seconds: 3600, nanos: 0 });
        service.create_session(expiring(id, hour)).await.unwrap();
    }
    let far = Expiration::ExpireTime(Timestamp { seconds: 4_000_000_000, nanos: 0 });
    assert_eq!(set_expiry(service, "later", "expire_time", Some(far)).await, Some(far));
    assert_eq!(set_expiry(service, "never", "expire_time", None).await, None);
    assert!(set_expiry(service, "soon", "ttl", Some(soon())).await.is_some());
    gone(service, "soon").await;
    for id in ["later", "never"] {
        service.append_event(append(id, plain())).await.unwrap();
    }
}

async fn an_instant_of_expiry_lies_ahead(service: &Service) {
    let ttl = |seconds, nanos| Expiration::Ttl(Duration { seconds, nanos });
    let at = |seconds, nanos| Expiration::ExpireTime(Timestamp { seconds, nanos });
    for (expiration, field) in [
        (ttl(0, 0), "session.ttl"),
        (ttl(-1, 0), "session.ttl"),
        (ttl(0, -1), "session.ttl"),
        (ttl(1, -1), "session.ttl"),
        (ttl(1, 1_000_000_000), "session.ttl"),
        (ttl(i64::MAX, 999_999_999), "session.ttl"),
        (at(0, 0), "session.expire_time"),
        (at(1_700_000_000, 0), "session.expire_time"),
        (at(253_402_300_800, 0), "session.expire_time"),
        (at(4_000_000_000, -1), "session.expire_time"),
        (at(4_000_000_000, 1_000_000_000), "session.expire_time"),
    ] {
        let result = service.create_session(expiring("s1", expiration)).await;
        faulty(result, Reason::BadValue, field);
    }
    refused(service.get_session(get("s1")).await, Reason::SessionNotFound);
    service.create_session(expiring("s1", at(253_402_300_799, 999_999_999))).await.unwrap();
}
