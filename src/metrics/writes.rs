//! Writes: those that wait, their groups and commits, and what became of each append.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

use super::register::Register;
use crate::domain::id::AppName;

/// The name under which applications beyond the bound are counted together.
const OTHER: &str = "other";

pub struct WriteMetrics {
    pub queue_wait: Histogram,
    pub queue_requests: IntGauge,
    pub queue_bytes: IntGauge,
    pub group_requests: Histogram,
    pub group_duration: Histogram,
    pub commit_duration: Histogram,
    pub retries: IntCounter,
    pub events: IntCounter,
    pub committed: IntCounter,
    pub replayed: IntCounter,
    pub refused: IntCounter,
    pub expired: IntCounter,
    pub failed: IntCounter,
    pub replayed_events: IntCounter,
    pub replayed_requests: IntCounter,
    pub sequence_conflicts: IntCounter,
    pub key_conflicts: IntCounter,
    applications: Option<Applications>,
}

/// Appends by application.
struct Applications {
    appends: IntCounterVec,
    other: IntCounter,
    max: usize,
    /// The first ones that appended something.
    known: Mutex<HashMap<AppName, IntCounter>>,
}

impl WriteMetrics {
    pub(super) fn new(register: Register<'_>, applications: usize) -> Self {
        let appends = register.counters(
            "sessiond_appends_total",
            "Append requests that were executed, by outcome.",
            &["outcome"],
        );
        let replays = register.counters(
            "sessiond_replays_total",
            "Events and requests that had been committed before.",
            &["kind"],
        );
        let conflicts = register.counters(
            "sessiond_conflicts_total",
            "Preconditions that did not hold.",
            &["kind"],
        );
        Self {
            queue_wait: register.durations(
                "sessiond_write_queue_wait_seconds",
                "Time that the oldest write of a group waits for the writer.",
            ),
            queue_requests: register
                .gauge("sessiond_write_queue_requests", "Writes that wait for the writer."),
            queue_bytes: register
                .gauge("sessiond_write_queue_bytes", "Size of the writes that wait."),
            group_requests: register
                .sizes("sessiond_group_requests", "Requests that are committed together."),
            group_duration: register.durations(
                "sessiond_group_duration_seconds",
                "Time in which a group is loaded, decided and committed.",
            ),
            commit_duration: register.durations(
                "sessiond_commit_duration_seconds",
                "Time in which the changes of a group are written and made durable.",
            ),
            retries: register.counter(
                "sessiond_group_retries_total",
                "Times that a group was loaded and decided again.",
            ),
            events: register.counter("sessiond_events_total", "Events committed."),
            committed: appends.with_label_values(&["committed"]),
            replayed: appends.with_label_values(&["replayed"]),
            refused: appends.with_label_values(&["refused"]),
            expired: appends.with_label_values(&["expired"]),
            failed: appends.with_label_values(&["failed"]),
            replayed_events: replays.with_label_values(&["event"]),
            replayed_requests: replays.with_label_values(&["request"]),
            sequence_conflicts: conflicts.with_label_values(&["sequence"]),
            key_conflicts: conflicts.with_label_values(&["key"]),
            applications: (applications > 0).then(|| Applications::new(register, applications)),
        }
    }

    /// Counts an append of an application, if applications are counted.
    pub fn append_of(&self, application: &AppName) {
        if let Some(applications) = &self.applications {
            applications.count(application);
        }
    }
}

impl Applications {
    fn new(register: Register<'_>, max: usize) -> Self {
        let appends = register.counters(
            "sessiond_application_appends_total",
            "Appends that were committed or replayed, by application.",
            &["application"],
        );
        Self { other: appends.with_label_values(&[OTHER]), appends, max, known: Mutex::default() }
    }

    fn count(&self, application: &AppName) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(application) {
            Some(counter) => counter.inc(),
            None if known.len() < self.max => {
                let counter = self.appends.with_label_values(&[application.as_str()]);
                counter.inc();
                known.insert(application.clone(), counter);
            }
            None => self.other.inc(),
        }
    }
}
