//! PostgreSQL: several replicas, a database in trouble, connections to it, and the servers that these tests rest upon.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod clusters;
mod disk;
mod engines;
mod faults;
mod messages;
mod notifications;
mod proxied;
mod proxy;
mod reads;
mod replicas;
mod silent;
mod tls;
mod trouble;

use std::sync::Arc;

use sessiond::store::{Condition, Store};
use sessiond_test_support::{certificates, cluster, requests};
use tokio::time::timeout;

use cluster::PATIENCE;

async fn becomes(store: &Arc<dyn Store>, wanted: Condition) {
    let mut condition = store.condition();
    let waiting = condition.wait_for(|condition| *condition == wanted);
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("not {wanted:?}")).unwrap();
}
