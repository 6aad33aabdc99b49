//! Gauges that are set before each scrape: the queues, the pool, the size of the tables, and the number of expired sessions.

use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;
use tracing::debug;

use super::{lanes::Lanes, reads::Reads};
use crate::metrics::Metrics;

/// Looks before each scrape, on a connection of the pool like any other read.
pub(super) fn start(metrics: &Metrics, lanes: &Lanes, reads: &Arc<Reads>) {
    let of_lanes = metrics.postgres().clone();
    let (requests, bytes) =
        (metrics.writes.queue_requests.clone(), metrics.writes.queue_bytes.clone());
    let inboxes = lanes.inboxes().to_vec();
    metrics.probe("queues", move || {
        let (mut all, mut all_bytes) = (0, 0);
        for (lane, inbox) in inboxes.iter().enumerate() {
            let (waiting, waiting_bytes) = inbox.waiting();
            of_lanes.set_lane(lane, waiting);
            all += waiting;
            all_bytes += waiting_bytes;
        }
        requests.set(all as i64);
        bytes.set(all_bytes as i64);
        async {}.boxed()
    });
    let (gauges, of_pool) = (metrics.reads.clone(), metrics.postgres().clone());
    let weak = Arc::downgrade(reads);
    metrics.probe("pool", move || {
        if let Some(status) = weak.upgrade().map(|reads| reads.pool_status()) {
            of_pool.pool_idle.set(status.available as i64);
            of_pool.pool_in_use.set(status.size.saturating_sub(status.available) as i64);
            gauges.queue_requests.set(status.waiting as i64);
        }
        async {}.boxed()
    });
    let (gauges, weak) = (metrics.reads.clone(), Arc::downgrade(reads));
    metrics.probe("store", move || {
        let (gauges, weak) = (gauges.clone(), Weak::clone(&weak));
        async move {
            // A store that is closed has no figures.
            let Some(reads) = weak.upgrade() else { return };
            let Ok(read) = reads.begin() else { return };
            match read.figures().await {
                Ok((bytes, expired)) => {
                    gauges.store_bytes.set(bytes);
                    gauges.expired_sessions.set(expired);
                }
                Err(error) => debug!(%error, "the store was not looked at for its metrics"),
            }
        }
        .boxed()
    });
}
