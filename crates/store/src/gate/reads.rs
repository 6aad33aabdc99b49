//! Turns of reads: a caller with many reads does not delay the others.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, Semaphore, SemaphorePermit};

use crate::{
    CallerId, KeyChangePage, NamePage, SessionPage, SessionView, StateView, WatchPage, instant,
    queue::{QUEUE_READS, READS_FULL},
};
use sessiond_core::domain::{json::Json, prelude::*};
use sessiond_metrics::{GaugeShare, ReadMetrics};

/// An answer of a read, which is buffered for its client.
pub(super) trait Buffered {
    /// Bytes of its texts, about.
    fn bytes(&self) -> usize;
}

impl Buffered for SessionView {
    fn bytes(&self) -> usize {
        let events = self.events.iter().flat_map(|page| &page.events);
        events.map(Event::bytes).sum::<usize>() + self.state.as_ref().map_or(0, State::text_len)
    }
}

impl Buffered for SessionPage {
    fn bytes(&self) -> usize {
        self.sessions.iter().map(|(_, state)| state.as_ref().map_or(0, State::text_len)).sum()
    }
}

impl Buffered for StateView {
    fn bytes(&self) -> usize {
        self.state.text_len()
    }
}

impl Buffered for KeyChangePage {
    fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.value.as_ref().map_or(0, Json::len)).sum()
    }
}

/// A watch charges what it holds of a page.
impl Buffered for WatchPage {
    fn bytes(&self) -> usize {
        0
    }
}

/// Names, and the session of a bare id, are short.
impl<T> Buffered for NamePage<T> {
    fn bytes(&self) -> usize {
        0
    }
}

impl Buffered for SessionKey {
    fn bytes(&self) -> usize {
        0
    }
}

/// A fair semaphore. Of each caller one read, its first, waits in the semaphore's own queue, the others wait for that: so callers take
/// turns, and each keeps its order.
pub(super) struct ReadTurns {
    permits: Semaphore,
    waiting: Mutex<Waiting>,
    metrics: ReadMetrics,
}

#[derive(Default)]
struct Waiting {
    /// By caller: whose lock the first holds, and how many there are.
    lanes: HashMap<CallerId, (Arc<AsyncMutex<()>>, usize)>,
    reads: usize,
}

/// The place of a read that waits. Dropping it leaves it.
struct Place<'t> {
    turns: &'t ReadTurns,
    caller: CallerId,
    lane: Arc<AsyncMutex<()>>,
    _share: GaugeShare,
}

impl ReadTurns {
    /// `reads`: those that are executed at the same time.
    pub(super) fn new(reads: usize, metrics: ReadMetrics) -> Self {
        Self { permits: Semaphore::new(reads), waiting: Mutex::default(), metrics }
    }

    /// Waits for a turn. Errors: [`READS_FULL`].
    pub(super) async fn take(&self, caller: CallerId) -> Result<SemaphorePermit<'_>, Error> {
        let began = instant();
        let permit = match self.permits.try_acquire() {
            // There is one only where nobody waits.
            Ok(permit) => permit,
            Err(_) => {
                let place = self.place(caller)?;
                let _first = place.lane.lock().await;
                self.permits.acquire().await.map_err(Error::internal)?
            }
        };
        self.metrics.queue_wait.observe(began.elapsed().as_secs_f64());
        Ok(permit)
    }

    /// A place, of which one is left for a caller that has none.
    fn place(&self, caller: CallerId) -> Result<Place<'_>, Error> {
        let mut waiting = self.lock();
        if waiting.reads >= QUEUE_READS && waiting.lanes.contains_key(&caller) {
            return Err(READS_FULL);
        }
        waiting.reads += 1;
        let (lane, reads) = waiting.lanes.entry(caller).or_default();
        *reads += 1;
        let lane = Arc::clone(lane);
        Ok(Place {
            turns: self,
            caller,
            lane,
            _share: GaugeShare::new(&self.metrics.queue_requests, 1),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turns.lock();
        waiting.reads -= 1;
        if let Some((_, reads)) = waiting.lanes.get_mut(&self.caller) {
            *reads -= 1;
            if *reads == 0 {
                waiting.lanes.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use sessiond_metrics::Metrics;
    use tokio::{sync::mpsc, task::yield_now};

    use super::*;

    const ONE: CallerId = CallerId::INTERNAL;

    fn other() -> CallerId {
        CallerId::new(&sessiond_access::Principal::Local, 7)
    }

    fn turns(reads: usize) -> Arc<ReadTurns> {
        Arc::new(ReadTurns::new(reads, Metrics::default().reads))
    }

    #[tokio::test]
    async fn many_reads_of_a_caller_hold_up_no_other() {
        let turns = turns(1);
        let begun = turns.take(ONE).await.unwrap();
        let (done, mut order) = mpsc::unbounded_channel();
        let read = |caller, number| {
            let (turns, done) = (Arc::clone(&turns), done.clone());
            tokio::spawn(async move {
                let _turn = turns.take(caller).await.unwrap();
                done.send(number).unwrap();
            })
        };
        for number in 0..64 {
            read(ONE, number);
        }
        yield_now().await;
        read(other(), 100);
        yield_now().await;
        assert_eq!(turns.metrics.queue_requests.get(), 65);
        drop(begun);
        let mut first = Vec::new();
        for _ in 0..65 {
            first.push(order.recv().await.unwrap());
        }
        assert_eq!(
            first[..4],
            [0, 100, 1, 2],
            "the other's is the next but one, and each keeps its order"
        );
        assert!(turns.lock().lanes.is_empty());
        assert_eq!(turns.lock().reads, 0);
        assert_eq!(turns.metrics.queue_requests.get(), 0);
    }

    #[tokio::test]
    async fn who_waits_is_bounded_and_a_caller_that_left_has_no_place() {
        let turns = turns(1);
        let begun = turns.take(ONE).await.unwrap();
        let mut waiting: Vec<_> = (0..QUEUE_READS).map(|_| Box::pin(turns.take(ONE))).collect();
        for read in &mut waiting {
            assert!(read.now_or_never().is_none());
        }
        assert_eq!(turns.take(ONE).await.err(), Some(READS_FULL));
        // Others have no part in that.
        let mut of_other = Box::pin(turns.take(other()));
        assert!((&mut of_other).now_or_never().is_none());
        drop(waiting);
        assert_eq!(turns.lock().reads, 1);
        drop(begun);
        assert!(of_other.await.is_ok());
        assert_eq!(turns.lock().reads, 0);
    }
}
