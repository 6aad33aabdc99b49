//! From flags to a running server and back: bind, open the store, serve, drain. One straight line.
//!
//! Tests start the server through here as well, with the end of their own future for a signal.

mod front;
mod listener;
mod under_way;
mod unspoken;

use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tonic::{service::Routes, transport::Server};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    config::Config,
    engine::{
        Engine, EngineOptions, clock::SystemClock, invocations::InvocationLimits, new_store_id,
    },
    rpc::{self, RpcOptions},
    store::{self, StoreOptions},
};
use front::Front;
use listener::Listener;
use under_way::Calls;

/// Bytes that a client may have under way on one stream, and on one connection, before it waits for the server: the largest
/// message, so that none needs two round trips, and a few of them side by side.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Calls under way on one connection: more than any pool of agents has, few enough that one client cannot take all memory.
const STREAMS_PER_CONNECTION: u32 = 4096;

/// Seconds of silence after which a connection is asked whether its client still lives, and seconds it has to answer: a watch of a
/// client that vanished without a word ends within a minute.
const KEEPALIVE_INTERVAL_SECS: u64 = 40;
const KEEPALIVE_TIMEOUT_SECS: u64 = 20;

/// Why a server could not start: a whole sentence that tells what to do.
#[derive(Debug)]
pub struct StartError(String);

impl StartError {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// A server that takes calls.
pub struct Running {
    address: String,
    engine: Arc<Engine>,
    health: HealthReporter,
    draining: watch::Sender<bool>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    calls: Calls,
    drain_timeout: Duration,
}

/// Binds, opens the store and serves. From the moment of binding health answers, with NOT_SERVING until this returns.
pub async fn start(config: &Config) -> Result<Running, StartError> {
    let listener = Listener::bind(&config.listen, config.insecure).await?;
    let address = listener.address();
    let (health, health_service) = tonic_health::server::health_reporter();
    set_health(&health, ServingStatus::NotServing).await;
    let ready = Arc::new(OnceLock::new());
    let draining = watch::Sender::new(false);
    let health_alone = Routes::new(health_service.clone()).prepare();
    let calls = Calls::default();
    let front = Front::new(health_alone, Arc::clone(&ready), draining.subscribe(), calls.clone());
    let serving = listener.serve(transport(), front, draining.subscribe());

    let store = match store::open(&config.store, store_options(config)?).await {
        Ok(store) => store,
        Err(error) => {
            serving.abort();
            return Err(StartError::new(error.to_string()));
        }
    };
    let engine = Arc::new(Engine::new(store, Arc::new(SystemClock), engine_options(config)));
    let options = RpcOptions { require_full_keys: config.require_full_keys };
    let routes = rpc::routes(Arc::clone(&engine), options).add_service(health_service);
    // Nobody else sets it.
    let _ = ready.set(routes.prepare());
    set_health(&health, ServingStatus::Serving).await;
    let drain_timeout = Duration::from_secs(config.drain_timeout);
    Ok(Running { address, engine, health, draining, serving, calls, drain_timeout })
}

impl Running {
    /// Where it listens, as `--server` takes it: `127.0.0.1:50051` with the real port, or `unix:/path`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Serves until `signal`, then drains: watches end with their cursor, unary calls finish, the writer writes what it accepted.
    /// Whether all of that came to its end within the time for it.
    pub async fn serve_until(mut self, signal: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = signal => {}
            () = self.engine.sweep_forever() => {}
            ended = &mut self.serving => {
                tracing::error!(?ended, "the listener ended by itself");
                self.engine.close().await;
                return false;
            }
        }
        self.drain().await
    }

    async fn drain(self) -> bool {
        tracing::info!(timeout = ?self.drain_timeout, "stopping");
        set_health(&self.health, ServingStatus::NotServing).await;
        self.draining.send_replace(true);
        self.engine.drain();
        let mut serving = self.serving;
        let drained = timeout(self.drain_timeout, async {
            let served = tokio::select! {
                served = &mut serving => served,
                // What is left are connections whose clients do not answer, not even that they have heard.
                () = self.calls.over(self.drain_timeout) => {
                    tracing::info!("connections without calls did not end and are closed");
                    Ok(Ok(()))
                }
            };
            self.engine.close().await;
            served
        })
        .await;
        serving.abort();
        match drained {
            Ok(Ok(Ok(()))) => {
                tracing::info!(
                    "stopped: every call was answered and everything accepted is stored"
                );
                true
            }
            Ok(failed) => {
                tracing::error!(
                    ?failed,
                    "stopped: the listener failed; everything accepted is stored"
                );
                false
            }
            Err(_) => {
                tracing::error!(
                    "stopped in the middle of calls, for the time to drain was over; what was acknowledged is stored"
                );
                false
            }
        }
    }
}

/// Waits until the server stops. One that is gone has stopped as well.
async fn stopped(mut draining: watch::Receiver<bool>) {
    let _ = draining.wait_for(|&draining| draining).await;
}

fn transport() -> Server {
    Server::builder()
        .tcp_nodelay(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION)
        .http2_keepalive_interval(Some(Duration::from_secs(KEEPALIVE_INTERVAL_SECS)))
        .http2_keepalive_timeout(Some(Duration::from_secs(KEEPALIVE_TIMEOUT_SECS)))
}

async fn set_health(health: &HealthReporter, status: ServingStatus) {
    for service in [""].iter().chain(&rpc::SERVICE_NAMES) {
        health.set_service_status(*service, status).await;
    }
}

fn engine_options(config: &Config) -> EngineOptions {
    EngineOptions {
        watches: config.max_watches as usize,
        invocations: InvocationLimits {
            bytes: config.max_temp_bytes as usize,
            count: config.max_invocations as usize,
            idle_secs: config.temp_idle,
        },
    }
}

fn store_options(config: &Config) -> Result<StoreOptions, StartError> {
    let crash =
        match &config.crash_point {
            None => None,
            Some(text) => Some(text.parse().map_err(|error| {
                StartError::new(format!("'{text}' is no crash point: {error}."))
            })?),
        };
    Ok(StoreOptions { readers: usize::from(config.readers), new_id: new_store_id(), crash })
}
