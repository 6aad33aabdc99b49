//! The disk of a store on SQLite.

use prometheus::{Histogram, HistogramVec, IntGauge};

use super::{register::Register, share::signed};

/// The thread that moves pages of the log into the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointThread {
    Checkpointer,
    /// Writes wait meanwhile.
    Writer,
}

#[derive(Clone)]
pub struct SqliteMetrics {
    pub flush: Histogram,
    checkpoint: HistogramVec,
    pub log_bytes: IntGauge,
    pub uncheckpointed_bytes: IntGauge,
}

impl SqliteMetrics {
    pub(super) fn new(register: Register<'_>) -> Self {
        let checkpoint = register.labelled_durations(
            "sessiond_sqlite_checkpoint_duration_seconds",
            "Duration of checkpoints, by the thread that does them.",
            &["thread"],
        );
        let metrics = Self {
            flush: register.durations(
                "sessiond_sqlite_flush_duration_seconds",
                "Time that a COMMIT takes: writing the log and flushing it to the disk.",
            ),
            checkpoint,
            log_bytes: register
                .gauge("sessiond_sqlite_log_bytes", "Size of the WAL that is in use."),
            uncheckpointed_bytes: register.gauge(
                "sessiond_sqlite_log_uncheckpointed_bytes",
                "Size of the log that has not been moved into the database.",
            ),
        };
        for thread in [CheckpointThread::Checkpointer, CheckpointThread::Writer] {
            metrics.checkpoint(thread);
        }
        metrics
    }

    pub fn checkpoint(&self, thread: CheckpointThread) -> Histogram {
        self.checkpoint.with_label_values(&[match thread {
            CheckpointThread::Checkpointer => "checkpointer",
            CheckpointThread::Writer => "writer",
        }])
    }

    /// Sets the size of the log, and how much of it has been moved into the database.
    pub fn set_log(&self, bytes: u64, moved_bytes: u64) {
        self.log_bytes.set(signed(bytes));
        self.uncheckpointed_bytes.set(signed(bytes.saturating_sub(moved_bytes)));
    }
}
