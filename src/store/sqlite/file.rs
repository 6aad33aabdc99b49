//! The database file: its whole path, its lock, its connections and its version.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::{
    open_error::{OpenError, explain, failed},
    schema::{self, APPLICATION_ID, FIRST_RELEASED, SCHEMA_VERSION},
};

pub(super) fn connect(path: &Path) -> Result<Connection, OpenError> {
    Connection::open_with_flags(path, writer_flags()).map_err(|error| explain(path, &error))
}

/// Another connection for the writer, after the first one broke.
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
pub(super) fn whole_path(path: &Path) -> Result<PathBuf, OpenError> {
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
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
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

/// The version of a file; `None`: it is empty. Errors: it is not to be opened by this program.
pub(super) fn file_version(path: &Path, connection: &Connection) -> Result<Option<i32>, OpenError> {
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
    if !is_new && version < FIRST_RELEASED {
        return Err(OpenError::Older { path: path.into(), version });
    }
    Ok((!is_new).then_some(version))
}
