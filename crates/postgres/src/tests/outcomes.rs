//! Commits that get no answer, and connections that are lost before.

use super::*;
use sessiond_core::commit::{ChangeSet, decide, read_set};
use sessiond_store::group::{Backend as _, Failure};

/// Loads and decides an append, and leaves the transaction open.
async fn begin(writer: &mut Writer, id: &str) -> ChangeSet {
    let request = Request::Append(one("s", id, &[("k", "1")]));
    writer.load(&[read_set(&request)]).await.unwrap();
    let mut changes = ChangeSet::default();
    decide(writer.loaded(), &mut changes, &request, None, &mut 0).unwrap();
    changes
}

async fn events(fixture: &Fixture) -> i64 {
    fixture.count("SELECT count(*) FROM event").await
}

async fn with_session(fixture: &Fixture) -> Writer {
    let mut writer = fixture.writer();
    commit_one(fixture, &mut writer, Request::Create(creation("s"))).await.unwrap();
    writer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_without_an_answer_is_found_to_have_taken_place() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = with_session(&fixture).await;
    let changes = begin(&mut writer, "1").await;
    writer.try_commit(&changes).await.unwrap().unwrap();
    let outcome = writer.find_outcome(Cause::new("no answer")).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(events(&fixture).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_ended_without_a_commit_is_decided_again() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = with_session(&fixture).await;
    begin(&mut writer, "1").await;
    let outcome = writer.find_outcome(Cause::new("no answer")).await;
    assert!(matches!(outcome, Err(Failure::Again(_))), "{outcome:?}");
    assert_eq!(events(&fixture).await, 0);
}

/// Citus has one code for all that its workers say.
#[tokio::test(flavor = "multi_thread")]
async fn an_internal_error_of_an_engine_is_what_it_says() {
    let Some(fixture) = Fixture::new().await else { return };
    let connection = fixture.shared.connect().await.unwrap();
    let raised = async |message: &str| {
        let raise = format!("DO $$ BEGIN RAISE '{message}' USING ERRCODE = 'XX000'; END $$");
        connection.batch(&raise).await.unwrap_err()
    };
    let duplicate = raised("duplicate key value violates unique constraint").await;
    assert!(!duplicate.is_lost() && matches!(Failure::from(duplicate), Failure::Again(_)));
    let other = raised("something else").await;
    assert!(matches!(Failure::from(other), Failure::Error(Error::Internal(_))));
    let worker = raised("connection to the remote node failed").await;
    assert!(worker.is_lost() && matches!(Error::from(worker), Error::StoreUnavailable(_)));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_logged_once_a_minute() {
    let url = "postgres://me@127.0.0.1:1/x";
    let shared = Shared::new(PostgresOptions::new(url, StoreId([7; 16]))).unwrap();
    let mut logged = Vec::new();
    for _ in 0..5 {
        logged.push(shared.logs_outage());
        tokio::time::advance(Duration::from_secs(30)).await;
    }
    assert_eq!(logged, [true, false, true, false, true]);
}

#[test]
fn the_url_of_the_listener_is_told_from_that_of_the_store() {
    let mut options = PostgresOptions::new("postgres://me@127.0.0.1/x", StoreId([7; 16]));
    options.settings.listen_url = Some("nonsense".to_owned());
    let error = Shared::new(options).err().unwrap().to_string();
    assert!(error.starts_with("--postgres-listen-url cannot be used."), "{error}");
}

/// Options under which waiting ends soon. The limit also holds for the statements that make the tables and for the pauses within
/// a transaction, which a busy machine has to keep.
fn soon(mut options: PostgresOptions) -> PostgresOptions {
    options.settings.statement_timeout = Duration::from_secs(3);
    options
}

#[tokio::test(flavor = "multi_thread")]
async fn the_outcome_of_a_transaction_that_does_not_end_is_unknown() {
    let Some(fixture) = Fixture::with(soon).await else { return };
    let mut writer = with_session(&fixture).await;
    begin(&mut writer, "1").await;
    let pid = backend(&mut writer).await;
    let busy = writer.connection().take().unwrap();
    // As a commit that waits for a standby.
    let busy = tokio::spawn(async move {
        busy.batch("SET LOCAL statement_timeout = 0; SELECT pg_sleep(600)").await
    });
    let outcome = writer.find_outcome(Cause::new("no answer")).await;
    assert!(matches!(outcome, Err(Failure::Error(Error::OutcomeUnknown(_)))), "{outcome:?}");
    end(&fixture, pid).await;
    assert!(busy.await.unwrap().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_its_writer_left_ends() {
    let Some(fixture) = Fixture::with(soon).await else { return };
    let mut writer = with_session(&fixture).await;
    begin(&mut writer, "1").await;
    let left = writer.connection().take();
    let outcome = writer.find_outcome(Cause::new("no answer")).await;
    assert!(matches!(outcome, Err(Failure::Again(_))), "{outcome:?}");
    drop(left);
}

/// The process that serves a writer's connection.
async fn backend(writer: &mut Writer) -> i32 {
    let connection = writer.connection().as_ref().unwrap();
    connection.one("SELECT pg_backend_pid()").await.unwrap().unwrap().try_get(0).unwrap()
}

/// Ends a connection, as a failure of the database would.
async fn end(fixture: &Fixture, backend: i32) {
    let sql = format!("SELECT pg_terminate_backend({backend})::int::bigint");
    assert_eq!(fixture.count(&sql).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_is_lost_before_the_commit_is_replaced() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = with_session(&fixture).await;
    let changes = begin(&mut writer, "1").await;
    let pid = backend(&mut writer).await;
    end(&fixture, pid).await;
    // Whether the loss shows before or after the commit was sent, it did not take place.
    let failure = writer.commit(&changes).await.unwrap_err();
    assert!(matches!(failure, Failure::Again(_)), "{failure:?}");
    writer.roll_back(true).await;
    let answer = commit_one(&fixture, &mut writer, Request::Append(one("s", "1", &[]))).await;
    assert!(matches!(answer, Ok(Answer::Appended(appended)) if !appended.events[0].replayed));
    assert_eq!(events(&fixture).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_the_past_is_tried_again_after_a_lost_connection_only() {
    let Some(fixture) = Fixture::with(soon).await else { return };
    let mut writer = with_session(&fixture).await;
    commit_one(&fixture, &mut writer, Request::Append(one("s", "1", &[]))).await.unwrap();
    let holder = fixture.shared.connect().await.unwrap();
    let lock = "SET idle_in_transaction_session_timeout = 0; BEGIN; LOCK TABLE snapshot";
    holder.batch(lock).await.unwrap();
    let request = Request::Rewind(rewind("s", 1));
    let needs = [read_set(&request)];
    let timed_out = writer.load(&needs).await.unwrap_err();
    assert!(matches!(timed_out, Failure::Error(Error::StoreUnavailable(_))), "{timed_out:?}");
    let pid = backend(&mut writer).await;
    let waiting = format!("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid = {pid}");
    let lose = async {
        while fixture.count(&waiting).await == 0 {}
        end(&fixture, pid).await;
    };
    let (lost, ()) = tokio::join!(writer.load(&needs), lose);
    assert!(matches!(lost, Err(Failure::Again(_))), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_database_a_group_gives_up() {
    let Some(fixture) = Fixture::new().await else { return };
    let url = "postgres://127.0.0.1:1/nothing".to_owned();
    let options = PostgresOptions { url, ..fixture.shared.options.clone() };
    let shared = Arc::new(Shared::new(options).unwrap());
    let mut writer = Writer::new(shared, Arc::new(AtomicU64::new(0)));
    writer.begin_group();
    let answer = commit_one(&fixture, &mut writer, Request::Append(one("s", "1", &[]))).await;
    assert!(matches!(answer, Err(Error::StoreUnavailable(_))), "{answer:?}");
}
