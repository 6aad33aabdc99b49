//! A full disk of the database: writes are refused and certainly not applied, reads and deletions go on, and it ends by itself.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::Arc,
};

use sessiond::{
    domain::{error::Error, token::StoreId},
    store::{
        Condition, RequestContext, Store,
        postgres::{self, PostgresOptions},
    },
};
use tokio::time::timeout;

use crate::{
    becomes,
    cluster::{Database, PATIENCE, shared_server},
    proxy::{Execution, Fault, Proxy},
    requests::*,
};

/// What a server says that cannot extend a file.
const NO_SPACE: Fault = Fault::Fail("53100");

const PATH: &str = "a/u/s";

/// A store behind a proxy, with sessions that have an event each.
struct Fixture {
    store: Arc<dyn Store>,
    proxy: Proxy,
    _database: Database,
}

impl Fixture {
    async fn open() -> Option<Self> {
        shared_server()?;
        let database = Database::create();
        let proxy = Proxy::start(&database.url).await;
        let mut options = PostgresOptions::new(&*proxy.url, StoreId([7; 16]));
        (options.readers, options.settings.writers) = (1, 1);
        let store: Arc<dyn Store> = Arc::new(postgres::open(options).await.unwrap());
        let fixture = Self { store, proxy, _database: database };
        for path in [PATH, "a/u/other"] {
            fixture.store.create_session(&context(), create(path, &[])).await.unwrap();
        }
        fixture.append("first").await.unwrap();
        Some(fixture)
    }

    async fn append(&self, id: &str) -> Result<(), Error> {
        let appended = append(PATH, [event(id, add("n", 1).add("app:n", 1))]);
        self.store.append(&context(), appended).await.map(drop)
    }

    /// What a read tells.
    async fn state(&self) -> String {
        let view = self.store.read_state(read_state(PATH)).await.unwrap();
        view.state.to_json().into_string()
    }
}

fn context() -> RequestContext {
    RequestContext::internal()
}

/// The statement that looks for space.
fn is_attempt(execution: &Execution) -> bool {
    execution.sql.contains("generate_series")
}

fn is_of_events(execution: &Execution) -> bool {
    execution.sql.contains("INSERT INTO event ")
}

/// The last statement of a write.
fn is_commit(execution: &Execution) -> bool {
    execution.is_commit() && !execution.sql.contains("NOTIFY") && !is_attempt(execution)
}

/// The statement that locks sessions: the first that writes anything.
fn is_lock(execution: &Execution) -> bool {
    execution.sql.contains("INSERT INTO writer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_space_is_refused_and_not_applied() {
    let Some(fixture) = Fixture::open().await else { return };
    for fails in [is_lock, is_of_events, is_commit] {
        let state = fixture.state().await;
        fixture.proxy.plan(move |it| (fails(it) || is_attempt(it)).then_some(NO_SPACE));
        assert_eq!(fixture.append("full").await, Err(Error::DiskFull));
        becomes(&fixture.store, Condition::DiskFull).await;
        assert_eq!(fixture.state().await, state);
        fixture.proxy.plan(|_| None);
        // Without any further write.
        becomes(&fixture.store, Condition::Ready).await;
        assert_eq!(fixture.state().await, state);
    }
    fixture.append("full").await.unwrap();
    assert!(fixture.state().await.contains(r#""n":2"#));
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_go_on_and_other_writes_do_not_reach_the_database() {
    let Some(fixture) = Fixture::open().await else { return };
    let fails = |it: &Execution| is_of_events(it) || is_attempt(it);
    fixture.proxy.plan(move |it| fails(it).then_some(NO_SPACE));
    assert_eq!(fixture.append("full").await, Err(Error::DiskFull));
    becomes(&fixture.store, Condition::DiskFull).await;
    let attempted = fixture.proxy.faults();
    fixture.proxy.plan(move |it| is_attempt(it).then_some(NO_SPACE));
    for id in 0..20 {
        assert_eq!(fixture.append(&id.to_string()).await, Err(Error::DiskFull));
    }
    assert!(attempted > 0 && !fixture.proxy.executions().iter().any(is_lock));
    assert!(
        fixture
            .store
            .delete_session(&context(), address("a/u/other").into())
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(*fixture.store.condition().borrow(), Condition::DiskFull);
    let listed = fixture.store.list_sessions(sessions("a")).await.unwrap();
    assert_eq!(listed.sessions.len(), 1);
}

thread_local! {
    /// What is logged on this thread.
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// All of its tasks run on one thread, and no other test on that.
#[tokio::test]
async fn the_log_tells_it_once() {
    tracing_subscriber::fmt().with_ansi(false).with_writer(|| Log).init();
    let Some(fixture) = Fixture::open().await else { return };
    let attempts = Arc::new(tokio::sync::Semaphore::new(0));
    let attempted = Arc::clone(&attempts);
    fixture.proxy.plan(move |it| {
        if is_attempt(it) {
            attempted.add_permits(1);
        }
        (is_of_events(it) || is_attempt(it)).then_some(NO_SPACE)
    });
    for id in 0..50 {
        assert_eq!(fixture.append(&id.to_string()).await, Err(Error::DiskFull));
    }
    // Some attempts to find space say nothing either.
    drop(timeout(PATIENCE, attempts.acquire_many(2)).await.unwrap().unwrap());
    fixture.proxy.plan(|_| None);
    becomes(&fixture.store, Condition::Ready).await;
    fixture.append("last").await.unwrap();
    let text = String::from_utf8(LOG.take()).unwrap();
    let count = |words: &str| text.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("the disk of the database is full"), 1, "{text}");
    assert_eq!(count("the disk of the database has space again"), 1, "{text}");
    assert_eq!(count("ERROR") + count("WARN"), 1, "{text}");
}
