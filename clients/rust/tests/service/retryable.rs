//! `ErrorInfo.metadata["retryable"]` decides which refusals are retried.

use std::{collections::HashMap, time::Duration};

use adk_core::{AdkError, ErrorCategory};
use adk_session::SessionService;
use futures_util::StreamExt as _;
use sessiond_adk::{Retry, Scope, SessiondSessionService, Since};
use sessiond_adk_testing::{ScriptedServer, builder};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::harness::{APP, EAGER, USER, getting, identity, named, refused};

const THREE_ATTEMPTS: Retry = Retry { attempts: 3, ..EAGER };

/// A status with these details, whose reason decides nothing.
fn status(code: Code, retryable: Option<&str>) -> Status {
    let metadata: HashMap<_, _> =
        retryable.map(|value| ("retryable".into(), value.into())).into_iter().collect();
    let details = ErrorDetails::with_error_info("A_NEW_REASON", "sessiond", metadata);
    Status::with_error_details(code, "refused", details)
}

/// A server that refuses every call, and a service with three attempts.
async fn refusing(status: Status) -> (ScriptedServer, SessiondSessionService) {
    let server = ScriptedServer::start(move |_| Err(status.clone())).await;
    let service = builder(server.address()).retry(THREE_ATTEMPTS).connect_lazy().unwrap();
    (server, service)
}

const CODES: [Code; 5] = [
    Code::Unavailable,
    Code::Unknown,
    Code::ResourceExhausted,
    Code::DeadlineExceeded,
    Code::Internal,
];

async fn assert_attempts(status: Status, attempts: usize, is_retryable: bool) {
    let case = format!("{status:?}");
    let (server, service) = refusing(status).await;
    let error = refused(service.append_event("s1", named("e1")).await);
    assert_eq!(server.calls().len(), attempts, "{case}");
    assert_eq!(error.is_retryable(), is_retryable, "{case}");
    refused(service.get(getting("s1")).await);
    assert_eq!(server.calls().len(), 2 * attempts, "{case}");
}

#[tokio::test]
async fn yes_and_same_id_are_retried_whatever_the_code() {
    for code in CODES {
        for retryable in ["yes", "same_id"] {
            assert_attempts(status(code, Some(retryable)), 3, true).await;
        }
    }
}

#[tokio::test]
async fn no_and_a_missing_member_are_not_retried_whatever_the_code() {
    for code in CODES {
        for retryable in [Some("no"), Some("perhaps"), None] {
            assert_attempts(status(code, retryable), 1, false).await;
        }
    }
}

#[tokio::test]
async fn without_details_only_unavailable_is_retried() {
    assert_attempts(Status::unavailable("no details"), 3, true).await;
    assert_attempts(Status::unknown("no details"), 1, false).await;
    assert_attempts(Status::internal("no details"), 1, false).await;
}

fn asking_for_delay(delay: Duration) -> Status {
    let metadata = HashMap::from([("retryable".to_owned(), "yes".to_owned())]);
    let mut details = ErrorDetails::with_error_info("OVERLOADED", "sessiond", metadata);
    details.set_retry_info(Some(delay));
    Status::with_error_details(Code::ResourceExhausted, "full", details)
}

#[track_caller]
fn assert_overloaded(error: &AdkError, delay: Duration) {
    assert_eq!((error.category, error.code), (ErrorCategory::RateLimited, "session.overloaded"));
    assert!(error.is_retryable());
    assert_eq!(error.retry.retry_after(), Some(delay));
}

/// A delay beyond the deadline leaves the retry to the caller.
#[tokio::test]
async fn a_retry_waits_as_long_as_the_server_asks() {
    let delay = Duration::from_secs(24 * 60 * 60);
    let (server, service) = refusing(asking_for_delay(delay)).await;
    assert_overloaded(&refused(service.append_event("s1", named("e1")).await), delay);
    assert_eq!(server.calls().len(), 1);

    let delay = Duration::from_millis(20);
    let (server, service) = refusing(asking_for_delay(delay)).await;
    let start = std::time::Instant::now();
    assert_overloaded(&refused(service.append_event("s1", named("e1")).await), delay);
    assert_eq!(server.calls().len(), 3);
    assert!(start.elapsed() >= 2 * delay, "EAGER alone pauses for 1 ms");
}

#[tokio::test]
async fn a_watch_is_retried_by_the_same_rule() {
    for (status, attempts) in [
        (status(Code::Internal, Some("yes")), 3),
        (status(Code::Unavailable, Some("same_id")), 3),
        (Status::unavailable("no details"), 3),
        (status(Code::Unavailable, Some("no")), 1),
        (status(Code::Unavailable, None), 1),
    ] {
        let case = format!("{status:?}");
        let (server, service) = refusing(status).await;
        let mut watch = service.watch(&Scope::Session(identity(APP, USER, "s1")), Since::Now);
        refused(watch.next().await.unwrap());
        assert!(watch.next().await.is_none(), "{case}");
        assert_eq!(server.calls(), vec!["/sessiond.v1.WatchService/Watch"; attempts], "{case}");
    }
}
