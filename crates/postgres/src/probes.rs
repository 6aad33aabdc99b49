//! Gauges that are set before each scrape: the queues, the pool, the size of the tables, and the number of expired sessions.

use std::sync::{Arc, Weak};

use futures_util::FutureExt as _;

use super::{read::pool::Pool, write::lanes::Lanes};
use sessiond_metrics::Metrics;
use sessiond_store::figures;

/// Looks before each scrape, on a connection of the pool like any other read.
pub(super) fn start(metrics: &Metrics, lanes: &Lanes, reads: &Arc<Pool>) {
    let of_postgres = metrics.postgres().clone();
    let (requests, bytes) =
        (metrics.writes.queue_requests.clone(), metrics.writes.queue_bytes.clone());
    let (inboxes, weak) = (lanes.inboxes().to_vec(), Arc::downgrade(reads));
    metrics.probe("queues", move || {
        let (mut all, mut all_bytes) = (0, 0);
        for (lane, inbox) in inboxes.iter().enumerate() {
            let (waiting, waiting_bytes) = inbox.queue.waiting();
            of_postgres.set_lane(lane, waiting);
            all += waiting;
            all_bytes += waiting_bytes;
        }
        requests.set(all as i64);
        bytes.set(all_bytes as i64);
        if let Some(status) = weak.upgrade().map(|reads| reads.status()) {
            of_postgres.pool_idle.set(status.available as i64);
            of_postgres.pool_in_use.set(status.size.saturating_sub(status.available) as i64);
        }
        async {}.boxed()
    });
    let weak = Arc::downgrade(reads);
    figures::probe(metrics, move || {
        let weak = Weak::clone(&weak);
        async move {
            let reads = weak.upgrade()?;
            Some(reads.figures().await)
        }
    });
}
