//! Bounds response bytes not yet written; closes the largest holder. Writes have been applied when their response is made, so that they
//! cannot be refused for its size.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use futures_util::future::AbortHandle;

use crate::{domain::limits::MESSAGE_BYTES, metrics::ConnectionMetrics};

/// Bytes of all answers that are made and not taken: twice as many as one connection gets by reads.
const ALL_BYTES: usize = 128 * MESSAGE_BYTES;

/// Bytes in memory of the shortest answer: tonic's buffer of 8 KiB, the call of HTTP/2, and their tasks.
const ANSWER_BYTES: usize = 16 << 10;

#[derive(Clone)]
pub struct ResponseBudget(Arc<All>);

struct All {
    bytes: AtomicUsize,
    most: usize,
    metrics: ConnectionMetrics,
    connections: Mutex<Connections>,
    /// The connection that was ended last. The holder of the lock ends the next one; the others do not wait for it.
    ended: Mutex<Weak<ResponseBytes>>,
}

#[derive(Default)]
struct Connections {
    newest: u64,
    open: BTreeMap<u64, Weak<ResponseBytes>>,
}

pub struct ResponseBytes {
    all: Arc<All>,
    number: u64,
    bytes: AtomicUsize,
    end: OnceLock<AbortHandle>,
}

/// The bytes of a part of an answer, until the connection has written it.
pub struct Unsent {
    answers: Arc<ResponseBytes>,
    bytes: usize,
}

impl ResponseBudget {
    pub fn new(metrics: &ConnectionMetrics) -> Self {
        Self::at_most(ALL_BYTES, metrics)
    }

    fn at_most(most: usize, metrics: &ConnectionMetrics) -> Self {
        let (bytes, connections, ended) = Default::default();
        let metrics = metrics.clone();
        Self(Arc::new(All { bytes, most, metrics, connections, ended }))
    }

    pub fn connection(&self) -> Arc<ResponseBytes> {
        let mut connections = self.0.lock();
        connections.newest += 1;
        let (all, number) = (Arc::clone(&self.0), connections.newest);
        let (bytes, end) = Default::default();
        let answers = Arc::new(ResponseBytes { all, number, bytes, end });
        connections.open.insert(number, Arc::downgrade(&answers));
        answers
    }
}

impl All {
    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection that leaves most, unless what the ending ones give back is enough.
    fn end_one(&self) {
        let Ok(mut ended) = self.ended.try_lock() else { return };
        let bytes = |answers: &Arc<ResponseBytes>| answers.bytes.load(Relaxed);
        let given_back = ended.upgrade().as_ref().map_or(0, bytes);
        if self.bytes.load(Relaxed).saturating_sub(given_back) <= self.most {
            return;
        }
        let open: Vec<_> = self.lock().open.values().filter_map(Weak::upgrade).collect();
        let stays =
            |answers: &&Arc<ResponseBytes>| answers.end.get().is_some_and(|it| !it.is_aborted());
        if open.iter().filter(stays).map(bytes).sum::<usize>() <= self.most {
            return;
        }
        let Some(largest) = open.iter().filter(stays).max_by_key(|answers| bytes(answers)) else {
            return;
        };
        tracing::warn!(
            bytes = bytes(largest),
            "closing connection: response buffer limit exceeded, largest holder"
        );
        self.metrics.ended.inc();
        largest.end.get().into_iter().for_each(AbortHandle::abort);
        *ended = Arc::downgrade(largest);
    }
}

impl ResponseBytes {
    /// Of its connection.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Counts the first part of an answer. However short it is, it holds the buffer that it was encoded into, and its call.
    pub fn begun(self: &Arc<Self>, bytes: usize) -> Unsent {
        self.made(bytes.max(ANSWER_BYTES))
    }

    pub fn made(self: &Arc<Self>, bytes: usize) -> Unsent {
        self.bytes.fetch_add(bytes, Relaxed);
        let before = self.all.bytes.fetch_add(bytes, Relaxed);
        if before + bytes > self.all.most {
            self.all.end_one();
        }
        Unsent { answers: Arc::clone(self), bytes }
    }

    pub fn end_with(&self, end: AbortHandle) {
        self.end.get_or_init(|| end);
    }
}

impl Drop for ResponseBytes {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.number);
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        self.answers.bytes.fetch_sub(self.bytes, Relaxed);
        self.answers.all.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn ended(connections: &[&Arc<ResponseBytes>]) -> Vec<bool> {
        connections.iter().map(|it| it.end.get().unwrap().is_aborted()).collect()
    }

    fn connection(budget: &ResponseBudget) -> Arc<ResponseBytes> {
        let connection = budget.connection();
        connection.end_with(AbortHandle::new_pair().0);
        connection
    }

    #[test]
    fn the_connection_that_leaves_most_ends_and_one_at_a_time() {
        let metrics = Metrics::default().connections.clone();
        let budget = ResponseBudget::at_most(100, &metrics);
        let [one, other, third] = [(); 3].map(|()| connection(&budget));
        let all = [&one, &other, &third];
        let of_one = one.made(40);
        let _of_other = (other.made(20), other.made(25));
        let of_third = third.made(15);
        assert_eq!(ended(&all), [false; 3], "as many as there may be");
        let more = third.made(1);
        assert_eq!(ended(&all), [false, true, false]);
        let last = one.made(44);
        assert_eq!(ended(&all), [false, true, false], "what is left is within the bound");
        let _one_more = third.made(1);
        assert_eq!(ended(&all), [true, true, false]);
        drop((of_one, of_third, more, last));
        assert_eq!((budget.0.bytes.load(Relaxed), metrics.ended.get()), (46, 2));
    }

    #[test]
    fn one_thread_decides_and_others_do_not_wait() {
        let budget = ResponseBudget::at_most(100, &Metrics::default().connections);
        let connection = connection(&budget);
        let deciding = budget.0.ended.lock().unwrap();
        let _unread = connection.made(101);
        assert_eq!(ended(&[&connection]), [false]);
        drop(deciding);
        let _one_more = connection.made(1);
        assert_eq!(ended(&[&connection]), [true]);
    }

    #[test]
    fn a_short_answer_counts_with_its_buffer() {
        let budget = ResponseBudget::at_most(100, &Metrics::default().connections);
        let connection = connection(&budget);
        let answers = [connection.begun(1), connection.begun(ANSWER_BYTES + 1), connection.made(1)];
        assert_eq!(budget.0.bytes.load(Relaxed), 2 * ANSWER_BYTES + 2);
        drop(answers);
        assert_eq!(budget.0.bytes.load(Relaxed), 0);
    }

    #[test]
    fn answers_that_were_taken_do_not_count() {
        let budget = ResponseBudget::at_most(100, &Metrics::default().connections);
        let connection = connection(&budget);
        for _ in 0..10 {
            drop(connection.made(60));
        }
        assert_eq!(ended(&[&connection]), [false]);
        drop(connection);
        assert_eq!((budget.0.bytes.load(Relaxed), budget.0.lock().open.len()), (0, 0));
    }
}
