//! Reads of long and of damaged logs, and reads whose connection is busy, left or lost.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use sessiond::{
    domain::{
        Sequence,
        error::{Bounded, Damage, Damaged, Error},
        event::NewEvent,
        id::Author,
        page::{EventFilter, EventPage, EventSelection, Rest},
        token::{Position, StoreId},
    },
    store::{
        RequestContext, SessionQuery, SessionView, Store,
        postgres::{self, PostgresOptions},
    },
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};
use tokio_postgres::{Client, NoTls};

use crate::{
    cluster::{Database, PATIENCE, query, shared_server},
    requests::*,
};

/// A store that reads on one connection, with session `a/u/s`.
async fn store() -> Option<(Database, Arc<dyn Store>)> {
    shared_server()?;
    let database = Database::create();
    let mut options = PostgresOptions::new(&database.url, StoreId([7; 16]));
    (options.readers, options.settings.writers) = (1, 1);
    options.settings.statement_timeout = PATIENCE;
    let store: Arc<dyn Store> = Arc::new(postgres::open(options).await.unwrap());
    store.create_session(&RequestContext::internal(), create("a/u/s", &[])).await.unwrap();
    Some((database, store))
}

async fn put(store: &Arc<dyn Store>, events: impl IntoIterator<Item = NewEvent>) {
    store.append(&RequestContext::internal(), append("a/u/s", events)).await.unwrap();
}

async fn page(store: &Arc<dyn Store>, selection: EventSelection) -> Result<EventPage, Error> {
    let query = SessionQuery { events: Some(selection), with_state: false, ..read("a/u/s") };
    Ok(store.read_session(query).await?.events.unwrap())
}

fn sequences(page: &EventPage) -> Vec<Sequence> {
    page.events.iter().map(|event| event.sequence).collect()
}

fn is_hole<T>(read: &Result<T, Error>) -> bool {
    matches!(read, Err(Error::Damaged(Damaged { what: Damage::Log, .. }, _)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hole_in_a_log_ends_a_page_and_is_damage_behind_it() {
    let Some((database, store)) = store().await else { return };
    let change = |number: u64| {
        let value = number.to_string();
        set(&[("k", &value), ("user:k", &value)])
    };
    put(&store, (1..=9).map(|number| event(&number.to_string(), change(number)))).await;
    let before = store.read_state(read_state("a/u/s")).await.unwrap().position;
    let start = Position { sequence: 0, versions: Default::default(), ..before };
    query(&database.url, "DELETE FROM event WHERE sequence = 5").await.unwrap();
    query(&database.url, "DELETE FROM scope_log WHERE version = 5").await.unwrap();
    let found = page(&store, everything()).await.unwrap();
    assert_eq!(sequences(&found), [1, 2, 3, 4]);
    assert_eq!(found.rest, Some(Rest { after: 4, up_to: None }));
    let found = page(&store, EventSelection { descending: true, ..everything() }).await.unwrap();
    assert_eq!(sequences(&found), [9, 8, 7, 6]);
    assert!(is_hole(&page(&store, EventSelection { after: 4, ..everything() }).await));
    let filter = EventFilter { author: Some(Author::new("user").unwrap()), ..Default::default() };
    assert!(is_hole(&page(&store, EventSelection { filter, ..everything() }).await));
    assert!(is_hole(&store.read_session(SessionQuery { as_of: Some(6), ..read("a/u/s") }).await));
    assert!(store.read_session(SessionQuery { as_of: Some(4), ..read("a/u/s") }).await.is_ok());
    let found = store.read_changes(follow("a/u/s", start)).await.unwrap();
    assert_eq!(found.events.len(), 4);
    assert!(is_hole(&store.read_changes(follow("a/u/s", found.position)).await));
    // All changes before the hole are overwritten.
    assert!(is_hole(&store.read_changes(follow("a/u", start)).await));
    for key in ["k", "user:k"] {
        let found = store.list_key_changes(changes("a/u/s", key)).await.unwrap();
        let versions: Vec<_> = found.changes.iter().map(|change| change.version).collect();
        assert_eq!((versions, found.rest), (vec![9, 8, 7, 6], Some(6)));
        let behind = sessiond::store::KeyChangeQuery { before: Some(6), ..changes("a/u/s", key) };
        assert!(is_hole(&store.list_key_changes(behind).await), "{key}");
    }
    // What is true now does not need the log.
    let state = store.read_state(read_state("a/u/s")).await.unwrap().state;
    assert_eq!(state.to_json().as_str(), r#"{"user:k":9,"k":9}"#);
}

/// A lock that reads of events wait for, until this value goes.
async fn lock_events(database: &Database) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE event IN ACCESS EXCLUSIVE MODE").await.unwrap();
    client
}

/// The connection that waits for a lock, once there is one.
async fn blocked(database: &Database) -> String {
    let sql = "SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let wait = async {
        loop {
            if let Some(pid) = query(&database.url, sql).await.unwrap().pop() {
                return pid;
            }
        }
    };
    timeout(PATIENCE, wait).await.expect("a read waits for the lock")
}

fn read_in_task(store: &Arc<dyn Store>) -> JoinHandle<Result<SessionView, Error>> {
    let store = Arc::clone(store);
    let query = SessionQuery { events: Some(everything()), ..read("a/u/s") };
    tokio::spawn(async move { store.read_session(query).await })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_goes_on_when_its_connection_is_lost() {
    let Some((database, store)) = store().await else { return };
    put(&store, [event("1", nothing())]).await;
    let lock = lock_events(&database).await;
    let reading = read_in_task(&store);
    let pid = blocked(&database).await;
    query(&database.url, &format!("SELECT pg_terminate_backend({pid})")).await.unwrap();
    drop(lock);
    let view = timeout(PATIENCE, reading).await.unwrap().unwrap().unwrap();
    assert_eq!(sequences(&view.events.unwrap()), [1]);
    // And when it was lost while nothing was read on it.
    let others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    for _ in 0..10 {
        assert_ne!(query(&database.url, others).await.unwrap(), ["0"]);
        assert_eq!(sequences(&page(&store, everything()).await.unwrap()), [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_its_caller_left_gives_its_connection_back() {
    let Some((database, store)) = store().await else { return };
    put(&store, [event("1", nothing())]).await;
    for _ in 0..3 {
        let lock = lock_events(&database).await;
        let reading = read_in_task(&store);
        blocked(&database).await;
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
        drop(lock);
        let found = timeout(PATIENCE, page(&store, everything())).await.unwrap().unwrap();
        assert_eq!(sequences(&found), [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_that_wait_for_a_connection_are_bounded_in_time() {
    let Some((database, store)) = store().await else { return };
    put(&store, [event("1", nothing())]).await;
    let lock = lock_events(&database).await;
    let reading = read_in_task(&store);
    blocked(&database).await;
    let is_full = |error: &Error| {
        matches!(error, Error::Overloaded { what: Bounded::ReadQueue, retry_after_millis: 1.. })
    };
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let store = Arc::clone(&store);
        waiting.spawn(async move { page(&store, everything()).await });
    }
    let mut refused = 0;
    while let Some(read) = timeout(PATIENCE, waiting.join_next()).await.unwrap() {
        assert!(is_full(&read.unwrap().unwrap_err()));
        refused += 1;
    }
    // None waits for the lock as long as the first.
    assert_eq!(refused, 50);
    assert!(!reading.is_finished());
    drop(lock);
    timeout(PATIENCE, reading).await.unwrap().unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_reads_that_have_begun() {
    let Some((database, store)) = store().await else { return };
    put(&store, [event("1", nothing())]).await;
    let lock = lock_events(&database).await;
    let reading = read_in_task(&store);
    blocked(&database).await;
    // It has begun, and waits for the only connection.
    let mut waiting = Box::pin(page(&store, everything()));
    assert!((&mut waiting).now_or_never().is_none());
    let mut closing = Box::pin(store.close());
    assert!(timeout(Duration::from_millis(200), &mut closing).await.is_err(), "it does not wait");
    let late = page(&store, everything()).await;
    assert!(matches!(late, Err(Error::Draining)), "{late:?}");
    drop(lock);
    let ended = timeout(PATIENCE, async { tokio::join!(reading, waiting, closing) });
    let (first, second, ()) = ended.await.expect("the store closes");
    assert_eq!(sequences(&first.unwrap().unwrap().events.unwrap()), [1]);
    assert_eq!(sequences(&second.unwrap()), [1]);
}
