//! Numbered migrations: a file of an earlier version becomes one of this version, after a copy of it was made.
//!
//! A release that changes the tables raises `SCHEMA_VERSION`, adds a step to [`MIGRATIONS`], and keeps a file of the version before
//! in `tests/fixtures`.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, TransactionBehavior};
use tracing::info;

use super::{
    file::{connect, file_version, lock, whole_path},
    open_error::OpenError,
};

/// One step, from a version to the next.
pub(super) struct Migration {
    pub(super) from: i32,
    /// What it changes, in a few words for the log.
    pub(super) title: &'static str,
    pub(super) apply: fn(&Connection) -> rusqlite::Result<()>,
}

/// Every step since the first released version, in order.
pub(super) const MIGRATIONS: &[Migration] = &[];

/// The steps that opening a file would apply, as titles. They are tried on a copy, which is removed; the file stays as it is.
pub fn dry_run(path: &Path) -> Result<Vec<&'static str>, OpenError> {
    try_on_copy(path, MIGRATIONS)
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
    copy_to(path, connection, &copy)?;
    apply(path, connection, steps, Some(&copy))?;
    let to = from + i32::try_from(steps.len()).unwrap_or(0);
    for Migration { from, title, .. } in steps {
        info!(from, title, "applied a migration");
    }
    info!(from, to, copy = %copy.display(), "the database was migrated");
    Ok(())
}

pub(super) fn try_on_copy(
    path: &Path,
    migrations: &[Migration],
) -> Result<Vec<&'static str>, OpenError> {
    let path = whole_path(path)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let _lock = lock(&path)?;
    let connection = connect(&path)?;
    let Some(from) = file_version(&path, &connection)? else { return Ok(Vec::new()) };
    let steps = pending(from, migrations);
    if steps.is_empty() {
        return Ok(Vec::new());
    }
    let copy = beside(&path, &format!(".v{from}.dry-run"));
    copy_to(&path, &connection, &copy)?;
    let tried = connect(&copy).and_then(|mut tried| apply(&path, &mut tried, steps, None));
    remove(&path, &copy)?;
    tried.map(|()| steps.iter().map(|step| step.title).collect())
}

/// The steps that a file of a version needs.
fn pending(version: i32, migrations: &[Migration]) -> &[Migration] {
    let at = migrations.iter().position(|step| step.from == version);
    at.map_or(&[], |at| &migrations[at..])
}

fn apply(
    path: &Path,
    connection: &mut Connection,
    steps: &[Migration],
    copy: Option<&Path>,
) -> Result<(), OpenError> {
    let mut applying = 0;
    let mut all = || {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for step in steps {
            applying = step.from;
            (step.apply)(&transaction)?;
            transaction.pragma_update(None, "user_version", step.from + 1)?;
        }
        transaction.commit()
    };
    all().map_err(|error| OpenError::Migration {
        path: path.into(),
        from: applying,
        copy: copy.map(Into::into),
        cause: error.to_string(),
    })
}

/// Copies a database, with what is still in its log. An interrupted copy never has the name of a whole one.
fn copy_to(path: &Path, connection: &Connection, copy: &Path) -> Result<(), OpenError> {
    let partial = beside(copy, ".partial");
    let copied = || -> io::Result<()> {
        remove_file(&partial)?;
        let name = partial.to_str().ok_or(io::ErrorKind::InvalidFilename)?;
        connection.execute("VACUUM INTO ?1", [name]).map_err(io::Error::other)?;
        // SQLite does not flush it.
        flush(&partial)?;
        fs::rename(&partial, copy)?;
        copy.parent().map_or(Ok(()), flush)
    };
    copied().map_err(|error| {
        // What is left of it is replaced by the next attempt.
        drop(remove_file(&partial));
        OpenError::CopyFailed { path: path.into(), cause: error.to_string() }
    })
}

fn flush(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Removes a copy and what SQLite keeps beside it.
fn remove(path: &Path, copy: &Path) -> Result<(), OpenError> {
    let files = ["", "-wal", "-shm", "-journal"].map(|suffix| beside(copy, suffix));
    let removed = files.iter().try_for_each(|file| remove_file(file));
    removed.map_err(|error| OpenError::CopyFailed { path: path.into(), cause: error.to_string() })
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A file beside another, whose name continues that one's.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
