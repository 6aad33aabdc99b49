//! Opening a file. Numbered migrations make one of an earlier version a file of this version, after a copy of it was made.
//!
//! A file has a version and the hash of its tables and views. A release that changes them raises `SCHEMA_VERSION`, adds a step to
//! [`MIGRATIONS`] with the hash that the release before wrote, and keeps a file of that release in `tests/fixtures`. A file with another
//! hash is refused, because a build between two releases made it.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rusqlite::{Connection, MAIN_DB, TransactionBehavior};
use tracing::{error, info, warn};

use super::{
    connection::{connect, is_disk_full},
    disk::is_full,
    file::{OpenError, beside, create_like, whole_path},
    lock::lock,
    prelude::*,
    schema::{self, APPLICATION_ID, LAYOUT, SCHEMA_VERSION, UNRELEASED_ID},
};
use sessiond_store::files::FileMode;

#[derive(Clone, Copy)]
pub(super) struct Migration {
    pub(super) from: i32,
    /// The hash of the tables and views of that version.
    pub(super) layout: &'static str,
    /// What it changes, in a few words for the log.
    pub(super) title: &'static str,
    pub(super) apply: fn(&Connection) -> rusqlite::Result<()>,
}

/// Every step since the first released version, in order.
pub(super) const MIGRATIONS: &[Migration] = &[];

/// Migrates a locked file, or makes the tables in a new one, which gets this identity. Returns the writer's connection and the identity
/// of the file.
pub(super) fn open(path: &Path, new_id: StoreId) -> Result<(Tables, StoreId), OpenError> {
    open_with(path, new_id, MIGRATIONS)
}

pub(super) fn open_with(
    path: &Path,
    new_id: StoreId,
    migrations: &[Migration],
) -> Result<(Tables, StoreId), OpenError> {
    let of = |error: rusqlite::Error| OpenError::of(path, &error);
    let mut connection = connect(path).map_err(of)?;
    let steps = pending(path, &connection, migrations)?;
    match steps {
        Some(steps) => migrate(path, &mut connection, steps)?,
        None => schema::set_up_file(&connection).map_err(of)?,
    }
    let tables = Tables::writer(connection).map_err(of)?;
    if steps.is_none() {
        schema::create(&tables.0, new_id).map_err(of)?;
    }
    let id = tables.0.query_row("SELECT store_id FROM meta", (), |row| row.get(0)).map_err(of)?;
    Ok((tables, StoreId(id)))
}

/// A connection for work on a whole file of this version; `None`: the file is empty.
pub(super) fn open_checker(path: &Path) -> Result<Option<Tables>, OpenError> {
    let of = |error: rusqlite::Error| OpenError::of(path, &error);
    let connection = connect(path).map_err(of)?;
    match pending(path, &connection, MIGRATIONS)? {
        Some([]) => Tables::checker(connection).map(Some).map_err(of),
        Some(_) => Err(OpenError::NotMigrated(path.into())),
        None => Ok(None),
    }
}

/// The steps that a file needs; `None`: it is empty. Errors: it is not to be opened by this program.
fn pending<'m>(
    path: &Path,
    connection: &Connection,
    migrations: &'m [Migration],
) -> Result<Option<&'m [Migration]>, OpenError> {
    let of = |error: rusqlite::Error| OpenError::of(path, &error);
    let number = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, i32>(0)).map_err(of);
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if connection.is_readonly(MAIN_DB).map_err(of)? {
        return Err(OpenError::ReadOnly(path.into()));
    }
    match application {
        0 if version == 0 && tables == 0 => return Ok(None),
        APPLICATION_ID if version > SCHEMA_VERSION => {
            return Err(OpenError::Newer { path: path.into(), version });
        }
        APPLICATION_ID => {}
        UNRELEASED_ID => return Err(OpenError::OtherLayout(path.into())),
        _ => return Err(OpenError::Foreign(path.into())),
    }
    let layout = connection.query_row("SELECT layout FROM meta", (), |row| row.get::<_, String>(0));
    let layout = layout.map_err(of)?;
    let first = migrations.iter().position(|step| step.from == version && step.layout == layout);
    match first {
        Some(first) => Ok(Some(&migrations[first..])),
        None if version == SCHEMA_VERSION && layout == *LAYOUT => Ok(Some(&[])),
        None => Err(OpenError::OtherLayout(path.into())),
    }
}

/// The steps that opening a file would apply, as titles. They are tried and rolled back; the file stays as it is.
pub fn dry_run(path: &Path) -> Result<Vec<&'static str>, OpenError> {
    try_out(path, MIGRATIONS)
}

/// Migrates a file that no server has open. Returns the steps that were applied, as titles.
pub fn migrate_file(path: &Path) -> Result<Vec<&'static str>, OpenError> {
    with_pending(path, MIGRATIONS, migrate)
}

/// Applies steps to a file of the version before them, in one transaction. The caller has locked the file.
pub(super) fn migrate(
    path: &Path,
    connection: &mut Connection,
    steps: &[Migration],
) -> Result<(), OpenError> {
    let [Migration { from, .. }, ..] = steps else { return Ok(()) };
    let copy = beside(path, &format!(".v{from}.bak"));
    if copy.exists() {
        return Err(OpenError::CopyExists(copy));
    }
    // An interrupted migration leaves no file with the name of a copy, so the next start begins again.
    let unnamed = beside(&copy, ".partial");
    copy_to(path, connection, &unnamed)?;
    if let Err(error) = apply(path, connection, steps, true) {
        // The file is unchanged, and its copy takes space.
        drop(remove_file(&unnamed));
        return Err(error);
    }
    if let Err(error) = fs::rename(&unnamed, &copy).and_then(|()| flush_folder(&copy)) {
        warn!(%error, copy = %unnamed.display(), "the copy from before the migration keeps this name");
    }
    for Migration { from, title, .. } in steps {
        info!(from, title, "applied a migration");
    }
    info!(from, copy = %copy.display(), "the database was migrated");
    Ok(())
}

pub(super) fn try_out(
    path: &Path,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, OpenError> {
    with_pending(path, migrations, |path, connection, steps| apply(path, connection, steps, false))
}

/// Locks a file, which may be missing or empty, and does `work` with its pending steps. Returns their titles.
fn with_pending(
    path: &Path,
    migrations: &[Migration],
    work: impl FnOnce(&Path, &mut Connection, &[Migration]) -> Result<(), OpenError>,
) -> Result<Vec<&'static str>, OpenError> {
    let path = whole_path(path)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let _lock = lock(&path, FileMode::default())?;
    let mut connection = connect(&path).map_err(|error| OpenError::of(&path, &error))?;
    let Some(steps) = pending(&path, &connection, migrations)? else { return Ok(Vec::new()) };
    work(&path, &mut connection, steps)?;
    Ok(steps.iter().map(|step| step.title).collect())
}

/// Applies steps in one transaction. Without `commits` it is rolled back.
fn apply(
    path: &Path,
    connection: &mut Connection,
    steps: &[Migration],
    commits: bool,
) -> Result<(), OpenError> {
    let mut applying = 0;
    let mut all = || {
        // A step that moves rows leaves no copies of their text, which the deletion of a session would not reach.
        connection.execute_batch("PRAGMA secure_delete = FAST")?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            applying = step.from;
            (step.apply)(&transaction)?;
            transaction.pragma_update(None, "user_version", step.from + 1)?;
        }
        transaction.execute("UPDATE meta SET layout = ?1", [&*LAYOUT])?;
        if commits { transaction.commit() } else { transaction.rollback() }
    };
    all().map_err(|error| {
        if is_disk_full(&error) {
            error!(from = applying, "the disk has no space for the steps of the migration");
            return OpenError::DiskFull(path.into());
        }
        OpenError::Migration { path: path.into(), from: applying, cause: error.to_string() }
    })
}

/// Copies a database, with what is still in its WAL, over what an earlier attempt left.
fn copy_to(path: &Path, connection: &Connection, copy: &Path) -> Result<(), OpenError> {
    let copied = || -> io::Result<()> {
        remove_file(copy)?;
        let name = copy.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        // SQLite takes a file that is there and empty.
        create_like(&fs::metadata(path)?, copy)?;
        let filled = connection.execute("VACUUM INTO ?1", [name]);
        filled.map_err(|error| match is_disk_full(&error) {
            true => io::ErrorKind::StorageFull.into(),
            false => io::Error::other(error),
        })?;
        // SQLite does not flush it.
        flush(copy)?;
        flush_folder(copy)
    };
    copied().map_err(|error| {
        drop(remove_file(copy));
        if is_full(&error) {
            error!("the disk has no space for the copy that a migration makes first");
            return OpenError::DiskFull(path.into());
        }
        OpenError::CopyFailed { path: path.into(), cause: error.to_string() }
    })
}

/// Flushes the folder of a file, which holds its name.
fn flush_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), flush)
}

fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
