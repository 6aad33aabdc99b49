//! What only observes never ends a call: propagators of traces and subscribers of logs that go wrong.
#![cfg(feature = "opentelemetry")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use adk_core::identity::AdkIdentity;
use adk_session::{ListRequest, SessionService};
use futures_util::StreamExt;
use opentelemetry::{
    Context, global,
    propagation::{Extractor, Injector, TextMapPropagator, text_map_propagator::FieldIter},
};
use prost::Message;
use sessiond_adk::{
    Scope, SessiondSessionService, Since,
    proto::v1::{
        GetSessionResponse, GetStateResponse, ListSessionsResponse, Session, SessionDeleted,
        SessionKey, UpdateStateResponse, WatchResponse, get_state_response, session::StateForm,
        update_state_response, watch_response::Kind,
    },
};
use sessiond_adk_testing::{ScriptedServer, builder};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Writes what gRPC cannot send or writes itself, and panics.
#[derive(Debug)]
struct Broken;

impl TextMapPropagator for Broken {
    fn inject_context(&self, _: &Context, to: &mut dyn Injector) {
        to.set("good", "yes".into());
        to.set("", "x".into());
        to.set("bad name", "x".into());
        to.set(":path", "x".into());
        to.set("baggage", "a\nb".into());
        to.set("grpc-timeout", "x".into());
        to.set("authorization", "Bearer of-another".into());
        panic!("the propagator is broken");
    }

    fn extract_with_context(&self, context: &Context, _: &dyn Extractor) -> Context {
        context.clone()
    }

    fn fields(&self) -> FieldIter<'_> {
        FieldIter::new(&[])
    }
}

/// Records the fields of events of this crate, and panics for each.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sessiond_adk")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        panic!("the subscriber is broken");
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

fn session() -> Session {
    Session {
        key: Some(SessionKey {
            app_name: "app".into(),
            user_id: "user".into(),
            session_id: "s1".into(),
        }),
        state_form: Some(StateForm::StateJson("{}".into())),
        damaged_keys: vec!["app:x".into(), "user:y".into()],
        ..Session::default()
    }
}

async fn server() -> ScriptedServer {
    ScriptedServer::start(|path| {
        let damaged_keys = session().damaged_keys;
        Ok(match path.rsplit('/').next().unwrap() {
            "Watch" => {
                let deleted = Kind::SessionDeleted(SessionDeleted::default());
                WatchResponse { kind: Some(deleted), cursor: "c".into() }.encode_to_vec()
            }
            "ListSessions" => {
                ListSessionsResponse { sessions: vec![session()], ..Default::default() }
                    .encode_to_vec()
            }
            "GetSession" => GetSessionResponse { session: Some(session()), ..Default::default() }
                .encode_to_vec(),
            "GetState" => GetStateResponse {
                state_form: Some(get_state_response::StateForm::StateJson("{}".into())),
                damaged_keys,
                ..Default::default()
            }
            .encode_to_vec(),
            "UpdateState" => UpdateStateResponse {
                state_form: Some(update_state_response::StateForm::StateJson("{}".into())),
                damaged_keys,
                ..Default::default()
            }
            .encode_to_vec(),
            other => panic!("{other}"),
        })
    })
    .await
}

async fn list(service: &SessiondSessionService) {
    let (app_name, user_id) = ("app".to_owned(), "user".to_owned());
    let request = ListRequest { app_name, user_id, limit: None, offset: None };
    service.list(request).await.unwrap();
}

/// One after the other: the propagator and the interest in log events belong to the process.
#[tokio::test]
async fn observers_end_no_call() {
    damaged_keys_are_named_by_a_warning_that_ends_no_call().await;
    a_broken_propagator_ends_neither_calls_nor_watches().await;
}

async fn a_broken_propagator_ends_neither_calls_nor_watches() {
    global::set_text_map_propagator(Broken);
    let server = server().await;
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "mine").unwrap();
    let service = builder(server.address()).token_file(token.path()).connect_lazy().unwrap();
    list(&service).await;
    let app = Scope::App("app".try_into().unwrap());
    service.watch(&app, Since::Now).next().await.unwrap().unwrap();
    assert_eq!(server.headers("good"), ["yes", "yes"]);
    assert_eq!(server.headers("authorization"), ["Bearer mine", "Bearer mine"]);
}

async fn damaged_keys_are_named_by_a_warning_that_ends_no_call() {
    let log = Log::default();
    let _default = tracing::subscriber::set_default(log.clone());
    let server = server().await;
    let service = builder(server.address()).connect_lazy().unwrap();
    let identity = AdkIdentity::new(
        "app".try_into().unwrap(),
        "user".try_into().unwrap(),
        "s1".try_into().unwrap(),
    );
    let scope = Scope::Session(identity.clone());
    list(&service).await;
    service.get_for_identity(&identity).await.unwrap();
    service.get_tracked(&identity).await.unwrap();
    service.state(&scope).await.unwrap();
    service.update_state(&scope, sessiond_adk::Delta::new()).await.unwrap();
    let lines = log.0.lock().unwrap();
    assert_eq!(lines.len(), 5, "{lines:?}");
    for line in &*lines {
        assert!(line.contains(r#"keys=["app:x", "user:y"]"#), "{line}");
    }
}
