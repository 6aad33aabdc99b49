//! Queues between callers and the store's threads: bounded by count and by bytes, and never waiting to be filled.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use crate::domain::error::Error;

/// A bounded queue. Items accepted before it was closed can still be taken.
pub(crate) struct Queue<T> {
    inner: Mutex<Inner<T>>,
    filled: Condvar,
    max_items: usize,
    max_bytes: usize,
    /// The answer to an item for which there is no place.
    full: Error,
}

struct Inner<T> {
    items: VecDeque<(usize, T)>,
    bytes: usize,
    closed: bool,
    /// Threads that wait, so that none is woken needlessly.
    waiting: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new(max_items: usize, max_bytes: usize, full: Error) -> Self {
        let inner = Inner { items: VecDeque::new(), bytes: 0, closed: false, waiting: 0 };
        Self { inner: Mutex::new(inner), filled: Condvar::new(), max_items, max_bytes, full }
    }

    /// Accepts or refuses an item of this size. An empty queue accepts an item of any size. A closed one is [`Error::Draining`].
    pub(crate) fn push(&self, item: T, bytes: usize) -> Result<(), Error> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Error::Draining);
        }
        let full = inner.items.len() >= self.max_items || inner.bytes + bytes > self.max_bytes;
        if full && !inner.items.is_empty() {
            return Err(self.full.clone());
        }
        inner.bytes += bytes;
        inner.items.push_back((bytes, item));
        let wake = inner.waiting > 0;
        drop(inner);
        if wake {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for an item; `None`: the queue is closed and empty.
    pub(crate) fn pop(&self) -> Option<T> {
        let mut inner = self.wait();
        let (bytes, item) = inner.items.pop_front()?;
        inner.bytes -= bytes;
        Some(item)
    }

    /// Moves items into `into`, until it has `max_items` or has taken `max_bytes` or more. If the queue is empty, waits if asked to.
    /// Returns false once the queue is closed and empty.
    pub(crate) fn take(
        &self,
        into: &mut Vec<T>,
        max_items: usize,
        max_bytes: usize,
        wait: bool,
    ) -> bool {
        let mut inner = if wait { self.wait() } else { self.lock() };
        let mut taken = 0;
        while into.len() < max_items && taken < max_bytes {
            let Some((bytes, item)) = inner.items.pop_front() else {
                break;
            };
            inner.bytes -= bytes;
            taken += bytes;
            into.push(item);
        }
        !inner.closed || !inner.items.is_empty()
    }

    pub(crate) fn close(&self) {
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

    const FULL: Error = Error::TooDeep;

    #[test]
    fn what_is_too_much_is_rejected_at_once() {
        let queue = Queue::new(2, 10, FULL);
        assert_eq!(queue.push(1, 4), Ok(()));
        assert_eq!(queue.push(2, 7), Err(FULL));
        assert_eq!(queue.push(2, 6), Ok(()));
        assert_eq!(queue.push(3, 0), Err(FULL));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(3, 4), Ok(()));
    }

    #[test]
    fn a_large_item_fits_where_nothing_else_is() {
        let queue = Queue::new(2, 10, FULL);
        assert_eq!(queue.push(1, 11), Ok(()));
        assert_eq!(queue.push(2, 0), Err(FULL));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.push(2, 0), Ok(()));
    }

    #[test]
    fn a_group_ends_at_its_bounds() {
        let queue = Queue::new(100, 1000, FULL);
        for item in 0..10 {
            queue.push(item, 10).unwrap();
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
    fn what_was_accepted_outlives_the_closing() {
        let queue = Queue::new(2, 10, FULL);
        queue.push(1, 0).unwrap();
        queue.close();
        assert_eq!(queue.push(2, 0), Err(Error::Draining));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), None);
        assert!(!queue.take(&mut Vec::new(), 1, 1, true));
    }

    #[test]
    fn closing_wakes_those_who_wait() {
        let queue = std::sync::Arc::new(Queue::<()>::new(2, 10, FULL));
        let waiting = std::sync::Arc::clone(&queue);
        let thread = std::thread::spawn(move || waiting.pop());
        queue.close();
        assert_eq!(thread.join().unwrap(), None);
    }
}
