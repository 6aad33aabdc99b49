//! Connections that stay open and say nothing any more, as behind a proxy whose server is gone: they are given up and replaced.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use sessiond::{
    domain::{error::Error, token::StoreId},
    engine::{Engine, EngineOptions, Watch, WatchFrom, WatchItem},
    metrics::Metrics,
    store::{
        Condition, RequestContext, Store,
        postgres::{self, PostgresOptions},
    },
};
use tokio::{task::yield_now, time::timeout};

use crate::{
    becomes,
    cluster::{Database, PATIENCE, shared_server},
    proxy::{Execution, Proxy},
    requests::*,
};

const NEVER: Duration = Duration::from_secs(86_400);

/// A replica whose connections go through a proxy, and another one on the same database.
struct Replicas {
    watching: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    proxy: Proxy,
    writing: Arc<dyn Store>,
    database: Database,
}

async fn open(url: &str, look_every: Duration) -> (Arc<dyn Store>, Arc<Metrics>) {
    let mut options = PostgresOptions::new(url, StoreId([7; 16]));
    (options.readers, options.settings.writers, options.look_every) = (2, 1, look_every);
    // An answer is waited for a few seconds longer.
    options.settings.statement_timeout = Duration::from_secs(1);
    let metrics = Arc::clone(&options.metrics);
    (Arc::new(postgres::open(options).await.unwrap()), metrics)
}

impl Replicas {
    async fn open(look_every: Duration) -> Option<Self> {
        shared_server()?;
        let database = Database::create();
        let proxy = Proxy::start(&database.url).await;
        let (watching, metrics) = open(&proxy.url, look_every).await;
        let (writing, _) = open(&database.url, NEVER).await;
        database.wait_for_sessions(2, "LISTEN").await;
        let created = create("a/u/s", &[]);
        writing.create_session(&RequestContext::internal(), created).await.unwrap();
        Some(Self { watching, metrics, proxy, writing, database })
    }

    async fn watch(&self) -> Watch {
        let engine = Arc::new(Engine::new(Arc::clone(&self.watching), EngineOptions::default()));
        let context = RequestContext::internal();
        engine.watch(&context, scope("a/u/s"), WatchFrom::Beginning).await.unwrap()
    }

    /// Commits an event through one replica, which the watch on the other one sees.
    async fn is_seen(&self, watch: &mut Watch, id: &str) {
        self.writing.append(&RequestContext::internal(), plain("a/u/s", id)).await.unwrap();
        let seen = async {
            loop {
                if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap().0 {
                    return assert_eq!(event.event_id.as_str(), id);
                }
            }
        };
        timeout(PATIENCE, seen).await.expect("the watch waits for ever");
    }

    /// Waits until the look at versions and a read have connections, which have nothing to do.
    async fn is_idle(&self) {
        self.database.wait_for_sessions(1, "\nWITH w AS").await;
        self.database.wait_for_sessions(1, "COMMIT").await;
    }

    async fn close(self) {
        self.watching.close().await;
        self.writing.close().await;
    }
}

fn silence_open_connections(proxy: &Proxy) {
    proxy.set_silent(true);
    proxy.set_silent(false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_when_all_connections_go_silent() {
    let Some(replicas) = Replicas::open(Duration::from_secs(1)).await else { return };
    let mut watch = replicas.watch().await;
    replicas.is_seen(&mut watch, "1").await;
    replicas.is_idle().await;
    silence_open_connections(&replicas.proxy);
    replicas.is_seen(&mut watch, "2").await;
    replicas.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_database_is_unreachable_until_it_answers_again() {
    let Some(replicas) = Replicas::open(Duration::from_secs(1)).await else { return };
    let mut watch = replicas.watch().await;
    replicas.is_seen(&mut watch, "1").await;
    replicas.is_idle().await;
    replicas.proxy.set_silent(true);
    becomes(&replicas.watching, Condition::Unreachable).await;
    // Also those that wait for the connections of others.
    let reads = (0..6).map(|_| replicas.watching.read_state(read_state("a/u/s")));
    for read in join_all(reads).await {
        assert!(matches!(read, Err(Error::StoreUnavailable(_))), "{read:?}");
    }
    replicas.proxy.set_silent(false);
    becomes(&replicas.watching, Condition::Ready).await;
    replicas.is_seen(&mut watch, "2").await;
    replicas.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_for_notifications_is_replaced() {
    // Nothing else finds what others commit.
    let Some(replicas) = Replicas::open(NEVER).await else { return };
    let mut watch = replicas.watch().await;
    replicas.is_seen(&mut watch, "1").await;
    silence_open_connections(&replicas.proxy);
    replicas.proxy.plan(|_| None);
    let listens = async {
        let is_listen = |it: &Execution| it.sql.starts_with("LISTEN");
        // None of an open connection passes.
        while !replicas.proxy.executions().iter().any(is_listen) {
            yield_now().await;
        }
    };
    timeout(PATIENCE, listens).await.expect("the connection stays");
    assert_eq!(replicas.metrics.postgres().listener_reconnects.get(), 1);
    replicas.is_seen(&mut watch, "2").await;
    replicas.close().await;
}
