//! Tests of what is special to this store: the file, its failures, and shortcuts that the suite for every store cannot reach.

mod damage;
mod damaged_file;
mod deadlines;
mod emptied;
mod forks;
mod groups;
mod held;
mod ids;
mod leftovers;
mod listed;
mod lists;
mod measured;
mod memory;
mod migrations;
mod modes;
mod opening;
mod pages;
pub(super) mod plans;
mod steps;
mod turns;
mod verifying;

use std::path::Path;

use futures_util::FutureExt as _;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{connection::Tables, disk::Disk, lock::FileLock, writer::Writer, *};
use sessiond_core::{
    commit::{Append, Appended, CreateSession, Fork, OnExisting, RequestKey, StateUpdate},
    domain::{
        delta::Delta,
        error::Cause,
        event::{Fingerprint, NewEvent},
        id::{AppName, Author, EventId, RequestId},
        page::EventSelection,
        scope::Scope,
        session::{Labels, State},
        time::Time,
    },
};
use sessiond_metrics::Metrics;
use sessiond_store::{SessionOrder, files::FileMode, group, tests::*};

/// Identity of every store that a test makes.
const NEW_ID: StoreId = StoreId([7; 16]);

/// A store in a folder that is removed with the test.
struct Fixture {
    folder: TempDir,
    store: SqliteStore,
    options: SqliteOptions,
    clock: Arc<TestClock>,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(|options| options).await
    }

    async fn with(choose: impl FnOnce(SqliteOptions) -> SqliteOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let clock = TestClock::new(1);
        let options = SqliteOptions {
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            ..SqliteOptions::new(folder.path().join("test.db"), NEW_ID)
        };
        let options = choose(options);
        let store = open(options.clone()).await.unwrap();
        Self { folder, store, options, clock }
    }

    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn reopen(&mut self) {
        self.store.close().await;
        self.store = open(self.options.clone()).await.unwrap();
    }

    /// Another connection to the file.
    fn tables(&self) -> Connection {
        Connection::open(self.folder.path().join("test.db")).unwrap()
    }

    /// The number that a statement answers.
    fn count(&self, sql: &str) -> i64 {
        self.tables().query_row(sql, (), |row| row.get(0)).unwrap()
    }

    async fn create(&self, user: &str, session: &str) {
        self.store().create_session(&call(), creation(user, session)).await.unwrap();
    }

    async fn append(&self, session: &str, id: &str, set: &[(&str, &str)]) -> Appended {
        self.store().append(&call(), one(session, id, set)).await.unwrap()
    }

    async fn delete(&self, session: &str) -> bool {
        let delete = address(session);
        self.store().delete_session(&call(), delete.into()).await.unwrap().is_some()
    }

    async fn state(&self, session: &str, as_of: Option<u64>) -> Vec<String> {
        let query = SessionQuery { as_of, with_state: true, ..query(session) };
        shown(&self.store.read_session(query).await.unwrap().state.unwrap())
    }

    async fn events(&self, session: &str) -> EventPage {
        let selection = EventSelection { max_items: 2000, ..selection(None) };
        let query = SessionQuery { events: Some(selection), ..query(session) };
        self.store.read_session(query).await.unwrap().events.unwrap()
    }

    /// Sweeps until nothing is left to do. The number of pieces.
    async fn sweep(&self) -> usize {
        let mut pieces = 1;
        while self.store().sweep().await.unwrap() {
            pieces += 1;
            assert!(pieces < 200, "the sweep does not end");
        }
        pieces
    }
}

/// A file and its lock, for writers without a thread, so that a test decides what comes into one group.
struct DirectWriter {
    options: SqliteOptions,
    connection: Connection,
    lock: Arc<FileLock>,
}

impl DirectWriter {
    fn open(folder: &Path, clock: &Arc<TestClock>) -> Self {
        let path = folder.join("test.db");
        let lock = Arc::new(super::lock::lock(&path, FileMode::default()).unwrap());
        let (tables, _) = super::migrate::open(&path, NEW_ID).unwrap();
        let clock = Arc::clone(clock) as Arc<dyn Clock>;
        let options = SqliteOptions { clock, ..SqliteOptions::new(path, NEW_ID) };
        Self { options, connection: tables.0, lock }
    }

    fn queue(&self) -> Queue<Submission> {
        let waits = self.options.metrics.writes.queue_wait.clone();
        Queue::new(10, 1 << 20, Error::Draining, waits)
    }

    /// A writer that remembers nothing.
    fn writer(&self) -> Writer {
        self.writer_of(Arc::new(self.queue()))
    }

    fn writer_of(&self, queue: Arc<Queue<Submission>>) -> Writer {
        self.writer_on(self.tables(), queue)
    }

    /// A writer whose connection calls `hook` as it commits, which fails if that returns true.
    fn writer_with(&self, hook: impl FnMut() -> bool + Send + 'static) -> Writer {
        let mut tables = self.tables();
        tables.0.commit_hook(Some(hook)).unwrap();
        self.writer_on(tables, Arc::new(self.queue()))
    }

    fn tables(&self) -> Tables {
        super::migrate::open(&self.options.path, NEW_ID).unwrap().0
    }

    fn writer_on(&self, tables: Tables, queue: Arc<Queue<Submission>>) -> Writer {
        let disk = Disk::new(Arc::clone(&self.lock), false);
        Writer::new(self.options.clone(), queue, Arc::default(), tables, disk).unwrap()
    }
}

/// Writes as many pages into the WAL as begin a checkpoint, and leaves no table.
fn lengthen_wal(connection: &Connection) {
    let pages = "CREATE TABLE pages AS WITH RECURSIVE n(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 4100)
        SELECT zeroblob(4000) FROM n;
        DROP TABLE pages";
    connection.execute_batch(pages).unwrap();
}

/// Executes a group once. What has to be loaded again is left in it.
fn execute_group(backend: &mut impl group::Backend, group: &mut Vec<Submission>) -> Result<()> {
    let (notifier, metrics) = (Notifier::default(), Metrics::default());
    group::execute(backend, group, &notifier, &metrics.writes, &|_, _| ()).now_or_never().unwrap()
}

/// Executes requests as one group, and what is left as the next ones. Their answers, and the number of groups.
fn execute(writer: &mut Writer, requests: Vec<Request>) -> (Vec<Result<Answer>>, usize) {
    // The clock stands still, so that a slow machine makes no other groups.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.start_paused(true).enable_time().build().unwrap();
    let entered = runtime.enter();
    let (mut group, answers) = submissions(requests);
    let mut groups = 0;
    while !group.is_empty() {
        // A failure is that of the answers, too.
        let _ = execute_group(writer, &mut group);
        groups += 1;
    }
    drop(entered);
    runtime.shutdown_background();
    let answers = answers.into_iter().map(|mut answer| answer.try_recv().unwrap());
    (answers.collect(), groups)
}

/// Executes one request.
fn execute_one(writer: &mut Writer, request: Request) -> Result<Answer> {
    execute(writer, vec![request]).0.remove(0)
}

/// The last sequence after an append.
fn sequence(answer: &Result<Answer>) -> Result<u64> {
    match answer {
        Ok(Answer::Appended(appended)) => Ok(appended.info.last_sequence),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.clone()),
    }
}
