//! Engines that speak PostgreSQL's protocol and lack some of what it has.

use std::sync::Arc;

use sessiond::{
    domain::token::StoreId,
    engine::{Engine, EngineOptions, WatchFrom, WatchItem},
    store::{
        Condition, RequestContext, Store,
        postgres::{self, PostgresOptions},
    },
};
use tokio::time::timeout;

use crate::{
    cluster::{Database, PATIENCE, query, shared_server},
    proxy::{Fault, Proxy},
    requests::*,
};

/// Settings that the proxy hides. CockroachDB does not have the first two.
const HIDDEN: [&str; 4] = ["enable_hashjoin", "enable_mergejoin", "enable_sort", "plan_cache_mode"];

async fn open(proxy: &Proxy, unnamed_statements: bool) -> Arc<dyn Store> {
    let mut options = PostgresOptions::new(&*proxy.url, StoreId([7; 16]));
    options.settings.unnamed_statements = unnamed_statements;
    Arc::new(postgres::open(options).await.unwrap())
}

async fn create_and_append(store: &Arc<dyn Store>, events: u64) {
    store.create_session(&RequestContext::internal(), create("a/u/s", &[])).await.unwrap();
    for at in 0..events {
        let request = append("a/u/s", [event(&at.to_string(), add("n", 1))]);
        store.append(&RequestContext::internal(), request).await.unwrap();
    }
}

#[tokio::test]
async fn settings_of_the_planner_that_an_engine_does_not_have_are_left_out() {
    if shared_server().is_none() {
        return;
    }
    for unnamed_statements in [false, true] {
        let database = Database::create();
        let proxy = Proxy::start(&database.url).await;
        proxy.hide(&HIDDEN);
        let refused = query(&proxy.url, "SET enable_hashjoin = off").await;
        assert!(refused.is_err(), "the proxy hides the setting");
        proxy.plan(|_| None);
        let store = open(&proxy, unnamed_statements).await;
        create_and_append(&store, 1).await;
        store.read_state(read_state("a/u/s")).await.unwrap();
        store.close().await;
        let set: Vec<_> = proxy.executions().into_iter().map(|it| it.sql).collect();
        let sets = |name: &str| set.iter().any(|sql| sql.contains(&format!("SET {name} = ")));
        let local = if unnamed_statements { "LOCAL " } else { "" };
        for name in ["enable_seqscan", "jit", "synchronous_commit", "statement_timeout"] {
            assert!(sets(&format!("{local}{name}")), "{name}");
        }
        assert!(!HIDDEN.iter().any(|name| sets(&format!("{local}{name}"))), "{set:?}");
    }
}

#[tokio::test]
async fn a_pooler_without_its_flag_ends_the_start_with_the_flags_name() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let proxy = Proxy::start(&database.url).await;
    for code in ["42P05", "26000"] {
        proxy.plan(move |it| it.sql.contains("meta").then_some(Fault::Fail(code)));
        let options = PostgresOptions::new(&*proxy.url, StoreId([7; 16]));
        let error = postgres::open(options).await.err().unwrap().to_string();
        assert!(error.contains("--postgres-unnamed-statements"), "{code}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_notifications_is_asked_for_them_once_a_connection() {
    const EVENTS: u64 = 100;
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let proxy = Proxy::start(&database.url).await;
    let notifies = |sql: &str| sql.contains("NOTIFY");
    let listens = |sql: &str| sql.starts_with("LISTEN");
    proxy.plan(move |it| (notifies(&it.sql) || listens(&it.sql)).then_some(Fault::Fail("0A000")));
    let (writing, watching) = (open(&proxy, false).await, open(&proxy, false).await);
    create_and_append(&writing, 1).await;
    let engine = Arc::new(Engine::new(Arc::clone(&watching), EngineOptions::default()));
    let context = RequestContext::internal();
    let mut watch = engine.watch(&context, scope("a/u/s"), WatchFrom::Beginning).await.unwrap();
    let mut sees = async |last: u64| {
        let seeing = async {
            loop {
                match watch.next().await.unwrap().unwrap().0 {
                    WatchItem::Event(event) if event.sequence == last => return,
                    _ => {}
                }
            }
        };
        timeout(PATIENCE, seeing).await.expect("the watch waits for ever");
    };
    sees(1).await;
    for at in 1..EVENTS {
        writing.append(&context, plain("a/u/s", &at.to_string())).await.unwrap();
    }
    sees(EVENTS).await;
    for store in [&writing, &watching] {
        assert_eq!(*store.condition().borrow(), Condition::Ready);
        store.close().await;
    }
    let executed = proxy.executions();
    let count = |of: fn(&str) -> bool| executed.iter().filter(|it| of(&it.sql)).count() as u64;
    // Each replica has a connection that announces, which the watching one needs for a heartbeat alone, and one that listens.
    assert!((1..=2).contains(&count(notifies)), "{}", count(notifies));
    assert_eq!(count(listens), 2);
}
