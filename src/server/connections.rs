//! The accept loop: hyper serves every connection until its client leaves or the server shuts down.

use std::{
    io::{self, Cursor},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, join, split},
    sync::watch,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{either::Either, task::TaskTracker};

use super::{
    connection_limit::ConnectionLimit,
    front::Front,
    gathered::gathered,
    health::{Phase, draining},
    identity::Authenticator,
    listener::{Halves, Listener},
    read_quota::quota,
};

/// Bytes that a client may send on one stream, and on one connection, before it waits for the server: the largest message, so that
/// none needs two round trips, and a few of them side by side.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Requests in flight on one connection, and calls given up that HTTP/2 bears in a row: more than agents need, and they bound its memory.
const STREAMS_PER_CONNECTION: u32 = 4096;

/// Bytes of a request's headers: a bearer token of the longest kind, and as much beside it.
const HEADER_BYTES: u32 = 32 * 1024;

/// Seconds of silence after which a client is pinged, and seconds that it has to answer: a watch of a client that vanished ends within a
/// minute.
const KEEPALIVE_INTERVAL_SECS: u64 = 40;
const KEEPALIVE_TIMEOUT_SECS: u64 = 20;

/// The bytes that every HTTP/2 client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Seconds that a client has to send them, and to begin TLS before: clients do so at once, even without a request.
const PREFACE_TIMEOUT_SECS: u64 = 30;

/// How long the loop pauses after a connection could not be accepted, which mostly means that no file descriptor is left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// At a shutdown, how long a connection without requests may take to end: time for the last answers to arrive, and for clients to
/// learn that no more calls are taken. What the socket of a client does not take counts as a request. Clients that do not answer at all would hold the shutdown until the keepalive ends them.
const IDLE_GRACE: Duration = Duration::from_secs(5);

/// The service of every connection, with the authentication of its callers.
pub struct Edge {
    pub front: Front,
    pub authenticator: Arc<Authenticator>,
}

/// Accepts connections until the shutdown, then waits until the last of them has ended.
pub async fn serve(
    listener: Listener,
    mut limit: ConnectionLimit,
    edge: Edge,
    phase: watch::Receiver<Phase>,
) {
    let Edge { front, authenticator } = edge;
    let connections = GracefulShutdown::new();
    let mut stop = pin!(draining(phase.clone()));
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((halves, tls)) => {
                // Its client is told by the end of the connection.
                let Some(place) = limit.place() else { continue };
                let (phase, watcher) = (phase.clone(), connections.watcher());
                let served = match tls {
                    None => {
                        let front = front.with_caller(match &halves.0 {
                            Either::Left(_) => authenticator.of_tcp(None),
                            Either::Right(unix) => authenticator.of_unix(unix.as_ref().peer_cred()),
                        });
                        Either::Left(connection(halves, front, phase, watcher))
                    }
                    Some(tls) => {
                        let (front, authenticator) = (front.clone(), Arc::clone(&authenticator));
                        let edge = Edge { front, authenticator };
                        Either::Right(encrypted(tls, halves, edge, phase, watcher))
                    }
                };
                tokio::spawn(async move {
                    served.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// Waits until no request has been in flight for a while, at most half of `drain_timeout`.
pub async fn idle(in_flight: &TaskTracker, drain_timeout: Duration) {
    in_flight.close();
    loop {
        in_flight.wait().await;
        sleep(IDLE_GRACE.min(drain_timeout / 2)).await;
        if in_flight.is_empty() {
            return;
        }
    }
}

/// A connection within TLS.
async fn encrypted(
    tls: TlsAcceptor,
    (reader, writer): Halves,
    Edge { front, authenticator }: Edge,
    phase: watch::Receiver<Phase>,
    watcher: Watcher,
) {
    let handshake =
        timeout(Duration::from_secs(PREFACE_TIMEOUT_SECS), tls.accept(join(reader, writer)));
    let accepted = tokio::select! {
        () = draining(phase.clone()) => return,
        accepted = handshake => accepted,
    };
    match accepted {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let caller = authenticator.of_tcp(certificates.and_then(|chain| chain.first()));
            connection(split(stream), front.with_caller(caller), phase, watcher).await;
        }
        Ok(Err(error)) => tracing::debug!(%error, "a client could not begin TLS"),
        Err(_) => tracing::debug!("a client did not begin TLS in time"),
    }
}

async fn connection<R, W>(
    (mut reader, writer): (R, W),
    front: Front,
    phase: watch::Receiver<Phase>,
    watcher: Watcher,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    // HTTP waits for the preface however long it takes, also at a shutdown.
    let preface = tokio::select! {
        () = draining(phase) => return,
        preface = timeout(Duration::from_secs(PREFACE_TIMEOUT_SECS), preface(&mut reader)) => preface,
    };
    let Ok(Ok(preface)) = preface else { return };
    let (reader, quota) = quota(reader, front.tells_callers_apart());
    let (writer, flusher) = gathered(writer);
    let (in_flight, calls) = (front.in_flight().clone(), front.calls());
    let io = TokioIo::new(join(Cursor::new(preface).chain(reader), writer));
    let http = http();
    let served = watcher.watch(http.serve_connection(io, TowerToHyperService::new(front)));
    let served = quota.serve(served);
    if let Err(error) = flusher.serve(served, in_flight, calls).await {
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

pub(super) fn http() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .max_pending_accept_reset_streams(STREAMS_PER_CONNECTION as usize)
        .max_header_list_size(HEADER_BYTES)
        .keep_alive_interval(Duration::from_secs(KEEPALIVE_INTERVAL_SECS))
        .keep_alive_timeout(Duration::from_secs(KEEPALIVE_TIMEOUT_SECS));
    builder
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::{
        io::{AsyncWriteExt as _, DuplexStream, duplex, split},
        task::unconstrained,
        time::{Instant, pause},
    };

    use super::*;
    use crate::{config::IdentityArgs, server::identity::Caller, store::Condition};

    #[tokio::test]
    async fn requests_are_over_when_none_was_left_for_a_while() {
        pause();
        let in_flight = TaskTracker::new();
        let hour = Duration::from_secs(3600);
        let (first, second) = (in_flight.token(), in_flight.token());
        assert!(timeout(hour, idle(&in_flight, hour)).await.is_err(), "two are in flight");
        drop(first);
        assert!(timeout(hour, idle(&in_flight, hour)).await.is_err(), "one is in flight");
        drop(second);
        let mut over = pin!(idle(&in_flight, hour));
        assert!(timeout(IDLE_GRACE / 2, &mut over).await.is_err(), "that may be a pause");
        let late = in_flight.token();
        assert!(timeout(hour, &mut over).await.is_err());
        drop(late);
        assert!(timeout(IDLE_GRACE / 2, &mut over).await.is_err(), "the wait begins anew");
        assert!(timeout(IDLE_GRACE, over).await.is_ok());
        let short = IDLE_GRACE / 5;
        assert!(timeout(short, idle(&in_flight, short)).await.is_ok(), "half of what there is");
    }

    #[tokio::test]
    async fn the_preface_is_read_as_far_as_it_is_one() {
        for (sent, expected) in [
            (PREFACE.to_vec(), PREFACE.to_vec()),
            ([PREFACE, b"more"].concat(), PREFACE.to_vec()),
            (b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            (b"PRI".to_vec(), b"PRI".to_vec()),
            (Vec::new(), Vec::new()),
        ] {
            assert_eq!(preface(&mut sent.as_slice()).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
    async fn a_connection_without_a_preface_is_closed() {
        pause();
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        let front = || {
            let (services, notes) = Default::default();
            Front::new(services, phase.subscribe(), TaskTracker::new(), notes, None)
        };
        let watcher = || GracefulShutdown::new().watcher();
        let began = Instant::now();
        let (mut client, server) = duplex(64);
        client.write_all(b"PRI * HT").await.unwrap();
        connection(split(server), front(), phase.subscribe(), watcher()).await;
        assert_eq!(began.elapsed().as_secs(), PREFACE_TIMEOUT_SECS);
        phase.send_replace(Phase::Draining);
        let (_client, server) = duplex(64);
        connection(split(server), front(), phase.subscribe(), watcher()).await;
        assert_eq!(began.elapsed().as_secs(), PREFACE_TIMEOUT_SECS, "at once");
    }

    /// A connection of a client that has sent these frames, its other end, and the phase of the server.
    async fn sent(
        caller: Option<Arc<Caller>>,
        frames: Vec<u8>,
    ) -> (impl Future<Output = ()>, DuplexStream, watch::Sender<Phase>) {
        // Length, kind, flags, stream.
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let (mut client, server) = duplex(1 << 20);
        client.write_all(&[PREFACE, &settings, &frames].concat()).await.unwrap();
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        let (services, notes) = Default::default();
        let front = Front::new(services, phase.subscribe(), TaskTracker::new(), notes, None);
        let front = front.with_caller(caller);
        let watcher = GracefulShutdown::new().watcher();
        (connection(split(server), front, phase.subscribe(), watcher), client, phase)
    }

    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0a ping's";

    fn pings(answers: &[u8]) -> usize {
        answers.windows(8).filter(|bytes| bytes == b"a ping's").count()
    }

    /// The answers to 3,000 pings that have come, once the connection has been polled.
    async fn answered_pings(caller: Option<Arc<Caller>>) -> usize {
        let (served, mut client, _phase) = sent(caller, PING.repeat(3_000)).await;
        let mut served = pin!(unconstrained(served));
        assert!(futures_util::poll!(&mut served).is_pending());
        let mut answers = Vec::new();
        while let Some(read) = client.read_buf(&mut answers).now_or_never() {
            read.unwrap();
        }
        pings(&answers)
    }

    #[tokio::test]
    async fn a_connection_of_an_identified_caller_has_a_quota() {
        let args = IdentityArgs { unix_peers: true, ..IdentityArgs::default() };
        let authenticator = Arc::new(Authenticator::load(&args).unwrap());
        let caller = authenticator.of_unix(Err(io::ErrorKind::Unsupported.into()));
        assert!(caller.is_some());
        let (identified, local) = (answered_pings(caller).await, answered_pings(None).await);
        assert!(identified < 1_000 && local == 3_000, "{identified}, {local}");
    }

    #[tokio::test]
    async fn a_connection_outlives_a_backlog_of_calls_that_were_given_up() {
        let given_up = (0..20_000_u32).flat_map(|call| {
            let stream = (2 * call + 1).to_be_bytes();
            let headers = [b"\0\0\x03\x01\x04", &stream[..], b"\x83\x86\x84"];
            let reset = [b"\0\0\x04\x03\0", &stream[..], b"\0\0\0\x08"];
            [headers, reset].concat().concat()
        });
        let frames = given_up.chain(PING.iter().copied()).collect();
        let (served, mut client, _phase) = sent(None, frames).await;
        tokio::spawn(served);
        let mut answers = Vec::new();
        while pings(&answers) == 0 {
            let read = client.read_buf(&mut answers).await.unwrap();
            assert_ne!(read, 0, "the server ended the connection");
        }
    }
}
