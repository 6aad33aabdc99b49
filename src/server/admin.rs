//! The admin listener: HTTP for those who look after the server. Its address is its own, so that callers need not reach it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    routing::{get, put},
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, join},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};

use super::{
    connections::{ACCEPT_PAUSE, Listener},
    health::Phase,
};
use crate::{store::Condition, telemetry};

/// Connections at once: probes and a collector of metrics need a few.
const CONNECTIONS: usize = 64;

/// Bytes of a filter: levels for more targets than there are.
const FILTER_BYTES: usize = 4096;

/// Seconds that a request and its answer may take.
const REQUEST_TIMEOUT_SECS: u64 = 10;

pub fn routes(phase: watch::Receiver<Phase>) -> Router {
    Router::new()
        .route("/livez", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/log", put(set_log).layer(DefaultBodyLimit::max(FILTER_BYTES)))
        .route("/version", get(async || concat!(env!("CARGO_PKG_VERSION"), "\n")))
        .with_state(phase)
}

/// Replaces the filter of the log until the server ends.
async fn set_log(filter: String) -> (StatusCode, String) {
    match telemetry::set_filter(filter.trim()) {
        Ok(()) => {
            tracing::info!(filter = filter.trim(), "the filter of the log was replaced");
            (StatusCode::OK, "ok\n".to_owned())
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
    }
}

/// Whether calls of every kind are taken, and why not.
async fn ready(State(phase): State<watch::Receiver<Phase>>) -> (StatusCode, &'static str) {
    let reason = match *phase.borrow() {
        Phase::Open(Condition::Ready) => return (StatusCode::OK, "ok\n"),
        Phase::Starting => "starting: the store is not open yet\n",
        Phase::Draining => "draining: the server is shutting down\n",
        Phase::Open(Condition::DiskFull) => {
            "disk full: only reads and deletions are taken. Free space on the disk of the store\n"
        }
        Phase::Open(Condition::FileLost) => {
            "file lost: the database file was removed or replaced. Restart the server\n"
        }
        Phase::Open(Condition::Unreachable) => {
            "unreachable: the database cannot be reached or does not take writes\n"
        }
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason)
}

/// Accepts connections for ever.
pub async fn serve(listener: Listener, routes: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let ((reader, writer), tls) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection of the admin listener");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let routes = routes.clone();
        tokio::spawn(async move {
            let _place = place;
            let answered = timeout(Duration::from_secs(REQUEST_TIMEOUT_SECS), async {
                match tls {
                    None => answer(join(reader, writer), routes).await,
                    Some(tls) => match tls.accept(join(reader, writer)).await {
                        Ok(stream) => answer(stream, routes).await,
                        Err(error) => tracing::debug!(%error, "a client could not begin TLS"),
                    },
                }
            });
            if answered.await.is_err() {
                tracing::debug!("a request of the admin listener took too long");
            }
        });
    }
}

/// Answers one request.
async fn answer(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, routes: Router) {
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).keep_alive(false);
    let service = TowerToHyperService::new(routes);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(error, "a connection of the admin listener failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_ready_says_why() {
        let phases = [
            (Phase::Starting, "starting"),
            (Phase::Open(Condition::DiskFull), "disk full"),
            (Phase::Open(Condition::FileLost), "file lost"),
            (Phase::Open(Condition::Unreachable), "unreachable"),
            (Phase::Draining, "draining"),
        ];
        let phase = watch::Sender::new(Phase::Open(Condition::Ready));
        assert_eq!(ready(State(phase.subscribe())).await, (StatusCode::OK, "ok\n"));
        for (now, reason) in phases {
            phase.send_replace(now);
            let (status, body) = ready(State(phase.subscribe())).await;
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(body.starts_with(reason) && body.ends_with('\n'), "{body}");
        }
    }
}
