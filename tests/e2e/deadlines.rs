//! Writes whose deadline passes before their turn, as a client sees it that waits beyond its deadline.

use std::{pin::pin, time::Duration};

use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rusqlite::Connection;
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        AppendEventRequest, AppendEventResponse, AppendEventsRequest, AppendEventsResponse,
        DeleteSessionRequest, event_service_client::EventServiceClient,
        session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
    },
};
use tokio::time::timeout;
use tonic::{Request, Status, body::Body};

use crate::{
    harness::{Service, with_server, within},
    judge::{self, refused},
    make::{
        app_scope, append, append_all, create, event, get, key, list_events, rewind, set, setting,
        update,
    },
};

with_server! {
    a_read_whose_deadline_has_passed_is_not_begun
    a_write_whose_deadline_has_passed_is_not_applied
}

/// A client without a timer: tonic's channel would give up at the deadline, and not hear what the server says.
type Untimed = Client<HttpConnector, Body>;

fn untimed() -> Untimed {
    Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

fn origin(service: &Service) -> tonic::codegen::http::Uri {
    format!("http://{}", service.address()).parse().unwrap()
}

/// A request with a deadline, as `grpc-timeout` has it.
fn due<T>(timeout: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
    request
}

/// Appends with a deadline, and waits for the answer however late it comes.
pub async fn append_due(
    service: &Service,
    timeout: &str,
    request: AppendEventRequest,
) -> Result<AppendEventResponse, Status> {
    let mut events = EventServiceClient::with_origin(untimed(), origin(service));
    let answer = within("an answer", events.append_event(due(timeout, request))).await;
    Ok(answer.inspect_err(judge::well_formed)?.into_inner())
}

/// The same for a batch.
pub async fn append_all_due(
    service: &Service,
    timeout: &str,
    request: AppendEventsRequest,
) -> Result<AppendEventsResponse, Status> {
    let mut events = EventServiceClient::with_origin(untimed(), origin(service));
    let answer = within("an answer", events.append_events(due(timeout, request))).await;
    Ok(answer.inspect_err(judge::well_formed)?.into_inner())
}

async fn a_read_whose_deadline_has_passed_is_not_begun(service: &Service) {
    service.create_session(create("s1", "")).await.unwrap();
    let mut sessions = SessionServiceClient::with_origin(untimed(), origin(service));
    let mut events = EventServiceClient::with_origin(untimed(), origin(service));
    refused(sessions.get_session(due("1n", get("s1"))).await, Reason::ExpiredInQueue);
    // It would be found missing if it were looked up.
    refused(sessions.get_session(due("1n", get("missing"))).await, Reason::ExpiredInQueue);
    refused(events.list_events(due("1n", list_events("s1"))).await, Reason::ExpiredInQueue);
}

async fn a_write_whose_deadline_has_passed_is_not_applied(service: &Service) {
    service.create_session(create("s1", r#"{"k":0,"app:k":0}"#)).await.unwrap();
    service.append_event(append("s1", event("first"))).await.unwrap();
    let before = service.get_session(get("s1")).await.unwrap();
    // It has passed when the server has read it.
    fn late<T>(message: T) -> Request<T> {
        due("1n", message)
    }
    fn expired<T: std::fmt::Debug>(answer: Result<T, Status>) {
        judge::well_formed(&refused(answer, Reason::ExpiredInQueue));
    }
    let change = || setting(r#"{"k":1,"app:k":1}"#);
    let mut sessions = SessionServiceClient::with_origin(untimed(), origin(service));
    let mut events = EventServiceClient::with_origin(untimed(), origin(service));
    let mut states = StateServiceClient::with_origin(untimed(), origin(service));
    expired(sessions.create_session(late(create("s2", r#"{"app:k":1}"#))).await);
    expired(sessions.rewind_session(late(rewind("s1", 0))).await);
    let delete =
        DeleteSessionRequest { key: Some(key("s1")), allow_missing: false, ..Default::default() };
    expired(sessions.delete_session(late(delete)).await);
    expired(events.append_events(late(append_all("s1", vec![change(), change()]))).await);
    expired(states.update_state(late(update(app_scope(), set(r#"{"app:k":1}"#)))).await);
    let mut with_id = change();
    with_id.event_id = "second".into();
    expired(events.append_event(late(append("s1", with_id.clone()))).await);

    assert_eq!(service.get_session(get("s1")).await.unwrap(), before);
    refused(service.get_session(get("s2")).await, Reason::SessionNotFound);
    // Its event id is free.
    let appended = service.append_event(append("s1", with_id)).await.unwrap();
    assert!(!appended.replayed);
    assert_eq!(appended.event.unwrap().sequence, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_deadline_passes_behind_another_is_not_applied() {
    let service = Service::on_sqlite(&[]).await;
    service.create_session(create("s1", "")).await.unwrap();
    let other = Connection::open(service.file()).unwrap();
    let expired = within("a write that expires", expires_behind_another(&service, &other)).await;
    let log = service.list_events(list_events("s1")).await.unwrap().events;
    assert!(log.iter().all(|event| event.event_id != expired), "{log:?}");
    let again = service.append_event(append("s1", event(&expired))).await.unwrap();
    assert!(!again.replayed);
    service.stop().await;
}

/// Appends behind a write that waits for the lock of another connection, until a deadline has passed meanwhile. Returns the event's id.
async fn expires_behind_another(service: &Service, other: &Connection) -> String {
    // Nothing signals when the writer has taken the first write. If it took both in one group, or the second came late, the time was too
    // short. It stays below the five seconds after which the writer gives up.
    let mut millis = 25;
    loop {
        let (first, second) = (format!("first-{millis}"), format!("second-{millis}"));
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut events = service.events();
        let first = events.append_event(append("s1", event(&first)));
        let deadline = format!("{millis}m");
        let behind = append_due(service, &deadline, append("s1", event(&second)));
        let (mut first, mut behind) = (pin!(first), pin!(behind));
        let unanswered = timeout(Duration::from_millis(millis), &mut first).await;
        assert!(unanswered.is_err(), "it waits for the lock");
        let expires = timeout(Duration::from_millis(2 * millis), &mut behind).await;
        other.execute_batch("COMMIT").unwrap();
        let (first, answer) = tokio::join!(first, async {
            match expires {
                Ok(answer) => answer,
                Err(_) => behind.await,
            }
        });
        first.unwrap();
        if answer.is_err() {
            refused(answer, Reason::ExpiredInQueue);
            return second;
        }
        millis = (2 * millis).min(800);
    }
}
