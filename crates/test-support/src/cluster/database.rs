//! Empty databases on the shared server, each for one test.
//!
//! A case of a suite gets a schema that its connections search alone, because that is six times as cheap as a database: 15 tables with
//! 8 indexes take 53 ms to create and 9 ms to drop in a schema of their own, 216 ms and 156 ms in a database of their own.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    path::{Path, PathBuf},
    sync::{
        LazyLock, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::{PATIENCE, pooled_server, query, query_blocking, shared_server, variable};

/// Attempts to drop a database. In each the server waits five seconds for the sessions that it ends, and one of them may wait for the disk
/// for longer.
const DROPS: usize = 12;

/// A database that is dropped with this value, with connections to it.
pub struct Database {
    pub url: String,
    name: String,
}

impl Database {
    pub fn create() -> Self {
        let (server, name) = (server(), new_name());
        execute(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"));
        let (address, parameters) = server.split_once('?').unwrap_or((&server, ""));
        let (address, _) = address.rsplit_once('/').expect("the URL names a database");
        let separator = if parameters.is_empty() { "" } else { "?" };
        Self { url: format!("{address}/{name}{separator}{parameters}"), name }
    }

    /// Waits until this number of its sessions have ended a statement that begins so, and begun no other.
    pub async fn wait_for_sessions(&self, count: usize, statement: &str) {
        let sql = format!(
            "SELECT pid FROM pg_stat_activity
             WHERE datname = current_database() AND state = 'idle' AND query LIKE '{statement}%'"
        );
        let waiting = async { while query(&self.url, &sql).await.unwrap().len() < count {} };
        timeout(PATIENCE, waiting).await.expect(statement);
    }
}

/// Waits for the end of all sessions of a database. The server may still execute what a client has sent that was cut off or killed.
pub async fn sessions_ended(url: &str) {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    let ended = async { while !query(url, sql).await.unwrap().is_empty() {} };
    timeout(PATIENCE, ended).await.expect("the session of a client that has gone ends");
}

impl Drop for Database {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        for attempt in 1.. {
            match query_blocking(&server(), &sql) {
                Ok(_) => break,
                Err(error) => {
                    let is_in_use = error.code() == Some(&SqlState::OBJECT_IN_USE);
                    assert!(is_in_use && attempt < DROPS, "{sql}: {error:?}");
                }
            }
        }
    }
}

/// The URL of a schema of its own for a test in this folder, the same one each time, so that the test can open its store again. It is
/// dropped with its tables after the folder has gone.
///
/// Schemas share a database: notifications and locks that are not on tables reach other tests. Its transactions have the isolation that
/// SESSIOND_TEST_POSTGRES_ISOLATION names.
pub fn database_of(folder: &Path) -> String {
    let (name, is_new) = schema_of(folder);
    if is_new {
        execute(&format!("CREATE SCHEMA {name}"));
    }
    let server = server();
    let separator = if server.contains('?') { '&' } else { '?' };
    let isolation = variable("SESSIOND_TEST_POSTGRES_ISOLATION");
    let isolation = isolation.map_or_else(String::new, |level| {
        format!("%20-cdefault_transaction_isolation%3D{}", level.replace(' ', "%5C%20"))
    });
    format!("{server}{separator}options=-csearch_path%3D{name}{isolation}")
}

/// The same through pgbouncer, as a role that owns the schema and nothing else. The pooler refuses `options`, so the role has the search
/// path. A test that also needs [`database_of`] the folder asks for this one first.
pub fn pooled_database_of(folder: &Path) -> String {
    let (name, is_new) = schema_of(folder);
    if is_new {
        execute(&format!(
            "CREATE ROLE {name} LOGIN; ALTER ROLE {name} SET search_path = {name}; \
             CREATE SCHEMA {name} AUTHORIZATION {name}"
        ));
    }
    let server = pooled_server().expect("tests that need pgbouncer are skipped without it");
    let (_, address) = server.split_once('@').expect("the URL names a user");
    format!("postgres://{name}@{address}")
}

/// The name of the folder's schema, and whether it has yet to be created. Drops those of folders that have gone.
fn schema_of(folder: &Path) -> (String, bool) {
    static SCHEMAS: LazyLock<Mutex<HashMap<PathBuf, String>>> = LazyLock::new(Mutex::default);
    let mut schemas = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = schemas.get(folder).cloned();
    let gone: Vec<_> = schemas.extract_if(|folder, _| !folder.exists()).collect();
    let is_new = known.is_none();
    let name = known.unwrap_or_else(new_name);
    schemas.insert(folder.into(), name.clone());
    drop(schemas);
    for (_, name) in gone {
        execute(&format!("DROP SCHEMA {name} CASCADE; DROP ROLE IF EXISTS {name}"));
    }
    (name, is_new)
}

/// A name that no other test on the server has. A process id may come again in a long run, and the schemas of the last folders stay.
fn new_name() -> String {
    static PROGRAM: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    static MADE: AtomicU32 = AtomicU32::new(0);
    format!("test_{:016x}_{}", *PROGRAM, MADE.fetch_add(1, Ordering::Relaxed))
}

fn server() -> String {
    shared_server().expect("tests that need PostgreSQL are skipped without it")
}

#[track_caller]
fn execute(sql: &str) {
    query_blocking(&server(), sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}
