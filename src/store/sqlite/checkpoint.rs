//! Moving what the log of commits holds into the database file, without callers having to wait for it.
//!
//! A thread of its own copies pages while the writer goes on writing. SQLite begins the log anew when everything in it is copied and
//! the next commit comes. Where commits never pause, the writer copies the last few pages itself, between two groups. Only when
//! the disk or readers do not keep up, and the log has grown beyond all measure, does the writer wait for them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use tracing::warn;

use super::open::connect_writer;

/// Pages in the log above which copying begins: 16 MiB. Pages that are written again and again are copied once.
const PAGES_BEGIN: u32 = 4_000;

/// Pages that the writer copies itself where it can: a few milliseconds.
const PAGES_REST: u32 = 500;

/// Times that the thread copies what has come in the meantime, before the writer copies the rest however much it is. Where commits
/// never pause, the rest of a round is as long as the round took, and further rounds gain nothing.
const ROUNDS: u32 = 3;

/// Pages in the log above which the writer waits, for the thread that copies and for readers: 256 MiB.
const PAGES_MAX: u32 = 64_000;

/// How long it waits for the thread: a disk that needs longer for 256 MiB is not helped by it.
const PATIENCE: Duration = Duration::from_secs(10);

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
    /// So many pages of the log were copied when it was last tried; readers may keep the log from being begun anew nevertheless.
    Nothing { copied: u32 },
    /// Copy what is there, in this round, from 1.
    Wanted { round: u32 },
    /// It is done; so many pages of the log are copied.
    Done { round: u32, copied: u32 },
    /// End.
    Closed,
}

impl Work {
    /// What there is to do for a log that has just begun.
    const NEW_LOG: Self = Self::Nothing { copied: 0 };
}

impl Checkpoints {
    /// Starts the thread that copies.
    pub(super) fn start(path: PathBuf) -> io::Result<(Self, JoinHandle<()>)> {
        let copier = Arc::new(Copier { work: Mutex::new(Work::NEW_LOG), changed: Condvar::new() });
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
        let mut work = self.copier.lock();
        if let Work::Nothing { copied } | Work::Done { copied, .. } = *work
            && pages < copied
        {
            // The log was begun anew, and what was done belongs to the one before.
            *work = Work::NEW_LOG;
        }
        if pages >= PAGES_MAX {
            let copying = |work: &mut Work| matches!(work, Work::Wanted { .. });
            let waited = self.copier.changed.wait_timeout_while(work, PATIENCE, copying);
            work = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match *work {
            Work::Nothing { copied } if pages - copied <= PAGES_BEGIN && pages < PAGES_MAX => {
                return;
            }
            Work::Nothing { .. } => *work = Work::Wanted { round: 1 },
            Work::Done { round, copied }
                if pages.saturating_sub(copied) > PAGES_REST
                    && pages < PAGES_MAX
                    && round < ROUNDS =>
            {
                *work = Work::Wanted { round: round + 1 };
            }
            Work::Done { .. } => {
                *work = Work::Nothing { copied: pages };
                drop(work);
                let how = if pages < PAGES_MAX { "PASSIVE" } else { "RESTART" };
                copy(connection, how);
                return;
            }
            Work::Wanted { .. } | Work::Closed => return,
        }
        drop(work);
        self.copier.changed.notify_all();
    }

    /// Ends the thread that copies.
    pub(super) fn close(&self) {
        *self.copier.lock() = Work::Closed;
        self.copier.changed.notify_all();
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
            if let Work::Wanted { round } = *work {
                *work = Work::Done { round, copied: copied.unwrap_or(0) };
                self.changed.notify_all();
            }
        }
    }

    /// Waits for work; false: there will be none.
    fn wait(&self) -> bool {
        let mut work = self.lock();
        loop {
            match *work {
                Work::Wanted { .. } => return true,
                Work::Closed => return false,
                Work::Nothing { .. } | Work::Done { .. } => {
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A log of so many pages, and nobody who copies.
    fn log_of(pages: u32) -> (TempDir, Connection, Checkpoints) {
        let folder = TempDir::new().unwrap();
        let mut connection = connect_writer(&folder.path().join("test.db")).unwrap();
        let copier = Copier { work: Mutex::new(Work::NEW_LOG), changed: Condvar::new() };
        let checkpoints = Checkpoints { pages: Arc::default(), copier: Arc::new(copier) };
        checkpoints.follow(&mut connection).unwrap();
        connection
            .execute_batch(&format!("CREATE TABLE t AS SELECT zeroblob(4096 * {pages}) AS bytes"))
            .unwrap();
        assert!(checkpoints.pages.load(Ordering::Relaxed) >= pages);
        (folder, connection, checkpoints)
    }

    /// Pages of the log that are not in the database file.
    fn missing(connection: &Connection) -> i64 {
        let counts = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(1)? - row.get::<_, i64>(2)?);
        connection.query_row("PRAGMA wal_checkpoint(NOOP)", (), counts).unwrap()
    }

    fn after(connection: &Connection, checkpoints: &Checkpoints, work: Work) -> Work {
        *checkpoints.copier.lock() = work;
        checkpoints.after_commit(connection);
        *checkpoints.copier.lock()
    }

    #[test]
    fn a_short_log_is_left_alone() {
        let (_folder, connection, checkpoints) = log_of(100);
        assert_eq!(after(&connection, &checkpoints, Work::NEW_LOG), Work::NEW_LOG);
    }

    #[test]
    fn the_writer_copies_what_is_left_when_it_is_little_or_the_rounds_are_over() {
        let (_folder, connection, checkpoints) = log_of(PAGES_BEGIN + 1);
        let all = checkpoints.pages.load(Ordering::Relaxed);
        let after = |work| after(&connection, &checkpoints, work);
        assert_eq!(after(Work::NEW_LOG), Work::Wanted { round: 1 });
        assert_eq!(after(Work::Wanted { round: 1 }), Work::Wanted { round: 1 });
        assert_eq!(after(Work::Done { round: 1, copied: 0 }), Work::Wanted { round: 2 });
        assert_eq!(missing(&connection), i64::from(all));
        assert_eq!(after(Work::Done { round: ROUNDS, copied: 0 }), Work::Nothing { copied: all });
        assert_eq!(missing(&connection), 0);
        connection.execute_batch("CREATE TABLE u (x)").unwrap();
        assert!(checkpoints.pages.load(Ordering::Relaxed) < PAGES_REST, "the log begins anew");

        let (_folder, connection, checkpoints) = log_of(PAGES_BEGIN + 1);
        let all = checkpoints.pages.load(Ordering::Relaxed);
        let rest = Work::Done { round: 1, copied: all - PAGES_REST };
        assert_eq!(
            super::tests::after(&connection, &checkpoints, rest),
            Work::Nothing { copied: all }
        );
        assert_eq!(missing(&connection), 0);
    }

    #[test]
    fn what_was_done_for_a_log_says_nothing_of_the_next_one() {
        let (_folder, connection, checkpoints) = log_of(PAGES_BEGIN + 1);
        let copied = checkpoints.pages.load(Ordering::Relaxed);
        let after = |work| after(&connection, &checkpoints, work);
        // Nobody could begin the log anew: another attempt makes sense when there is as much to copy again.
        assert_eq!(after(Work::Nothing { copied }), Work::Nothing { copied });
        assert_eq!(after(Work::Nothing { copied: 0 }), Work::Wanted { round: 1 });
        checkpoints.pages.store(10, Ordering::Relaxed);
        assert_eq!(after(Work::Nothing { copied }), Work::NEW_LOG);
        assert_eq!(after(Work::Done { round: 1, copied }), Work::NEW_LOG);
        assert_eq!(after(Work::Wanted { round: 1 }), Work::Wanted { round: 1 });
        assert_eq!(missing(&connection), i64::from(copied), "nothing was copied");
    }

    #[test]
    fn the_writer_waits_for_the_thread_when_the_log_is_beyond_all_measure() {
        let (_folder, connection, checkpoints) = log_of(PAGES_BEGIN + 1);
        checkpoints.pages.store(PAGES_MAX, Ordering::Relaxed);
        *checkpoints.copier.lock() = Work::Wanted { round: 1 };
        let copier = Arc::clone(&checkpoints.copier);
        let thread = thread::spawn(move || {
            *copier.lock() = Work::Done { round: 1, copied: 0 };
            copier.changed.notify_all();
        });
        checkpoints.after_commit(&connection);
        thread.join().unwrap();
        assert_eq!(*checkpoints.copier.lock(), Work::Nothing { copied: PAGES_MAX });
        assert_eq!(missing(&connection), 0);
    }
}
