//! The families of metrics, each once: its type, its name, what it means, and its labels.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::{
    register::{
        Family,
        Label::{self, By, Is, Of},
        Metric, Register,
    },
    share::signed,
};
use sessiond_core::domain::{id::AppName, reason::Reason};

/// Declares structs of metrics, which are made as their type says.
macro_rules! families {
    ($($(#[$doc:meta])* $group:ident {
        $($(#[$note:meta])* $vis:vis $field:ident: $type:ty = $family:expr, [$($label:expr),*];)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $group { $($(#[$note])* $vis $field: $type,)* }

        impl $group {
            pub(super) fn new(register: Register<'_>) -> Self {
                Self { $($field: Metric::make(register, $family, &[$($label),*]),)* }
            }
        }
    )*};
}

const APPENDS: Family =
    ("sessiond_appends_total", "Append requests that were executed, by outcome.");
const REPLAYS: Family =
    ("sessiond_replays_total", "Events and requests that had been committed before.");
const CONFLICTS: Family = ("sessiond_conflicts_total", "Preconditions that did not hold.");
const LOOKUPS: Family = (
    "sessiond_cache_lookups_total",
    "Sessions and scopes that the writer needed, by whether its cache had them.",
);
const CHECKPOINTS: Family = (
    "sessiond_sqlite_checkpoint_duration_seconds",
    "Duration of checkpoints, by the thread that does them.",
);
const CONNECTS: Family =
    ("sessiond_postgres_connects_total", "Attempts to connect to the database.");
const POOL: Family = ("sessiond_postgres_pool_connections", "Connections of the pool for reads.");

families! {
    /// The server itself.
    ServerMetrics {
        pub(super) build_info: IntGaugeVec = ("sessiond_build_info",
            "Always 1. The label has the version of the program."), [By("version")];
        pub(super) late_probes: IntCounter = ("sessiond_scrape_timeouts_total",
            "Values that took too long to read, so that the scrape has earlier ones."), [];
        /// 1 for the condition that the server is in, by its name.
        pub condition: IntGaugeVec = ("sessiond_condition",
            "1 for the condition that the server is in, 0 for the others."), [By("condition")];
    }

    /// Writes: those that wait, their groups and commits, and the outcome of each append.
    WriteMetrics {
        pub queue_wait: Histogram = ("sessiond_write_queue_wait_seconds", "Wait of the oldest write of each group."), [];
        pub queue_requests: IntGauge = ("sessiond_write_queue_requests", "Writes that wait for the writer."), [];
        pub queue_bytes: IntGauge = ("sessiond_write_queue_bytes", "Size of the writes that wait."), [];
        pub group_requests: Histogram = ("sessiond_group_requests", "Requests that are committed together."), [];
        pub group_duration: Histogram = ("sessiond_group_duration_seconds",
            "Time in which a group is loaded, decided and committed."), [];
        pub commit_duration: Histogram = ("sessiond_commit_duration_seconds",
            "Time in which the changes of a group are written and made durable."), [];
        pub retries: IntCounter = ("sessiond_group_retries_total", "Times that a group was loaded and decided again."), [];
        pub events: IntCounter = ("sessiond_events_total", "Events committed."), [];
        pub committed: IntCounter = APPENDS, [Is("outcome", "committed")];
        pub replayed: IntCounter = APPENDS, [Is("outcome", "replayed")];
        pub refused: IntCounter = APPENDS, [Is("outcome", "refused")];
        pub expired: IntCounter = APPENDS, [Is("outcome", "expired")];
        pub failed: IntCounter = APPENDS, [Is("outcome", "failed")];
        pub replayed_events: IntCounter = REPLAYS, [Is("kind", "event")];
        pub replayed_requests: IntCounter = REPLAYS, [Is("kind", "request")];
        pub sequence_conflicts: IntCounter = CONFLICTS, [Is("kind", "sequence")];
        pub key_conflicts: IntCounter = CONFLICTS, [Is("kind", "key")];
        applications: Applications = ("sessiond_application_appends_total",
            "Appends that were committed or replayed, by application."), [Of("application", &[OTHER])];
    }

    /// Reads that wait, the cache of the writer, and the size of the store.
    ReadMetrics {
        pub queue_wait: Histogram = ("sessiond_read_queue_wait_seconds", "Time that a read waits for a reader."), [];
        pub queue_requests: IntGauge = ("sessiond_read_queue_requests", "Reads that wait for a reader."), [];
        pub store_bytes: IntGauge = ("sessiond_store_bytes", "Size of the store on disk."), [];
        pub expired_sessions: IntGauge = ("sessiond_expired_sessions",
            "Expired sessions that wait for the sweep. More than 10000 count as 10000."), [];
        cache_hits: IntCounter = LOOKUPS, [Is("result", "hit")];
        cache_misses: IntCounter = LOOKUPS, [Is("result", "miss")];
    }

    /// Watches, and `temp:` state: what the engine holds in memory.
    WatchMetrics {
        pub open: IntGauge = ("sessiond_watches", "Open watches."), [];
        pub lag_commits: IntGauge = ("sessiond_watch_lag_commits",
            "Group commits to its scopes that the slowest watch has not delivered yet."), [];
        pub temp_bytes: IntGauge = ("sessiond_temp_bytes", "Size of all temp: state."), [];
        pub temp_invocations: IntGauge = ("sessiond_temp_invocations", "Invocations with temp: state."), [];
    }

    /// Connections of clients.
    ConnectionMetrics {
        pub open: IntGauge = ("sessiond_connections", "Open connections of clients."), [];
        pub buffered_bytes: IntGauge = ("sessiond_buffered_bytes",
            "What is buffered for clients: requests that have come, and responses that they have not read."), [];
        pub refused: IntCounter = ("sessiond_connections_refused_total",
            "Connections that were closed at once, because too many were open."), [];
        pub ended: IntCounter = ("sessiond_connections_ended_total",
            "Connections that were ended, because their clients left too many answers unread."), [];
    }

    /// Calls by method and code. How long a stream lasts says nothing about latency, so it has no histogram.
    CallMetrics {
        pub(super) durations: HistogramVec = ("rpc_server_call_duration_seconds",
            "Duration of unary calls, from their headers to the end of their answer."), [By("method"), By("code")];
        pub(super) streams: IntCounterVec = ("rpc_server_streams_total", "Streams that have ended."), [By("method"), By("code")];
        pub(super) open_streams: IntGaugeVec = ("rpc_server_streams", "Open streams."), [By("method")];
        pub(super) in_flight: IntGauge = ("rpc_server_in_flight_requests", "Requests that have not ended."), [];
    }

    /// Statuses other than OK, by the reason in their details.
    Refusals {
        reasons: IntCounterVec = ("sessiond_refusals_total",
            "Calls, and items of AppendEventStream, that ended with an error, by the reason in its details."),
            [Of("reason", &[&Reason::ALL.map(Reason::as_str)[..], &[NO_REASON]].concat())];
    }

    /// Certificates, and files that are read again.
    TlsMetrics {
        pub expiry: IntGaugeVec = ("sessiond_tls_certificate_expiry_timestamp_seconds",
            "Time from which the first certificate of a file is no longer valid, in seconds since 1970."), [By("file")];
        pub reload_failures: IntCounterVec = ("sessiond_reload_failures_total",
            "Attempts to reload files that failed, so that their old content stays in use."), [By("files")];
    }

    /// The disk of a store on SQLite.
    SqliteMetrics {
        pub flush: Histogram = ("sessiond_sqlite_flush_duration_seconds",
            "Time that a COMMIT takes: writing the log and flushing it to the disk."), [];
        by_checkpointer: Histogram = CHECKPOINTS, [Is("thread", "checkpointer")];
        by_writer: Histogram = CHECKPOINTS, [Is("thread", "writer")];
        pub log_bytes: IntGauge = ("sessiond_sqlite_log_bytes", "Size of the WAL that is in use."), [];
        pub uncheckpointed_bytes: IntGauge = ("sessiond_sqlite_log_uncheckpointed_bytes",
            "Size of the log that has not been moved into the database."), [];
    }

    /// The connections of a store on PostgreSQL.
    PostgresMetrics {
        pub statements: IntCounter = ("sessiond_postgres_statements_total",
            "Statements that the database answered. Several of them share a round trip."), [];
        errors: IntCounterVec = ("sessiond_postgres_errors_total",
            "Statements that failed. A group of writes that met 40001, 40P01, 23505 or a lost connection is decided again."),
            [Of("sqlstate", &SQL_ERRORS)];
        pub connects: IntCounter = CONNECTS, [Is("outcome", "connected")];
        pub failed_connects: IntCounter = CONNECTS, [Is("outcome", "failed")];
        pub listener_reconnects: IntCounter = ("sessiond_postgres_listener_reconnects_total",
            "Times that the connection for notifications was lost or not made."), [];
        pub pool_idle: IntGauge = POOL, [Is("state", "idle")];
        pub pool_in_use: IntGauge = POOL, [Is("state", "in_use")];
        lanes: IntGaugeVec = ("sessiond_postgres_lane_requests", "Writes that wait in the queue of a lane."), [By("lane")];
    }
}

impl WriteMetrics {
    /// Counts an append of an application, if applications are counted.
    pub fn append_of(&self, application: &AppName) {
        self.applications.count(application);
    }
}

impl ReadMetrics {
    /// The writer has looked for a session or a scope in its cache.
    pub fn looked_up(&self, found: bool) {
        if found { &self.cache_hits } else { &self.cache_misses }.inc();
    }
}

/// The label of statuses without a reason of ours, which the transport makes.
const NO_REASON: &str = "none";

impl Refusals {
    pub fn count(&self, reason: Option<&str>) {
        let is_known = |reason: &&str| Reason::ALL.iter().any(|it| it.as_str() == *reason);
        self.reasons.with_label_values(&[reason.filter(is_known).unwrap_or(NO_REASON)]).inc();
    }
}

/// The thread that does a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointThread {
    Checkpointer,
    /// Writes wait meanwhile.
    Writer,
}

impl SqliteMetrics {
    pub fn checkpoint(&self, thread: CheckpointThread) -> Histogram {
        match thread {
            CheckpointThread::Checkpointer => self.by_checkpointer.clone(),
            CheckpointThread::Writer => self.by_writer.clone(),
        }
    }

    /// Sets the size of the log, and how much of it has been moved into the database.
    pub fn set_log(&self, bytes: u64, moved_bytes: u64) {
        self.log_bytes.set(signed(bytes));
        self.uncheckpointed_bytes.set(signed(bytes.saturating_sub(moved_bytes)));
    }
}

/// An error of the database, as far as the program tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlError {
    SerializationFailure,
    Deadlock,
    UniqueViolation,
    ConnectionLost,
    Other,
}

/// Their labels.
const SQL_ERRORS: [&str; 5] = ["40001", "40P01", "23505", "connection_lost", "other"];

impl PostgresMetrics {
    pub fn error(&self, error: SqlError) -> IntCounter {
        self.errors.with_label_values(&[SQL_ERRORS[error as usize]])
    }

    pub fn set_lane(&self, lane: usize, requests: usize) {
        self.lanes.with_label_values(&[&lane.to_string()]).set(signed(requests));
    }
}

/// The label of applications beyond the bound.
const OTHER: &str = "other";

/// Appends by application: of the first ones that append something, up to a bound, and of all others together.
#[derive(Clone)]
pub(super) struct Applications {
    /// `None`: applications are not counted.
    appends: Option<IntCounterVec>,
    max: usize,
    known: Arc<Mutex<HashSet<AppName>>>,
}

impl Metric for Applications {
    fn make(register: Register<'_>, family: Family, labels: &[Label<'_>]) -> Self {
        let max = register.applications;
        let appends = (max > 0).then(|| Metric::make(register, family, labels));
        Self { appends, max, known: Arc::default() }
    }
}

impl Applications {
    fn count(&self, application: &AppName) {
        let Some(appends) = &self.appends else { return };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < self.max && !known.contains(application) {
            known.insert(application.clone());
        }
        let label = if known.contains(application) { application.as_str() } else { OTHER };
        appends.with_label_values(&[label]).inc();
    }
}
