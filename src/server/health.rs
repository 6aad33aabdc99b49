//! The server's phase, and health (`grpc.health.v1`), which tells it: all services are ready together.

use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, codegen::BoxStream};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health,
};

use crate::{
    domain::error::Error,
    rpc::{SERVICE_NAMES, status::status},
    store::CallId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The store is not open yet.
    Starting,
    Serving,
    Draining,
}

/// Waits for the shutdown.
pub async fn draining(mut phase: watch::Receiver<Phase>) {
    // A server that was dropped has stopped as well.
    let _ = phase.wait_for(|&phase| phase == Phase::Draining).await;
}

/// A refusal that no handler made.
pub fn refusal(error: &Error) -> Status {
    status(error, CallId::next())
}

pub struct PhaseHealth(pub watch::Receiver<Phase>);

/// The status of the service asked for; `None`: there is no such service.
fn response(request: &HealthCheckRequest, phase: Phase) -> Option<HealthCheckResponse> {
    let HealthCheckRequest { service } = request;
    let status = match phase {
        Phase::Serving => ServingStatus::Serving,
        Phase::Starting | Phase::Draining => ServingStatus::NotServing,
    };
    let known = service.is_empty() || SERVICE_NAMES.contains(&&**service);
    known.then(|| HealthCheckResponse { status: status.into() })
}

#[tonic::async_trait]
impl Health for PhaseHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let answer = response(request.get_ref(), *self.0.borrow()).map(Response::new);
        answer.ok_or_else(|| Status::not_found("This service is not registered."))
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    /// The status now and at every change. A watch ends with the server, which would wait for it otherwise.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
        let updates = WatchStream::new(self.0.clone()).flat_map(move |phase| {
            let end = (phase == Phase::Draining).then(|| Err(refusal(&Error::Draining)));
            let update = response(&request, phase).unwrap_or(unknown);
            stream::iter([Ok(update)].into_iter().chain(end))
        });
        Ok(Response::new(Box::pin(updates)))
    }
}
