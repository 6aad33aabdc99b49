//! Checkpoints: moving pages of the WAL into the database file.
//!
//! A thread of its own, the checkpointer, moves most of them while the writer goes on writing. SQLite begins the WAL anew only when all of
//! it has been moved and the next commit comes, so the writer moves the few pages that came in the meantime itself, between two groups.
//! SQLite flushes the database file only at the end of that. The checkpointer flushes it before, so that the writer waits for its few
//! pages alone.
//!
//! After a failed flush the kernel takes pages for written that are not, and SQLite takes them for moved. The WAL still has them, so it
//! stays as it is, the store does nothing more, and the next start moves everything again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::{config::DbConfig, ffi::SQLITE_IOERR_FSYNC};
use tracing::{error, warn};

use super::{
    connection::LOCK_WAIT, file::SqliteOptions, lock::FileLock, minute::OnceAMinute, prelude::*,
};
use sessiond_metrics::{CheckpointThread, SqliteMetrics};
use sessiond_store::Clock;

/// Bytes of a page in the WAL, with its header.
const PAGE_BYTES: u64 = 4096 + 24;

/// Pages in the WAL at which a checkpoint begins: 16 MiB. Pages that are written again and again are moved once.
const BEGIN_PAGES: u32 = 4_000;

/// Pages in the WAL at which the writer waits for the checkpointer and then moves everything: 256 MiB.
const MAX_PAGES: u32 = 64_000;

/// How long the writer waits for the readers of a WAL, while writes wait: longer than most reads take.
const READER_WAIT: Duration = Duration::from_millis(50);

/// What the writer knows of the WAL, and its checkpointer.
pub(super) struct Checkpoints {
    wal: Wal,
    has_checkpointer: bool,
    /// The checkpointer, while it works.
    round: Option<JoinHandle<()>>,
    /// Pages of this WAL that the writer has moved, or tried to: a reader may keep the WAL from being begun anew.
    tried: u32,
    /// [`MAX_PAGES`]; tests take fewer.
    pub(super) max_pages: u32,
    /// Messages about a reader that needs a long WAL.
    told: OnceAMinute,
}

impl Checkpoints {
    pub(super) fn new(file: Arc<FileLock>, options: &SqliteOptions) -> Self {
        let (metrics, clock) = (options.metrics.sqlite().clone(), Arc::clone(&options.clock));
        let (moved_pages, failures) = (Arc::default(), Arc::default());
        Self {
            wal: Wal { file, metrics, clock, moved_pages, failures },
            has_checkpointer: options.checkpointer,
            round: None,
            tried: 0,
            max_pages: MAX_PAGES,
            told: OnceAMinute::default(),
        }
    }

    /// Checkpoints if needed, after a group has been answered.
    pub(super) fn after_commit(&mut self, tables: &Tables) {
        let pages = tables.wal_pages();
        if pages < self.tried {
            // SQLite began the WAL anew.
            self.tried = 0;
            self.wal.moved_pages.store(0, Relaxed);
        }
        self.wal.committed(pages);
        let is_long = pages >= self.max_pages;
        match &self.round {
            Some(_) if is_long => self.restart(tables),
            Some(round) if round.is_finished() => self.at_once(tables),
            None if pages - self.tried >= BEGIN_PAGES => match self.has_checkpointer {
                true => self.begin_round(pages),
                false => self.at_once(tables),
            },
            _ => {}
        }
    }

    /// Moves what readers allow. The next commit begins the WAL anew, unless one of them still needs it.
    fn restart(&mut self, tables: &Tables) {
        let Moved { is_whole, pages, .. } = self.move_pages("RESTART", READER_WAIT, tables);
        if pages > 0 && !is_whole && self.told.begin(self.wal.clock.now()) {
            warn!(
                bytes = u64::from(pages) * PAGE_BYTES,
                path = %self.wal.file.path.display(),
                "a reader keeps the WAL from being begun anew, so it grows: end the backup or query of another program that has the \
                 database open"
            );
        }
    }

    /// Moves everything, so that the WAL is used again instead of growing.
    pub(super) fn at_once(&mut self, tables: &Tables) {
        self.move_pages("PASSIVE", LOCK_WAIT, tables);
    }

    /// Moves everything and empties the file of the WAL. Returns whether it did: a reader may still need the WAL.
    pub(super) fn empty(&mut self, tables: &Tables) -> bool {
        let is_empty = self.move_pages("TRUNCATE", READER_WAIT, tables).is_whole;
        if is_empty {
            self.tried = 0;
        }
        is_empty
    }

    /// Waits for the checkpointer, and then moves the rest. Readers are waited for, except by `PASSIVE`.
    fn move_pages(&mut self, how: &str, wait: Duration, tables: &Tables) -> Moved {
        if let Some(round) = self.round.take()
            && round.join().is_err()
        {
            error!("the checkpointer panicked");
        }
        self.tried = tables.wal_pages();
        let moved = tables
            .0
            .busy_timeout(wait)
            .ok()
            .map(|()| self.wal.checkpoint(CheckpointThread::Writer, how, tables));
        drop(tables.0.busy_timeout(LOCK_WAIT));
        moved.unwrap_or_default()
    }

    fn begin_round(&mut self, pages: u32) {
        let wal = self.wal.clone();
        let work =
            move || match wal.file.connect().and_then(|it| Tables::writer(it).map_err(driver)) {
                Ok(tables) => {
                    wal.checkpoint(CheckpointThread::Checkpointer, "PASSIVE", &tables);
                }
                Err(error) => warn!(%error, "the checkpointer has no connection and will retry"),
            };
        let thread = thread::Builder::new().name("sqlite-checkpoint".into());
        match thread.spawn(work) {
            Ok(round) => self.round = Some(round),
            Err(error) => {
                error!(%error, "failed to start the checkpointer, retrying when the WAL is longer");
                self.tried = pages;
            }
        }
    }

    /// Waits for the checkpointer, and leaves no WAL behind. The last connection is about to close.
    pub(super) fn close(mut self, tables: &Tables) {
        self.move_pages("TRUNCATE", LOCK_WAIT, tables);
        let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if self.wal.file.has_flush_failed()
            && let Err(error) = tables.0.set_db_config(keep, true)
        {
            error!(%error, "SQLite may move and remove the WAL when it closes the file");
        }
    }
}

/// The WAL, as both threads see it.
#[derive(Clone)]
struct Wal {
    file: Arc<FileLock>,
    metrics: SqliteMetrics,
    clock: Arc<dyn Clock>,
    /// Pages of this WAL that are in the database, as a metric.
    moved_pages: Arc<AtomicU32>,
    /// Checkpoints that failed since the log last told about them: a full disk fails each.
    failures: Arc<(AtomicU64, OnceAMinute)>,
}

#[derive(Default)]
struct Moved {
    /// No reader kept it from its end.
    is_whole: bool,
    /// Pages that the WAL has, and those of them that have been moved.
    pages: u32,
    moved: u32,
}

impl Wal {
    /// Moves pages. Returns nothing moved if it failed: the WAL keeps what it has.
    fn checkpoint(&self, thread: CheckpointThread, how: &str, tables: &Tables) -> Moved {
        // A checkpoint that is not made is not measured.
        if self.file.has_flush_failed() {
            return Moved::default();
        }
        let duration = self.metrics.checkpoint(thread);
        duration.observe_closure_duration(|| {
            let moved = self.execute(how, tables);
            if matches!(thread, CheckpointThread::Checkpointer)
                && !self.file.has_flush_failed()
                && let Err(error) = self.file.flush_database()
            {
                self.give_up(&error);
            }
            moved
        })
    }

    fn execute(&self, how: &str, tables: &Tables) -> Moved {
        let pragma = format!("PRAGMA wal_checkpoint({how})");
        let done = tables.0.query_row(&pragma, (), |row| {
            // -1 while another program checkpoints.
            let pages = |count: i64| u32::try_from(count).unwrap_or(0);
            let (pages, moved) = (pages(row.get(1)?), pages(row.get(2)?));
            Ok(Moved { is_whole: !row.get(0)?, pages, moved })
        });
        match &done {
            Ok(done) => {
                self.moved_pages.store(done.moved, Relaxed);
                self.committed(done.pages);
            }
            Err(error) if is_failed_flush(error) => self.give_up(error),
            Err(error) => self.failed(error, how),
        }
        done.unwrap_or_default()
    }

    fn failed(&self, error: &rusqlite::Error, how: &str) {
        let (count, told) = &*self.failures;
        count.fetch_add(1, Relaxed);
        if told.begin(self.clock.now()) {
            let failures = count.swap(0, Relaxed);
            warn!(%error, how, failures, "a checkpoint failed");
        }
    }

    fn give_up(&self, error: &dyn std::error::Error) {
        self.file.set_flush_failed();
        error!(
            %error,
            path = %self.file.path.display(),
            "the disk failed to store the database file or its WAL: nothing more is committed or read; check the disk, close other programs \
             that have the file open, then restart, which recovers what was acknowledged from the WAL"
        );
    }

    fn committed(&self, pages: u32) {
        let moved = self.moved_pages.load(Relaxed);
        self.metrics.set_log(u64::from(pages) * PAGE_BYTES, u64::from(moved) * PAGE_BYTES);
    }
}

fn is_failed_flush(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|failure| failure.extended_code == SQLITE_IOERR_FSYNC)
}
