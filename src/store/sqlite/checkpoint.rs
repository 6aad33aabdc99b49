//! Checkpoints: moving pages of the log (WAL) into the database file.
//!
//! A thread of its own, the checkpointer, moves most of them while the writer goes on writing. SQLite begins the log anew only when all of
//! it has been moved and the next commit comes, so the writer moves the few pages that came in the meantime itself, between two groups.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, hooks::Wal};
use tracing::warn;

use super::file::connect_writer;

/// Pages in the log at which a checkpoint begins: 16 MiB. Pages that are written again and again are moved once.
const BEGIN_PAGES: u32 = 4_000;

/// Pages that the writer moves itself: a few milliseconds. Above, the checkpointer goes another round.
const REST_PAGES: u32 = 500;

/// Rounds of the checkpointer before the writer moves the rest, however much it is: where commits never pause, the rest of a round
/// is as long as the round took, and further rounds gain nothing.
const ROUNDS: u32 = 3;

/// Pages in the log at which the writer waits for the checkpointer and then moves everything: 256 MiB.
const MAX_PAGES: u32 = 64_000;

/// What the writer knows of the log, and its checkpointer.
pub(super) struct Checkpoints {
    /// Pages in the log after the last commit.
    pages: Arc<AtomicU32>,
    /// Asks for a round.
    begin: SyncSender<()>,
    /// Tells how many pages of the log have been moved after a round.
    done: Receiver<u32>,
    /// The round under way.
    round: Option<u32>,
    /// Pages of this log that have been moved, or tried to: a reader may keep the log from being begun anew.
    moved: u32,
}

impl Checkpoints {
    /// Starts the checkpointer, which ends when this is dropped.
    pub(super) fn start(path: PathBuf) -> io::Result<(Self, JoinHandle<()>)> {
        let (begin, wanted) = sync_channel(1);
        let (finished, done) = sync_channel(1);
        let thread = thread::Builder::new().name("sqlite-checkpoint".into());
        let handle = thread.spawn(move || run(&path, &wanted, &finished))?;
        Ok((Self { pages: Arc::default(), begin, done, round: None, moved: 0 }, handle))
    }

    /// Has a connection tell how long the log is after its commits.
    pub(super) fn follow(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut Wal, count: i32| {
            pages.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Sees to the log after a group, when everybody in it has been answered.
    pub(super) fn after_commit(&mut self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.moved {
            // SQLite began the log anew.
            self.moved = 0;
        }
        let Some(round) = self.round else {
            if pages - self.moved >= BEGIN_PAGES {
                self.begin_round(1);
            }
            return;
        };
        let moved = match pages < MAX_PAGES {
            true => self.done.try_recv(),
            false => self.done.recv().map_err(|_| TryRecvError::Disconnected),
        };
        match moved {
            Err(TryRecvError::Empty) => {}
            Ok(moved)
                if pages.saturating_sub(moved) > REST_PAGES
                    && round < ROUNDS
                    && pages < MAX_PAGES =>
            {
                self.begin_round(round + 1);
            }
            Ok(_) | Err(TryRecvError::Disconnected) => {
                self.round = None;
                self.moved = pages;
                checkpoint(connection, if pages < MAX_PAGES { "PASSIVE" } else { "RESTART" });
            }
        }
    }

    fn begin_round(&mut self, round: u32) {
        self.round = Some(round);
        // A checkpointer that is gone answers nothing, and the writer moves the pages itself.
        let _ = self.begin.try_send(());
    }
}

fn run(path: &Path, wanted: &Receiver<()>, finished: &SyncSender<u32>) {
    let mut connection = None;
    while wanted.recv().is_ok() {
        let opened = match connection.take() {
            Some(connection) => Ok(connection),
            None => connect_writer(path),
        };
        let moved = match opened {
            Ok(opened) => checkpoint(connection.insert(opened), "PASSIVE"),
            Err(error) => {
                warn!(%error, "the checkpointer found no connection and will try again");
                None
            }
        };
        if finished.send(moved.unwrap_or(0)).is_err() {
            return;
        }
    }
}

/// Leaves no log behind. The last connection is about to close.
pub(super) fn at_close(connection: &Connection) {
    checkpoint(connection, "TRUNCATE");
}

/// How many pages of the log have been moved then. A failure does no harm: the log keeps what it has.
fn checkpoint(connection: &Connection, how: &str) -> Option<u32> {
    let pragma = format!("PRAGMA wal_checkpoint({how})");
    match connection.query_row(&pragma, (), |row| row.get::<_, i64>(2)) {
        Ok(pages) => u32::try_from(pages).ok(),
        Err(error) => {
            warn!(%error, how, "a checkpoint failed; the log keeps what it has");
            None
        }
    }
}
