//! Expiry: from its instant on a session is as if deleted.

use prost_types::{Duration, FieldMask, Timestamp};
use sessiond::{
    domain::error::Reason,
    proto::v1::{CreateSessionRequest, Session, UpdateSessionRequest, session::Expiration},
};

use crate::{
    harness::{Service, eventually, with_server},
    judge::{faulty, reason, refused},
    make::{append, create, get, key, plain},
};

with_server! {
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
