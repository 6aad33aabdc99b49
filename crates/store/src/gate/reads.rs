//! Turns of reads: a caller with many reads does not delay the others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::{
    CallerId, EventsView, KeyChangePage, NamePage, RequestContext, SessionPage, SessionView,
    StateView, Turns, WatchPage,
    account::CallAccount,
    instant,
    queue::{QUEUE_READS, READS_FULL},
};
use sessiond_core::domain::{json::Json, prelude::*};
use sessiond_metrics::{GaugeShare, ReadMetrics};

/// An answer of a read, which is buffered for its client.
pub(super) trait Buffered {
    /// Bytes in memory, about.
    fn bytes(&self) -> usize {
        0
    }
}

impl Buffered for SessionView {
    fn bytes(&self) -> usize {
        let events = self.events.iter().flat_map(|page| &page.events);
        events.map(Event::bytes).sum::<usize>() + self.state.as_ref().map_or(0, State::bytes)
    }
}

impl Buffered for EventsView {
    fn bytes(&self) -> usize {
        self.found.iter().flatten().map(Event::bytes).sum()
    }
}

impl Buffered for SessionPage {
    fn bytes(&self) -> usize {
        let state = |state: &Option<State>| state.as_ref().map_or(0, State::bytes);
        self.sessions.iter().map(|(info, it)| info.text_len() + state(it)).sum()
    }
}

impl Buffered for StateView {
    fn bytes(&self) -> usize {
        self.state.bytes()
    }
}

impl Buffered for KeyChangePage {
    fn bytes(&self) -> usize {
        self.changes.iter().map(|change| change.value.as_ref().map_or(0, Json::len)).sum()
    }
}

/// A watch charges its pages itself.
impl Buffered for WatchPage {}

/// Names, and the session of a bare id, are short.
impl<T> Buffered for NamePage<T> {}
impl Buffered for SessionKey {}

tokio::task_local! {
    static READING: (CallerId, CallAccount);
}

/// The caller of the read that this task executes, and the account of its call.
pub fn reading() -> (CallerId, CallAccount) {
    READING.try_with(Clone::clone).unwrap_or((CallerId::INTERNAL, CallAccount::default()))
}

/// Executes a read for a call.
pub async fn read_as<T>(context: &RequestContext, read: impl Future<Output = T>) -> T {
    READING.scope((context.caller, context.account.clone()), read).await
}

/// Turns for a number of reads at the same time. A turn that ends goes to the next caller at once.
pub(super) struct ReadTurns {
    waiting: Mutex<Waiting>,
    metrics: ReadMetrics,
}

struct Waiting {
    /// Turns that are free: none while a read waits.
    free: usize,
    turns: Turns<oneshot::Sender<()>>,
}

/// A turn. Dropping it passes it on.
pub(super) struct Turn<'t>(&'t ReadTurns);

/// A read that waits. If it is dropped with a turn that it has just got, it passes that on.
struct Waiter<'t> {
    turns: &'t ReadTurns,
    turn: oneshot::Receiver<()>,
    _share: GaugeShare,
}

impl ReadTurns {
    /// `reads`: those that are executed at the same time.
    pub(super) fn new(reads: usize, metrics: ReadMetrics) -> Self {
        let waiting = Waiting { free: reads, turns: Turns::default() };
        Self { waiting: Mutex::new(waiting), metrics }
    }

    /// Waits for a turn. Errors: [`READS_FULL`].
    pub(super) async fn take(&self, caller: CallerId) -> Result<Turn<'_>, Error> {
        let began = instant();
        if let Some(mut waiter) = self.queue(caller)? {
            (&mut waiter.turn).await.map_err(Error::internal)?;
        }
        self.metrics.queue_wait.observe(began.elapsed().as_secs_f64());
        Ok(Turn(self))
    }

    /// Queues a read; `None`: a turn was free. A caller that has less than its share is let in although the queue is full.
    fn queue(&self, caller: CallerId) -> Result<Option<Waiter<'_>>, Error> {
        let mut waiting = self.lock();
        if waiting.free > 0 {
            waiting.free -= 1;
            return Ok(None);
        }
        if !waiting.turns.admits(caller, QUEUE_READS) {
            return Err(READS_FULL);
        }
        let (sender, turn) = oneshot::channel();
        waiting.turns.push(caller, sender, 0);
        let share = GaugeShare::new(&self.metrics.queue_requests, 1);
        Ok(Some(Waiter { turns: self, turn, _share: share }))
    }

    /// Passes a turn on to the next read that still waits.
    fn pass_on(&self) {
        let mut waiting = self.lock();
        while let Some(next) = waiting.turns.pop() {
            if next.send(()).is_ok() {
                return;
            }
        }
        waiting.free += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        // From here on no turn is passed on to it.
        self.turn.close();
        if self.turn.try_recv().is_ok() {
            self.turns.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;
    use sessiond_metrics::Metrics;
    use tokio::{sync::mpsc, task::yield_now};

    use super::*;
    use crate::{
        Gate, LimitOptions, StateQuery, SystemClock,
        account::Account,
        memory::MemoryStore,
        tests::{call, user_scope},
    };

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
        assert!(turns.lock().turns.is_empty());
        assert_eq!(turns.lock().free, 1);
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
        assert_eq!(turns.metrics.queue_requests.get(), 1);
        drop(begun);
        assert!(of_other.await.is_ok());
        assert!(turns.lock().turns.is_empty());
        assert_eq!(turns.lock().free, 1);
    }

    /// Also of a store that executes each read at once.
    #[tokio::test]
    async fn a_read_is_refused_while_its_connection_holds_too_much() {
        let store = MemoryStore::new(StoreId([0; 16]), Arc::new(SystemClock));
        let (policies, metrics) = (sessiond_access::Policies::open(), Metrics::default().reads);
        let gate = Gate::new(Arc::new(store), policies, LimitOptions::default(), metrics);
        let account = Account::new(400, || {});
        let context = RequestContext { account: account.connection(true).item(), ..call() };
        let read = || gate.read_state(&context, StateQuery { scope: user_scope("u"), keys: None });
        assert!(read().await.is_ok());
        context.account.note(100);
        assert!(matches!(read().await, Err(Error::Overloaded { .. })));
    }

    /// A read that leaves at the moment at which it is passed a turn loses none.
    #[test]
    fn no_turn_is_lost_between_two_threads() {
        let turns = turns(1);
        for round in 0..5_000 {
            let begun = turns.take(ONE).now_or_never().unwrap().unwrap();
            let mut leaving = Box::pin(turns.take(ONE));
            assert!((&mut leaving).now_or_never().is_none());
            let barrier = std::sync::Barrier::new(2);
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    barrier.wait();
                    drop(begun);
                });
                barrier.wait();
                drop(leaving);
            });
            assert_eq!(turns.lock().free, 1, "round {round}");
        }
    }

    #[tokio::test]
    async fn a_read_that_leaves_with_its_turn_passes_it_on() {
        let turns = turns(1);
        let begun = turns.take(ONE).await.unwrap();
        let (mut first, mut second) = (Box::pin(turns.take(ONE)), Box::pin(turns.take(other())));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        drop(begun);
        assert!((&mut second).now_or_never().is_none(), "the first has it");
        drop(first);
        assert!(second.await.is_ok());
    }
}
