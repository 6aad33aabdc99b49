//! Opening the file, for one process alone.

use std::{
    ffi::OsString,
    fmt,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};
use tracing::error;

use super::schema::{self, APPLICATION_ID, SCHEMA_VERSION};
use crate::domain::token::StoreId;

/// Why a store cannot be opened: a whole sentence that says what to do.
#[derive(Debug, PartialEq, Eq)]
pub enum OpenError {
    /// Another process has the file open.
    InUse {
        /// The file.
        path: PathBuf,
        /// That process, where it is known.
        pid: Option<u32>,
    },
    /// The file is none of SQLite's, or is damaged.
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
    /// The file was written by a sessiond from before the first release.
    Older {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i32,
    },
    /// The file or its folder cannot be written to.
    ReadOnly(PathBuf),
    /// The folder of the file is not there.
    NoFolder(PathBuf),
    /// The path is none of a file.
    NotAFile(PathBuf),
    /// The file can be neither opened nor made.
    Failed {
        /// The file.
        path: PathBuf,
        /// What the system or the database says.
        cause: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, pid: Some(pid) } => write!(
                f,
                "The database '{}' is in use by process {pid}; stop that process, or choose another file.",
                path.display()
            ),
            Self::InUse { path, pid: None } => write!(
                f,
                "The database '{}' is in use by another process; stop that process, or choose another file.",
                path.display()
            ),
            Self::Damaged(path) => write!(
                f,
                "The file '{}' is no SQLite database, or it is damaged; restore it from a backup, or choose another file.",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "The database '{}' was not made by sessiond; choose another file.",
                path.display()
            ),
            Self::Newer { path, version } => write!(
                f,
                "The database '{}' has version {version}, and this sessiond knows versions up to {SCHEMA_VERSION}; use a newer sessiond.",
                path.display()
            ),
            Self::Older { path, version } => write!(
                f,
                "The database '{}' has version {version}, from before the first release, and this sessiond reads version {SCHEMA_VERSION}; export its sessions with the sessiond that made it and import them, or choose another file.",
                path.display()
            ),
            Self::ReadOnly(path) => write!(
                f,
                "The database '{}' cannot be written to; make the file and its folder writable for this user.",
                path.display()
            ),
            Self::NoFolder(path) => write!(
                f,
                "There is no folder '{}' for the database; create it, or choose another place.",
                path.display()
            ),
            Self::NotAFile(path) => write!(
                f,
                "The path '{}' is none of a file; choose a file for the database.",
                path.display()
            ),
            Self::Failed { path, cause } => write!(
                f,
                "The database '{}' cannot be opened ({cause}); look at the file and its folder, or choose another file.",
                path.display()
            ),
        }
    }
}

impl std::error::Error for OpenError {}

/// A file that this process has for itself.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) store_id: StoreId,
    pub(super) lock: File,
}

/// Locks the file, opens it, and makes the tables where it is new.
pub(super) fn open(path: &Path, new_id: StoreId) -> Result<Opened, OpenError> {
    let path = whole_path(path)?;
    let lock = lock(&path)?;
    let connection = Connection::open_with_flags(&path, writer_flags())
        .map_err(|error| explain(&path, &error))?;
    let store_id = prepare(&path, &connection, new_id)?;
    Ok(Opened { path, connection, store_id, lock })
}

/// Another connection for the writer, where the first one broke.
pub(super) fn connect_writer(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, writer_flags())?;
    schema::set_up_writer(&connection)?;
    Ok(connection)
}

fn writer_flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// The path without links and dots, so that one file has one lock, however it is named.
fn whole_path(path: &Path) -> Result<PathBuf, OpenError> {
    let Some(name) = path.file_name() else {
        return Err(OpenError::NotAFile(path.into()));
    };
    let folder = match path.parent() {
        None => Path::new("."),
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
    };
    let whole = match path.canonicalize() {
        Ok(whole) => whole,
        Err(error) if error.kind() == io::ErrorKind::NotFound => match folder.canonicalize() {
            Ok(whole) => whole.join(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(OpenError::NoFolder(folder.into()));
            }
            Err(error) => return Err(failed(path, &error)),
        },
        Err(error) => return Err(failed(path, &error)),
    };
    if whole.is_dir() {
        return Err(OpenError::NotAFile(path.into()));
    }
    Ok(whole)
}

/// Locks a file beside the database. The database itself must never be opened past SQLite: closing it would give up SQLite's own
/// locks.
fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = OsString::from(path.as_os_str());
    name.push("-lock");
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&name);
    let mut file = opened.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly(path.into())
        }
        _ => failed(path, &error),
    })?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.read_to_string(&mut text);
            let pid = read.ok().and_then(|_| text.trim().parse().ok());
            return Err(OpenError::InUse { path: path.into(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(failed(path, &error)),
    }
    // For people and for the message above; nothing depends on it.
    let pid = std::process::id();
    let written = file
        .set_len(0)
        .and_then(|()| file.seek(SeekFrom::Start(0)))
        .and_then(|_| writeln!(file, "{pid}"));
    written.map_err(|error| failed(path, &error))?;
    Ok(file)
}

/// Looks at what the file is, makes the tables in a new one, which gets this identity, and sets the connection up.
fn prepare(path: &Path, connection: &Connection, new_id: StoreId) -> Result<StoreId, OpenError> {
    let explained = |error: rusqlite::Error| explain(path, &error);
    let number = |pragma: &str| {
        connection.query_row(pragma, (), |row| row.get::<_, i32>(0)).map_err(explained)
    };
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if connection.is_readonly(MAIN_DB).map_err(explained)? {
        return Err(OpenError::ReadOnly(path.into()));
    }
    let is_new = application == 0 && version == 0 && tables == 0;
    if !is_new && application != APPLICATION_ID {
        return Err(OpenError::Foreign(path.into()));
    }
    if version > SCHEMA_VERSION {
        return Err(OpenError::Newer { path: path.into(), version });
    }
    if !is_new && version < SCHEMA_VERSION {
        return Err(OpenError::Older { path: path.into(), version });
    }
    schema::set_up_writer(connection).map_err(explained)?;
    if is_new {
        schema::create(connection, new_id).map_err(explained)?;
    }
    let id = connection.query_row("SELECT store_id FROM meta", (), |row| row.get(0));
    id.map(StoreId).map_err(explained)
}

fn explain(path: &Path, error: &rusqlite::Error) -> OpenError {
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

fn failed(path: &Path, error: &io::Error) -> OpenError {
    OpenError::Failed { path: path.into(), cause: error.to_string() }
}
