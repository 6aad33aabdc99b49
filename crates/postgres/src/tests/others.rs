//! A writer decides on what others have changed since its last group.

use super::*;
use crate::postgres_store::open_with;
use sessiond_core::domain::{delta::Operation, event::Event, json::Amount};
use sessiond_store::{SessionQuery, Store};

/// Keys of each scope that is visible from a session.
const KEYS: [&str; 3] = ["k", "app:a", "user:u"];

/// An append that adds 1 to a key of each scope.
fn increment(id: &str) -> Request {
    let operation = |name| (key(name), Operation::Increment(Amount::Whole(1)));
    let operations = KEYS.into_iter().map(operation).collect();
    Request::Append(append("s", id, Delta { operations, ..Delta::default() }))
}

/// The event that a request has appended.
async fn event(fixture: &Fixture, writer: &mut Writer, request: Request) -> Arc<Event> {
    match commit_one(fixture, writer, request).await {
        Ok(Answer::Appended(mut appended)) => appended.events.remove(0).event,
        other => panic!("{other:?}"),
    }
}

/// Adds 1 to each key. Returns what they became.
async fn sums(fixture: &Fixture, writer: &mut Writer, id: &str) -> [i64; 3] {
    let event = event(fixture, writer, increment(id)).await;
    KEYS.map(|name| {
        let (_, value) = event.changes.results().find(|(found, _)| *found == key(name)).unwrap();
        value.unwrap().as_str().parse().unwrap()
    })
}

/// Two writers, and the session `s`.
async fn two_writers(fixture: &Fixture) -> [Writer; 2] {
    let mut writers = [fixture.writer(), fixture.writer()];
    commit_one(fixture, &mut writers[0], Request::Create(creation("s"))).await.unwrap();
    writers
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_writer_changed_is_read_again() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writers = two_writers(&fixture).await;
    for round in 0..6 {
        let sums = sums(&fixture, &mut writers[round % 2], &round.to_string()).await;
        assert_eq!(sums, [round as i64 + 1; 3]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_another_writer_added_and_removed_are_read_again() {
    let Some(fixture) = Fixture::new().await else { return };
    let [mut one_writer, mut other] = two_writers(&fixture).await;
    sums(&fixture, &mut one_writer, "1").await;
    let set = KEYS.map(|name| (name, "41"));
    commit_one(&fixture, &mut other, Request::Append(one("s", "2", &set))).await.unwrap();
    assert_eq!(sums(&fixture, &mut one_writer, "3").await, [42; 3]);
    let removal = Delta { remove: KEYS.map(key).into(), ..Delta::default() };
    commit_one(&fixture, &mut other, Request::Append(append("s", "4", removal))).await.unwrap();
    assert_eq!(sums(&fixture, &mut one_writer, "5").await, [1; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewind_of_another_writer_is_seen() {
    let Some(fixture) = Fixture::new().await else { return };
    let [mut one_writer, mut other] = two_writers(&fixture).await;
    assert!(!event(&fixture, &mut one_writer, increment("1")).await.rewound);
    event(&fixture, &mut other, Request::Rewind(rewind("s", 0))).await;
    // The same event again is answered as readers see it.
    assert!(event(&fixture, &mut one_writer, increment("1")).await.rewound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_in_the_place_of_another_begins_without_its_keys() {
    let Some(fixture) = Fixture::new().await else { return };
    let [mut one_writer, mut other] = two_writers(&fixture).await;
    sums(&fixture, &mut one_writer, "1").await;
    for request in [Request::Delete(address("s").into()), Request::Create(creation("s"))] {
        commit_one(&fixture, &mut other, request).await.unwrap();
    }
    commit_one(&fixture, &mut other, Request::Append(one("s", "2", &[]))).await.unwrap();
    assert_eq!(sums(&fixture, &mut one_writer, "1").await, [1, 2, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_failed_leaves_nothing_behind() {
    let Some(fixture) = Fixture::new().await else { return };
    let [mut writer, _] = two_writers(&fixture).await;
    sums(&fixture, &mut writer, "1").await;
    execute_at(
        &fixture.shared.options.url,
        "ALTER TABLE event ADD CONSTRAINT refused CHECK (event_id <> 'refused')",
    )
    .await;
    commit_one(&fixture, &mut writer, increment("refused")).await.unwrap_err();
    assert!(writer.is_connected());
    assert_eq!(sums(&fixture, &mut writer, "2").await, [2; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_ends_with_the_connection() {
    let Some(fixture) = Fixture::new().await else { return };
    let [mut writer, _] = two_writers(&fixture).await;
    sums(&fixture, &mut writer, "1").await;
    // As a standby that was promoted without the last commits, and has had others since.
    let lost = "UPDATE state SET value = '10'";
    execute_at(&fixture.shared.options.url, lost).await;
    writer.disconnect();
    assert_eq!(sums(&fixture, &mut writer, "2").await, [11; 3]);
}

fn pooled(mut options: PostgresOptions) -> PostgresOptions {
    options.settings.unnamed_statements = true;
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_may_lead_to_another_server_at_any_time() {
    let Some(fixture) = Fixture::with(pooled).await else { return };
    let [mut writer, _] = two_writers(&fixture).await;
    sums(&fixture, &mut writer, "1").await;
    execute_at(&fixture.shared.options.url, "UPDATE state SET value = '10'").await;
    assert_eq!(sums(&fixture, &mut writer, "2").await, [11; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_may_lead_to_a_server_that_lacks_commits_between_two_transactions() {
    let Some(fixture) = Fixture::with(pooled).await else { return };
    let mut options = fixture.shared.options.clone();
    (options.readers, options.settings.writers) = (1, 1);
    // Nothing but the transactions themselves looks.
    options.look_every = Duration::from_secs(86_400);
    let store: Arc<dyn Store> = Arc::new(open_with(options, MIGRATIONS).await.unwrap());
    store.create_session(&call(), creation("s")).await.unwrap();
    let read = async || {
        let query = SessionQuery::info(SessionRef::Full(address("s")));
        store.read_session(query).await.map(|view| view.info.last_sequence)
    };
    assert_eq!(read().await, Ok(0));
    let turn = async |by: i64| {
        let sql = format!("UPDATE writer SET commits = commits + {by}");
        execute_at(&fixture.shared.options.url, &sql).await;
    };
    turn(-1).await;
    let refused = store.append(&call(), one("s", "1", &[])).await;
    assert_eq!(refused.unwrap_err(), Error::StoreBehind);
    assert_eq!(read().await, Err(Error::StoreBehind));
    turn(1).await;
    store.append(&call(), one("s", "1", &[])).await.unwrap();
    assert_eq!(read().await, Ok(1));
    store.close().await;
}
