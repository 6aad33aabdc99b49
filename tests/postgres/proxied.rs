//! What the proxy's faults do to a client and to its transaction.

use std::{pin::pin, time::Duration};

use futures_util::{future::join3, poll};
use tokio::task::yield_now;
use tokio_postgres::{Client, Error, NoTls, error::SqlState};

use crate::{
    cluster::{Database, query, sessions_ended, shared_server},
    proxy::{Fault, Proxy},
};

/// A proxy in front of a new database with an empty table.
async fn proxied() -> Option<(Database, Proxy)> {
    shared_server()?;
    let database = Database::create();
    query(&database.url, "CREATE TABLE t (v text PRIMARY KEY)").await.unwrap();
    let proxy = Proxy::start(&database.url).await;
    Some((database, proxy))
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The number of rows once every transaction that wrote some has ended.
async fn rows(database: &Database) -> String {
    let sql = "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE; SELECT count(*) FROM t; COMMIT";
    query(&database.url, sql).await.unwrap().concat()
}

const INSERT: &str = "INSERT INTO t VALUES ($1)";

/// A transaction of six statements, by both protocols.
async fn write(client: &Client) -> Result<(), Error> {
    client.batch_execute("BEGIN").await?;
    let insert = client.prepare(INSERT).await?;
    client.execute(&insert, &[&"prepared"]).await?;
    client.execute(INSERT, &[&"unnamed"]).await?;
    client.batch_execute("INSERT INTO t VALUES ('simple')").await?;
    client.query_one("SELECT count(*) FROM t", &[]).await?;
    client.batch_execute("COMMIT").await
}

#[tokio::test]
async fn statements_and_answers_pass_unchanged() {
    let Some((database, proxy)) = proxied().await else { return };
    let client = connect(&proxy.url).await;
    write(&client).await.unwrap();
    let executed: Vec<_> = proxy.executions().into_iter().map(|it| it.sql).collect();
    let select = "SELECT count(*) FROM t";
    assert_eq!(
        executed,
        ["BEGIN", INSERT, INSERT, "INSERT INTO t VALUES ('simple')", select, "COMMIT"]
    );
    let long = "x".repeat(3_000_000);
    let row = client.query_one("SELECT $1::text || $1::text", &[&long]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0).len(), 6_000_000);
    let error = client.execute(INSERT, &[&"simple"]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(rows(&database).await, "3");
    assert_eq!(proxy.faults(), 0);
}

#[tokio::test]
async fn a_failed_statement_fails_its_transaction_once() {
    let Some((database, proxy)) = proxied().await else { return };
    let client = connect(&proxy.url).await;
    for number in 1..=6 {
        proxy.once(Fault::Fail("40001"), move |it| it.number == number);
        let error = write(&client).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{number}");
        assert_eq!(proxy.executions().len() as u64, number);
        if (2..6).contains(&number) {
            let error = client.batch_execute("SELECT 1").await.unwrap_err();
            assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION), "{number}");
            client.batch_execute("ROLLBACK").await.unwrap();
        }
        assert_eq!(rows(&database).await, "0", "{number}");
        assert_eq!(proxy.faults(), 1);
    }
    write(&client).await.unwrap();
    assert_eq!(rows(&database).await, "3");
}

#[tokio::test]
async fn what_was_sent_behind_a_failed_statement_fails_too() {
    let Some((database, proxy)) = proxied().await else { return };
    let client = connect(&proxy.url).await;
    let insert = client.prepare(INSERT).await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    proxy.once(Fault::Fail("40P01"), |it| it.number == 2);
    let (first, second, third) = join3(
        client.execute(&insert, &[&"a"]),
        client.execute(&insert, &[&"b"]),
        client.execute(&insert, &[&"c"]),
    )
    .await;
    assert_eq!(first.unwrap(), 1);
    assert_eq!(second.unwrap_err().code(), Some(&SqlState::T_R_DEADLOCK_DETECTED));
    assert_eq!(third.unwrap_err().code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&database).await, "0");
}

#[tokio::test]
async fn a_commit_is_cut_before_after_and_without_its_answer() {
    let Some((database, proxy)) = proxied().await else { return };
    let cuts = [(Fault::CutBefore, "0"), (Fault::CutAfter, "3"), (Fault::LoseAnswer, "3")];
    for (fault, left) in cuts {
        let client = connect(&proxy.url).await;
        proxy.once(fault, |it| it.is_commit());
        let error = write(&client).await.unwrap_err();
        assert_eq!(error.code(), None, "{fault:?}: {error}");
        sessions_ended(&database.url).await;
        assert_eq!(rows(&database).await, left, "{fault:?}");
        assert_eq!(proxy.faults(), 1);
        query(&database.url, "TRUNCATE t").await.unwrap();
    }
    // By the other protocol.
    for (fault, left) in cuts {
        let client = connect(&proxy.url).await;
        proxy.once(fault, |it| it.sql == INSERT);
        let error = client.execute(INSERT, &[&"alone"]).await.unwrap_err();
        assert_eq!(error.code(), None, "{fault:?}: {error}");
        sessions_ended(&database.url).await;
        assert_eq!(rows(&database).await, if left == "3" { "1" } else { "0" }, "{fault:?}");
        query(&database.url, "TRUNCATE t").await.unwrap();
    }
}

#[tokio::test]
async fn a_delayed_statement_holds_up_its_connection_only() {
    let Some((_database, proxy)) = proxied().await else { return };
    let (one, other) = (connect(&proxy.url).await, connect(&proxy.url).await);
    // Longer than the other one takes on a busy machine.
    proxy.once(Fault::Delay(Duration::from_secs(10)), |it| it.sql == "SELECT 1");
    let mut delayed = pin!(one.batch_execute("SELECT 1"));
    while proxy.faults() == 0 {
        assert!(poll!(&mut delayed).is_pending());
        yield_now().await;
    }
    other.batch_execute("SELECT 1").await.unwrap();
    assert!(poll!(&mut delayed).is_pending());
    delayed.await.unwrap();
    assert_eq!(proxy.faults(), 1);
}

#[tokio::test]
async fn all_connections_are_cut_and_refused() {
    let Some((_database, proxy)) = proxied().await else { return };
    let client = connect(&proxy.url).await;
    client.batch_execute("SELECT 1").await.unwrap();
    proxy.cut();
    assert!(client.batch_execute("SELECT 1").await.is_err());
    let client = connect(&proxy.url).await;
    proxy.set_down(true);
    assert!(client.batch_execute("SELECT 1").await.is_err());
    assert!(tokio_postgres::connect(&proxy.url, NoTls).await.is_err());
    proxy.set_down(false);
    connect(&proxy.url).await.batch_execute("SELECT 1").await.unwrap();
}
