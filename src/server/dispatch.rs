//! Routes calls to the services. Health answers from the first connection on, everything else once the store is open.

use std::{
    convert::Infallible,
    mem,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::{FutureExt as _, StreamExt as _, future::AbortHandle, stream};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};
use tonic::{
    Status,
    body::Body,
    codegen::{self, BoxFuture, Bytes, Service, StdError, http},
    service::Routes,
};
use tonic_health::pb::health_server::HealthServer;

use super::{
    admission::{Admission, after_rest},
    call_log::{CallLog, CallNotes},
    health::{Phase, PhaseHealth, draining, refusal},
    identity::Caller,
    request_buffering::RequestBuffers,
    response_budget::{ResponseBudget, ResponseBytes, Unsent},
};
use crate::{
    access::Principal,
    domain::error::Error,
    engine::Engine,
    rpc::{ConnectionId, OPEN_REQUEST_BYTES, status::of_transport},
};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// A reflection call lasts as long as its client keeps it open, so a shutdown ends it.
const REFLECTION: &str = "/grpc.reflection.";

/// Unary appends, of which callers have a limit.
const APPENDS: [&str; 2] =
    ["/sessiond.v1.EventService/AppendEvent", "/sessiond.v1.EventService/AppendEvents"];

/// The services, once the store is open.
pub struct Services {
    pub routes: Routes,
    pub engine: Arc<Engine>,
}

/// The items of this stream are calls of their own.
const APPEND_STREAM: &str = "/sessiond.v1.EventService/AppendEventStream";

/// Unary reads, whose answers may have 4 MiB each.
const READS: [&str; 8] = [
    "/sessiond.v1.AdminService/ListApplications",
    "/sessiond.v1.AdminService/ListUsers",
    "/sessiond.v1.EventService/ListEvents",
    "/sessiond.v1.SessionService/GetSession",
    "/sessiond.v1.SessionService/ListSessions",
    "/sessiond.v1.StateService/GetState",
    "/sessiond.v1.StateService/ListKeyChanges",
    "/sessiond.v1.StateService/RenderTemplate",
];

/// Concurrent reads per connection, unsent responses included: more than readers execute at once, and 256 MiB of the largest responses.
const READS_PER_CONNECTION: usize = 64;

/// Passes calls to the services once they are there. Every call has a clone of it.
#[derive(Clone)]
pub struct Dispatch {
    shared: Arc<Shared>,
    connection: Arc<ConnectionState>,
}

struct ConnectionState {
    id: ConnectionId,
    reads: Arc<Semaphore>,
    answers: Arc<ResponseBytes>,
    /// `None`: every caller of the connection is local.
    caller: Option<Arc<Caller>>,
    /// The address of the client, for the log.
    peer: Arc<str>,
}

struct Shared {
    health: HealthServer<PhaseHealth>,
    services: Arc<OnceLock<Services>>,
    phase: watch::Receiver<Phase>,
    in_flight: TaskTracker,
    buffers: RequestBuffers,
    /// A stream gives its permit back once it has begun.
    admission: Admission,
    budget: ResponseBudget,
    notes: CallNotes,
}

impl Dispatch {
    /// `services` is set when the store is open. `in_flight` counts the requests whose answer has not been written yet.
    pub fn new(
        services: Arc<OnceLock<Services>>,
        phase: watch::Receiver<Phase>,
        in_flight: TaskTracker,
        budget: ResponseBudget,
        notes: CallNotes,
    ) -> Self {
        let health = HealthServer::new(PhaseHealth(phase.clone()))
            .max_decoding_message_size(OPEN_REQUEST_BYTES);
        let (buffers, admission): (_, Admission) = Default::default();
        let shared =
            Shared { health, services, phase, in_flight, buffers, admission, budget, notes };
        let connection = ConnectionState::new(&shared, None, Arc::default());
        Self { shared: Arc::new(shared), connection }
    }

    pub fn with_caller(&self, caller: Option<Arc<Caller>>, peer: Arc<str>) -> Self {
        let connection = ConnectionState::new(&self.shared, caller, peer);
        Self { shared: Arc::clone(&self.shared), connection }
    }

    /// Sets the handle that ends the connection when its client leaves too many answers unread.
    pub fn ends_with(&self, end: AbortHandle) {
        self.connection.answers.end_with(end);
    }

    pub fn tells_callers_apart(&self) -> bool {
        self.connection.caller.is_some()
    }

    /// Counts the calls, and the connections, whose bytes have not all been written.
    pub fn in_flight(&self) -> &TaskTracker {
        &self.shared.in_flight
    }

    /// Tells the number of calls without an answer, of all connections.
    pub fn calls(&self) -> impl Fn() -> usize + use<> {
        self.shared.admission.in_flight()
    }

    /// The principal of a call. Health and reflection tell everybody the same.
    fn principal(&self, request: &http::Request<Body>) -> Result<Principal, Error> {
        let path = request.uri().path();
        match &self.connection.caller {
            Some(caller) if !path.starts_with(HEALTH) && !path.starts_with(REFLECTION) => {
                caller.principal(request.headers())
            }
            _ => Ok(Principal::Local),
        }
    }
}

impl ConnectionState {
    fn new(shared: &Shared, caller: Option<Arc<Caller>>, peer: Arc<str>) -> Arc<Self> {
        let reads = Arc::new(Semaphore::new(READS_PER_CONNECTION));
        let answers = shared.budget.connection();
        Arc::new(Self { id: ConnectionId(answers.number()), reads, answers, caller, peer })
    }
}

impl Shared {
    /// Answers a call, with what lasts until its answer is read.
    async fn answer(
        &self,
        request: http::Request<Body>,
        principal: &Principal,
        reads: &Arc<Semaphore>,
    ) -> Answered {
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            let request = self.until_draining(request);
            return Ok((self.health.clone().call(request).await?, None));
        }
        let Some(services) = self.services.get() else {
            return refused(request, &Error::Starting).await;
        };
        let (is_append, is_read) = (APPENDS.contains(&path), READS.contains(&path));
        let is_reflection = path.starts_with(REFLECTION);
        let draining = draining(self.phase.clone());
        let (request, _held) = match is_reflection || path == APPEND_STREAM {
            true => (request, None),
            false => match self.buffers.whole(request, draining).await {
                Ok((request, held)) => (request, Some(held)),
                Err(refusal) => return Ok((refusal.into_http(), None)),
            },
        };
        let read = match is_read {
            false => None,
            true => Arc::clone(reads).acquire_owned().await.ok(),
        };
        let Some(permit) = self.admission.permit(principal) else {
            return Ok((self.admission.refuse(request).await, None));
        };
        // A call that this lets through counts against the limit of its caller, so nothing else may refuse it before it is decoded.
        if let Some(error) = is_append.then(|| services.engine.store.flood(principal)).flatten() {
            return refused(request, &error).await;
        }
        let request = if is_reflection { self.until_draining(request) } else { request };
        let answer = services.routes.clone().call(request).await?;
        permit.answered(&answer);
        Ok((answer, read))
    }

    /// The same request, which ends with the server, whether or not its client has sent all of it. Bytes received before are still read.
    fn until_draining(&self, request: http::Request<Body>) -> http::Request<Body> {
        let mut end = Box::pin(draining(self.phase.clone()));
        request.map(|body| {
            let mut body = BodyStream::new(body);
            let parts = stream::poll_fn(move |cx| match body.poll_next_unpin(cx) {
                Poll::Pending => end.poll_unpin(cx).map(|()| None),
                part => part,
            });
            Body::new(StreamBody::new(parts.fuse()))
        })
    }
}

type Answered = Result<(http::Response<Body>, Option<OwnedSemaphorePermit>), Infallible>;

/// The answer to a call that no handler gets.
async fn refused(request: http::Request<Body>, error: &Error) -> Answered {
    Ok((after_rest(request, refusal(error).into_http()).await, None))
}

impl<B> Service<http::Request<B>> for Dispatch
where
    B: codegen::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Always ready: a call too many is refused.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let (shared, connection) = (Arc::clone(&self.shared), Arc::clone(&self.connection));
        let token = shared.in_flight.token();
        let mut request = request.map(Body::new);
        let principal = self.principal(&request);
        let mut log = shared.notes.begin(&request, principal.as_ref().ok(), &connection.peer);
        if let Some(log) = &log {
            request = log.request(request);
        }
        request.extensions_mut().insert(connection.id);
        if let Ok(principal @ Principal::Identified(_)) = &principal {
            request.extensions_mut().insert(principal.clone());
            // The layers below do not need the token, so they cannot log it.
            request.headers_mut().remove(http::header::AUTHORIZATION);
        }
        Box::pin(async move {
            let (answer, read) = match principal {
                Ok(principal) => shared.answer(request, &principal, &connection.reads).await?,
                Err(error) => refused(request, &error).await?,
            };
            let answer = explained(answer);
            if let Some(log) = &mut log {
                log.answered(answer.headers());
            }
            let answers = Arc::clone(&connection.answers);
            Ok(answer.map(|body| tracked(body, answers, (token, read), log)))
        })
    }
}

/// The same answer, or our status in the place of the transport's.
fn explained(answer: http::Response<Body>) -> http::Response<Body> {
    // Most answers have a status at their end. The transport's have no details.
    let headers = answer.headers();
    if !headers.contains_key(Status::GRPC_STATUS)
        || headers.contains_key(Status::GRPC_STATUS_DETAILS)
    {
        return answer;
    }
    let refusal = Status::from_header_map(headers);
    match refusal.as_ref().and_then(of_transport) {
        Some(status) => status.into_http(),
        None => answer,
    }
}

/// The same body, in flight until all of it is in the buffer of its connection, which is in flight then: what a slow reader has not taken
/// yet waits in HTTP/2's buffers. Its end is that of the call.
fn tracked(
    body: Body,
    answers: Arc<ResponseBytes>,
    (token, read): (TaskTrackerToken, Option<OwnedSemaphorePermit>),
    mut log: Option<CallLog>,
) -> Body {
    let mut has_begun = false;
    Body::new(body.map_frame(move |frame| {
        // It is held as long as this body is.
        let _ = &read;
        if let Some(log) = &mut log {
            frame.data_ref().into_iter().for_each(|data| log.sent(data));
            frame.trailers_ref().into_iter().for_each(|trailers| log.ended(trailers));
        }
        frame.map_data(|data| {
            let unsent = match mem::replace(&mut has_begun, true) {
                false => answers.begun(data.len()),
                true => answers.made(data.len()),
            };
            Bytes::from_owner(Unwritten { data, _token: token.clone(), _unsent: unsent })
        })
    }))
}

/// A part of an answer. It is dropped when the connection has taken it.
struct Unwritten {
    data: Bytes,
    _token: TaskTrackerToken,
    _unsent: Unsent,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
pub(super) mod tests;
