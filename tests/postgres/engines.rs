//! Engines that speak PostgreSQL's protocol and do not have all of its settings.

use std::sync::Arc;

use sessiond::{
    domain::token::StoreId,
    store::{
        RequestContext, Store,
        postgres::{self, PostgresOptions},
    },
};

use crate::{
    cluster::{Database, query, shared_server},
    proxy::Proxy,
    requests::*,
};

/// Settings that the proxy hides. CockroachDB does not have the first two.
const HIDDEN: [&str; 3] = ["enable_hashjoin", "enable_mergejoin", "plan_cache_mode"];

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
        let mut options = PostgresOptions::new(&*proxy.url, StoreId([7; 16]));
        options.settings.unnamed_statements = unnamed_statements;
        let store: Arc<dyn Store> = Arc::new(postgres::open(options).await.unwrap());
        store.create_session(&RequestContext::internal(), create("a/u/s", &[])).await.unwrap();
        let appended = append("a/u/s", [event("e", add("n", 1))]);
        store.append(&RequestContext::internal(), appended).await.unwrap();
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
