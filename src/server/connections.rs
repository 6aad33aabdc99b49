//! The accept loop: hyper serves every connection until its client leaves or the server shuts down.

use std::{future::pending, io, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{AbortHandle, Abortable};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite},
    sync::watch,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::either::Either;

use super::{
    connection_limit::{ConnectionLimit, IsKnown},
    dispatch::{Dispatch, Way},
    health::{Phase, draining},
    http::Http,
    identity::Authenticator,
    listener::{Listener, Stream, peer},
    socket::Socket,
};

/// Bytes that a client may send on one stream, and on one connection, before the server has read them. Requests are read as they come, and
/// a stream of the client is charged its window.
pub const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Streams of one connection. Clients with more calls open a further connection.
const STREAMS_PER_CONNECTION: u32 = 256;

/// Calls given up that HTTP/2 bears in a row: as many as a client may have begun before it gives all of them up, several times.
const RESETS: usize = 4096;

/// Bytes of a request's headers: a bearer token of the longest kind, and as much beside it.
const HEADER_BYTES: u32 = 32 * 1024;

/// Seconds of silence after which a client is pinged, and seconds that it has to answer: a watch of a client that vanished ends within a
/// minute.
const KEEPALIVE_INTERVAL_SECS: u64 = 40;
const KEEPALIVE_TIMEOUT_SECS: u64 = 20;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Seconds that a client has to send them, and to begin TLS before: clients do so at once, even without a request.
const PREFACE_TIMEOUT_SECS: u64 = 30;

/// How long a connection that ends waits for its client to receive the last answers and to end its direction.
const LINGER: Duration = Duration::from_secs(5);

/// The service of every connection, with the authentication of its callers.
#[derive(Clone)]
pub struct Edge {
    pub dispatch: Dispatch,
    pub authenticator: Arc<Authenticator>,
}

/// The listeners of calls: of gRPC, and perhaps of HTTP.
pub struct Listeners {
    pub grpc: Listener,
    pub http: Option<(Listener, Http)>,
}

impl Listeners {
    /// The next connection, how TLS begins on it, and the service in front of its calls if it is one of HTTP.
    async fn accept(&self) -> (Stream, Option<TlsAcceptor>, Option<Http>) {
        let http = async {
            match &self.http {
                Some((listener, http)) => (listener.accept().await, http.clone()),
                None => pending().await,
            }
        };
        tokio::select! {
            (stream, tls) = self.grpc.accept() => (stream, tls, None),
            ((stream, tls), http) = http => (stream, tls, Some(http)),
        }
    }
}

/// Accepts connections until the shutdown, then waits until the last of them has ended.
pub async fn serve(
    listeners: Listeners,
    mut limit: ConnectionLimit,
    edge: Edge,
    phase: watch::Receiver<Phase>,
) {
    let connections = GracefulShutdown::new();
    let mut stop = pin!(draining(phase.clone()));
    loop {
        let (stream, tls, http) = tokio::select! {
            () = &mut stop => break,
            accepted = listeners.accept() => accepted,
        };
        // Its client is told by the end of the connection.
        let Some(permit) = limit.permit().await else { continue };
        let (edge, phase, watcher) = (edge.clone(), phase.clone(), connections.watcher());
        let is_known = IsKnown::default();
        let known = Arc::clone(&is_known);
        let task = tokio::spawn(async move {
            accepted((stream, tls, http), edge, (phase, watcher), known).await;
            drop(permit);
        });
        limit.opened(task.abort_handle(), is_known);
    }
    drop(listeners);
    connections.shutdown().await;
}

async fn accepted(
    (stream, tls, http): (Stream, Option<TlsAcceptor>, Option<Http>),
    Edge { dispatch, authenticator }: Edge,
    (phase, watcher): (watch::Receiver<Phase>, Watcher),
    is_known: IsKnown,
) {
    let peer = peer(&stream);
    let way = match &http {
        None => Way::Grpc,
        Some(http) => Way::Http { takes_writes: !http.is_read_only() },
    };
    let dispatch = |caller| dispatch.with_caller(caller, peer, is_known, way);
    let Some(tls) = tls else {
        let caller = match &stream {
            Either::Left(_) => authenticator.of_tcp(None),
            Either::Right(unix) => authenticator.of_unix(unix.peer_cred()),
        };
        return connection(stream, dispatch(caller), http, phase, watcher).await;
    };
    let handshake = timeout(Duration::from_secs(PREFACE_TIMEOUT_SECS), tls.accept(stream));
    let accepted = tokio::select! {
        () = draining(phase.clone()) => return,
        accepted = handshake => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let caller = authenticator.of_tcp(certificates.and_then(|chain| chain.first()));
            connection(stream, dispatch(caller), http, phase, watcher).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a client could not begin TLS"),
        Err(_) => tracing::debug!("a client did not begin TLS in time"),
    }
}

async fn connection(
    mut stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    dispatch: Dispatch,
    http: Option<Http>,
    phase: watch::Receiver<Phase>,
    watcher: Watcher,
) {
    // HTTP waits for the preface however long it takes, also at a shutdown.
    let preface = tokio::select! {
        () = draining(phase) => return,
        preface = timeout(Duration::from_secs(PREFACE_TIMEOUT_SECS), preface(&mut stream)) => preface,
    };
    let Ok(Ok(preface)) = preface else { return };
    let in_flight = dispatch.in_flight().sockets.clone();
    let (socket, polls) = Socket::new(stream, preface, in_flight, LINGER);
    let (end, registration) = AbortHandle::new_pair();
    dispatch.ends_with(end);
    let (builder, io) = (self::http(http.is_none()), TokioIo::new(socket));
    let served = match http {
        None => {
            let served = builder.serve_connection(io, TowerToHyperService::new(dispatch));
            Abortable::new(polls.serve(watcher.watch(served)), registration).await
        }
        Some(http) => {
            let service = TowerToHyperService::new(http.service(dispatch));
            let served = builder.serve_connection(io, service);
            Abortable::new(polls.serve(watcher.watch(served)), registration).await
        }
    };
    // The server has logged it if it ends the connection itself.
    if let Ok(Err(error)) = served {
        tracing::debug!(error, "a connection failed");
    }
}

/// The first bytes, up to the preface's length or to the first that is not the preface's. HTTP reads them again.
async fn preface(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(PREFACE.len());
    while bytes.len() < PREFACE.len() && PREFACE.starts_with(&bytes) {
        let missing = PREFACE.len() - bytes.len();
        if reader.take(missing as u64).read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Ok(bytes)
}

pub(super) fn http(is_grpc: bool) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if is_grpc {
        builder = builder.http2_only();
    }
    builder
        .http1()
        .timer(TokioTimer::new())
        // Also between two requests.
        .header_read_timeout(Duration::from_secs(PREFACE_TIMEOUT_SECS))
        .max_buf_size(HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_pending_accept_reset_streams(RESETS)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(Duration::from_secs(KEEPALIVE_INTERVAL_SECS))
        .keep_alive_timeout(Duration::from_secs(KEEPALIVE_TIMEOUT_SECS));
    builder
}

#[cfg(test)]
mod tests;
