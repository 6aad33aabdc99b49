//! Metrics of one server, in Prometheus' text format. docs/metrics.md explains each.
//!
//! Code that measures holds handles: counters, gauges and histograms of atomics, which cost some ten nanoseconds. Values that would cost
//! more to keep up to date are read before each scrape, by [probes](Metrics::probe).

mod calls;
mod families;
mod register;
mod share;

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use futures_util::future::{BoxFuture, join_all};
use prometheus::{Registry, TextEncoder};
use tokio::{task::spawn_blocking, time::timeout};

pub use calls::{Calls, MeasuredCall, MethodKind};
use families::CallMetrics;
pub use families::{
    CheckpointThread, ConnectionMetrics, PostgresMetrics, ReadMetrics, Refusals, ServerMetrics,
    SqlError, SqliteMetrics, TlsMetrics, WatchMetrics, WriteMetrics,
};
pub use prometheus::{Histogram, IntGauge, TEXT_FORMAT};
use register::Register;
pub use share::GaugeShare;

/// How long a probe may take: less than the ten seconds after which a collector gives up.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Brings gauges up to date.
type Probe = Box<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The metrics of one server.
pub struct Metrics {
    registry: Registry,
    probes: Mutex<Vec<(&'static str, Probe)>>,
    pub server: ServerMetrics,
    pub writes: WriteMetrics,
    pub reads: ReadMetrics,
    pub watches: WatchMetrics,
    pub connections: ConnectionMetrics,
    pub refusals: Refusals,
    sqlite: OnceLock<SqliteMetrics>,
    postgres: OnceLock<PostgresMetrics>,
    tls: OnceLock<TlsMetrics>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Metrics {
    /// `applications` is the number of applications whose appends are counted each for itself.
    pub fn new(applications: usize) -> Self {
        let registry = Registry::new();
        let register = Register { registry: &registry, applications };
        let server = ServerMetrics::new(register);
        server.build_info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        #[cfg(target_os = "linux")]
        register.collector(prometheus::process_collector::ProcessCollector::for_self());
        Self {
            probes: Mutex::default(),
            writes: WriteMetrics::new(register),
            reads: ReadMetrics::new(register),
            watches: WatchMetrics::new(register),
            connections: ConnectionMetrics::new(register),
            refusals: Refusals::new(register),
            server,
            sqlite: OnceLock::new(),
            postgres: OnceLock::new(),
            tls: OnceLock::new(),
            registry,
        }
    }

    /// The calls of these methods, by path, and of others together. A server has them once.
    pub fn calls(&self, methods: impl IntoIterator<Item = (String, MethodKind)>) -> Arc<Calls> {
        Arc::new(Calls::new(self.register(), methods, &self.refusals))
    }

    /// Of a store on SQLite.
    pub fn sqlite(&self) -> &SqliteMetrics {
        self.sqlite.get_or_init(|| SqliteMetrics::new(self.register()))
    }

    /// Of a store on PostgreSQL.
    pub fn postgres(&self) -> &PostgresMetrics {
        self.postgres.get_or_init(|| PostgresMetrics::new(self.register()))
    }

    /// Of a server with certificates.
    pub fn tls(&self) -> &TlsMetrics {
        self.tls.get_or_init(|| TlsMetrics::new(self.register()))
    }

    fn register(&self) -> Register<'_> {
        Register { registry: &self.registry, applications: 0 }
    }

    /// Has gauges set before each scrape. A probe of the same name is replaced.
    pub fn probe(
        &self,
        name: &'static str,
        probe: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) {
        let mut probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
        probes.retain(|(known, _)| *known != name);
        probes.push((name, Box::new(probe)));
    }

    /// Reads every probe and encodes all metrics. A probe that takes too long leaves its gauges as they were.
    pub async fn scrape(&self) -> Result<String, String> {
        let begin = || {
            let probes = self.probes.lock().unwrap_or_else(PoisonError::into_inner);
            probes.iter().map(|(_, probe)| timeout(PROBE_TIMEOUT, probe())).collect::<Vec<_>>()
        };
        let late = join_all(begin()).await.into_iter().filter(Result::is_err).count();
        self.server.late_probes.inc_by(late as u64);
        let registry = self.registry.clone();
        // It reads the process's own figures from files.
        let encoded =
            spawn_blocking(move || TextEncoder::new().encode_to_string(&registry.gather()));
        let text = encoded.await.map_err(|error| error.to_string())?;
        text.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests;
