//! A full disk. Deletions go on with the space of a reserve file, everything else is refused until there is space again, and the log
//! tells it once a minute.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustix::{
    fs::{FallocateFlags, fallocate},
    io::Errno,
};
use tracing::{error, info, warn};

use super::{
    file::{beside, create_like},
    lock::FileLock,
    minute::OnceAMinute,
    prelude::*,
};
use sessiond_core::commit::Request;
use sessiond_metrics::WriteMetrics;
use sessiond_store::{
    Condition,
    group::{Submission, refuse_without_space},
};

/// Bytes of the reserve: as many as a checkpoint may lengthen the database by, which deletions need before they free anything.
pub(super) const RESERVE_BYTES: u64 = 16 << 20;

/// The reserve on a small disk: a deletion and a piece of its sweep.
const SMALL_RESERVE_BYTES: u64 = 256 << 10;

/// Seconds between two attempts to find space.
const ATTEMPT_SECS: u64 = 1;

/// The disk of a store, and the reserve.
pub(super) struct Disk {
    pub(super) file: Arc<FileLock>,
    reserve: PathBuf,
    /// Bytes of the reserve. The disk is full until as many are free.
    bytes: u64,
    is_full: bool,
    /// When space was last looked for, in seconds.
    attempted: i64,
    told: OnceAMinute,
    /// Writes refused since the disk is full.
    refused: u64,
}

fn reserve_of(path: &Path) -> PathBuf {
    beside(path, "-reserve")
}

/// Gives up the reserve of a database that is not open. Returns whether there was one.
pub(super) fn give_up_reserve(path: &Path) -> bool {
    fs::remove_file(reserve_of(path)).is_ok()
}

impl Disk {
    /// Makes the reserve of an open database, or as much of it as there is space for. `is_full`: opening the database took all of the
    /// space.
    pub(super) fn new(file: Arc<FileLock>, is_full: bool) -> Self {
        let reserve = reserve_of(&file.path);
        let (bytes, attempted, told) = (RESERVE_BYTES, i64::MIN, OnceAMinute::default());
        let mut disk = Self { file, reserve, bytes, is_full, attempted, told, refused: 0 };
        match fs::metadata(&disk.reserve) {
            Ok(found) if found.len() >= SMALL_RESERVE_BYTES => disk.bytes = found.len(),
            _ if is_full => disk.become_full(0),
            _ => disk.make_reserve(),
        }
        disk
    }

    fn make_reserve(&mut self) {
        while let Err(error) = self.allocate(&self.reserve) {
            if !is_full(&error) || self.bytes <= SMALL_RESERVE_BYTES {
                warn!(%error, "the reserve is missing, so deletions may fail when the disk is full");
                return;
            }
            self.bytes /= 2;
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// While the disk is full, refuses the requests that need space, and gives up the reserve for a deletion.
    pub(super) fn admit(&mut self, group: &mut Vec<Submission>, now: Time, metrics: &WriteMetrics) {
        if !self.is_full || self.find_space(now.secs()) {
            return;
        }
        self.refused += refuse_without_space(metrics, group);
        if group.iter().any(|it| matches!(it.request, Request::Delete(_))) {
            self.give_up();
        }
        self.report(now);
    }

    /// Learns that a group failed. Returns whether that was for lack of space.
    pub(super) fn failed(&mut self, error: &Error, now: Time) -> bool {
        match error {
            // A sweep that has something to remove.
            Error::DiskFull if self.is_full => self.give_up(),
            Error::DiskFull => self.become_full(now.secs()),
            // A quota is no full disk for SQLite, and an index that cannot grow neither.
            Error::StoreUnavailable(_) | Error::OutcomeUnknown(_)
                if !(self.is_full || self.file.is_lost()) =>
            {
                if self.try_reserve().is_err_and(|error| is_full(&error)) {
                    self.become_full(now.secs());
                }
                return false;
            }
            _ => return false,
        }
        self.report(now);
        true
    }

    fn become_full(&mut self, now: i64) {
        (self.is_full, self.attempted) = (true, now);
        Condition::switch(&self.file.condition, Condition::Ready, Condition::DiskFull);
    }

    /// Returns whether there is some.
    fn find_space(&mut self, now: i64) -> bool {
        if now.abs_diff(self.attempted) < ATTEMPT_SECS {
            return false;
        }
        self.attempted = now;
        if self.try_reserve().is_err() {
            return false;
        }
        (self.is_full, self.refused) = (false, 0);
        Condition::switch(&self.file.condition, Condition::DiskFull, Condition::Ready);
        info!("the disk has space again");
        true
    }

    /// Makes the reserve anew, beside the one that there may be.
    fn try_reserve(&self) -> io::Result<()> {
        let new = beside(&self.reserve, ".new");
        self.allocate(&new)?;
        fs::rename(&new, &self.reserve)
    }

    /// Makes a file like the database that takes space, or leaves none.
    fn allocate(&self, path: &Path) -> io::Result<()> {
        // What an attempt before has left. A link goes, and its target stays.
        drop(fs::remove_file(path));
        let file = create_like(&self.file.database.metadata()?, path);
        let allocated =
            file.and_then(|file| match fallocate(&file, FallocateFlags::empty(), 0, self.bytes) {
                Err(Errno::OPNOTSUPP) => {
                    io::copy(&mut io::repeat(0).take(self.bytes), &mut &file).map(drop)
                }
                outcome => Ok(outcome?),
            });
        if allocated.is_err() {
            // It may hold a part of the bytes.
            drop(fs::remove_file(path));
        }
        allocated
    }

    fn give_up(&self) {
        if give_up_reserve(&self.file.path) {
            info!("released the reserve for deletions");
        }
    }

    fn report(&self, now: Time) {
        if self.told.begin(now) {
            // The write that found the disk full is not counted.
            let (refused, needed_bytes) = ((self.refused > 0).then_some(self.refused), self.bytes);
            let message = "the disk is full: writes other than deletions are refused";
            error!(refused, needed_bytes, "{message}");
        }
    }
}

/// Whether an error says that there is no space.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}
