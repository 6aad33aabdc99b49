//! The queue of a lane: bounded, with one consumer that waits at its end.

use tokio::sync::Notify;

use super::super::prelude::*;
use sessiond_metrics::Histogram;
use sessiond_store::queue::Queue;

/// A bounded queue with one consumer.
pub(in super::super) struct Inbox<T> {
    pub(in super::super) queue: Queue<T>,
    /// Keeps one permit, so that what is pushed before the consumer waits is not missed.
    filled: Notify,
}

impl<T> Inbox<T> {
    /// As [`Queue::new`].
    pub(super) fn new(max_items: usize, max_bytes: usize, full: Error, waits: Histogram) -> Self {
        Self { queue: Queue::new(max_items, max_bytes, full, waits), filled: Notify::new() }
    }

    /// Accepts or refuses an item of this size.
    pub(super) fn push(&self, item: T, bytes: usize) -> Result<(), Error> {
        self.queue.push(item, bytes)?;
        self.filled.notify_one();
        Ok(())
    }

    /// Moves what is there into `into`, until it has `max_items` or has taken `max_bytes`. Waits for an item, unless `into` has some
    /// already. Returns false once the queue is closed and empty.
    pub(super) async fn take(&self, into: &mut Vec<T>, max_items: usize, max_bytes: usize) -> bool {
        loop {
            let more = self.queue.take(into, max_items, max_bytes, false);
            if !more || !into.is_empty() {
                return more;
            }
            self.filled.notified().await;
        }
    }

    pub(super) fn close(&self) {
        self.queue.close();
        self.filled.notify_one();
    }
}
