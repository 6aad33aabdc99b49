//! Opening the file, for one process alone.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use rusqlite::Connection;

use super::{
    file::{connect, file_version, lock, whole_path},
    migrate::{MIGRATIONS, migrate},
    open_error::{OpenError, explain},
    schema,
};
use crate::domain::token::StoreId;

/// A file that this process has for itself.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) store_id: StoreId,
    pub(super) lock: File,
}

/// Locks the file, opens it, and creates the tables if it is new.
pub(super) fn open(path: &Path, new_id: StoreId) -> Result<Opened, OpenError> {
    let path = whole_path(path)?;
    let lock = lock(&path)?;
    let mut connection = connect(&path)?;
    let store_id = prepare(&path, &mut connection, new_id)?;
    Ok(Opened { path, connection, store_id, lock })
}

/// Migrates the file, or makes the tables in a new one, which gets this identity, and sets the connection up.
fn prepare(
    path: &Path,
    connection: &mut Connection,
    new_id: StoreId,
) -> Result<StoreId, OpenError> {
    let explained = |error: rusqlite::Error| explain(path, &error);
    let version = file_version(path, connection)?;
    match version {
        Some(version) => migrate(path, connection, version, MIGRATIONS)?,
        None => schema::set_up_file(connection).map_err(explained)?,
    }
    schema::set_up_writer(connection).map_err(explained)?;
    if version.is_none() {
        schema::create(connection, new_id).map_err(explained)?;
    }
    let id = connection.query_row("SELECT store_id FROM meta", (), |row| row.get(0));
    id.map(StoreId).map_err(explained)
}
