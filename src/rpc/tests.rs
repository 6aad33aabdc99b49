//! The services over a socket, with a generated client, on the memory store.

mod appends;
mod calls;
mod gated;
mod refusals;
mod watching;

use std::sync::Arc;

use tokio::{net::TcpListener, task::JoinHandle};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Status, transport::Channel};

use super::{BareIds, routes, status::reason};
use crate::{
    domain::token::StoreId,
    engine::{Engine, EngineOptions},
    proto::v1::{
        AppendEventRequest, CreateSessionRequest, Event, JsonForm, SessionKey,
        create_session_request::StateForm, event::BodyForm,
        event_service_client::EventServiceClient, session_service_client::SessionServiceClient,
        state_service_client::StateServiceClient, watch_service_client::WatchServiceClient,
    },
    store::{Store, SystemClock, memory::MemoryStore},
};

/// A server on a port of its own, which ends with the test.
struct Server {
    engine: Arc<Engine>,
    channel: Channel,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(store: Arc<dyn Store>, bare: BareIds) -> Server {
    let engine = Arc::new(Engine::new(store, EngineOptions::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = routes(engine.clone(), bare, true);
    let router = tonic::transport::Server::builder().add_routes(routes);
    let serving = router.serve_with_incoming(TcpListenerStream::new(listener));
    let task = tokio::spawn(async move { serving.await.unwrap() });
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    Server { engine, channel: channel.connect_lazy(), task }
}

async fn server() -> Server {
    serve(Arc::new(memory()), BareIds::Allowed).await
}

fn memory() -> MemoryStore {
    MemoryStore::new(StoreId([1; 16]), Arc::new(SystemClock))
}

impl Server {
    fn sessions(&self) -> SessionServiceClient<Channel> {
        SessionServiceClient::new(self.channel.clone())
    }

    fn events(&self) -> EventServiceClient<Channel> {
        EventServiceClient::new(self.channel.clone())
    }

    fn states(&self) -> StateServiceClient<Channel> {
        StateServiceClient::new(self.channel.clone())
    }

    fn watches(&self) -> WatchServiceClient<Channel> {
        WatchServiceClient::new(self.channel.clone())
    }

    /// A session with this state.
    async fn create(&self, session: &str, state: &str) -> SessionKey {
        let request = CreateSessionRequest {
            app_name: "app".into(),
            user_id: "user".into(),
            session_id: session.into(),
            state_form: Some(StateForm::StateJson(state.into())),
            ..Default::default()
        };
        let response = self.sessions().create_session(request).await.unwrap().into_inner();
        response.session.unwrap().key.unwrap()
    }

    async fn append(&self, key: &SessionKey, id: &str, set: &str) -> i64 {
        let request = AppendEventRequest { key: Some(key.clone()), ..append(id, set) };
        let response = self.events().append_event(request).await.unwrap().into_inner();
        response.event.unwrap().sequence
    }
}

fn key(session: &str) -> SessionKey {
    SessionKey { app_name: "app".into(), user_id: "user".into(), session_id: session.into() }
}

fn set(text: &str) -> Option<crate::proto::v1::StateDelta> {
    Some(crate::proto::v1::StateDelta {
        set_form: Some(crate::proto::v1::state_delta::SetForm::SetJson(text.into())),
        ..Default::default()
    })
}

/// An append of one event to session `s`, answered as text.
fn append(id: &str, set_json: &str) -> AppendEventRequest {
    AppendEventRequest {
        key: Some(key("s")),
        event: Some(Event {
            event_id: id.into(),
            author: "user".into(),
            state_delta: set(set_json),
            body_form: Some(BodyForm::BodyJson(format!("{{\"id\":\"{id}\"}}"))),
            ..Default::default()
        }),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    }
}

/// Code and reason of a refusal.
fn refusal<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), reason(&status).unwrap_or_default())
}
