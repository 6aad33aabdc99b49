//! What can be chosen about a store in a file, and why it is what it is by default.

use std::path::PathBuf;

use crate::domain::token::StoreId;

/// How a store in a file is opened.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// The database file. Made where it is missing; its folder is not.
    pub path: PathBuf,
    /// Identity of the store where the file is new.
    pub new_id: StoreId,
    /// Threads that read, at least 1: as many reads run side by side. Two, so that one long list does not hold up short reads.
    pub readers: usize,
    /// Writes that may wait for the writer: a fifth of a second's work at full speed. Beyond that callers are told to come back.
    pub queue_commands: usize,
    /// Bytes of bodies and deltas of all writes that wait: some twenty of the largest batches.
    pub queue_bytes: usize,
    /// Writes of one commit at most: enough to make the flush cheap for each, few enough that the first one's answer does not wait
    /// noticeably for the last one.
    pub group_commands: usize,
    /// Bytes of bodies and deltas after which a commit takes no further write, for the same reason.
    pub group_bytes: usize,
    /// Reads that may wait for a reader.
    pub queue_reads: usize,
    /// Bytes of heads and state that the writer keeps in memory: the sessions of an hour of a busy service.
    pub cache_bytes: usize,
    /// Where the process ends itself, for tests of crashes.
    pub crash: Option<Crash>,
}

impl SqliteOptions {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>, new_id: StoreId) -> Self {
        Self {
            path: path.into(),
            new_id,
            readers: 2,
            queue_commands: 4096,
            queue_bytes: 64 << 20,
            group_commands: 512,
            group_bytes: 8 << 20,
            queue_reads: 4096,
            cache_bytes: 64 << 20,
            crash: None,
        }
    }
}

/// A moment at which the process aborts itself as a power cut would end it. Tests of crashes use it; nothing else sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Where.
    pub point: CrashPoint,
    /// At the n-th commit since opening, from 1. Making the file does not count.
    pub at_commit: u64,
}

/// Where a [`Crash`] happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    /// Everything is written but the commit.
    BeforeCommit,
    /// The commit is durable and nobody has been told.
    AfterCommitBeforeAck,
}
