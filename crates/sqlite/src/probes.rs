//! Gauges that are set before each scrape: the queues, the size of the file, and the number of expired sessions.

use std::sync::Arc;

use futures_util::FutureExt as _;

use super::{prelude::*, readers::Readers};
use sessiond_metrics::Metrics;
use sessiond_store::{
    Clock,
    figures::{self, COUNTED_SESSIONS, Figures},
    group::Submission,
    queue::Queue,
};

/// Looks before each scrape, on a reader like any other read. The size of a file is that of its pages: to ask the file system would
/// make the next commit write the file's times.
pub(super) fn start(
    metrics: &Metrics,
    writes: &Arc<Queue<Submission>>,
    readers: &Readers,
    clock: &Arc<dyn Clock>,
) {
    let (requests, bytes) =
        (metrics.writes.queue_requests.clone(), metrics.writes.queue_bytes.clone());
    let (writes, reads) = (Arc::clone(writes), readers.clone());
    let waiting_reads = metrics.reads.queue_requests.clone();
    metrics.probe("queues", move || {
        let (waiting, waiting_bytes) = writes.waiting();
        requests.set(waiting as i64);
        bytes.set(waiting_bytes as i64);
        waiting_reads.set(reads.waiting() as i64);
        async {}.boxed()
    });
    let (readers, clock) = (readers.clone(), Arc::clone(clock));
    figures::probe(metrics, move || {
        let (readers, now) = (readers.clone(), clock.now());
        async move { Some(readers.read(move |tables| look(tables, now)).await) }
    });
}

fn look(tables: &Tables, now: Time) -> Result<Figures> {
    let figure = |pragma| tables.value::<i64>(pragma, ()).map(Option::unwrap_or_default);
    let bytes = figure("PRAGMA page_count")? * figure("PRAGMA page_size")?;
    let sql = "SELECT 1 FROM session
        WHERE expire_secs IS NOT NULL AND (expire_secs, expire_nanos) <= (?1, ?2) LIMIT ?3";
    let mut expired_sessions = 0;
    tables.each(sql, (now.secs(), now.nanos(), COUNTED_SESSIONS), |_| {
        expired_sessions += 1;
        Ok(true)
    })?;
    Ok(Figures { bytes, expired_sessions })
}
