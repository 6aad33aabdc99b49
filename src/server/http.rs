//! HTTP in front of the services: the Connect protocol, health, and the checks that keep pages of others away.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use http_body_util::Full;
use sessiond_connect::{Connect, Options, Refused, Title, plain};
use tokio::sync::watch;
use tonic::{
    Status,
    body::Body,
    codegen::{
        self, BoxFuture, Bytes, Service, StdError,
        http::{
            HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode,
            header::{
                ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
                ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
                ACCESS_CONTROL_REQUEST_HEADERS, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN,
                REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
            },
            uri::Authority,
        },
    },
};

use tonic_web::{GrpcWebLayer, GrpcWebService};
use tower_layer::Layer as _;

use super::{
    admin::readiness,
    admission::after_rest,
    dispatch::Dispatch,
    health::{Phase, refusal},
    inspector::Inspector,
    listener::Listener,
};
use crate::{
    config::{Config, HttpArgs},
    domain::{error::Error, limits::MESSAGE_BYTES},
    proto,
    rpc::status::bad_message,
};

const OTHER_HOST: &str = "The Host of the request is another one. Use localhost, the address of --http-listen or a name of --http-hosts.";
const OTHER_ORIGIN: &str =
    "The Origin of the request is another one. Use a page of this server or one of --http-origins.";

/// How gRPC-Web names itself.
const WEB: &str = "application/grpc-web+proto";

/// Seconds that a browser remembers what another origin may do.
const PREFLIGHT_SECS: &str = "7200";

/// The HTTP listener's rules, the same for all of its connections.
#[derive(Clone)]
pub struct Http {
    shared: Arc<Shared>,
    connect: Connect<()>,
}

struct Shared {
    /// `None`: a Unix socket, to which no browser gets.
    hosts: Option<Hosts>,
    origins: Vec<String>,
    is_read_only: bool,
    inspector: Inspector,
    /// The description of the calls, once it was asked for.
    openapi: OnceLock<Bytes>,
    phase: watch::Receiver<Phase>,
}

/// The hosts that a request may name. Another one means that a page made its own name lead here.
struct Hosts {
    named: Vec<String>,
    is_loopback: bool,
}

impl Hosts {
    fn contain(&self, host: &str) -> bool {
        // The dot ends a name that is whole.
        let host = host.strip_suffix('.').unwrap_or(host);
        let is_address = || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        self.named.iter().any(|it| it.eq_ignore_ascii_case(host))
            || (!self.is_loopback && is_address())
    }
}

impl Http {
    pub fn new(config: &Config, listener: &Listener, phase: watch::Receiver<Phase>) -> Self {
        let args = &config.http;
        let hosts = listener.tcp().map(|(host, address)| {
            let own = match address.ip() {
                IpAddr::V4(ip) => ip.to_string(),
                IpAddr::V6(ip) => format!("[{ip}]"),
            };
            let own = ["localhost".to_owned(), host.to_owned(), own];
            let named = own.into_iter().chain(args.http_hosts.iter().cloned()).collect();
            Hosts { named, is_loopback: address.ip().is_loopback() }
        });
        let &HttpArgs { http_read_only: is_read_only, ref http_origins, .. } = args;
        let inspector = Inspector::new(is_read_only, config.identifies());
        let options =
            Options { pool: proto::pool(), message_bytes: MESSAGE_BYTES, refusal: refused };
        let origins = http_origins.clone();
        let openapi = OnceLock::new();
        let shared = Shared { hosts, origins, is_read_only, inspector, openapi, phase };
        Self { shared: Arc::new(shared), connect: Connect::new((), options) }
    }

    pub fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }

    /// The service of a connection.
    pub fn service(&self, dispatch: Dispatch) -> HttpService {
        let web = GrpcWebLayer::new().layer(dispatch.clone());
        let connect = self.connect.in_front_of(dispatch);
        HttpService { shared: Arc::clone(&self.shared), connect, web }
    }
}

/// The status of a request that is no message of its method.
fn refused(refused: Refused) -> Status {
    match refused {
        Refused::Invalid(cause, advice) => bad_message(&cause, advice),
        Refused::NotOne => {
            let advice = "Send one message in an envelope: a byte of flags (0), four of its length, and the message.";
            bad_message("not one message in an envelope", advice)
        }
        Refused::Flags => {
            let advice = "Send 0 for a plain message, and 1 with `connect-content-encoding: gzip`.";
            bad_message("its compression flag is wrong", advice)
        }
        Refused::TooLarge => refusal(&Error::MessageTooLarge),
        Refused::Deadline => refusal(&Error::ExpiredInQueue),
        Refused::ClientStreams => refusal(&Error::NotOverHttp),
        Refused::Compression => {
            bad_message("its compression is not known", "Compress it with gzip, or not at all.")
        }
    }
}

impl Shared {
    /// Whether the request names this server, and no other. HTTP/2 has the host in its address.
    fn is_meant<B>(&self, request: &Request<B>) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let names_one = request.headers().get_all(HOST).iter().count() < 2;
        names_one && authority(request).is_some_and(|it| hosts.contain(it.host()))
    }

    /// Whether the page that sent the request may do so; the origin, if it is that of another server.
    fn other_origin<B>(&self, request: &Request<B>) -> Result<Option<HeaderValue>, ()> {
        let Some(origin) = request.headers().get(ORIGIN) else { return Ok(None) };
        let text = origin.to_str().map_err(drop)?.to_ascii_lowercase();
        let own = authority(request);
        let host = ["http://", "https://"].into_iter().find_map(|it| text.strip_prefix(it));
        if own.is_some_and(|own| host.is_some_and(|it| own.as_str().eq_ignore_ascii_case(it))) {
            return Ok(None);
        }
        self.origins.contains(&text).then(|| Some(origin.clone())).ok_or(())
    }

    /// The origin of a page of another server; or the answer to a request that is no call, or none that may be passed on.
    fn before_call<B>(
        &self,
        request: &Request<B>,
    ) -> Result<Option<HeaderValue>, Box<Response<Body>>> {
        let answered = |answer, origin| Err(Box::new(complete(answer, origin)));
        if let Some(answer) = self.answer(request) {
            return answered(answer, None);
        }
        match self.other_origin(request) {
            Err(()) => answered(plain(StatusCode::FORBIDDEN, Vec::new(), OTHER_ORIGIN), None),
            Ok(origin @ Some(_)) if request.method() == Method::OPTIONS => {
                answered(preflight(request.headers()), origin)
            }
            Ok(origin) => Ok(origin),
        }
    }

    /// The answer to a request that is no call.
    fn answer<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/healthz" if is_read => {
                let (code, text) = readiness(*self.phase.borrow(), false);
                let mut response = Response::new(Body::new(text.to_owned()));
                *response.status_mut() = code;
                Some(response)
            }
            _ if !self.is_meant(request) => {
                Some(plain(StatusCode::MISDIRECTED_REQUEST, Vec::new(), OTHER_HOST))
            }
            "/openapi.json" if is_read => {
                let document = self.openapi.get_or_init(openapi).clone();
                let mut response = Response::new(Body::new(Full::from(document)));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(CONTENT_TYPE, json);
                Some(response)
            }
            _ if is_read => self.inspector.answer(request),
            _ => None,
        }
    }
}

/// The calls of the contract in OpenAPI.
fn openapi() -> Bytes {
    let about = Title {
        title: "sessiond",
        version: env!("CARGO_PKG_VERSION"),
        description: "Sessions, events and scoped state of AI agents, by the Connect protocol in JSON. \
            Watch and AppendEventStream are streams, which OpenAPI does not describe.",
    };
    let document = sessiond_connect::openapi(&proto::pool(), "sessiond.v1", &about);
    document.to_string().into()
}

fn authority<B>(request: &Request<B>) -> Option<Authority> {
    let host = || Authority::try_from(request.headers().get(HOST)?.as_bytes()).ok();
    request.uri().authority().cloned().or_else(host)
}

/// Whether a request is one of gRPC-Web in binary, which is all of it that is served.
fn is_grpc_web<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    ["application/grpc-web", WEB].iter().any(|it| kind.eq_ignore_ascii_case(it))
}

/// The answer to a browser that asks whether a page of another origin may call.
fn preflight(asked: &HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECS));
    if let Some(asked) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, asked.clone());
    }
    response
}

/// Headers of every answer: data is kept by no cache, and read as nothing else than it says.
const HEADERS: [(HeaderName, &str); 4] = [
    (CACHE_CONTROL, "no-store"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

fn complete(mut response: Response<Body>, origin: Option<HeaderValue>) -> Response<Body> {
    let is_unauthenticated = response.status() == StatusCode::UNAUTHORIZED;
    let headers = response.headers_mut();
    if is_unauthenticated {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
        headers.insert(VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// What answers the requests of a connection.
#[derive(Clone)]
pub struct HttpService {
    shared: Arc<Shared>,
    connect: Connect<Dispatch>,
    web: GrpcWebService<Dispatch>,
}

impl<B> Service<Request<B>> for HttpService
where
    B: codegen::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let origin = match self.shared.before_call(&request) {
            Ok(origin) => origin,
            Err(answer) => return rest_and(request, *answer),
        };
        let mut request = request.map(Body::new);
        if is_grpc_web(&request) {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(WEB));
            let answer = self.web.call(request);
            return Box::pin(async move { Ok(complete(answer.await?, origin)) });
        }
        let (parts, body) = request.into_parts();
        let answer = match self.connect.read(&parts) {
            Ok(call) => self.connect.pass(call, parts, body),
            Err(refusal) => rest_and(Request::from_parts(parts, body), *refusal),
        };
        Box::pin(async move { Ok(complete(answer.await?, origin)) })
    }
}

/// The answer to a request that no service gets, once that has come.
fn rest_and<B>(request: Request<B>, answer: Response<Body>) -> BoxFuture<Response<Body>, Infallible>
where
    B: codegen::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    Box::pin(async move { Ok(after_rest(request.map(Body::new), answer).await) })
}

#[cfg(test)]
mod tests;
