//! From flags to a running server and back: bind, open the store, serve, drain. One straight line.
//!
//! Tests start the server through here as well, with a future of their own as the signal.

mod admin;
mod admission;
mod answer;
mod call_log;
mod connection_limit;
mod connections;
mod dispatch;
mod drain;
mod exposed;
mod health;
mod http;
mod identity;
mod inspector;
mod listener;
mod messages;
mod policy;
mod reload;
mod socket;
mod tls;
mod traces;

use std::{
    future::Future,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    access::Policies,
    config::{Config, HttpArgs, HttpListen, Listen},
    engine::{Engine, EngineOptions, new_store_id},
    metrics::{MethodKind, Metrics},
    rpc::{self, BareIds},
    store::{self, StoreOptions, account::Account, instant},
};
use call_log::CallNotes;
use connection_limit::{ConnectionLimit, within_descriptors};
use connections::{Edge, Listeners};
use dispatch::Dispatch;
use drain::InFlight;
use health::Phase;
use http::Http;
use identity::Authenticator;
use listener::Listener;
use reload::Reload;
use tls::{Protocol, Tls};
use traces::Traces;

/// Where HTTP is served unless a flag says otherwise.
const HTTP_DEFAULT: &str = "127.0.0.1:8380";

pub struct Running {
    addresses: Addresses,
    engine: Arc<Engine>,
    phase: watch::Sender<Phase>,
    serving: AbortOnDropHandle<()>,
    /// The admin listener, which answers until the end, so that a probe sees the drain, and what reloads files.
    background: Vec<AbortOnDropHandle<()>>,
    in_flight: InFlight,
    traces: Option<Traces>,
    drain_timeout: Duration,
}

/// Binds, opens the store and serves. Health answers NOT_SERVING while the store is being opened. An error is one or two sentences: what
/// is wrong, and what to do.
pub async fn start(config: &Config) -> Result<Running, String> {
    exposed::warn(config);
    let metrics = Arc::new(Metrics::new(config.metrics_applications.into()));
    let tls = Tls::load(&config.tls, metrics.tls())?;
    let policy = policy::load(config)?;
    let policies =
        policy.as_ref().map_or_else(Policies::open, |policy| Policies::of(policy.subscribe()));
    let authenticator = Arc::new(Authenticator::load(&config.identity, &policies)?);
    let phase = watch::Sender::new(Phase::Starting);
    let (listeners, admin) = bind(config, tls.as_ref(), &phase).await?;
    let addresses = Addresses {
        listen: listeners.grpc.address(),
        http: listeners.http.as_ref().map(|(listener, _)| listener.address()),
        admin: admin.as_ref().map(Listener::address),
    };
    let (services, in_flight) = (Arc::new(OnceLock::new()), InFlight::default());
    // Only the admin listener shows metrics.
    let calls = admin.is_some().then(|| metrics.calls(methods()));
    let traces = Traces::from_environment();
    let dispatch = Dispatch::new(
        Arc::clone(&services),
        phase.subscribe(),
        in_flight.clone(),
        account(config, &metrics),
        CallNotes { log: config.log_calls, calls, traces: traces.clone() },
    );
    let edge = Edge { dispatch, authenticator: Arc::clone(&authenticator) };
    let limit = ConnectionLimit::new(max_connections(config), metrics.connections.clone());
    let serving = spawn(connections::serve(listeners, limit, edge, phase.subscribe()));
    let mut background = Vec::new();
    if let Some(listener) = admin {
        let routes = admin::routes(phase.subscribe(), Arc::clone(&metrics));
        background.push(spawn(admin::serve(listener, routes)));
    }
    let of_policy = policy.map(|policy| policy as Arc<dyn Reload>);
    let files: Vec<_> =
        tls.iter().map(Tls::files).chain(authenticator.files()).chain(of_policy).collect();
    if !files.is_empty() {
        let interval = Duration::from_secs(config.tls.reload_interval);
        background.push(spawn(reload::follow(files, interval, metrics.tls().clone())));
    }
    let recovered = store::unfinished_bytes(&config.store.url);
    let engine = open(config, metrics, policies).await?;
    let bare = if config.requires_full_keys() { BareIds::Refused } else { BareIds::Allowed };
    let routes = rpc::routes(Arc::clone(&engine), bare, !config.no_reflection);
    // It is set nowhere else.
    let _ = services.set(routes);
    phase.send_replace(Phase::Open(*engine.store.condition().borrow()));
    tell_ready(config, &addresses, recovered);
    let drain_timeout = Duration::from_secs(config.drain_timeout);
    Ok(Running { addresses, engine, phase, serving, background, in_flight, traces, drain_timeout })
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

/// The account of what is buffered for clients. Only the admin listener shows it.
fn account(config: &Config, metrics: &Metrics) -> Account {
    let ended = metrics.connections.ended.clone();
    let account = Account::new(config.max_buffer_bytes as usize, move || ended.inc());
    let (gauge, read) = (metrics.connections.buffered_bytes.clone(), account.clone());
    metrics.probe("account", move || {
        gauge.set(i64::try_from(read.bytes()).unwrap_or(i64::MAX));
        async {}.boxed()
    });
    account
}

/// Every method, with its kind in metrics.
fn methods() -> impl Iterator<Item = (String, MethodKind)> {
    rpc::methods().into_iter().map(|method| {
        let kind = if method.is_unary() { MethodKind::Unary } else { MethodKind::Streaming };
        (method.path, kind)
    })
}

/// As many as the flag says and file descriptors allow.
fn max_connections(config: &Config) -> usize {
    let (readers, writers) = (config.readers.into(), config.postgres.postgres_writers.into());
    let descriptors = store::descriptors(&config.store.url, readers, writers);
    within_descriptors(config.max_connections, descriptors)
}

async fn open(
    config: &Config,
    metrics: Arc<Metrics>,
    policies: Policies,
) -> Result<Arc<Engine>, String> {
    let crash = config.crash_point.as_ref().map(|text| text.parse()).transpose();
    let options = StoreOptions {
        readers: config.readers.into(),
        new_id: new_store_id(),
        file_mode: config.file_mode,
        verify: config.verify,
        crash: crash.map_err(|error| format!("Invalid --crash-point: {error}."))?,
        postgres: config.postgres.settings(),
        metrics: Arc::clone(&metrics),
    };
    let store = store::open(&config.store.url, options).await?;
    let options = EngineOptions {
        watches: config.max_watches as usize,
        temp_bytes: config.max_temp_bytes as usize,
        temp_invocations: config.max_invocations as usize,
        temp_idle_secs: config.temp_idle,
        limits: config.limits.options(),
        metrics,
    };
    Ok(Arc::new(Engine::with_policies(store, options, policies)))
}

/// Logs once what this server is. `recovered`: bytes of commits that a process left which did not close the file.
fn tell_ready(config: &Config, addresses: &Addresses, recovered: Option<u64>) {
    let Config { identity, limits, tls, .. } = config;
    let callers = [
        (identity.token_hashes.is_some(), "tokens"),
        (identity.jwt_keys.is_some(), "jwts"),
        (config.asks_certificates(), "certificates"),
        (identity.unix_peers, "unix_peers"),
    ];
    let callers: Vec<_> = callers.iter().filter(|(is_on, _)| *is_on).map(|(_, it)| *it).collect();
    let callers = if callers.is_empty() { "anybody".to_owned() } else { callers.join(",") };
    let policy = identity.policy.as_ref().map(|path| path.display().to_string());
    tracing::info!(
        version = concat!(env!("CARGO_PKG_VERSION"), env!("COMMIT_SUFFIX")),
        listen = addresses.listen,
        http_listen = addresses.http,
        admin_listen = addresses.admin,
        store = store::public_url(&config.store.url),
        tls = tls.tls_cert.is_some(),
        callers,
        policy,
        full_keys = config.requires_full_keys(),
        max_appends_per_principal = limits.max_appends_per_principal,
        max_appends_per_application = limits.max_appends_per_application,
        recovered_bytes = recovered,
        "ready"
    );
}

/// The addresses of the listeners, as clients write them.
struct Addresses {
    listen: String,
    http: Option<String>,
    admin: Option<String>,
}

/// Binds the listeners of calls, and perhaps that of `--admin-listen`.
async fn bind(
    config: &Config,
    tls: Option<&Tls>,
    phase: &watch::Sender<Phase>,
) -> Result<(Listeners, Option<Listener>), String> {
    let Config { listen, admin_listen, admin_insecure, http, .. } = config;
    let is_tcp = |listen: &Listen| matches!(listen, Listen::Tcp(_));
    let admin_uses_tls = !admin_insecure && admin_listen.as_ref().is_some_and(is_tcp);
    let http_uses_tls = matches!(&http.http_listen, Some(HttpListen::On(Listen::Tcp(_))));
    if tls.is_some() && !is_tcp(listen) && !admin_uses_tls && !http_uses_tls {
        return Err("--tls-cert is for a TCP address. Drop it: the permissions of its folder protect a Unix socket.".into());
    }
    if config.identity.unix_peers && is_tcp(listen) {
        return Err(
            "--unix-peers is for a Unix socket. Drop it, or pass --listen unix:PATH.".into()
        );
    }
    let grpc = Listener::bind(listen, Protocol::Grpc, config, tls).await?;
    let http = bind_http(config, tls, &grpc).await?;
    let http = http.map(|listener| {
        let http = Http::new(config, &listener, phase.subscribe());
        (listener, http)
    });
    let admin = match admin_listen {
        Some(listen) => Some(Listener::bind(listen, Protocol::Admin, config, tls).await?),
        None => None,
    };
    Ok((Listeners { grpc, http }, admin))
}

/// Binds the listener of HTTP: the one that is asked for, or, beside a loopback address of gRPC, the default one if that is free.
async fn bind_http(
    config: &Config,
    tls: Option<&Tls>,
    grpc: &Listener,
) -> Result<Option<Listener>, String> {
    let HttpArgs { http_listen, http_hosts, http_origins, http_read_only } = &config.http;
    let needs_listener = *http_read_only || !http_hosts.is_empty() || !http_origins.is_empty();
    match http_listen {
        Some(HttpListen::Off) if !needs_listener => Ok(None),
        Some(HttpListen::On(listen)) => {
            Listener::bind(listen, Protocol::Http, config, tls).await.map(Some)
        }
        None if grpc.tcp().is_some_and(|(_, address)| address.ip().is_loopback()) => {
            let default = Listen::Tcp(HTTP_DEFAULT.to_owned());
            let bound = Listener::bind(&default, Protocol::Http, config, tls).await;
            Ok(bound.inspect_err(|error| tracing::warn!(error, "no HTTP listener")).ok())
        }
        None if !needs_listener => Ok(None),
        _ => Err("There is no HTTP listener for --http-hosts, --http-origins and --http-read-only. Pass --http-listen ADDRESS, or drop them.".into()),
    }
}

impl Running {
    /// The address, as `--server` takes it: `127.0.0.1:50051` with the real port, `https://…` with TLS, or `unix:/path`.
    pub fn address(&self) -> &str {
        &self.addresses.listen
    }

    /// The address of the HTTP listener, if there is one, in the same form.
    pub fn http_address(&self) -> Option<&str> {
        self.addresses.http.as_deref()
    }

    /// Serves until `signal`, then drains. Returns whether the drain completed within its timeout.
    pub async fn serve_until(mut self, signal: impl Future<Output = ()>) -> bool {
        tokio::select! {
            () = signal => {}
            () = self.engine.sweep_forever() => {}
            () = health::follow(self.engine.store.condition(), &self.phase) => {}
            ended = &mut self.serving => {
                let error = ended.err().map(|error| error.to_string());
                tracing::error!(error, "the listener ended");
                self.engine.store.close().await;
                return false;
            }
        }
        self.drain().await
    }

    /// Ends watches with their cursor, completes calls, and closes the store once its queue is empty.
    async fn drain(self) -> bool {
        let Self { engine, phase, serving, background, in_flight, traces, drain_timeout, .. } =
            self;
        let until = instant() + drain_timeout;
        tracing::info!(timeout_secs = drain_timeout.as_secs(), "shutting down");
        phase.send_replace(Phase::Draining);
        let is_complete = drain::drain(&engine, &in_flight, serving, until).await;
        if let Some(traces) = traces {
            traces.shut_down(until.saturating_duration_since(instant())).await;
        }
        drop(background);
        is_complete
    }
}
