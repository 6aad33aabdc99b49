//! Stand-ins for ADK's in-memory and SQLite services, so that ADK's own published tests run with sessiond.
//!
//! Those tests say `use adk_session::*`, `InMemorySessionService::new()` and `SqliteSessionService::new(":memory:")`. The test
//! targets of this package go by the name `adk_session` and define stand-ins of these names.
#![expect(clippy::unwrap_used, reason = "a failure here fails the calling test")]

use adk_core::{Event, Result, identity::AdkIdentity};
use async_trait::async_trait;
use sessiond_adk::SessiondSessionService;
use sessiond_adk_testing::{Server, Store, builder};
use upstream::{
    AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, ListRequest, Session,
    SessionService,
};

/// The service with a server of its own, which starts empty and is killed on drop. The server stores in a file if it is `DURABLE`,
/// otherwise in memory.
pub struct Sessiond<const DURABLE: bool> {
    service: SessiondSessionService,
    _server: Server,
}

impl<const DURABLE: bool> Sessiond<DURABLE> {
    #[allow(clippy::new_without_default, reason = "the published tests call it this way")]
    pub fn new() -> Self {
        let server = Server::start(if DURABLE { Store::Sqlite } else { Store::Memory });
        let service = builder(server.address()).connect_lazy().unwrap();
        Self { service, _server: server }
    }

    /// The published tests prepare a database with it.
    pub async fn migrate(&self) -> Result<()> {
        self.service.health_check().await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<const DURABLE: bool> SessionService for Sessiond<DURABLE> {
    async fn create(&self, req: CreateRequest) -> Result<Box<dyn Session>> {
        self.service.create(req).await
    }

    async fn get(&self, req: GetRequest) -> Result<Box<dyn Session>> {
        self.service.get(req).await
    }

    async fn list(&self, req: ListRequest) -> Result<Vec<Box<dyn Session>>> {
        self.service.list(req).await
    }

    async fn delete(&self, req: DeleteRequest) -> Result<()> {
        self.service.delete(req).await
    }

    async fn append_event(&self, session_id: &str, event: Event) -> Result<()> {
        self.service.append_event(session_id, event).await
    }

    async fn get_for_identity(&self, identity: &AdkIdentity) -> Result<Box<dyn Session>> {
        self.service.get_for_identity(identity).await
    }

    async fn delete_for_identity(&self, identity: &AdkIdentity) -> Result<()> {
        self.service.delete_for_identity(identity).await
    }

    async fn append_event_for_identity(&self, req: AppendEventRequest) -> Result<()> {
        self.service.append_event_for_identity(req).await
    }

    async fn delete_all_sessions(&self, app_name: &str, user_id: &str) -> Result<()> {
        self.service.delete_all_sessions(app_name, user_id).await
    }

    async fn rewind(&self, session_id: &str, target_event_id: &str) -> Result<Box<dyn Session>> {
        self.service.rewind(session_id, target_event_id).await
    }

    async fn rewind_steps(&self, session_id: &str, steps: usize) -> Result<Box<dyn Session>> {
        self.service.rewind_steps(session_id, steps).await
    }

    async fn health_check(&self) -> Result<()> {
        self.service.health_check().await
    }
}

/// Defines the services of the published tests as a [`Sessiond`].
#[macro_export]
macro_rules! stand_in {
    (durable: $durable:literal) => {
        pub type InMemorySessionService = $crate::Sessiond<$durable>;

        pub struct SqliteSessionService;

        impl SqliteSessionService {
            #[allow(clippy::new_ret_no_self, reason = "the published tests call it this way")]
            pub async fn new(_: &str) -> adk_core::Result<InMemorySessionService> {
                Ok(InMemorySessionService::new())
            }
        }
    };
}

/// The session that both processes of `tests/processes.rs` append to.
pub fn shared_session() -> AdkIdentity {
    AdkIdentity::new(
        "my_app".try_into().unwrap(),
        "alice".try_into().unwrap(),
        "shared".try_into().unwrap(),
    )
}
