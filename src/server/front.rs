//! Routes calls to the services. Health answers from the first connection on, everything else once the store is open.

use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use tokio::sync::watch;
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
    traces::Traces,
};
use crate::{access::Principal, domain::error::Error, engine::Engine, rpc::status::of_transport};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// A reflection call lasts as long as its client keeps it open, so a shutdown ends it.
const REFLECTION: &str = "/grpc.reflection.";

/// Unary appends, of which callers have a limit.
const APPENDS: [&str; 2] =
    ["/sessiond.v1.EventService/AppendEvent", "/sessiond.v1.EventService/AppendEvents"];

/// What answers calls once the store is open.
pub struct Services {
    pub routes: Routes,
    pub engine: Arc<Engine>,
}

/// Passes calls to the services once they are there. Every call has a clone of it.
#[derive(Clone)]
pub struct Front {
    shared: Arc<Shared>,
    /// `None`: every caller of the connection is local.
    caller: Option<Arc<Caller>>,
}

/// What all connections share.
struct Shared {
    health: HealthServer<PhaseHealth>,
    services: Arc<OnceLock<Services>>,
    phase: watch::Receiver<Phase>,
    in_flight: TaskTracker,
    /// A stream gives its place back once it has begun.
    admission: Admission,
    notes: CallNotes,
    /// `None`: no call has spans.
    traces: Option<Traces>,
}

impl Front {
    /// `services` is set when the store is open. `in_flight` counts the requests whose answer has not been written yet.
    pub fn new(
        services: Arc<OnceLock<Services>>,
        phase: watch::Receiver<Phase>,
        in_flight: TaskTracker,
        notes: CallNotes,
        traces: Option<Traces>,
    ) -> Self {
        let health = HealthServer::new(PhaseHealth(phase.clone()));
        let admission = Admission::default();
        let shared = Shared { health, services, phase, in_flight, admission, notes, traces };
        Self { shared: Arc::new(shared), caller: None }
    }

    /// The same for the calls of one connection.
    pub fn with_caller(&self, caller: Option<Arc<Caller>>) -> Self {
        Self { shared: Arc::clone(&self.shared), caller }
    }

    /// Whether callers are identified.
    pub fn tells_callers_apart(&self) -> bool {
        self.caller.is_some()
    }

    /// Counts the calls, and the connections, whose bytes have not all been written.
    pub fn in_flight(&self) -> &TaskTracker {
        &self.shared.in_flight
    }

    /// Tells the number of calls without an answer, of all connections.
    pub fn calls(&self) -> impl Fn() -> usize + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.admission.in_flight()
    }

    /// The principal of a call. Health and reflection tell everybody the same.
    fn principal(&self, request: &http::Request<Body>) -> Result<Principal, Error> {
        let path = request.uri().path();
        match &self.caller {
            Some(caller) if !path.starts_with(HEALTH) && !path.starts_with(REFLECTION) => {
                caller.principal(request.headers())
            }
            _ => Ok(Principal::Local),
        }
    }
}

impl Shared {
    fn route(&self, request: http::Request<Body>, principal: &Principal) -> Answer {
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            return self.health.clone().call(request);
        }
        let Some(services) = self.services.get() else {
            return refused(request, &Error::Starting);
        };
        let Some(place) = self.admission.place(principal) else {
            let refused = self.admission.refuse(request);
            return Box::pin(async move { Ok(refused.await) });
        };
        // A call that this lets through uses room of its caller, so nothing else may refuse it before it is decoded.
        let is_append = APPENDS.contains(&path);
        if let Some(error) = is_append.then(|| services.engine.flood(principal)).flatten() {
            return refused(request, &error);
        }
        let request = if path.starts_with(REFLECTION) {
            let end = draining(self.phase.clone());
            request.map(|body| {
                Body::new(StreamBody::new(BodyStream::new(body).take_until(Box::pin(end))))
            })
        } else {
            request
        };
        let answer = services.routes.clone().call(request);
        Box::pin(async move {
            let answer = answer.await?;
            place.answered(&answer);
            Ok(answer)
        })
    }
}

type Answer = BoxFuture<http::Response<Body>, Infallible>;

/// The answer to a call that no handler gets.
fn refused(request: http::Request<Body>, error: &Error) -> Answer {
    let answer = after_rest(request, refusal(error).into_http());
    Box::pin(async move { Ok(answer.await) })
}

impl<B> Service<http::Request<B>> for Front
where
    B: codegen::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Always ready: a call too many is refused.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Answer {
        let shared = &self.shared;
        let token = shared.in_flight.token();
        let mut request = request.map(Body::new);
        let principal = self.principal(&request);
        let mut log = shared.notes.begin(request.uri().path(), principal.as_ref().ok());
        if let Some(log) = &log {
            request = log.request(request);
        }
        // Nobody without a credential makes spans.
        let traces = shared.traces.as_ref().filter(|_| principal.is_ok());
        let traced = traces.and_then(|traces| traces.begin(&request));
        if let Some(traced) = &traced {
            request = traced.request(request);
        }
        let answer = match principal {
            Ok(Principal::Local) => shared.route(request, &Principal::Local),
            Ok(principal) => {
                request.extensions_mut().insert(principal.clone());
                // Nobody behind this needs the token, so nobody can log it.
                request.headers_mut().remove(http::header::AUTHORIZATION);
                shared.route(request, &principal)
            }
            Err(error) => refused(request, &error),
        };
        Box::pin(async move {
            let answer = explained(answer.await?);
            if let Some(log) = &mut log {
                log.ended(answer.headers());
            }
            let answer = match traced {
                Some(traced) => traced.answer(answer),
                None => answer,
            };
            Ok(answer.map(|body| tracked(body, token, log)))
        })
    }
}

/// The same answer, or our status in the place of the transport's.
fn explained(answer: http::Response<Body>) -> http::Response<Body> {
    // The transport's have no details.
    if answer.headers().contains_key(Status::GRPC_STATUS_DETAILS) {
        return answer;
    }
    let refusal = Status::from_header_map(answer.headers());
    match refusal.as_ref().and_then(of_transport) {
        Some(status) => status.into_http(),
        None => answer,
    }
}

/// The same body, in flight until all of it is in the buffer of its connection, which is in flight then: what a slow reader has not taken
/// yet waits in HTTP/2's buffers. Its end is that of the call.
fn tracked(body: Body, token: TaskTrackerToken, mut log: Option<CallLog>) -> Body {
    Body::new(body.map_frame(move |frame| {
        if let Some(log) = &mut log {
            frame.data_ref().into_iter().for_each(|data| log.sent(data));
            frame.trailers_ref().into_iter().for_each(|trailers| log.ended(trailers));
        }
        frame.map_data(|data| Bytes::from_owner(Unwritten { data, _token: token.clone() }))
    }))
}

/// A part of an answer. It is dropped when the connection has taken it.
struct Unwritten {
    data: Bytes,
    _token: TaskTrackerToken,
}

impl AsRef<[u8]> for Unwritten {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, num::NonZeroU32, time::Duration};

    use tokio::time::advance;
    use tonic::codegen::Body as _;
    use tonic_types::StatusExt as _;

    use super::*;
    use crate::{
        domain::{error::Reason, prelude::*},
        engine::EngineOptions,
        rpc::methods,
        store::{LimitOptions, RequestContext, SystemClock, memory::MemoryStore},
    };

    /// A server whose store is not open yet.
    fn starting() -> (Front, watch::Sender<Phase>) {
        let phase = watch::Sender::new(Phase::Starting);
        let notes = CallNotes { log: true, calls: None };
        let front = Front::new(Arc::default(), phase.subscribe(), TaskTracker::new(), notes, None);
        (front, phase)
    }

    /// No methods, over an empty store.
    fn services(options: EngineOptions) -> Services {
        let store = MemoryStore::new(StoreId([1; 16]), Arc::new(SystemClock));
        let engine = Arc::new(Engine::new(Arc::new(store), options));
        Services { routes: Routes::default(), engine }
    }

    /// Calls with one message, which comes with its flag and length before it.
    async fn call(front: &mut Front, path: &str, message: &str) -> http::Response<Body> {
        let request = http::Request::post(format!("http://here{path}"))
            .header("content-type", "application/grpc")
            .body(Body::new(message.to_owned()))
            .unwrap();
        front.call(request).await.unwrap()
    }

    #[tokio::test]
    async fn until_the_store_is_open_calls_are_told_to_wait_and_health_answers() {
        let (mut front, _phase) = starting();
        let told = call(&mut front, "/sessiond.v1.SessionService/GetSession", "\0\0\0\0\0").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::Unavailable);
        let info = status.get_details_error_info().unwrap();
        assert_eq!(info.reason, Reason::Starting.as_str());
        let told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
        assert!(Status::from_header_map(told.headers()).is_none(), "it answers");
    }

    #[tokio::test]
    async fn a_call_too_many_is_refused_before_its_message_is_read() {
        let (mut front, _phase) = starting();
        assert!(front.shared.services.set(services(EngineOptions::default())).is_ok());
        let path = "/sessiond.v1.SessionService/GetSession";
        let all: Vec<_> =
            iter::from_fn(|| front.shared.admission.place(&Principal::Local)).collect();
        let told = call(&mut front, path, "\0").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted);
        assert_eq!(status.get_details_error_info().unwrap().metadata["what"], "calls");
        let told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
        assert!(Status::from_header_map(told.headers()).is_none(), "health answers");
        let more = 2 * all.len();
        drop(all);
        for _ in 0..more {
            let told = call(&mut front, path, "\0").await;
            let status = Status::from_header_map(told.headers()).unwrap();
            assert_eq!(status.code(), tonic::Code::Unimplemented, "each gives its place back");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_append_of_a_caller_that_does_not_heed_its_limit_is_refused_before_its_message_is_read()
     {
        let (mut front, _phase) = starting();
        let limits =
            LimitOptions { principal_appends: NonZeroU32::new(1), ..LimitOptions::default() };
        let services = services(EngineOptions { limits, ..EngineOptions::default() });
        let engine = Arc::clone(&services.engine);
        assert!(front.shared.services.set(services).is_ok());
        let context = RequestContext::internal();
        let key = SessionKey {
            app_name: AppName::new("app").unwrap(),
            user_id: UserId::new("user").unwrap(),
            session_id: SessionId::new("session").unwrap(),
        };
        while engine.flood(&Principal::Local).is_none() {
            let _ = engine.delete_session(&context, key.clone(), true).await;
        }
        for (path, _) in methods() {
            let told = call(&mut front, &path, "\0").await;
            let status = Status::from_header_map(told.headers());
            let reason = status.and_then(|it| it.get_details_error_info()).map(|it| it.reason);
            let is_refused = reason.as_deref() == Some(Reason::RateLimited.as_str());
            assert_eq!(is_refused, APPENDS.contains(&&*path), "{path}");
        }
        advance(Duration::from_secs(1)).await;
        let places = || iter::from_fn(|| front.shared.admission.place(&Principal::Local));
        let all: Vec<_> = places().collect();
        let told = call(&mut front.clone(), APPENDS[0], "\0").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.get_details_error_info().unwrap().reason, Reason::Overloaded.as_str());
        drop(all);
        assert_eq!(engine.flood(&Principal::Local), None, "a call too many uses no room");
        assert!(engine.flood(&Principal::Local).is_some());
    }

    #[tokio::test]
    async fn a_refusal_of_health_is_headers_alone() {
        let (mut front, _phase) = starting();
        // HealthCheckRequest { service: "x" }
        let told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\x03\x0a\x01x").await;
        let status = Status::from_header_map(told.headers()).unwrap();
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert!(told.body().is_end_stream(), "the status is the end of the answer");
    }

    #[tokio::test]
    async fn a_request_is_in_flight_until_its_answer_is_written() {
        let (mut front, _phase) = starting();
        let in_flight = front.shared.in_flight.clone();
        let mut told = call(&mut front, "/grpc.health.v1.Health/Check", "\0\0\0\0\0").await;
        let part = told.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(told);
        assert_eq!(in_flight.len(), 1, "a part waits for its reader");
        drop(part);
        assert!(in_flight.is_empty());
    }
}
