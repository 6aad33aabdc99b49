//! The server's phase, and health (`grpc.health.v1`), which tells it. All services are ready together; `sessiond.writes` is not while
//! the disk is full.

use futures_util::{StreamExt as _, stream};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tonic::{Request, Response, Status, codegen::BoxStream, metadata::MetadataValue};
use tonic_health::pb::{
    HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
    health_server::Health,
};

use crate::{
    domain::error::Error,
    rpc::{SERVICE_NAMES, status::status},
    store::{CallId, Condition},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Open(Condition),
    Draining,
}

impl Phase {
    /// All of them, with their names in metrics.
    pub const NAMES: [(Self, &str); 7] = [
        (Self::Starting, "starting"),
        (Self::Open(Condition::Ready), "ready"),
        (Self::Open(Condition::DiskFull), "disk_full"),
        (Self::Open(Condition::FileLost), "file_lost"),
        (Self::Open(Condition::Unreachable), "unreachable"),
        (Self::Open(Condition::Behind), "behind"),
        (Self::Draining, "draining"),
    ];
}

/// The name by which health tells whether the store takes writes, beside the names of services.
const WRITES: &str = "sessiond.writes";

/// The header in which answers of `Check` have the version of the server.
const VERSION_HEADER: &str = "sessiond-version";

/// Changes the phase with the condition of the store, until a shutdown.
pub async fn follow(mut condition: watch::Receiver<Condition>, phase: &watch::Sender<Phase>) {
    loop {
        let now = Phase::Open(*condition.borrow_and_update());
        phase.send_if_modified(|phase| {
            *phase != Phase::Draining && std::mem::replace(phase, now) != now
        });
        if condition.changed().await.is_err() {
            // A store that never changes, or one that is closed.
            return std::future::pending().await;
        }
    }
}

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
        Phase::Open(Condition::Ready) => ServingStatus::Serving,
        Phase::Open(Condition::DiskFull) if service != WRITES => ServingStatus::Serving,
        _ => ServingStatus::NotServing,
    };
    let known = service.is_empty() || service == WRITES || SERVICE_NAMES.contains(&&**service);
    known.then(|| HealthCheckResponse { status: status.into() })
}

#[tonic::async_trait]
impl Health for PhaseHealth {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let answer = response(request.get_ref(), *self.0.borrow()).map(Response::new);
        let mut answer =
            answer.ok_or_else(|| Status::not_found("This service is not registered."))?;
        let version = MetadataValue::from_static(env!("CARGO_PKG_VERSION"));
        answer.metadata_mut().insert(VERSION_HEADER, version);
        Ok(answer)
    }

    type WatchStream = BoxStream<HealthCheckResponse>;

    /// The status now and at every change. A watch ends with the server, which would wait for it otherwise.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let unknown = HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() };
        let mut last = None;
        let updates = WatchStream::new(self.0.clone()).flat_map(move |phase| {
            let end = (phase == Phase::Draining).then(|| Err(refusal(&Error::Draining)));
            let update = response(&request, phase).unwrap_or(unknown);
            let changed = (last.replace(update) != Some(update)).then_some(Ok(update));
            stream::iter(changed.into_iter().chain(end))
        });
        Ok(Response::new(Box::pin(updates)))
    }
}
