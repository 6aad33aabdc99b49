//! Reads that wait for a reader, the cache of the writer, and the size of the store.

use prometheus::{Histogram, IntCounter, IntGauge};

use super::register::Register;

#[derive(Clone)]
pub struct ReadMetrics {
    pub queue_wait: Histogram,
    pub queue_requests: IntGauge,
    pub store_bytes: IntGauge,
    pub expired_sessions: IntGauge,
    cache_hits: IntCounter,
    cache_misses: IntCounter,
}

impl ReadMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        let lookups = register.counters(
            "sessiond_cache_lookups_total",
            "Sessions and scopes that the writer needed, by whether its cache had them.",
            &["result"],
        );
        Self {
            queue_wait: register.durations(
                "sessiond_read_queue_wait_seconds",
                "Time that a read waits for a reader.",
            ),
            queue_requests: register
                .gauge("sessiond_read_queue_requests", "Reads that wait for a reader."),
            store_bytes: register.gauge("sessiond_store_bytes", "Size of the store on disk."),
            expired_sessions: register.gauge(
                "sessiond_expired_sessions",
                "Expired sessions that wait for the sweep. More than 10000 count as 10000.",
            ),
            cache_hits: lookups.with_label_values(&["hit"]),
            cache_misses: lookups.with_label_values(&["miss"]),
        }
    }

    /// The writer has looked for a session or a scope in its cache.
    pub fn looked_up(&self, found: bool) {
        if found { &self.cache_hits } else { &self.cache_misses }.inc();
    }
}
