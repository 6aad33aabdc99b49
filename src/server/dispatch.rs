//! The layers around a call, one after the other: identity, streams of strangers, account, notes, request, concurrency limit, service.
//! Health answers from the first connection on, everything else once the store is open.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use futures_util::future::AbortHandle;
use sessiond_connect::Meter;
use tokio::sync::watch;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::{
    Status,
    body::Body,
    codegen::{self, BoxFuture, Bytes, Service, StdError, http},
    service::Routes,
};
use tonic_health::pb::health_server::HealthServer;

use super::{
    admission::{Admission, after_rest},
    answer::AnswerBody,
    call_log::CallNotes,
    connection_limit::IsKnown,
    connections::STREAM_WINDOW_BYTES,
    drain::InFlight,
    health::{Phase, PhaseHealth, refusal},
    identity::Caller,
    messages::Messages,
};
use crate::{
    access::Principal,
    domain::error::{Bounded, Error},
    rpc::{ConnectionId, Method, methods},
    store::{
        CallerId,
        account::{Account, CallAccount, ConnectionAccount},
    },
};

const HEALTH: &str = "/grpc.health.v1.Health/";

/// A call of another service lasts as long as its client keeps it open, so a shutdown ends it.
const SERVICES: &str = "/sessiond.";

/// Open calls of a connection that has shown no credential, where callers have identities: probes need few.
const STRANGERS_CALLS: usize = 16;

/// The refusal of one more.
const TOO_MANY_STREAMS: Error =
    Error::Overloaded { what: Bounded::Streams, retry_after_millis: 1000 };

/// Passes calls to the services once they are there. Every call has a clone of it.
#[derive(Clone)]
pub struct Dispatch {
    shared: Arc<Shared>,
    connection: Arc<ConnectionState>,
}

/// How the calls of a connection come.
#[derive(Clone, Copy)]
pub enum Way {
    Grpc,
    Http { takes_writes: bool },
}

struct ConnectionState {
    account: Arc<ConnectionAccount>,
    /// `None`: every caller of the connection is local.
    caller: Option<Arc<Caller>>,
    has_shown_credential: AtomicBool,
    is_known: IsKnown,
    open: Arc<AtomicUsize>,
    /// The address of the client, for the log.
    peer: Arc<str>,
    way: Way,
}

struct Shared {
    health: HealthServer<PhaseHealth>,
    /// Set when the store is open.
    services: Arc<OnceLock<Routes>>,
    methods: HashMap<String, Arc<Method>>,
    phase: watch::Receiver<Phase>,
    in_flight: InFlight,
    /// A stream gives its permit back once it has begun.
    admission: Admission,
    account: Account,
    notes: CallNotes,
}

/// A call that passed the layers before its request.
struct Begun {
    principal: Principal,
    account: CallAccount,
    open: Open,
}

/// What lasts until the answer is written.
pub struct Open {
    _token: TaskTrackerToken,
    _stream: OpenStream,
}

/// A place among the open calls of a connection.
struct OpenStream(Arc<AtomicUsize>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Dispatch {
    /// `services` is set when the store is open.
    pub fn new(
        services: Arc<OnceLock<Routes>>,
        phase: watch::Receiver<Phase>,
        in_flight: InFlight,
        account: Account,
        notes: CallNotes,
    ) -> Self {
        let health = HealthServer::new(PhaseHealth(phase.clone()));
        let methods = methods().into_iter().map(|it| (it.path.clone(), Arc::new(it))).collect();
        let admission = Admission::default();
        let connection =
            ConnectionState::new(&account, None, Arc::default(), IsKnown::default(), Way::Grpc);
        let shared =
            Shared { health, services, methods, phase, in_flight, admission, account, notes };
        Self { shared: Arc::new(shared), connection }
    }

    /// For a connection, which says when it is known.
    pub fn with_caller(
        &self,
        caller: Option<Arc<Caller>>,
        peer: Arc<str>,
        is_known: IsKnown,
        way: Way,
    ) -> Self {
        let account = &self.shared.account;
        let connection = ConnectionState::new(account, caller, peer, is_known, way);
        Self { shared: Arc::clone(&self.shared), connection }
    }

    /// Sets the handle that ends the connection when its client leaves too many answers unread.
    pub fn ends_with(&self, end: AbortHandle) {
        self.connection.account.end_with(end);
    }

    pub fn in_flight(&self) -> &InFlight {
        &self.shared.in_flight
    }

    /// The layers before the request is read.
    fn begin(
        &self,
        request: &http::Request<Body>,
    ) -> Result<Begun, (Error, Option<(Open, CallAccount)>)> {
        let Self { shared, connection } = self;
        let principal = connection.principal(request);
        let stream = connection.stream().map_err(|error| (error, None))?;
        let account = connection.account.call().map_err(|error| (error, None))?;
        let open = Open { _token: shared.in_flight.answers.token(), _stream: stream };
        match principal {
            Ok(principal) => Ok(Begun { principal, account, open }),
            Err(error) => Err((error, Some((open, account)))),
        }
    }
}

impl ConnectionState {
    fn new(
        account: &Account,
        caller: Option<Arc<Caller>>,
        peer: Arc<str>,
        is_known: IsKnown,
        way: Way,
    ) -> Arc<Self> {
        let has_credential = caller.as_ref().is_none_or(|caller| caller.is_known());
        Arc::new(Self {
            account: account.connection(has_credential),
            caller,
            has_shown_credential: AtomicBool::new(has_credential),
            is_known,
            open: Arc::default(),
            peer,
            way,
        })
    }

    /// The principal of a call. Health tells everybody the same.
    fn principal(&self, request: &http::Request<Body>) -> Result<Principal, Error> {
        match &self.caller {
            Some(caller) if !request.uri().path().starts_with(HEALTH) => {
                let principal = caller.principal(request.headers())?;
                if !self.has_shown_credential.swap(true, Relaxed) {
                    self.account.know();
                }
                Ok(principal)
            }
            _ => Ok(Principal::Local),
        }
    }

    /// A place for one more open call.
    fn stream(&self) -> Result<OpenStream, Error> {
        let stream = OpenStream(Arc::clone(&self.open));
        let before = self.open.fetch_add(1, Relaxed);
        let has_shown = self.has_shown_credential.load(Relaxed);
        (has_shown || before < STRANGERS_CALLS).then_some(stream).ok_or(TOO_MANY_STREAMS)
    }
}

impl Shared {
    /// Answers a call.
    async fn answer(
        &self,
        request: http::Request<Body>,
        method: Option<&Arc<Method>>,
        Begun { principal, account, .. }: &Begun,
        connection: &ConnectionState,
    ) -> Answered {
        let path = request.uri().path();
        let is_health = path.starts_with(HEALTH);
        let services = self.services.get();
        let (Some(method), true) = (method, is_health || services.is_some()) else {
            // A method that is not there is not answered before the others.
            return match services {
                None => refused(request, &Error::Starting).await,
                Some(services) => {
                    let answer = services.clone().call(without_body(&request)).await?;
                    Ok(after_rest(request, answer).await)
                }
            };
        };
        let is_own = path.starts_with(SERVICES);
        match connection.way {
            Way::Http { .. } if method.client_streams => {
                return refused(request, &Error::NotOverHttp).await;
            }
            Way::Http { takes_writes: false } if is_own && method.has_side_effects => {
                return refused(request, &Error::ReadOnlyListener).await;
            }
            _ => {}
        }
        // The client of a stream may send this much while the server reads nothing. Other requests are read as they come.
        if method.client_streams
            && let Err(full) = account.take(STREAM_WINDOW_BYTES as usize)
        {
            return refused(request, &full).await;
        }
        let request = match self.whole(request, method, account, is_own).await {
            Ok(request) => request,
            Err(refusal) => return Ok(refusal.into_http()),
        };
        if connection.has_shown_credential.load(Relaxed) {
            connection.is_known.store(true, Relaxed);
        }
        let Some(services) = services.filter(|_| !is_health) else {
            return self.health.clone().call(request).await;
        };
        let caller = CallerId::new(principal, connection.account.number);
        let Some(_permit) = self.admission.permit(caller) else {
            return Ok(self.admission.refuse(request).await);
        };
        let _executed = self.in_flight.calls.token();
        services.clone().call(request).await
    }

    /// The same request with whole messages. That of a unary call has come.
    async fn whole(
        &self,
        request: http::Request<Body>,
        method: &Arc<Method>,
        account: &CallAccount,
        is_own: bool,
    ) -> Result<http::Request<Body>, Status> {
        let (parts, body) = request.into_parts();
        let (method, account) = (Arc::clone(method), account.clone());
        let is_one_message = !method.client_streams;
        // Streams of our services end by themselves, with the answers that are left.
        let phase = (is_one_message || !is_own).then(|| self.phase.clone());
        let messages = Messages::new(body, &parts.headers, method, account, phase);
        let body = if is_one_message { messages.one().await? } else { messages.stream() };
        Ok(http::Request::from_parts(parts, body))
    }
}

/// What HTTP buffers for a call, in the accounts of this one.
struct Charge {
    call: CallAccount,
    connection: Arc<ConnectionAccount>,
}

impl sessiond_connect::Charge for Charge {
    fn take(&self, bytes: usize) -> Result<(), Status> {
        self.call.take(bytes).map_err(|full| refusal(&full))
    }

    fn give_back(&self, bytes: usize) {
        self.call.give_back(bytes);
    }

    fn unread(&self, bytes: usize) -> Box<dyn Send + Sync> {
        Box::new(self.connection.unread(bytes))
    }
}

type Answered = Result<http::Response<Body>, Infallible>;

/// The answer to a call that no handler gets.
async fn refused(request: http::Request<Body>, error: &Error) -> Answered {
    Ok(after_rest(request, refusal(error).into_http()).await)
}

fn without_body(request: &http::Request<Body>) -> http::Request<Body> {
    let mut empty = http::Request::new(Body::empty());
    empty.uri_mut().clone_from(request.uri());
    empty.method_mut().clone_from(request.method());
    empty.headers_mut().clone_from(request.headers());
    empty
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
        let mut request = request.map(Body::new);
        let begun = self.begin(&request);
        let principal = begun.as_ref().ok().map(|begun| &begun.principal);
        let mut log = shared.notes.begin(&request, principal, &connection.peer);
        if let Some(log) = &log {
            request = log.request(request);
        }
        if let Ok(Begun { principal, account, .. }) = &begun {
            let extensions = request.extensions_mut();
            extensions.insert(ConnectionId(connection.account.number));
            extensions.insert(account.clone());
            if let Some(meter) = extensions.get::<Meter>() {
                let connection = Arc::clone(&connection.account);
                meter.set(Arc::new(Charge { call: account.clone(), connection }));
            }
            if let Principal::Identified(_) = principal {
                extensions.insert(principal.clone());
                // The layers below do not need the token, so they cannot log it.
                request.headers_mut().remove(http::header::AUTHORIZATION);
            }
        }
        let method = shared.methods.get(request.uri().path()).cloned();
        Box::pin(async move {
            let (answer, account, open) = match begun {
                Ok(begun) => {
                    let answer = shared.answer(request, method.as_ref(), &begun, &connection);
                    (answer.await?, begun.account, Some(begun.open))
                }
                // Without a place for it, nothing waits for its rest.
                Err((error, None)) => (refusal(&error).into_http(), CallAccount::default(), None),
                Err((error, Some((open, account)))) => {
                    (refused(request, &error).await?, account, Some(open))
                }
            };
            if let Some(log) = &mut log {
                log.answered(answer.headers());
            }
            let is_unary = method.is_none_or(|method| method.is_unary());
            let connection = Arc::clone(&connection.account);
            Ok(answer
                .map(|body| AnswerBody::new(body, connection, account, is_unary, log, open).into()))
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
