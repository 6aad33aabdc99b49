//! Stand-ins for the kit's in-memory service, so that the tests which the kit publishes for it run with sessiond.
//!
//! Those tests say `use adk_session::*` and `InMemorySessionService::new()`. The test targets of this package are called
//! `adk_session` to them and hold a stand-in under that name: the one line that an agent changes, too.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test that called it")]

use adk_core::{Event, Result, identity::AdkIdentity};
use async_trait::async_trait;
use kit::{
    AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, ListRequest, Session,
    SessionService,
};
use sessiond_adk::SessiondSessionService;
use sessiond_adk_testing::{Server, Store, patient};

/// The service with a server of its own, which begins empty and ends with it.
pub struct Sessiond {
    service: SessiondSessionService,
    _server: Server,
}

impl Sessiond {
    /// Starts a server and connects to it.
    pub fn start(store: Store) -> Self {
        let server = Server::start(store);
        let service = patient(server.address()).connect_lazy().unwrap();
        Self { service, _server: server }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl SessionService for Sessiond {
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

/// Defines the kit's name for its in-memory service as a service on this store.
#[macro_export]
macro_rules! stand_in {
    ($store:expr) => {
        /// Stands in for the kit's service of this name.
        pub struct InMemorySessionService;

        impl InMemorySessionService {
            /// A service that is empty.
            #[allow(clippy::new_ret_no_self, reason = "the published tests call it so")]
            pub fn new() -> $crate::Sessiond {
                $crate::Sessiond::start($store)
            }
        }
    };
}

/// The session that the processes of the writers' test share.
pub fn shared_session() -> AdkIdentity {
    AdkIdentity::new(
        "my_app".try_into().unwrap(),
        "alice".try_into().unwrap(),
        "shared".try_into().unwrap(),
    )
}
