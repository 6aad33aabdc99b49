//! The file: its options, its whole path, and why it can be refused.

use std::{
    fmt,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, fchown},
    path::{Path, PathBuf},
    sync::Arc,
};

use rusqlite::ErrorCode;
use tracing::error;

use super::{connection::is_disk_full, prelude::*, schema::SCHEMA_VERSION};
use sessiond_metrics::Metrics;
use sessiond_store::{
    Clock, Crash, SystemClock,
    files::{FileMode, create_new, is_link},
};

/// Options of a store in a file.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The database file. It is created if it is missing; its folder is not.
    pub path: PathBuf,
    /// Identity of the store if the file is new.
    pub new_id: StoreId,
    pub file_mode: FileMode,
    /// Threads that read, at least 1: as many reads run side by side. Two, so that one long list does not hold up short reads.
    pub readers: usize,
    /// Writes that may wait for the writer: a fifth of a second's work at full speed. Beyond that callers are refused with OVERLOADED.
    pub queue_requests: usize,
    /// Writes of one commit at most: enough to make the flush cheap for each, few enough that the first one's answer does not wait
    /// noticeably for the last one.
    pub group_requests: usize,
    /// Bytes of heads and state that the writer keeps in memory: the sessions of an hour of a busy service.
    pub cache_bytes: usize,
    /// Whether a thread of its own moves most of the WAL into the database. Without it the writer does all of that
    /// (`benches/checkpointer.rs`).
    pub checkpointer: bool,
    /// Look for damage first, and do not open a damaged file.
    pub verify: bool,
    /// The commit at which the process aborts itself, for crash tests.
    pub crash: Option<Crash>,
    /// The time of commits.
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
}

impl SqliteOptions {
    pub fn new(path: impl Into<PathBuf>, new_id: StoreId) -> Self {
        Self {
            path: path.into(),
            new_id,
            file_mode: FileMode::default(),
            readers: 2,
            queue_requests: 4096,
            group_requests: 512,
            cache_bytes: 64 << 20,
            checkpointer: true,
            verify: false,
            crash: None,
            clock: Arc::new(SystemClock),
            metrics: Arc::default(),
        }
    }
}

/// Why a store cannot be opened: a whole sentence that says what to do.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("The database '{path}' is in use by {}. Stop that process, or choose another file.", process(*pid))]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error(
        "The file '{0}' is not a SQLite database, or it is damaged. Restore it from a backup, or choose another file."
    )]
    Damaged(PathBuf),
    #[error(
        "The database '{path}' is damaged: the log lists {findings} findings. Restore it from a backup, or start without --verify and save the rest with `sessiond export --app NAME --out DIR --skip-damaged`."
    )]
    Findings { path: PathBuf, findings: u64 },
    #[error("The database '{0}' was not made by sessiond. Choose another file.")]
    Foreign(PathBuf),
    #[error(
        "The database '{path}' has version {version}, but this sessiond reads versions up to {SCHEMA_VERSION}. Use a newer sessiond."
    )]
    Newer { path: PathBuf, version: i32 },
    /// No migration leads from its tables to those of this build.
    #[error(
        "The database '{0}' has other tables than this sessiond: a build that was not released made it. Export its sessions with that sessiond (`sessiond export`), and import them into a new file (`sessiond import`)."
    )]
    OtherLayout(PathBuf),
    /// Of work on a file that does not migrate it.
    #[error(
        "The database '{0}' has an older version than this command needs. Start `sessiond serve` on it once to migrate it."
    )]
    NotMigrated(PathBuf),
    #[error(
        "The database has to be migrated, and '{0}' already holds a copy from an earlier migration. Move that file to another folder, then start again."
    )]
    CopyExists(PathBuf),
    #[error(
        "The database '{path}' could not be copied before its migration ({cause}). Make its folder writable, with space for a copy."
    )]
    CopyFailed { path: PathBuf, cause: String },
    /// `from` is the version that could not be left.
    #[error(
        "The migration of the database '{path}' from version {from} failed ({cause}), and the file is unchanged. Use the earlier sessiond, and report this."
    )]
    Migration { path: PathBuf, from: i32, cause: String },
    /// The database, or a file beside it.
    #[error("The file '{0}' is not writable. Make it and its folder writable for this user.")]
    ReadOnly(PathBuf),
    /// SQLite or this program would write into the target of a link that somebody else may have made.
    #[error(
        "The file '{0}' is a symbolic link, which is not followed. Remove the link, then start again."
    )]
    Link(PathBuf),
    #[error("The disk of the database '{0}' is full. Free space on it, then start again.")]
    DiskFull(PathBuf),
    #[error(
        "The folder '{0}' of the database does not exist. Create it, or choose another folder."
    )]
    NoFolder(PathBuf),
    #[error("'{0}' is not a file. Choose a file for the database.")]
    NotAFile(PathBuf),
    #[error(
        "The database '{path}' cannot be opened ({cause}). Check the file and its folder, or choose another file."
    )]
    Failed { path: PathBuf, cause: String },
}

fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl OpenError {
    pub(super) fn failed(path: &Path, error: impl fmt::Display) -> Self {
        Self::Failed { path: path.into(), cause: error.to_string() }
    }

    pub(super) fn of(path: &Path, error: &rusqlite::Error) -> Self {
        error!(%error, "opening the database failed");
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged(path),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Self::ReadOnly(path),
            _ if is_disk_full(error) => Self::DiskFull(path),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::InUse { path, pid: None }
            }
            _ => Self::failed(&path, error),
        }
    }
}

/// The path without links and dots, so that one file has one lock, however it is named.
pub(super) fn whole_path(path: &Path) -> Result<PathBuf, OpenError> {
    let not_a_file = || OpenError::NotAFile(path.into());
    let name = path.file_name().ok_or_else(not_a_file)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let whole = path.canonicalize().or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => folder.canonicalize().map(|folder| folder.join(name)),
        _ => Err(error),
    });
    let whole = whole.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::NoFolder(folder.into()),
        _ => OpenError::failed(path, error),
    })?;
    if whole.is_dir() { Err(not_a_file()) } else { Ok(whole) }
}

/// A file beside another, whose name continues that one's.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Bytes of the WAL of a file, if it has some.
pub fn unfinished_bytes(path: &Path) -> Option<u64> {
    let wal = beside(&whole_path(path).ok()?, "-wal");
    let bytes = fs::metadata(wal).ok()?.len();
    (bytes > 0).then_some(bytes)
}

/// Endings of the files beside a database, SQLite's and our own.
const COMPANIONS: [&str; 5] = ["-wal", "-shm", "-journal", "-lock", "-reserve"];

/// Refuses a database with a link beside it: with such a link, a user who may write into the folder could have other files overwritten.
pub(super) fn refuse_links(path: &Path) -> Result<(), OpenError> {
    let mut links = COMPANIONS.map(|suffix| beside(path, suffix)).into_iter();
    links.find(|path| is_link(path)).map_or(Ok(()), |path| Err(OpenError::Link(path)))
}

/// Makes an empty file with the owner and the mode of a database: the same users may open both. Only root may give it to
/// another owner.
pub(super) fn create_like(database: &Metadata, path: &Path) -> io::Result<File> {
    let file = create_new(path, FileMode::default())?;
    drop(fchown(&file, Some(database.uid()), Some(database.gid())));
    file.set_permissions(database.permissions())?;
    Ok(file)
}
