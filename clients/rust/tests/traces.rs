//! Calls and watches carry the trace context of the caller's span.
#![cfg(feature = "opentelemetry")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use adk_session::{ListRequest, SessionService};
use futures_util::StreamExt;
use opentelemetry::{
    Context,
    context::FutureExt,
    global,
    trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use prost::Message;
use sessiond_adk::{
    Scope, SessiondSessionService, Since,
    proto::v1::{SessionDeleted, WatchResponse, watch_response::Kind},
};
use sessiond_adk_testing::{ScriptedServer, builder};

/// One call and one watch.
async fn call_and_watch(service: &SessiondSessionService) {
    let (app_name, user_id) = ("app".to_owned(), "user".to_owned());
    let request = ListRequest { app_name, user_id, limit: None, offset: None };
    service.list(request).await.unwrap();
    let app = Scope::App("app".try_into().unwrap());
    service.watch(&app, Since::Now).next().await.unwrap().unwrap();
}

#[tokio::test]
async fn calls_and_watches_carry_the_span_and_nothing_outside_of_one() {
    global::set_text_map_propagator(TraceContextPropagator::new());
    let deleted = Kind::SessionDeleted(SessionDeleted::default());
    let deleted = WatchResponse { kind: Some(deleted), cursor: "c".into() }.encode_to_vec();
    let server = ScriptedServer::start(move |path| {
        Ok(if path.ends_with("/Watch") { deleted.clone() } else { Vec::new() })
    })
    .await;
    let service = builder(server.address()).connect_lazy().unwrap();
    let (trace, span) = (TraceId::from(0x0102), SpanId::from(0x0304));
    let context = SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default());
    let context = Context::new().with_remote_span_context(context);
    call_and_watch(&service).with_context(context).await;
    call_and_watch(&service).await;
    let wanted = format!("00-{trace}-{span}-01");
    assert_eq!(server.headers("traceparent"), [&*wanted, &*wanted, "", ""]);
}
