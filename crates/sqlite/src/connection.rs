//! Connections to the file: their settings, and the shapes in which statements are executed on them.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use rusqlite::{
    CachedStatement, Connection, ErrorCode, OpenFlags, Params, ToSql,
    config::DbConfig,
    ffi::{
        SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_READ, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHORT_READ,
    },
    hooks::Wal,
    params_from_iter,
};

use super::prelude::*;

/// Codes of a bad sector, or of a file that is shorter than it says.
const UNREADABLE: [i32; 3] = [SQLITE_IOERR_READ, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_CORRUPTFS];

/// How long a connection waits for the locks of another program.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Pages that one step gives back to the file system, a few milliseconds: mostly more than a piece of a sweep empties.
const FREED_PAGES: usize = 512;

/// Prepared statements that a connection keeps: more than the texts that it executes, so that each is compiled once.
const STATEMENTS: usize = 128;

/// A connection has one thread, and the path is without links: one that is there now has come since.
const OPENING: OpenFlags = OpenFlags::SQLITE_OPEN_NO_MUTEX.union(OpenFlags::SQLITE_OPEN_NOFOLLOW);

/// Opens a file for reading and writing. It exists, because its caller has locked it.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OPENING;
    Connection::open_with_flags(path, flags)
}

/// A connection to a file with the tables of this version, and the pages in the WAL after its last commit.
pub(super) struct Tables(pub(super) Connection, Arc<AtomicU32>);

impl Tables {
    /// Durable at every commit, checkpoints between groups, and memory for the inner pages of a large file. Deleted rows are overwritten
    /// in the pages that stay (FAST); pages that become empty leave the file, which costs less than overwriting them as well.
    pub(super) fn writer(connection: Connection) -> rusqlite::Result<Self> {
        let settings = "PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            PRAGMA wal_autocheckpoint = 0;
            PRAGMA secure_delete = FAST;
            PRAGMA temp_store = MEMORY;
            PRAGMA cache_size = -16384;";
        let mut tables = Self::new(connection, settings)?;
        let wal_pages = Arc::clone(&tables.1);
        tables.0.wal_hook(Some(move |_: &mut Wal, pages| {
            wal_pages.store(u32::try_from(pages).unwrap_or(u32::MAX), Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(tables)
    }

    /// A commit empties a reader's page cache, so it is small. The file is not mapped into memory: a page that the disk cannot read
    /// would end the process, and reads took as much CPU time with it.
    pub(super) fn reader(path: &Path) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OPENING;
        let settings = "PRAGMA query_only = ON;
            PRAGMA temp_store = MEMORY;
            PRAGMA cache_size = -8192;
            PRAGMA mmap_size = 0;";
        Self::new(Connection::open_with_flags(path, flags)?, settings)
    }

    /// For work on a whole file that no server has open: what is sorted or copied goes to the disk.
    pub(super) fn checker(connection: Connection) -> rusqlite::Result<Self> {
        connection.busy_timeout(LOCK_WAIT)?;
        let settings = "PRAGMA journal_mode = WAL;
            PRAGMA synchronous = FULL;
            PRAGMA temp_store = FILE;
            PRAGMA cache_size = -16384;";
        Self::new(connection, settings)
    }

    /// Plans do not depend on the values of parameters. SQLite would prepare a statement whose plan does again for every execution.
    fn new(connection: Connection, settings: &str) -> rusqlite::Result<Self> {
        connection.execute_batch(settings)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(Self(connection, Arc::default()))
    }

    /// Pages in the WAL after the last commit of this connection.
    pub(super) fn wal_pages(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }

    /// A statement, which the connection keeps prepared.
    pub(super) fn prepare(&self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        #[cfg(test)]
        super::tests::plans::check(&self.0, sql);
        self.0.prepare_cached(sql)
    }

    /// Executes a statement. The number of rows that it changed.
    pub(super) fn run(&self, sql: &str, parameters: impl Params) -> Result<usize> {
        self.prepare(sql).and_then(|mut it| it.execute(parameters)).map_err(driver)
    }

    /// The same, with its parameters in groups.
    pub(super) fn run_groups(&self, sql: &str, groups: &[&[&dyn ToSql]]) -> Result<usize> {
        self.run(sql, params_from_iter(groups.iter().copied().flatten()))
    }

    /// Goes through the rows of a query until `take` refuses one. Returns whether it took all.
    pub(super) fn each(
        &self,
        sql: &str,
        parameters: impl Params,
        mut take: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let mut statement = self.prepare(sql).map_err(driver)?;
        let mut rows = statement.query(parameters).map_err(driver)?;
        while let Some(row) = rows.next().map_err(driver)? {
            if !take(&Row(row))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        self.each(sql, parameters, |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        let mut one = None;
        self.each(sql, parameters, |row| {
            one = Some(read(row)?);
            Ok(false)
        })?;
        Ok(one)
    }

    /// The first column of the first row.
    pub(super) fn value<T: Column>(&self, sql: &str, parameters: impl Params) -> Result<Option<T>> {
        self.one(sql, parameters, |row| row.get(0))
    }

    /// Gives some pages that nothing uses back to the file system.
    pub(super) fn free_pages(&self) -> Result<()> {
        let pragma = format!("PRAGMA incremental_vacuum({FREED_PAGES})");
        self.each(&pragma, (), |_| Ok(true)).map(drop)
    }
}

/// Whether there was no space, for the file or for the index of its WAL.
pub(super) fn is_disk_full(error: &rusqlite::Error) -> bool {
    let Some(failure) = error.sqlite_error() else { return false };
    failure.code == ErrorCode::DiskFull || failure.extended_code == SQLITE_IOERR_SHMSIZE
}

/// The domain's error for one of the driver. Its message is kept as the cause, for the log.
#[cold]
pub(super) fn driver(error: rusqlite::Error) -> Error {
    use rusqlite::Error as Driver;
    match error {
        Driver::SqliteFailure(failure, _) => match failure.code {
            code if matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                || UNREADABLE.contains(&failure.extended_code) =>
            {
                Error::damaged(Damage::Pages, error)
            }
            _ if is_disk_full(&error) => Error::DiskFull,
            _ => Error::StoreUnavailable(Cause::new(error)),
        },
        // A row does not hold what this program writes.
        Driver::FromSqlConversionFailure(..)
        | Driver::IntegralValueOutOfRange(..)
        | Driver::InvalidColumnType(..)
        | Driver::Utf8Error(..) => Error::damaged(Damage::Row, error),
        _ => Error::internal(error),
    }
}
