//! Why a file cannot be opened as a store, in words for its operator.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;
use tracing::error;

use super::schema::SCHEMA_VERSION;

/// Why a store cannot be opened: a whole sentence that says what to do.
#[derive(Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Another process has the file open.
    InUse {
        /// The file.
        path: PathBuf,
        /// That process, if it is known.
        pid: Option<u32>,
    },
    /// The file is not a SQLite database, or is damaged.
    Damaged(PathBuf),
    /// The file is another program's database.
    Foreign(PathBuf),
    /// The file was written by a newer sessiond.
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i32,
    },
    /// The file has a version that was never released.
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i32,
    },
    /// There is a copy from an earlier migration where one would be made.
    CopyExists(PathBuf),
    /// The file could not be copied before its migration.
    CopyFailed { path: PathBuf, cause: String },
    /// A migration failed, and the file is as it was.
    Migration {
        path: PathBuf,
        /// The version that could not be left.
        from: i32,
        /// Where the copy is.
        copy: Option<PathBuf>,
        cause: String,
    },
    /// The file or its folder cannot be written to.
    ReadOnly(PathBuf),
    /// The folder of the file is not there.
    NoFolder(PathBuf),
    /// The path is not that of a file.
    NotAFile(PathBuf),
    /// The file can be neither opened nor made.
    Failed {
        /// The file.
        path: PathBuf,
        /// The error of the system or the database.
        cause: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, pid: Some(pid) } => write!(
                f,
                "The database '{}' is in use by process {pid}. Stop that process, or choose another file.",
                path.display()
            ),
            Self::InUse { path, pid: None } => write!(
                f,
                "The database '{}' is in use by another process. Stop that process, or choose another file.",
                path.display()
            ),
            Self::Damaged(path) => write!(
                f,
                "The file '{}' is not a SQLite database, or it is damaged. Restore it from a backup, or choose another file.",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "The database '{}' was not made by sessiond. Choose another file.",
                path.display()
            ),
            Self::Newer { path, version } => write!(
                f,
                "The database '{}' has version {version}, and this sessiond reads versions up to {SCHEMA_VERSION}. Use a newer sessiond.",
                path.display()
            ),
            Self::Older { path, version } => write!(
                f,
                "The database '{}' has version {version}, which was never released, and this sessiond reads version {SCHEMA_VERSION}. Export its sessions with the sessiond that made it (`sessiond export`), and import them into a new file (`sessiond import`).",
                path.display()
            ),
            Self::CopyExists(path) => write!(
                f,
                "The database has to be migrated, and '{}' already holds a copy from an earlier migration. Move that file to another folder, then start again.",
                path.display()
            ),
            Self::CopyFailed { path, cause } => write!(
                f,
                "The database '{}' could not be copied before its migration ({cause}). Make its folder writable, with space for a copy.",
                path.display()
            ),
            Self::Migration { path, from, copy, cause } => {
                write!(
                    f,
                    "The migration of the database '{}' from version {from} failed ({cause}), and the file is unchanged. Use the earlier sessiond, and report this",
                    path.display()
                )?;
                match copy {
                    Some(copy) => write!(f, " (a copy is at '{}').", copy.display()),
                    None => f.write_str("."),
                }
            }
            Self::ReadOnly(path) => write!(
                f,
                "The database '{}' is not writable. Make the file and its folder writable for this user.",
                path.display()
            ),
            Self::NoFolder(path) => write!(
                f,
                "The folder '{}' of the database does not exist. Create it, or choose another place.",
                path.display()
            ),
            Self::NotAFile(path) => {
                write!(f, "'{}' is not a file. Choose a file for the database.", path.display())
            }
            Self::Failed { path, cause } => write!(
                f,
                "The database '{}' cannot be opened ({cause}). Check the file and its folder, or choose another file.",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
    error!(%error, "opening the database failed");
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => OpenError::Damaged(path),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => OpenError::ReadOnly(path),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            OpenError::InUse { path, pid: None }
        }
        _ => OpenError::Failed { path, cause: error.to_string() },
    }
}

pub(super) fn failed(path: &Path, error: &io::Error) -> OpenError {
    OpenError::Failed { path: path.into(), cause: error.to_string() }
}
