//! How the store's threads wake the only call in flight.
//!
//! A wake from outside of the runtime, while all of its workers sleep, wakes two of them: one for the task, and one to look for more. An
//! event of the I/O driver wakes one. So a task that waits for a pipe passes the wake on. The price: the wake waits for the next
//! poll of the driver, which a worker postpones while it has other work. So the relay is for the only call, and for one wake at a time.

use std::{
    future::poll_fn,
    io::{self, PipeWriter, Write as _},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
};

use tokio::{io::AsyncReadExt as _, net::unix::pipe, task};
use tokio_util::task::AbortOnDropHandle;

/// Passes wakes on, as long as it is kept.
pub struct Relay {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

struct Shared {
    /// Tells the number of calls in flight.
    calls: Box<dyn Fn() -> usize + Send + Sync>,
    pipe: PipeWriter,
    /// The task of a call, until its wake is passed on.
    waiting: Mutex<Option<Waker>>,
}

/// What wakes the task of a call.
struct Relayed {
    task: Waker,
    shared: Arc<Shared>,
}

impl Relay {
    /// Passes wakes on in a task of the current runtime. `calls` tells the number of calls in flight.
    pub fn new(calls: impl Fn() -> usize + Send + Sync + 'static) -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let mut reader = pipe::Receiver::from_owned_fd(reader.into())?;
        let shared = Arc::new(Shared { calls: Box::new(calls), pipe, waiting: Mutex::default() });
        let served = Arc::clone(&shared);
        let passes_on = async move {
            // A read of less than the buffer has emptied the pipe, so that there is no second one.
            while let Ok(1..) = reader.read(&mut [0; 8]).await {
                served.pass_on();
            }
            // Later wakes find the pipe closed.
            drop(reader);
            served.pass_on();
        };
        Ok(Self { shared, _task: AbortOnDropHandle::new(tokio::spawn(passes_on)) })
    }

    /// Executes a call, which threads wake through the relay while it is the only one.
    pub async fn through<F: Future>(&self, call: F) -> F::Output {
        if !self.shared.is_quiet() {
            return call.await;
        }
        let mut call = pin!(call);
        let mut relayed: Option<Arc<Relayed>> = None;
        poll_fn(|cx| {
            let of_this_task = relayed.take().filter(|it| it.task.will_wake(cx.waker()));
            let relayed = relayed.insert(of_this_task.unwrap_or_else(|| {
                Arc::new(Relayed { task: cx.waker().clone(), shared: Arc::clone(&self.shared) })
            }));
            let waker = Waker::from(Arc::clone(relayed));
            call.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }
}

impl Wake for Relayed {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A worker that wakes outside of a task, for a timer, is taken for such a thread as well.
        let is_of_a_thread = task::try_id().is_none();
        if is_of_a_thread && self.shared.is_quiet() && self.shared.wait(&self.task) {
            self.shared.tell();
        } else {
            self.task.wake_by_ref();
        }
    }
}

impl Shared {
    /// Whether no other call is in flight. Open streams may be.
    fn is_quiet(&self) -> bool {
        (self.calls)() <= 1
    }

    /// Lets a task wait for its wake. Whether no other waits.
    fn wait(&self, task: &Waker) -> bool {
        let mut waiting = self.waiting();
        let is_free = waiting.is_none();
        if is_free {
            *waiting = Some(task.clone());
        }
        is_free
    }

    fn pass_on(&self) {
        let task = self.waiting().take();
        task.into_iter().for_each(Waker::wake);
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        // It never fills the pipe: the next one comes after the task has read this one.
        if (&self.pipe).write_all(&[0]).is_err() {
            self.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        thread,
        time::Duration,
    };

    use tokio::{runtime::Handle, sync::oneshot, task::yield_now, time::timeout};

    use super::*;
    use crate::server::gathered::tests::Wakes;

    /// A call that waits for its answer. It is dropped with the last of these.
    struct Call<'a>(Pin<Box<dyn Future<Output = ()> + 'a>>, Arc<Wakes>, oneshot::Sender<()>);

    /// A relay, and the number of calls in flight.
    fn relay() -> (Relay, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(1));
        let counted = Arc::clone(&calls);
        (Relay::new(move || counted.load(Relaxed)).unwrap(), calls)
    }

    fn call(relay: &Relay) -> Call<'_> {
        let (answer, answered) = oneshot::channel();
        let answered = async { answered.await.unwrap() };
        let (mut call, wakes) = (Box::pin(relay.through(answered)), Arc::default());
        let waker = Waker::from(Arc::clone(&wakes));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        Call(call, wakes, answer)
    }

    fn send_from_a_thread(answer: oneshot::Sender<()>) {
        thread::spawn(|| answer.send(()).unwrap()).join().unwrap();
    }

    /// This thread is the runtime: nothing else runs until it waits.
    async fn until(is_so: impl Fn() -> bool) {
        let is_so = async {
            while !is_so() {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), is_so).await.unwrap();
    }

    #[tokio::test]
    async fn a_thread_wakes_the_only_call_through_the_runtime() {
        let (relay, _) = relay();
        for _ in 0..3 {
            let Call(call, wakes, answer) = call(&relay);
            send_from_a_thread(answer);
            assert_eq!(wakes.0.load(Relaxed), 0);
            until(|| wakes.0.load(Relaxed) == 1).await;
            call.await;
        }
    }

    #[tokio::test]
    async fn other_calls_second_wakes_and_those_of_tasks_do_not_wait() {
        let (relay, calls) = relay();
        for (before, after) in [(2, 2), (1, 2), (2, 1)] {
            calls.store(before, Relaxed);
            let Call(_call, wakes, answer) = call(&relay);
            calls.store(after, Relaxed);
            send_from_a_thread(answer);
            assert_eq!(wakes.0.load(Relaxed), 1, "{before} and {after} calls");
        }

        let Call(_call, first, answer) = call(&relay);
        send_from_a_thread(answer);
        let Call(_call, second, answer) = call(&relay);
        send_from_a_thread(answer);
        assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (0, 1));
        until(|| first.0.load(Relaxed) == 1).await;

        let Call(_call, wakes, answer) = call(&relay);
        let sent = tokio::spawn(async { answer.send(()).unwrap() });
        until(|| sent.is_finished()).await;
        assert_eq!(wakes.0.load(Relaxed), 1);
    }

    #[tokio::test]
    async fn a_call_that_moves_to_another_task_wakes_that_one() {
        let (relay, _) = relay();
        let Call(mut call, before, answer) = call(&relay);
        let after = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&after));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        send_from_a_thread(answer);
        until(|| after.0.load(Relaxed) == 1).await;
        assert_eq!(before.0.load(Relaxed), 0);
    }

    #[tokio::test]
    async fn its_task_ends_with_it() {
        let (relay, _) = relay();
        let tasks = || Handle::current().metrics().num_alive_tasks();
        assert_eq!(tasks(), 1);
        drop(relay);
        until(|| tasks() == 0).await;
    }
}
