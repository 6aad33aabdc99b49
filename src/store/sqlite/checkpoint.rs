//! Moving what the log of commits holds into the database file, without callers having to wait for it.
//!
//! A thread of its own copies pages while the writer goes on writing. SQLite begins the log anew when everything in it is copied and
//! the next commit comes. Where commits never pause, the writer copies the last few pages itself, between two groups. Only when
//! readers keep the log from being begun anew, and it has grown beyond all measure, does the writer wait for them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
};

use rusqlite::Connection;
use tracing::warn;

use super::open::connect_writer;

/// Pages in the log above which copying begins: 16 MiB. Pages that are written again and again are copied once.
const PAGES_BEGIN: u32 = 4_000;

/// Pages that the writer copies itself, at most: a few milliseconds.
const PAGES_REST: u32 = 500;

/// Pages in the log above which the writer waits for readers: 256 MiB.
const PAGES_MAX: u32 = 64_000;

/// How full the log is, and what is done about it.
#[derive(Clone)]
pub(super) struct Checkpoints {
    pages: Arc<AtomicU32>,
    copier: Arc<Copier>,
}

/// What the writer and the thread that copies tell each other.
struct Copier {
    work: Mutex<Work>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Nothing,
    /// Copy what is there.
    Wanted,
    /// It is done; so many pages of the log are copied.
    Done(u32),
    /// End.
    Closed,
}

impl Checkpoints {
    /// Starts the thread that copies.
    pub(super) fn start(path: PathBuf) -> io::Result<(Self, JoinHandle<()>)> {
        let copier = Arc::new(Copier { work: Mutex::new(Work::Nothing), changed: Condvar::new() });
        let copies = Arc::clone(&copier);
        let thread = thread::Builder::new().name("sqlite-copy".into());
        let handle = thread.spawn(move || copies.run(&path))?;
        Ok((Self { pages: Arc::default(), copier }, handle))
    }

    /// Has a connection tell how full the log is after its commits.
    pub(super) fn follow(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let pages = Arc::clone(&self.pages);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, count: i32| {
            pages.store(count.unsigned_abs(), Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Sees to it that the log is copied, when everybody in a group has been answered.
    pub(super) fn after_commit(&self, connection: &Connection) {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages <= PAGES_BEGIN {
            return;
        }
        let mut work = self.copier.lock();
        match *work {
            Work::Nothing => *work = Work::Wanted,
            Work::Done(copied)
                if pages.saturating_sub(copied) > PAGES_REST && pages < PAGES_MAX =>
            {
                *work = Work::Wanted;
            }
            Work::Done(_) => {
                *work = Work::Nothing;
                drop(work);
                let how = if pages < PAGES_MAX { "PASSIVE" } else { "RESTART" };
                copy(connection, how);
                return;
            }
            Work::Wanted | Work::Closed => return,
        }
        drop(work);
        self.copier.changed.notify_one();
    }

    /// Ends the thread that copies.
    pub(super) fn close(&self) {
        *self.copier.lock() = Work::Closed;
        self.copier.changed.notify_one();
    }

    /// Leaves no log behind.
    pub(super) fn at_close(&self, connection: &Connection) {
        copy(connection, "TRUNCATE");
    }
}

impl Copier {
    fn run(&self, path: &Path) {
        let mut connection = None;
        while self.wait() {
            let opened = match connection.take() {
                Some(connection) => Ok(connection),
                None => connect_writer(path),
            };
            let copied = match opened {
                Ok(opened) => copy(connection.insert(opened), "PASSIVE"),
                Err(error) => {
                    warn!(%error, "the log could not be copied; that is tried again");
                    None
                }
            };
            let mut work = self.lock();
            if *work == Work::Wanted {
                *work = Work::Done(copied.unwrap_or(0));
            }
        }
    }

    /// Waits for work; false: there will be none.
    fn wait(&self) -> bool {
        let mut work = self.lock();
        loop {
            match *work {
                Work::Wanted => return true,
                Work::Closed => return false,
                Work::Nothing | Work::Done(_) => {
                    work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies pages into the database file; how many of the log are copied then. Failing does no harm: the log keeps what it has.
fn copy(connection: &Connection, how: &str) -> Option<u32> {
    let pragma = format!("PRAGMA wal_checkpoint({how})");
    match connection.query_row(&pragma, (), |row| row.get::<_, i64>(2)) {
        Ok(pages) => u32::try_from(pages).ok(),
        Err(error) => {
            warn!(%error, how, "copying the log failed; it keeps what it has");
            None
        }
    }
}
