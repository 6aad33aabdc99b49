//! A server with a service connected to it, and short forms of requests.

use std::{collections::HashMap, time::Duration};

use adk_core::{AdkError, ErrorCategory, Event, Result, identity::AdkIdentity};
use adk_session::{
    AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, ListRequest, Session,
    SessionService,
};
use serde_json::Value;
use sessiond_adk::{
    Retry, SessiondSessionService,
    proto::v1::{
        self, EventSelection, GetSessionRequest, GetSessionResponse, JsonForm, SessionKey,
        session_service_client::SessionServiceClient,
    },
};
use sessiond_adk_testing::{Cut, Proxy, Server, Store, builder};

/// The default application and user.
pub const APP: &str = "my_app";
pub const USER: &str = "alice";

/// Runs each function as a test on each store.
macro_rules! on_each_store {
    ($($name:ident)*) => { $(
        mod $name {
            #[tokio::test]
            async fn memory() {
                super::$name($crate::harness::Fixture::start(sessiond_adk_testing::Store::Memory).await).await;
            }

            #[tokio::test]
            async fn sqlite() {
                super::$name($crate::harness::Fixture::start(sessiond_adk_testing::Store::Sqlite).await).await;
            }
        }
    )* };
}
pub(crate) use on_each_store;

pub struct Fixture {
    pub server: Server,
    pub service: SessiondSessionService,
}

impl Fixture {
    pub async fn start(store: Store) -> Self {
        let server = Server::start(store);
        let service = builder(server.address()).connect().await.unwrap();
        Self { server, service }
    }

    pub async fn create(&self, session_id: &str, state: Value) -> Box<dyn Session> {
        self.service.create(creation(session_id, state)).await.unwrap()
    }

    pub async fn get(&self, session_id: &str) -> Box<dyn Session> {
        self.service.get(getting(session_id)).await.unwrap()
    }

    pub async fn append(&self, session_id: &str, event: Event) {
        self.try_append(session_id, event).await.unwrap();
    }

    pub async fn try_append(&self, session_id: &str, event: Event) -> Result<()> {
        let identity = identity(APP, USER, session_id);
        self.service.append_event_for_identity(AppendEventRequest { identity, event }).await
    }

    pub async fn delete(&self, session_id: &str) {
        let request = DeleteRequest {
            app_name: APP.into(),
            user_id: USER.into(),
            session_id: session_id.into(),
        };
        self.service.delete(request).await.unwrap();
    }

    /// The session on the wire, with hidden events.
    pub async fn stored(&self, session_id: &str) -> GetSessionResponse {
        let request = GetSessionRequest {
            key: Some(key(session_id)),
            events: Some(EventSelection { include_rewound: true, ..EventSelection::default() }),
            json_form: JsonForm::Text.into(),
            ..GetSessionRequest::default()
        };
        let mut client = SessionServiceClient::new(self.service.channel());
        client.get_session(request).await.unwrap().into_inner()
    }
}

/// A service that connects through a [`Proxy`].
pub async fn behind(server: &Server, cut: Cut, retry: Retry) -> (Proxy, SessiondSessionService) {
    let proxy = Proxy::start(server.address(), cut).await;
    let service = builder(proxy.address()).retry(retry).connect().await.unwrap();
    (proxy, service)
}

/// Retries without noticeable pauses.
pub const EAGER: Retry = Retry {
    attempts: 10,
    first_pause: Duration::from_millis(1),
    longest_pause: Duration::from_millis(1),
};

pub const NO_RETRY: Retry =
    Retry { attempts: 1, first_pause: Duration::ZERO, longest_pause: Duration::ZERO };

pub fn key(session_id: &str) -> SessionKey {
    SessionKey { app_name: APP.into(), user_id: USER.into(), session_id: session_id.into() }
}

pub fn identity(app_name: &str, user_id: &str, session_id: &str) -> AdkIdentity {
    AdkIdentity::new(
        app_name.try_into().unwrap(),
        user_id.try_into().unwrap(),
        session_id.try_into().unwrap(),
    )
}

pub fn creation(session_id: &str, state: Value) -> CreateRequest {
    CreateRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        session_id: Some(session_id.into()),
        state: object(state),
    }
}

pub fn getting(session_id: &str) -> GetRequest {
    GetRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        session_id: session_id.into(),
        num_recent_events: None,
        after: None,
    }
}

pub fn listing(user_id: &str) -> ListRequest {
    ListRequest { app_name: APP.into(), user_id: user_id.into(), limit: None, offset: None }
}

/// An event that changes state.
pub fn setting(delta: Value) -> Event {
    let mut event = Event::new("turn-1");
    event.author = "agent".into();
    event.actions.state_delta = object(delta);
    event
}

pub fn named(id: &str) -> Event {
    Event::with_id(id, "turn-1")
}

pub fn object(value: Value) -> HashMap<String, Value> {
    serde_json::from_value(value).unwrap()
}

pub fn ids(session: &dyn Session) -> Vec<String> {
    session.events().all().into_iter().map(|event| event.id).collect()
}

pub fn body(event: &v1::Event) -> &str {
    match &event.body_form {
        Some(v1::event::BodyForm::BodyJson(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
pub fn refused<T>(outcome: Result<T>) -> AdkError {
    outcome.err().expect("must be refused")
}

#[track_caller]
pub fn assert_error<T>(outcome: Result<T>, category: ErrorCategory, code: &str) {
    let error = refused(outcome);
    assert_eq!((error.category, error.code), (category, code), "{error:?}");
}

/// Runs a blocking change of the server, such as a restart, without blocking the test's connections.
pub async fn blocking(server: Server, change: fn(&mut Server)) -> Server {
    let mut server = server;
    let changed = tokio::task::spawn_blocking(move || {
        change(&mut server);
        server
    });
    changed.await.unwrap()
}
