//! Options of the SQLite store, with the reasons for their defaults.

use std::{fmt, path::PathBuf, sync::Arc};

use crate::{
    domain::token::StoreId,
    store::{Clock, SystemClock},
};

/// Options of a store in a file.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The database file. It is created if it is missing; its folder is not.
    pub path: PathBuf,
    /// Identity of the store if the file is new.
    pub new_id: StoreId,
    /// Threads that read, at least 1: as many reads run side by side. Two, so that one long list does not hold up short reads.
    pub readers: usize,
    /// Writes that may wait for the writer: a fifth of a second's work at full speed. Beyond that callers are refused with OVERLOADED.
    pub queue_requests: usize,
    /// Bytes of bodies and deltas of all writes that wait: some twenty of the largest batches.
    pub queue_bytes: usize,
    /// Writes of one commit at most: enough to make the flush cheap for each, few enough that the first one's answer does not wait
    /// noticeably for the last one.
    pub group_requests: usize,
    /// Bytes of bodies and deltas after which a commit takes no further write, for the same reason.
    pub group_bytes: usize,
    /// Reads that may wait for a reader.
    pub queue_reads: usize,
    /// Bytes of heads and state that the writer keeps in memory: the sessions of an hour of a busy service.
    pub cache_bytes: usize,
    /// The commit at which the process aborts itself, for crash tests.
    pub crash: Option<Crash>,
    /// The time of commits.
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteOptions {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>, new_id: StoreId) -> Self {
        Self {
            path: path.into(),
            new_id,
            readers: 2,
            queue_requests: 4096,
            queue_bytes: 64 << 20,
            group_requests: 512,
            group_bytes: 8 << 20,
            queue_reads: 4096,
            cache_bytes: 64 << 20,
            crash: None,
            clock: Arc::new(SystemClock),
        }
    }
}

/// A moment at which the process aborts itself as a power cut would end it. Tests of crashes use it; nothing else sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    pub point: CrashPoint,
    /// At the n-th commit since opening, from 1. Making the file does not count.
    pub at_commit: u64,
}

/// The moment of a [`Crash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Everything is written but the commit.
    BeforeCommit,
    /// The commit is durable and no caller has been answered.
    AfterCommitBeforeAck,
}
