//! Calls of a server that is starting, and of one with an empty store.

use std::pin::pin;

use futures_util::{StreamExt as _, poll, stream};
use http_body_util::BodyExt as _;
use tonic::codegen::Body as _;
use tonic_types::StatusExt as _;

use super::*;
use crate::{domain::error::Reason, store::account::CALL_BYTES};

const READ: &str = "/sessiond.v1.SessionService/GetSession";
const APPEND: &str = "/sessiond.v1.EventService/AppendEvent";
const APPEND_STREAM: &str = "/sessiond.v1.EventService/AppendEventStream";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const EMPTY: &str = "\0\0\0\0\0";

/// A server whose store is not open yet.
fn starting() -> (Dispatch, watch::Sender<Phase>) {
    let phase = watch::Sender::new(Phase::Starting);
    let notes = CallNotes { log: true, ..CallNotes::default() };
    let account = Account::new(400 << 20, || {});
    let (services, in_flight) = Default::default();
    let dispatch = Dispatch::new(services, phase.subscribe(), in_flight, account, notes);
    (dispatch, phase)
}

/// A server whose methods are not there.
fn open() -> (Dispatch, watch::Sender<Phase>) {
    let (dispatch, phase) = starting();
    assert!(dispatch.shared.services.set(Routes::default()).is_ok());
    (dispatch, phase)
}

/// Calls with one message, which comes with its flag and length before it.
async fn call(dispatch: &mut Dispatch, path: &str, message: &str) -> http::Response<Body> {
    let request = http::Request::post(format!("http://here{path}"))
        .header("content-type", "application/grpc")
        .body(Body::new(message.to_owned()))
        .unwrap();
    dispatch.call(request).await.unwrap()
}

#[tokio::test]
async fn until_the_store_is_open_calls_are_told_to_wait_and_health_answers() {
    let (mut dispatch, _phase) = starting();
    let told = call(&mut dispatch, "/sessiond.v1.SessionService/GetSession", "\0\0\0\0\0").await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, Reason::Starting.as_str());
    let told = call(&mut dispatch, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
    assert!(Status::from_header_map(told.headers()).is_none(), "it answers");
}

#[tokio::test]
async fn a_call_too_many_is_refused_before_its_message_is_decoded() {
    let (mut dispatch, _phase) = open();
    let permit = |connection| {
        let caller = CallerId::new(&Principal::Local, connection);
        dispatch.shared.admission.permit(caller)
    };
    let all: Vec<_> = (0..).map_while(permit).collect();
    let told = call(&mut dispatch, READ, EMPTY).await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.get_details_error_info().unwrap().metadata["what"], "calls");
    let told = call(&mut dispatch, CHECK, EMPTY).await;
    assert!(Status::from_header_map(told.headers()).is_none(), "health answers");
    let more = 2 * all.len();
    drop(all);
    for _ in 0..more {
        let told = call(&mut dispatch, READ, EMPTY).await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Unimplemented, "each gives its permit back");
    }
}

#[tokio::test]
async fn a_refusal_of_health_is_headers_alone() {
    let (mut dispatch, _phase) = starting();
    // HealthCheckRequest { service: "x" }
    let told = call(&mut dispatch, "/grpc.health.v1.Health/Check", "\0\0\0\0\x03\x0a\x01x").await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::NotFound);
    assert!(told.body().is_end_stream(), "the status is the end of the answer");
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_answer_is_written() {
    let (mut dispatch, _phase) = starting();
    let in_flight = dispatch.shared.in_flight.answers.clone();
    let mut told = call(&mut dispatch, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
    let part = told.frame().await.unwrap().unwrap().into_data().unwrap();
    drop(told);
    assert_eq!(in_flight.len(), 1, "a part waits for its reader");
    drop(part);
    assert!(in_flight.is_empty());
}

/// A call whose request body is never complete.
fn unfinished(
    dispatch: &Dispatch,
    path: &str,
) -> impl Future<Output = http::Response<Body>> + use<> {
    let begun = stream::iter([Ok::<_, Infallible>("\0")]).chain(stream::pending());
    let request = http::Request::post(format!("http://here{path}"))
        .header("content-type", "application/grpc")
        .body(Body::new(axum::body::Body::from_stream(begun)))
        .unwrap();
    let answer = dispatch.clone().call(request);
    async move { answer.await.unwrap() }
}

#[tokio::test]
async fn a_request_that_does_not_come_takes_no_permit_and_is_charged() {
    let (mut dispatch, _phase) = open();
    let mut begun = pin!(unfinished(&dispatch, APPEND));
    assert!(poll!(&mut begun).is_pending());
    assert!(dispatch.in_flight().calls.is_empty());
    assert_eq!(dispatch.shared.account.bytes(), CALL_BYTES + 1);
    let mut begun = pin!(unfinished(&dispatch, APPEND_STREAM));
    assert!(poll!(&mut begun).is_ready(), "no method is there");
    let told = call(&mut dispatch, APPEND, EMPTY).await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}

/// A server that answers a read and an append.
fn answering() -> (Dispatch, watch::Sender<Phase>) {
    let (dispatch, phase) = starting();
    let answer = axum::routing::post(async || "an answer");
    let routes = axum::Router::new().route(READ, answer.clone()).route(APPEND, answer);
    assert!(dispatch.shared.services.set(routes.into()).is_ok());
    (dispatch, phase)
}

#[tokio::test]
async fn an_answer_is_charged_as_what_it_is_once_it_is_encoded() {
    let (mut dispatch, _phase) = answering();
    let mut told = call(&mut dispatch, READ, EMPTY).await;
    let part = told.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(dispatch.shared.account.bytes(), CALL_BYTES + part.len());
    assert!(told.frame().await.is_none());
    drop(told);
    assert_eq!(dispatch.shared.account.bytes(), part.len());
    drop(part);
    assert_eq!(dispatch.shared.account.bytes(), 0);
}

#[tokio::test]
async fn a_call_beyond_the_account_is_refused_whatever_it_asks_for() {
    let (mut dispatch, _phase) = answering();
    let full = dispatch.connection.account.call().unwrap();
    full.note(100 << 20);
    for path in [READ, APPEND, CHECK, "/unknown"] {
        let told = call(&mut dispatch, path, EMPTY).await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.get_details_error_info().unwrap().metadata["what"], "buffers", "{path}");
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_calls_of_other_services() {
    let (dispatch, phase) = open();
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    for path in [CHECK, "/grpc.health.v1.Health/Watch"] {
        let mut begun = pin!(unfinished(&dispatch, path));
        assert!(poll!(&mut begun).is_pending());
        phase.send_replace(Phase::Draining);
        assert!(poll!(&mut begun).is_ready(), "{path}");
        phase.send_replace(Phase::Starting);
    }
    phase.send_replace(Phase::Draining);
    assert!(poll!(&mut pin!(unfinished(&dispatch, reflection))).is_ready());
    assert!(dispatch.in_flight().answers.is_empty());
    let told = call(&mut dispatch.clone(), CHECK, EMPTY).await;
    assert!(Status::from_header_map(told.headers()).is_none(), "what has come is answered");
}
