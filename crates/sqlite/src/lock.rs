//! The lock of a database file, and whether the file is still the one that was opened.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rusqlite::Connection;
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
use tokio::sync::watch;
use tracing::error;

use super::{
    connection::connect,
    file::{OpenError, beside, create_like, refuse_links},
    prelude::*,
};
use sessiond_store::{
    Condition,
    files::{FileMode, is_link_error, open_or_create},
};

/// The lock of a file. It has to outlive every connection to the file: closing the database here would give up SQLite's own locks,
/// which belong to the process.
pub(super) struct FileLock {
    pub(super) path: PathBuf,
    /// What the file allows at present.
    pub(super) condition: watch::Sender<Condition>,
    identity: Identity,
    /// Of the WAL, once it is open.
    wal: OnceLock<(PathBuf, Identity)>,
    /// A flush failed: what the kernel has of the file may not be on the disk.
    pub(super) flush_failed: Arc<AtomicBool>,
    /// Locked, as is the file beside it.
    pub(super) database: File,
    _beside_it: File,
}

/// Device and inode.
type Identity = (u64, u64);

impl FileLock {
    /// Opens a connection to the locked file, and to no other that has come in its place.
    pub(super) fn connect(&self) -> Result<Connection> {
        let connection = connect(&self.path).map_err(driver)?;
        self.check()?;
        Ok(connection)
    }

    /// Makes durable what was written into the database file.
    pub(super) fn flush_database(&self) -> io::Result<()> {
        self.database.sync_data()
    }

    /// Nothing is read any more either: pages of the file may be as they were before.
    pub(super) fn set_flush_failed(&self) {
        self.flush_failed.store(true, Relaxed);
        self.condition.send_replace(Condition::FileLost);
    }

    pub(super) fn has_flush_failed(&self) -> bool {
        self.flush_failed.load(Relaxed)
    }

    /// Nothing more goes into the file.
    pub(super) fn is_lost(&self) -> bool {
        *self.condition.borrow() == Condition::FileLost
    }

    /// Remembers the WAL. A connection has it open, so SQLite neither removes nor replaces it any more.
    pub(super) fn remember_wal(&self) {
        let path = beside(&self.path, "-wal");
        if let Ok(found) = identity(&path) {
            self.wal.get_or_init(|| (path, found));
        }
    }

    /// Whether the database and its WAL are in their places. Errors: [`Error::FileLost`], from the first time on, whatever is put in their
    /// places later. What has been committed since would be missing there. The same after [`Self::set_flush_failed`].
    pub(super) fn check(&self) -> Result<()> {
        let gone = is_gone(&self.path, self.identity)
            || self.wal.get().is_some_and(|(path, wal)| is_gone(path, *wal));
        let lose = |condition: &mut Condition| {
            std::mem::replace(condition, Condition::FileLost) != Condition::FileLost
        };
        if gone && self.condition.send_if_modified(lose) {
            error!(
                path = %self.path.display(),
                "the database file or its WAL was removed or replaced: nothing more is committed; export what is needed, then restart"
            );
        }
        if self.is_lost() { Err(Error::FileLost) } else { Ok(()) }
    }
}

/// Does not ask for times: from Linux 6.13 on, the next write to a file whose times were read changes its inode, and the flush of a
/// commit then writes the inode as well, which takes a tenth of a millisecond.
#[cfg(target_os = "linux")]
fn identity(path: &Path) -> io::Result<Identity> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO)?;
    Ok((makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

#[cfg(not(target_os = "linux"))]
fn identity(path: &Path) -> io::Result<Identity> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Whether the file at a path was removed or replaced. A file that cannot be looked at for another reason is not gone.
fn is_gone(path: &Path, opened: Identity) -> bool {
    match identity(path) {
        Ok(found) => found != opened,
        Err(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

/// Locks a file, which is made if it is missing: first a file beside it, which names the process, then the database itself, so that it
/// has one process whatever it is called. `mode`: of the files that are made.
pub(super) fn lock(path: &Path, mode: FileMode) -> Result<FileLock, OpenError> {
    refuse_links(path)?;
    let name = beside(path, "-lock");
    // The open that follows tells what is wrong, and makes it beside a new database.
    drop(fs::metadata(path).and_then(|database| create_like(&database, &name)));
    let mut beside_it = open(&name, mode)?;
    if !try_lock(path, &beside_it)? {
        let mut text = String::new();
        let read = beside_it.read_to_string(&mut text);
        let pid = read.ok().and_then(|_| text.trim().parse().ok());
        return Err(OpenError::InUse { path: path.into(), pid });
    }
    // SQLite gives its files the mode of this one.
    let database = open(path, mode)?;
    // Only on Linux are these locks independent of those that SQLite takes on the same file.
    if cfg!(target_os = "linux") && !try_lock(path, &database)? {
        return Err(OpenError::InUse { path: path.into(), pid: None });
    }
    // For people and for the message above; nothing depends on it, and a full disk may refuse it.
    let named = beside_it.set_len(0).and_then(|()| beside_it.seek(SeekFrom::Start(0)));
    drop(named.and_then(|_| writeln!(beside_it, "{}", std::process::id())));
    let found = database.metadata().map_err(|error| OpenError::failed(path, error))?;
    Ok(FileLock {
        path: path.into(),
        condition: watch::Sender::new(Condition::Ready),
        identity: (found.dev(), found.ino()),
        wal: OnceLock::new(),
        flush_failed: Arc::default(),
        database,
        _beside_it: beside_it,
    })
}

fn open(path: &Path, mode: FileMode) -> Result<File, OpenError> {
    open_or_create(path, mode).map_err(|error| match error.kind() {
        _ if is_link_error(&error) => OpenError::Link(path.into()),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly(path.into())
        }
        io::ErrorKind::StorageFull => OpenError::DiskFull(path.into()),
        _ => OpenError::failed(path, error),
    })
}

fn try_lock(path: &Path, file: &File) -> Result<bool, OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(OpenError::failed(path, error)),
    }
}
