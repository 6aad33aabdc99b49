//! Gauges that are set before each scrape: the queues, the size of the file, and the number of expired sessions.

use std::sync::Arc;

use futures_util::FutureExt as _;
use tracing::debug;

use super::{connection::Tables, prelude::*, readers::Readers};
use crate::{
    metrics::Metrics,
    store::{Clock, group::Submission, queue::Queue},
};

/// Expired sessions that are counted: the look takes a few milliseconds however many there are.
const COUNTED_SESSIONS: u32 = 10_000;

/// Looks before each scrape, on a reader like any other read. The size of a file is that of its pages: to ask the file system would
/// make the next commit write the file's times.
pub(super) fn start(
    metrics: &Metrics,
    writes: &Arc<Queue<Submission>>,
    readers: &Readers,
    clock: &Arc<dyn Clock>,
) {
    let (gauges, reads) = (metrics.reads.clone(), readers.clone());
    let (requests, bytes) =
        (metrics.writes.queue_requests.clone(), metrics.writes.queue_bytes.clone());
    let writes = Arc::clone(writes);
    metrics.probe("queues", move || {
        let (waiting, waiting_bytes) = writes.waiting();
        requests.set(waiting as i64);
        bytes.set(waiting_bytes as i64);
        gauges.queue_requests.set(reads.waiting() as i64);
        async {}.boxed()
    });
    let (gauges, readers, clock) = (metrics.reads.clone(), readers.clone(), Arc::clone(clock));
    metrics.probe("store", move || {
        let (gauges, readers, now) = (gauges.clone(), readers.clone(), clock.now());
        async move {
            match readers.read(move |tables| look(tables, now)).await {
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

/// The size of the file, and the number of expired sessions.
fn look(tables: &Tables, now: Time) -> Result<(i64, i64), Error> {
    let figure = |pragma| tables.value::<i64>(pragma, ()).map(Option::unwrap_or_default);
    let bytes = figure("PRAGMA page_count")? * figure("PRAGMA page_size")?;
    let sql = "SELECT 1 FROM session
        WHERE expire_secs IS NOT NULL AND (expire_secs, expire_nanos) <= (?1, ?2) LIMIT ?3";
    let mut expired = 0;
    tables.each(sql, (now.secs(), now.nanos(), COUNTED_SESSIONS), |_| {
        expired += 1;
        Ok::<_, Error>(true)
    })?;
    Ok((bytes, expired))
}
