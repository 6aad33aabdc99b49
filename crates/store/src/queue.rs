//! Queues between callers and the store's threads: bounded by count and by bytes, and never waiting to be filled. Callers take turns.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{CallerId, Turns, instant};
use sessiond_core::domain::error::{Bounded, Error};
use sessiond_metrics::Histogram;

/// Bytes of bodies and deltas of all writes that wait: some twenty of the largest batches.
pub const WRITE_BYTES: usize = 64 << 20;

/// The refusal of a write, with the time that a full queue takes.
pub const WRITES_FULL: Error =
    Error::Overloaded { what: Bounded::WriteQueue, retry_after_millis: 200 };

/// Reads that may wait.
pub const QUEUE_READS: usize = 4096;

/// The refusal of a read, with the time that a few hundred of them take.
pub const READS_FULL: Error =
    Error::Overloaded { what: Bounded::ReadQueue, retry_after_millis: 50 };

/// A bounded queue. Items accepted before it was closed can still be taken.
pub struct Queue<T> {
    inner: Mutex<Inner<T>>,
    filled: Condvar,
    max_items: usize,
    max_bytes: usize,
    full: Error,
    /// Of the time that the first of the items waits that are taken at once.
    waits: Histogram,
}

struct Inner<T> {
    items: Turns<Item<T>>,
    bytes: usize,
    closed: bool,
    /// Threads that wait, so that none is woken needlessly.
    waiting: usize,
}

struct Item<T> {
    item: T,
    bytes: usize,
    came: Instant,
}

impl<T> Queue<T> {
    /// `full` is the answer to an item for which there is no place, `waits` measures how long items wait.
    pub fn new(max_items: usize, max_bytes: usize, full: Error, waits: Histogram) -> Self {
        let inner = Inner { items: Turns::default(), bytes: 0, closed: false, waiting: 0 };
        let (inner, filled) = (Mutex::new(inner), Condvar::new());
        Self { inner, filled, max_items, max_bytes, full, waits }
    }

    /// The number of items that wait, and their bytes.
    pub fn waiting(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.items.len(), inner.bytes)
    }

    fn observe_wait(&self, came: Instant) {
        self.waits.observe((instant() - came).as_secs_f64());
    }

    /// Accepts or refuses an item of this size. A full queue accepts the first item of a caller whatever its size. A closed one is
    /// [`Error::Draining`].
    pub fn push(&self, caller: CallerId, item: T, bytes: usize) -> Result<(), Error> {
        let came = instant();
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::Draining);
        }
        let is_large = inner.bytes + bytes > self.max_bytes && inner.items.of(caller) > 0;
        if is_large || !inner.items.admits(caller, self.max_items) {
            return Err(self.full.clone());
        }
        inner.bytes += bytes;
        inner.items.push(caller, Item { item, bytes, came }, bytes);
        let wake = inner.waiting > 0;
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Puts an item that was taken before the others of its caller, also if the queue is full or closed. Of several the last one comes first.
    /// Its wait begins anew.
    pub fn put_back(&self, caller: CallerId, item: T, bytes: usize) {
        let mut inner = self.lock();
        inner.bytes += bytes;
        inner.items.put_back(caller, Item { item, bytes, came: instant() }, bytes);
    }

    /// Charges the caller of an item that was taken with what it has cost beyond its own bytes.
    pub fn charge(&self, caller: CallerId, bytes: usize) {
        self.lock().items.charge(caller, bytes);
    }

    /// Waits for an item; `None`: the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let mut inner = self.wait();
        let Item { item, bytes, came } = inner.items.pop()?;
        inner.bytes -= bytes;
        drop(inner);
        self.observe_wait(came);
        Some(item)
    }

    /// Moves items into `into`, until it has `max_items` or has taken `max_bytes` or more. If the queue is empty, waits if asked to.
    /// Returns false once the queue is closed and empty.
    pub fn take(&self, into: &mut Vec<T>, max_items: usize, max_bytes: usize, wait: bool) -> bool {
        let mut inner = if wait { self.wait() } else { self.lock() };
        let mut taken = 0;
        let mut first_came = None;
        while into.len() < max_items && taken < max_bytes {
            let Some(Item { item, bytes, came }) = inner.items.pop() else {
                break;
            };
            inner.bytes -= bytes;
            taken += bytes;
            first_came = first_came.or(Some(came));
            into.push(item);
        }
        let more = !inner.closed || !inner.items.is_empty();
        drop(inner);
        if let Some(came) = first_came {
            self.observe_wait(came);
        }
        more
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    fn wait(&self) -> MutexGuard<'_, Inner<T>> {
        let mut inner = self.lock();
        while inner.items.is_empty() && !inner.closed {
            inner.waiting += 1;
            inner = self.filled.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.waiting -= 1;
        }
        inner
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sessiond_metrics::Metrics;

    const FULL: Error = Error::DiskFull;
    const CALLER: CallerId = CallerId::INTERNAL;

    fn queue<T>(max_items: usize, max_bytes: usize) -> Queue<T> {
        Queue::new(max_items, max_bytes, FULL, Metrics::default().reads.queue_wait)
    }

    #[test]
    fn what_is_too_much_is_rejected_at_once() {
        let queue = queue(2, 10);
        assert_eq!(queue.push(CALLER, 1, 4), Ok(()));
        assert_eq!(queue.push(CALLER, 2, 7), Err(FULL));
        assert_eq!(queue.push(CALLER, 2, 6), Ok(()));
        assert_eq!(queue.push(CALLER, 3, 0), Err(FULL));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(CALLER, 3, 4), Ok(()));
    }

    #[test]
    fn a_caller_that_fills_the_queue_does_not_keep_others_away() {
        let (one, other) = (CALLER, CallerId::new(&sessiond_access::Principal::Local, 7));
        let queue = queue(8, 100);
        for item in 0..8 {
            queue.push(one, item, 1).unwrap();
        }
        assert_eq!(queue.push(one, 8, 1), Err(FULL));
        // Of three callers, one that may come included, each has two places of eight.
        assert_eq!([queue.push(other, 8, 1), queue.push(other, 9, 1)], [Ok(()), Ok(())]);
        assert_eq!(queue.push(other, 10, 1), Err(FULL));
        let queue = super::tests::queue(8, 100);
        queue.push(one, 0, 100).unwrap();
        assert_eq!(queue.push(one, 1, 1), Err(FULL));
        assert_eq!([queue.push(other, 1, 50), queue.push(other, 2, 1)], [Ok(()), Err(FULL)]);
    }

    #[test]
    fn a_large_item_fits_where_nothing_else_is() {
        let queue = queue(2, 10);
        assert_eq!(queue.push(CALLER, 1, 11), Ok(()));
        assert_eq!(queue.push(CALLER, 2, 0), Err(FULL));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(CALLER, 2, 0), Ok(()));
    }

    #[test]
    fn a_group_ends_at_its_bounds() {
        let queue = queue(100, 1000);
        for item in 0..10 {
            queue.push(CALLER, item, 10).unwrap();
        }
        let mut group = Vec::new();
        assert!(queue.take(&mut group, 4, 1000, true));
        assert_eq!(group, [0, 1, 2, 3]);
        group.clear();
        assert!(queue.take(&mut group, 100, 15, true));
        assert_eq!(group, [4, 5]);
        group.clear();
        assert!(queue.take(&mut group, 100, 1000, true));
        assert_eq!(group, [6, 7, 8, 9]);
        assert!(queue.take(&mut Vec::new(), 1, 1, false));
    }

    #[test]
    fn the_wait_of_the_first_item_is_measured_each_time_that_items_are_taken() {
        let waits = Metrics::default().reads.queue_wait;
        let queue = Queue::new(100, 1000, FULL, waits.clone());
        for item in 0..4 {
            queue.push(CALLER, item, 1).unwrap();
        }
        assert_eq!(queue.waiting(), (4, 4));
        let mut group = Vec::new();
        queue.take(&mut group, 3, 1000, true);
        assert_eq!(waits.get_sample_count(), 1);
        queue.pop();
        assert_eq!(waits.get_sample_count(), 2);
        queue.take(&mut group, 100, 1000, false);
        assert_eq!((waits.get_sample_count(), queue.waiting()), (2, (0, 0)));
    }

    #[test]
    fn what_was_accepted_outlives_the_closing() {
        let queue = queue(2, 10);
        queue.push(CALLER, 1, 0).unwrap();
        queue.close();
        assert_eq!(queue.push(CALLER, 2, 0), Err(Error::Draining));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), None);
        assert!(!queue.take(&mut Vec::new(), 1, 1, true));
    }

    #[test]
    fn what_is_put_back_comes_first_and_is_never_refused() {
        let queue = queue(2, 10);
        queue.push(CALLER, 1, 4).unwrap();
        queue.push(CALLER, 2, 4).unwrap();
        let mut group = Vec::new();
        queue.take(&mut group, 1, 10, false);
        queue.push(CALLER, 3, 6).unwrap();
        queue.close();
        queue.put_back(CALLER, 1, 4);
        assert_eq!(queue.waiting(), (3, 14));
        queue.take(&mut group, 10, 100, false);
        assert_eq!((group, queue.waiting()), (vec![1, 1, 2, 3], (0, 0)));
    }

    #[test]
    fn closing_wakes_those_who_wait() {
        let queue = std::sync::Arc::new(queue::<()>(2, 10));
        let waiting = std::sync::Arc::clone(&queue);
        let thread = std::thread::spawn(move || waiting.pop());
        queue.close();
        assert_eq!(thread.join().unwrap(), None);
    }
}
