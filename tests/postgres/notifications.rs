//! Notifications between replicas.

use std::{
    future::{pending, poll_fn},
    time::Duration,
};

use sessiond::{domain::token::StoreId, store::postgres::PostgresOptions};
use tokio::{
    sync::mpsc::{UnboundedReceiver, unbounded_channel},
    task::yield_now,
    time::timeout,
};
use tokio_postgres::AsyncMessage;

use crate::{
    cluster::{Database, PATIENCE, pooled_database_of, pooled_server, query, shared_server},
    proxy::{Execution, Fault, Proxy},
    replicas::{new_session, open},
};

/// The identity of a new store, and what its replicas will tell each other.
async fn listening(url: &str) -> (StoreId, UnboundedReceiver<String>) {
    let (listener, mut connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let id = StoreId(fastrand::u128(..).to_be_bytes());
    let (sender, received) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(it) = message {
                let _ = sender.send(it.payload().to_owned());
            }
        }
    });
    let listen = format!("LISTEN sessiond_{:032x}", u128::from_be_bytes(id.0));
    listener.batch_execute(&listen).await.unwrap();
    // It listens for as long as the test.
    tokio::spawn(async move { (listener, pending::<()>().await) });
    (id, received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_ends_tells_what_it_has_not_told_and_then_its_end() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let (id, mut received) = listening(&database.url).await;
    let store = open(&database.url, |options| options.new_id = id).await;
    new_session(&store, "a/u/s").await;
    store.close().await;
    let mut told = String::new();
    while !told.ends_with('e') {
        let next = timeout(PATIENCE, received.recv()).await.expect("the end is told").unwrap();
        told.extend(next.chars().nth(16));
    }
    assert!(told.contains('d'), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_announced_is_told_as_soon_as_that_is_possible() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let proxy = Proxy::start(&database.url).await;
    let store = open(&proxy.url, |_| ()).await;
    let is_notify = |it: &Execution| it.sql.contains("NOTIFY sessiond");
    proxy.plan(move |it| is_notify(it).then_some(Fault::CutBefore));
    new_session(&store, "a/u/s").await;
    let attempts = async {
        while proxy.faults() < 5 {
            yield_now().await;
        }
    };
    // Heartbeats alone take more than 15 seconds.
    timeout(Duration::from_secs(14), attempts).await.expect("an attempt each second");
    proxy.plan(|_| None);
    let is_gap = |it: &Execution| it.sql.split('\'').any(|text| text.get(16..) == Some("g"));
    let tells = async {
        while !proxy.executions().iter().any(is_gap) {
            yield_now().await;
        }
    };
    timeout(PATIENCE, tells).await.expect("the gap is told");
    store.close().await;
}

/// A pooler gives a connection to others, with what was set on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_leaves_no_setting_on_a_pooled_connection() {
    let (Some(server), Some(_)) = (shared_server(), pooled_server()) else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let url = pooled_database_of(folder.path());
    let (id, mut received) = listening(&server).await;
    let change = |options: &mut PostgresOptions| {
        (options.settings.unnamed_statements, options.new_id) = (true, id);
    };
    let store = open(&url, change).await;
    new_session(&store, "a/u/s").await;
    timeout(PATIENCE, received.recv()).await.expect("nothing was announced");
    // More clients at once than the pool has connections: each of those is asked.
    let asked = (0..9).map(|_| query(&url, "SELECT current_setting('synchronous_commit')"));
    for answer in futures_util::future::join_all(asked).await {
        assert_eq!(answer.unwrap(), ["on"]);
    }
    store.close().await;
}
