//! The admin listener: HTTP for those who look after the server. Its address is its own, so that callers need not reach it.

use std::{collections::VecDeque, future::ready as done, net::IpAddr, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::{DefaultBodyLimit, RawQuery, Request, State},
    http::{
        HeaderName, StatusCode,
        header::{CONTENT_TYPE, HOST},
        uri::Authority,
    },
    middleware::{Next, from_fn_with_state, map_request},
    response::{IntoResponse as _, Response},
    routing::{get, put},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    select,
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    health::Phase,
    listener::{Listener, Stream},
};
use crate::{
    logging,
    metrics::{Metrics, TEXT_FORMAT},
    store::Condition,
};

/// Connections at once: probes and a collector of metrics need a few.
const CONNECTIONS: usize = 64;

/// Bytes of a filter: levels for more targets than there are.
const FILTER_BYTES: usize = 4096;

/// From the connection to the whole head of its request, TLS included: probes send it at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// From the head to the end of the answer: reading all metrics takes two seconds at most, and a filter is short.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);

pub fn routes(phase: watch::Receiver<Phase>, metrics: Arc<Metrics>) -> Router {
    let measured = (phase.clone(), metrics);
    let metrics = Router::new().route("/metrics", get(scrape)).with_state(measured);
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/log", put(set_log).layer(DefaultBodyLimit::max(FILTER_BYTES)))
        .route(
            "/version",
            get(async || concat!(env!("CARGO_PKG_VERSION"), env!("COMMIT_SUFFIX"), "\n")),
        )
        .with_state(phase)
        .merge(metrics)
}

/// Whether a caller may change something: on a listener that only this machine reaches, or with a client certificate. A listener that
/// others reach without TLS refuses all, because a proxy in between makes every caller local.
#[derive(Clone, Copy)]
struct MayChange(bool);

/// Replaces the filter of the log until the server ends.
async fn set_log(Extension(may): Extension<MayChange>, filter: String) -> (StatusCode, String) {
    if !may.0 {
        let text = "Show a client certificate of --tls-client-ca, or use a loopback address or a Unix socket.\n";
        return (StatusCode::FORBIDDEN, text.to_owned());
    }
    match logging::set_filter(filter.trim()) {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// Whether a request is meant for this listener, as its `Host` tells: `localhost`, an IP address, or the host that the listener was passed.
///
/// A page in a browser on this machine can have its name resolved to a loopback address, and then reach what listens there without TLS
/// (DNS rebinding). The `Host` is still the page's name. A browser always sends one.
fn is_meant(request: &Request, own_host: &str) -> bool {
    let Some(host) = request.headers().get(HOST) else { return true };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host();
    host.eq_ignore_ascii_case("localhost")
        || host.eq_ignore_ascii_case(own_host)
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

/// Passes on what [`is_meant`] for the listener.
async fn check_host(State(own_host): State<Arc<str>>, request: Request, next: Next) -> Response {
    if is_meant(&request, &own_host) {
        return next.run(request).await;
    }
    let text = "The Host of the request is another one. Use localhost, an IP address or the host of --admin-listen.\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

async fn scrape(
    State((phase, metrics)): State<(watch::Receiver<Phase>, Arc<Metrics>)>,
) -> Result<([(HeaderName, &'static str); 1], String), (StatusCode, String)> {
    let current = *phase.borrow();
    for (phase, name) in Phase::NAMES {
        metrics.server.condition.with_label_values(&[name]).set(i64::from(phase == current));
    }
    match metrics.scrape().await {
        Ok(text) => Ok(([(CONTENT_TYPE, TEXT_FORMAT)], text)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))),
    }
}

/// Whether calls of every kind are taken, and why not. With `writes=false`: whether reads and deletions are, so that a full disk does not
/// keep away the deletions that help against it.
async fn ready(
    State(phase): State<watch::Receiver<Phase>>,
    RawQuery(query): RawQuery,
) -> (StatusCode, &'static str) {
    let with_writes = match query.as_deref() {
        None | Some("" | "writes=true") => true,
        Some("writes=false") => false,
        Some(_) => {
            return (StatusCode::BAD_REQUEST, "Pass writes=true, writes=false or nothing.\n");
        }
    };
    readiness(*phase.borrow(), with_writes)
}

/// Whether calls are taken, or writes as well.
pub fn readiness(phase: Phase, with_writes: bool) -> (StatusCode, &'static str) {
    let reason = match phase {
        Phase::Open(Condition::Ready) => return (StatusCode::OK, "ok\n"),
        Phase::Open(Condition::DiskFull) if !with_writes => {
            return (StatusCode::OK, "ok for reads and deletions: the disk is full\n");
        }
        Phase::Starting => "starting: the store is not open yet\n",
        Phase::Draining => "draining: the server is shutting down\n",
        Phase::Open(Condition::DiskFull) => {
            "disk full: only reads and deletions are taken. Free space on the disk of the store\n"
        }
        Phase::Open(Condition::FileLost) => {
            "file lost: the database file was removed or replaced, or the disk failed to store it. Restart the server\n"
        }
        Phase::Open(Condition::Unreachable) => {
            "unreachable: the database cannot be reached or does not take writes\n"
        }
        Phase::Open(Condition::Behind) => {
            "behind: the database lacks commits that were acknowledged, and is not used\n"
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason)
}

/// A connection that has not ended.
struct Connection {
    /// Cancelled when the head of its request is there.
    head: CancellationToken,
    task: AbortHandle,
}

/// Serves one request a connection. At the bound one is closed for the next one, so that probes always get in: the oldest
/// without a request, else the oldest.
pub async fn serve(listener: Listener, routes: Router) {
    let routes = match listener.plain_host() {
        Some(host) => routes.layer(from_fn_with_state(Arc::from(host), check_host)),
        None => routes,
    };
    let may_change = MayChange(!listener.is_open());
    let mut connections = VecDeque::<Connection>::new();
    loop {
        let (stream, tls) = listener.accept().await;
        connections.retain(|it| !it.task.is_finished());
        if connections.len() >= CONNECTIONS {
            let oldest = connections.iter().position(|it| !it.head.is_cancelled()).unwrap_or(0);
            connections.remove(oldest).inspect(|it| it.task.abort());
            tracing::debug!("a connection of the admin listener made place for another");
        }
        let head = CancellationToken::new();
        let has_come = head.clone();
        let routes = routes.clone().layer(map_request(move |request: Request| {
            has_come.cancel();
            done(request)
        }));
        let connection = connection(stream, tls, routes, may_change, head.clone());
        connections.push_back(Connection { head, task: tokio::spawn(connection).abort_handle() });
    }
}

/// A connection, within its time.
async fn connection(
    stream: Stream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    may_change: MayChange,
    head: CancellationToken,
) {
    let answered = async {
        match tls {
            None => answer(stream, routes, may_change).await,
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => {
                    let has_certificate = stream.get_ref().1.peer_certificates().is_some();
                    answer(stream, routes, MayChange(has_certificate)).await;
                }
                Err(error) => tracing::debug!(%error, "a client could not begin TLS"),
            },
        }
    };
    let late = async {
        if timeout(HEAD_TIMEOUT, head.cancelled()).await.is_ok() {
            sleep(ANSWER_TIMEOUT).await;
        }
    };
    select! {
        () = answered => {}
        () = late => tracing::debug!("a request of the admin listener took too long"),
    }
}

/// Answers one request.
async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    routes: Router,
    may_change: MayChange,
) {
    let mut http = auto::Builder::new(TokioExecutor::new()).http1_only();
    http.http1().timer(TokioTimer::new()).keep_alive(false);
    let service = TowerToHyperService::new(routes.layer(Extension(may_change)));
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection of the admin listener failed");
    }
}

#[cfg(test)]
mod tests;
