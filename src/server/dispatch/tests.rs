//! Calls of a server that is starting, and of one with an empty store.

use std::{iter, num::NonZeroU32, pin::pin, time::Duration};

use futures_util::poll;
use prost::Message as _;
use prost_types::{FileDescriptorSet, method_options::IdempotencyLevel};
use tokio::time::advance;
use tonic::codegen::Body as _;
use tonic_types::StatusExt as _;

use super::*;
use crate::{
    domain::{error::Reason, prelude::*},
    engine::EngineOptions,
    metrics::Metrics,
    proto::DESCRIPTOR_SET,
    rpc::methods,
    store::{LimitOptions, RequestContext, SystemClock, memory::MemoryStore},
};

/// A server whose store is not open yet.
fn starting() -> (Dispatch, watch::Sender<Phase>) {
    let phase = watch::Sender::new(Phase::Starting);
    let notes = CallNotes { log: true, ..CallNotes::default() };
    let budget = ResponseBudget::new(&Metrics::default().connections);
    let (services, in_flight) = Default::default();
    let dispatch = Dispatch::new(services, phase.subscribe(), in_flight, budget, notes);
    (dispatch, phase)
}

/// No methods, over an empty store.
fn services(options: EngineOptions) -> Services {
    let store = MemoryStore::new(StoreId([1; 16]), Arc::new(SystemClock));
    let engine = Arc::new(Engine::new(Arc::new(store), options));
    Services { routes: Routes::default(), engine }
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
async fn a_call_too_many_is_refused_before_its_message_is_read() {
    let (mut dispatch, _phase) = starting();
    assert!(dispatch.shared.services.set(services(EngineOptions::default())).is_ok());
    let path = "/sessiond.v1.SessionService/GetSession";
    let all: Vec<_> =
        iter::from_fn(|| dispatch.shared.admission.permit(&Principal::Local)).collect();
    let told = call(&mut dispatch, path, "\0").await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
    assert_eq!(status.get_details_error_info().unwrap().metadata["what"], "calls");
    let told = call(&mut dispatch, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
    assert!(Status::from_header_map(told.headers()).is_none(), "health answers");
    let more = 2 * all.len();
    drop(all);
    for _ in 0..more {
        let told = call(&mut dispatch, path, "\0").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Unimplemented, "each gives its permit back");
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_of_a_caller_that_does_not_heed_its_limit_is_refused_before_its_message_is_read()
{
    let (mut dispatch, _phase) = starting();
    let limits = LimitOptions { principal_appends: NonZeroU32::new(1), ..LimitOptions::default() };
    let services = services(EngineOptions { limits, ..EngineOptions::default() });
    let engine = Arc::clone(&services.engine);
    assert!(dispatch.shared.services.set(services).is_ok());
    let context = RequestContext::internal();
    let key = SessionKey {
        app_name: AppName::new("app").unwrap(),
        user_id: UserId::new("user").unwrap(),
        session_id: SessionId::new("session").unwrap(),
    };
    while engine.store.flood(&Principal::Local).is_none() {
        let _ = engine.delete_session(&context, key.clone().into()).await;
    }
    for (path, _) in methods() {
        let told = call(&mut dispatch, &path, "\0").await;
        let status = Status::from_header_map(told.headers());
        let reason = status.and_then(|it| it.get_details_error_info()).map(|it| it.reason);
        let is_refused = reason.as_deref() == Some(Reason::RateLimited.as_str());
        assert_eq!(is_refused, APPENDS.contains(&&*path), "{path}");
    }
    advance(Duration::from_secs(1)).await;
    let permits = || iter::from_fn(|| dispatch.shared.admission.permit(&Principal::Local));
    let all: Vec<_> = permits().collect();
    let told = call(&mut dispatch.clone(), APPENDS[0], "\0").await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.get_details_error_info().unwrap().reason, Reason::Overloaded.as_str());
    drop(all);
    assert_eq!(engine.store.flood(&Principal::Local), None, "a call too many does not count");
    assert!(engine.store.flood(&Principal::Local).is_some());
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
    let in_flight = dispatch.shared.in_flight.clone();
    let mut told = call(&mut dispatch, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
    let part = told.frame().await.unwrap().unwrap().into_data().unwrap();
    drop(told);
    assert_eq!(in_flight.len(), 1, "a part waits for its reader");
    drop(part);
    assert!(in_flight.is_empty());
}

#[test]
fn the_kinds_of_methods_are_those_of_the_contract() {
    let set = FileDescriptorSet::decode(DESCRIPTOR_SET).unwrap();
    let (mut reads, mut streams) = (Vec::new(), Vec::new());
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            let path = format!("/sessiond.v1.{}/{}", service.name(), method.name());
            let options = method.options.clone().unwrap_or_default();
            if method.client_streaming() {
                streams.push(path);
            } else if options.idempotency_level() == IdempotencyLevel::NoSideEffects
                && !method.server_streaming()
            {
                reads.push(path);
            }
        }
    }
    reads.sort();
    assert_eq!(reads, READS);
    assert_eq!(streams, [APPEND_STREAM]);
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
async fn a_request_that_does_not_come_takes_no_permit() {
    let (mut dispatch, _phase) = starting();
    assert!(dispatch.shared.services.set(services(EngineOptions::default())).is_ok());
    let mut begun = pin!(unfinished(&dispatch, APPENDS[0]));
    assert!(poll!(&mut begun).is_pending());
    assert_eq!(dispatch.calls()(), 0);
    let mut begun = pin!(unfinished(&dispatch, APPEND_STREAM));
    assert!(poll!(&mut begun).is_ready(), "no method is there");
    let told = call(&mut dispatch, APPENDS[0], "\0\0\0\0\0").await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answers_gets_no_further_reads() {
    let (mut dispatch, _phase) = starting();
    let answer = axum::routing::post(async || "an answer");
    let routes = axum::Router::new().route(READS[3], answer.clone()).route(APPENDS[0], answer);
    let services = Services { routes: routes.into(), ..services(EngineOptions::default()) };
    assert!(dispatch.shared.services.set(services).is_ok());
    let mut answers = Vec::new();
    for _ in 0..READS_PER_CONNECTION {
        answers.push(call(&mut dispatch, READS[3], "\0\0\0\0\0").await);
    }
    let mut same = dispatch.clone();
    let mut waiting = pin!(call(&mut same, READS[3], "\0\0\0\0\0"));
    assert!(poll!(&mut waiting).is_pending());
    call(&mut dispatch, APPENDS[0], "\0\0\0\0\0").await;
    call(&mut dispatch.with_caller(None, Arc::default()), READS[3], "\0\0\0\0\0").await;
    assert!(poll!(&mut waiting).is_pending(), "another connection has its own");
    drop(answers.pop());
    assert!(poll!(&mut waiting).is_ready());
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_calls_that_need_no_credential() {
    let (dispatch, phase) = starting();
    assert!(dispatch.shared.services.set(services(EngineOptions::default())).is_ok());
    let reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
    for path in ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"] {
        let mut begun = pin!(unfinished(&dispatch, path));
        assert!(poll!(&mut begun).is_pending());
        phase.send_replace(Phase::Draining);
        assert!(poll!(&mut begun).is_ready(), "{path}");
        phase.send_replace(Phase::Starting);
    }
    phase.send_replace(Phase::Draining);
    assert!(poll!(&mut pin!(unfinished(&dispatch, reflection))).is_ready());
    assert!(dispatch.in_flight().is_empty());
    let told = call(&mut dispatch.clone(), "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
    assert!(Status::from_header_map(told.headers()).is_none(), "what has come is answered");
}

#[tokio::test]
async fn calls_that_need_no_credential_have_small_messages() {
    let (mut dispatch, _phase) = starting();
    let name = "x".repeat(OPEN_REQUEST_BYTES);
    let length = u32::try_from(name.len() + 3).unwrap().to_be_bytes();
    let length = std::str::from_utf8(&length).unwrap();
    // HealthCheckRequest { service: name }
    let message = format!("\0{length}\x0a\u{0}\u{20}{name}");
    let told = call(&mut dispatch, "/grpc.health.v1.Health/Check", &message).await;
    let status = Status::from_header_map(told.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted);
}
