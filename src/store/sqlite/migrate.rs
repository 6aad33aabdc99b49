//! Opening a file. Numbered migrations make one of an earlier version a file of this version, after a copy of it was made.
//!
//! A release that changes the tables raises `SCHEMA_VERSION`, adds a step to [`MIGRATIONS`], and keeps a file of the version before
//! in `tests/fixtures`.

use std::{
    fs::{self, File},
    io,
    path::Path,
};

use rusqlite::{Connection, TransactionBehavior};
use tracing::{error, info, warn};

use super::{
    connection::{Tables, connect, is_disk_full},
    disk::is_full,
    file::{OpenError, beside, create_like, file_version, whole_path},
    lock::lock,
    prelude::*,
    schema,
};

/// One step, from a version to the next.
pub(super) struct Migration {
    pub(super) from: i32,
    /// What it changes, in a few words for the log.
    pub(super) title: &'static str,
    pub(super) apply: fn(&Connection) -> Result<()>,
}

/// Every step since the first released version, in order.
pub(super) const MIGRATIONS: &[Migration] = &[];

/// Migrates a locked file, or makes the tables in a new one, which gets this identity. Returns the writer's connection and the identity
/// of the file.
pub(super) fn open(path: &Path, new_id: StoreId) -> Result<(Tables, StoreId), OpenError> {
    let of = |error: rusqlite::Error| OpenError::of(path, &error);
    let mut connection = connect(path).map_err(of)?;
    let version = file_version(path, &connection)?;
    match version {
        Some(version) => migrate(path, &mut connection, version, MIGRATIONS)?,
        None => schema::set_up_file(&connection).map_err(of)?,
    }
    let tables = Tables::writer(connection).map_err(of)?;
    if version.is_none() {
        schema::create(&tables.0, new_id).map_err(of)?;
    }
    let id = tables.0.query_row("SELECT store_id FROM meta", (), |row| row.get(0)).map_err(of)?;
    Ok((tables, StoreId(id)))
}

/// The steps that opening a file would apply, as titles. They are tried and rolled back; the file stays as it is.
pub fn dry_run(path: &Path) -> Result<Vec<&'static str>, OpenError> {
    try_out(path, MIGRATIONS)
}

/// Migrates a file that no server has open. Returns the steps that were applied, as titles.
pub fn migrate_file(path: &Path) -> Result<Vec<&'static str>, OpenError> {
    with_pending(path, MIGRATIONS, |path, connection, from| {
        migrate(path, connection, from, MIGRATIONS)
    })
}

/// Applies the steps that a file needs, in one transaction. The caller has locked the file.
pub(super) fn migrate(
    path: &Path,
    connection: &mut Connection,
    from: i32,
    migrations: &[Migration],
) -> Result<(), OpenError> {
    let steps = pending(from, migrations);
    if steps.is_empty() {
        return Ok(());
    }
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
    let to = from + i32::try_from(steps.len()).unwrap_or(0);
    for Migration { from, title, .. } in steps {
        info!(from, title, "applied a migration");
    }
    info!(from, to, copy = %copy.display(), "the database was migrated");
    Ok(())
}

pub(super) fn try_out(
    path: &Path,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, OpenError> {
    with_pending(path, migrations, |path, connection, from| {
        apply(path, connection, pending(from, migrations), false)
    })
}

/// Locks a file, which may be missing or empty, and does `work` on it, from its version on. Returns its pending steps, as titles.
fn with_pending(
    path: &Path,
    migrations: &[Migration],
    work: impl FnOnce(&Path, &mut Connection, i32) -> Result<(), OpenError>,
) -> Result<Vec<&'static str>, OpenError> {
    let path = whole_path(path)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let _lock = lock(&path)?;
    let mut connection = connect(&path).map_err(|error| OpenError::of(&path, &error))?;
    let Some(from) = file_version(&path, &connection)? else { return Ok(Vec::new()) };
    work(&path, &mut connection, from)?;
    Ok(pending(from, migrations).iter().map(|step| step.title).collect())
}

/// The steps that a file of a version needs.
fn pending(version: i32, migrations: &[Migration]) -> &[Migration] {
    let at = migrations.iter().position(|step| step.from == version);
    at.map_or(&[], |at| &migrations[at..])
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
        create_like(path, copy)?;
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
