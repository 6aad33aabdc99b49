//! Figures of a store that are read before each scrape: its size, and the number of expired sessions.

use futures_util::FutureExt as _;
use tracing::debug;

use sessiond_core::domain::error::Error;
use sessiond_metrics::Metrics;

/// Expired sessions that are counted: the look takes a few milliseconds however many there are.
pub const COUNTED_SESSIONS: i64 = 10_000;

pub struct Figures {
    pub bytes: i64,
    pub expired_sessions: i64,
}

/// Has figures read before each scrape. `None`: the store is closed.
pub fn probe<R>(metrics: &Metrics, read: impl Fn() -> R + Send + Sync + 'static)
where
    R: Future<Output = Option<Result<Figures, Error>>> + Send + 'static,
{
    let gauges = metrics.reads.clone();
    metrics.probe("store", move || {
        let (gauges, read) = (gauges.clone(), read());
        async move {
            match read.await {
                Some(Ok(Figures { bytes, expired_sessions })) => {
                    gauges.store_bytes.set(bytes);
                    gauges.expired_sessions.set(expired_sessions);
                }
                Some(Err(error)) => debug!(%error, "the store was not looked at for its metrics"),
                None => {}
            }
        }
        .boxed()
    });
}
