//! Checkpoints: moving pages of the log (WAL) into the database file.
//!
//! A thread of its own, the checkpointer, moves most of them while the writer goes on writing. SQLite begins the log anew only when all of
//! it has been moved and the next commit comes, so the writer moves the few pages that came in the meantime itself, between two groups.
//! SQLite flushes the database file only at the end of that. The checkpointer flushes it before, so that the writer waits for its few
//! pages alone.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tracing::{error, warn};

use super::{
    connection::{LOCK_WAIT, Tables},
    file::SqliteOptions,
    lock::FileLock,
    prelude::*,
};
use crate::metrics::{CheckpointThread, SqliteMetrics};

/// Bytes of a page in the log, with its header.
const PAGE_BYTES: u64 = 4096 + 24;

/// Pages in the log at which a checkpoint begins: 16 MiB. Pages that are written again and again are moved once.
const BEGIN_PAGES: u32 = 4_000;

/// Pages that the writer moves itself: a few milliseconds. Above, the checkpointer goes another round.
const REST_PAGES: u32 = 500;

/// Rounds of the checkpointer before the writer moves the rest, however much it is: where commits never pause, the rest of a round
/// is as long as the round took, and further rounds gain nothing.
const ROUNDS: u32 = 3;

/// Pages in the log at which the writer waits for the checkpointer and then moves everything: 256 MiB.
const MAX_PAGES: u32 = 64_000;

/// How long emptying the log waits for readers, while writes wait: longer than most reads take.
const EMPTY_WAIT: Duration = Duration::from_millis(50);

/// What the writer knows of the log, and its checkpointer.
pub(super) struct Checkpoints {
    file: Arc<FileLock>,
    metrics: LogMetrics,
    has_checkpointer: bool,
    /// The checkpointer, while it works.
    round: Option<JoinHandle<()>>,
    /// Rounds since the log began.
    rounds: u32,
    /// Pages of this log that the writer has moved, or tried to: a reader may keep the log from being begun anew.
    tried: u32,
}

impl Checkpoints {
    pub(super) fn new(file: Arc<FileLock>, options: &SqliteOptions) -> Self {
        let metrics = options.metrics.sqlite().clone();
        let metrics = LogMetrics { metrics, moved_pages: Arc::default() };
        let has_checkpointer = options.checkpointer;
        Self { file, metrics, has_checkpointer, round: None, rounds: 0, tried: 0 }
    }

    /// Sees to the log after a group, when everybody in it has been answered.
    pub(super) fn after_commit(&mut self, tables: &Tables) {
        let pages = tables.log_pages();
        if pages < self.tried {
            // SQLite began the log anew.
            self.tried = 0;
            self.metrics.moved_pages.store(0, Relaxed);
        }
        self.metrics.committed(pages);
        let is_long = pages >= MAX_PAGES;
        let Some(round) = self.round.take_if(|round| is_long || round.is_finished()) else {
            if self.round.is_none() && pages - self.tried >= BEGIN_PAGES {
                self.rounds = 0;
                if self.has_checkpointer {
                    self.begin_round(pages);
                } else {
                    self.at_once(tables);
                }
            }
            return;
        };
        join(round);
        let (pages, moved) = wal_checkpoint(tables, "NOOP");
        if pages.saturating_sub(moved) > REST_PAGES && self.rounds < ROUNDS && !is_long {
            return self.begin_round(pages);
        }
        self.tried = pages;
        self.checkpoint(tables, if is_long { "RESTART" } else { "PASSIVE" });
    }

    /// Moves everything, so that the log is used again instead of growing.
    pub(super) fn at_once(&mut self, tables: &Tables) {
        self.round.take().into_iter().for_each(join);
        self.tried = self.checkpoint(tables, "PASSIVE").0;
    }

    /// Moves everything and empties the log's file. Returns whether it did: a reader may still need the log.
    pub(super) fn empty(&mut self, tables: &Tables) -> bool {
        self.round.take().into_iter().for_each(join);
        let waits = |time| tables.0.busy_timeout(time);
        let emptied = waits(EMPTY_WAIT).and_then(|()| {
            tables.one("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| Ok(!row.get::<_, bool>(0)?))
        });
        let emptied = waits(LOCK_WAIT).and(emptied).is_ok_and(|done| done == Some(true));
        if emptied {
            self.tried = 0;
            self.metrics.moved(0, 0);
        }
        emptied
    }

    fn begin_round(&mut self, pages: u32) {
        self.rounds += 1;
        let (file, metrics) = (Arc::clone(&self.file), self.metrics.clone());
        let connect = |file: &FileLock| Ok::<_, Error>(Tables::writer(file.connect()?)?);
        let work = move || match connect(&file) {
            Ok(tables) => {
                metrics.checkpoint(CheckpointThread::Checkpointer, &tables, "PASSIVE", || {
                    if let Err(error) = file.flush_database() {
                        // On Linux, SQLite's own descriptor reports a failed write once as well.
                        warn!(%error, "flushing the database file failed");
                    }
                });
            }
            Err(error) => warn!(%error, "the checkpointer has no connection and will retry"),
        };
        let thread = thread::Builder::new().name("sqlite-checkpoint".into());
        match thread.spawn(work) {
            Ok(round) => self.round = Some(round),
            Err(error) => {
                error!(%error, "failed to start the checkpointer, retrying when the log is longer");
                self.tried = pages;
            }
        }
    }

    /// Waits for the checkpointer, and leaves no log behind. The last connection is about to close.
    pub(super) fn close(mut self, tables: &Tables) {
        self.round.take().into_iter().for_each(join);
        self.checkpoint(tables, "TRUNCATE");
    }

    /// On the writer's thread.
    fn checkpoint(&self, tables: &Tables, how: &str) -> (u32, u32) {
        self.metrics.checkpoint(CheckpointThread::Writer, tables, how, || ())
    }
}

/// The length of the log, as metrics.
#[derive(Clone)]
struct LogMetrics {
    metrics: SqliteMetrics,
    /// Pages of this log that are in the database.
    moved_pages: Arc<AtomicU32>,
}

impl LogMetrics {
    /// `flush` belongs to the checkpoint.
    fn checkpoint(
        &self,
        thread: CheckpointThread,
        tables: &Tables,
        how: &str,
        flush: impl FnOnce(),
    ) -> (u32, u32) {
        let duration = self.metrics.checkpoint(thread);
        let moved = duration.observe_closure_duration(|| {
            let moved = try_checkpoint(tables, how);
            flush();
            moved
        });
        if let Some((pages, moved)) = moved {
            self.moved(pages, moved);
        }
        moved.unwrap_or_default()
    }

    fn moved(&self, pages: u32, moved: u32) {
        self.moved_pages.store(moved, Relaxed);
        self.committed(pages);
    }

    /// The log has this many pages.
    fn committed(&self, pages: u32) {
        let moved = self.moved_pages.load(Relaxed);
        self.metrics.set_log(u64::from(pages) * PAGE_BYTES, u64::from(moved) * PAGE_BYTES);
    }
}

fn join(round: JoinHandle<()>) {
    if round.join().is_err() {
        error!("the checkpointer panicked");
    }
}

/// How many pages the log has after a checkpoint, and how many of them have been moved. A failure does no harm: the log keeps what it has.
fn wal_checkpoint(tables: &Tables, how: &str) -> (u32, u32) {
    try_checkpoint(tables, how).unwrap_or_default()
}

/// The same; `None`: it failed.
fn try_checkpoint(tables: &Tables, how: &str) -> Option<(u32, u32)> {
    let pragma = format!("PRAGMA wal_checkpoint({how})");
    let log = tables.one(&pragma, (), |row| Ok((row.get(1)?, row.get(2)?)));
    let log: Result<Option<(u32, u32)>> =
        log.inspect_err(|error| warn!(%error, how, "a checkpoint failed"));
    log.ok().flatten()
}
