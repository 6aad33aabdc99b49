//! Moving what the log of commits holds into the database file, away from callers who wait.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use rusqlite::Connection;
use tracing::warn;

use super::{command::Command, queue::Queue};

/// Pages in the log above which it is emptied as soon as nobody waits: 4 MiB.
const PAGES_WHEN_IDLE: u32 = 1000;

/// Pages in the log above which it is emptied although somebody waits: 64 MiB.
const PAGES_MAX: u32 = 16_000;

/// How full the log is.
#[derive(Clone, Default)]
pub(super) struct Checkpoints {
    pages: Arc<AtomicU32>,
}

impl Checkpoints {
    /// Has a connection tell how full the log is after its commits.
    pub(super) fn follow(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            pages.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Empties the log if it is time to.
    pub(super) fn after_commit(&self, connection: &Connection, queue: &Queue<Command>) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages > PAGES_MAX || (pages > PAGES_WHEN_IDLE && queue.is_empty()) {
            run(connection, "PRAGMA wal_checkpoint(PASSIVE)");
        }
    }

    /// Leaves no log behind.
    pub(super) fn at_close(&self, connection: &Connection) {
        run(connection, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
}

fn run(connection: &Connection, pragma: &str) {
    if let Err(error) = connection.query_row(pragma, (), |_| Ok(())) {
        warn!(%error, "a checkpoint failed; the log keeps what it has");
    }
}
