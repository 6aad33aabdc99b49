//! The way of a reply from a store's thread to the call that waits for it.
//!
//! When another thread wakes a task of a runtime that has nothing else to do, Tokio wakes two workers: one for the task, and a second one to look for
//! more. A lone call pays for both. The I/O driver wakes one. So the server lets a task that waits for a pipe hand over the replies that come alone.

use std::{
    fmt,
    io::{self, PipeWriter, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{io::AsyncReadExt as _, net::unix::pipe::Receiver, sync::oneshot};

/// Hands a reply to its call.
type Delivery = Box<dyn FnOnce() + Send>;

/// The way of a store's replies. By default a thread delivers its replies itself.
#[derive(Clone, Debug, Default)]
pub struct Replies(Option<Arc<Relay>>);

/// A task that delivers replies. It ends when nobody can send to it any more.
struct Relay {
    waiting: Arc<Waiting>,
    wake: PipeWriter,
}

/// The replies that the task has not taken; `None`: it has ended.
struct Waiting(Mutex<Option<Vec<Delivery>>>);

/// Sends the reply to one call.
#[derive(Debug)]
pub struct Reply<T> {
    sender: oneshot::Sender<T>,
    relay: Option<Arc<Relay>>,
}

impl Replies {
    /// Lets a task of the current runtime deliver the replies that come alone. For a runtime that runs as long as its calls wait.
    pub fn relayed() -> io::Result<Self> {
        let (wakes, wake) = io::pipe()?;
        let mut wakes = Receiver::from_owned_fd(wakes.into())?;
        let waiting = Arc::new(Waiting(Mutex::new(Some(Vec::new()))));
        let taken = DeliverAtEnd(Arc::clone(&waiting));
        tokio::spawn(async move {
            let mut deliveries = Vec::new();
            // Of a closed pipe nothing is read.
            while matches!(wakes.read(&mut [0; 8]).await, Ok(1..)) {
                taken.0.swap(&mut deliveries);
                deliveries.drain(..).for_each(|deliver| deliver());
            }
        });
        Ok(Self(Some(Arc::new(Relay { waiting, wake }))))
    }

    /// A reply, and its receiver.
    pub fn channel<T>(&self) -> (Reply<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Reply { sender, relay: self.0.clone() }, receiver)
    }
}

impl<T> Reply<T> {
    /// Whether nobody waits for it any more.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a reply that others follow at once. The caller may have gone.
    pub fn send(self, reply: T) {
        drop(self.sender.send(reply));
    }
}

impl<T: Send + 'static> Reply<T> {
    /// Sends a reply that no other follows at once.
    pub fn send_alone(self, reply: T) {
        match self.relay {
            None => drop(self.sender.send(reply)),
            Some(relay) => relay.deliver(Box::new(|| drop(self.sender.send(reply)))),
        }
    }
}

impl Relay {
    fn deliver(&self, delivery: Delivery) {
        let mut waiting = self.waiting.lock();
        let Some(deliveries) = &mut *waiting else {
            drop(waiting);
            return delivery();
        };
        deliveries.push(delivery);
        let is_first = deliveries.len() == 1;
        drop(waiting);
        if is_first {
            // The task takes all there are when it has read this. If it has ended meanwhile, it has delivered them.
            let _ = (&self.wake).write_all(&[0]);
        }
    }
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Delivery>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what waits, and leaves this empty vector instead.
    fn swap(&self, empty: &mut Vec<Delivery>) {
        if let Some(deliveries) = &mut *self.lock() {
            std::mem::swap(deliveries, empty);
        }
    }
}

/// Delivers what is left when the task ends, also where its runtime ends it.
struct DeliverAtEnd(Arc<Waiting>);

impl Drop for DeliverAtEnd {
    fn drop(&mut self) {
        let left = self.0.lock().take();
        left.into_iter().flatten().for_each(|deliver| deliver());
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Relay").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use tokio::{
        runtime::{Builder, Handle},
        sync::oneshot::error::TryRecvError,
        task::yield_now,
        time::timeout,
    };

    use super::*;

    fn send_alone_from_a_thread(reply: Reply<u32>, value: u32) {
        thread::spawn(move || reply.send_alone(value)).join().unwrap();
    }

    #[tokio::test]
    async fn a_reply_that_comes_alone_is_delivered_by_the_runtime() {
        let replies = Replies::relayed().unwrap();
        for value in 0..3 {
            let (reply, mut receiver) = replies.channel();
            send_alone_from_a_thread(reply, value);
            // This thread is the runtime, and has not run the task yet.
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(receiver.await, Ok(value));
        }
    }

    #[tokio::test]
    async fn among_others_and_by_default_a_thread_delivers_its_replies_itself() {
        let (reply, mut receiver) = Replies::relayed().unwrap().channel();
        reply.send(1);
        assert_eq!(receiver.try_recv(), Ok(1));
        let (reply, mut receiver) = Replies::default().channel();
        send_alone_from_a_thread(reply, 2);
        assert_eq!(receiver.try_recv(), Ok(2));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn replies_of_many_threads_all_arrive() {
        let replies = Replies::relayed().unwrap();
        let send = |at: u32| {
            let replies = replies.clone();
            let (pairs, receivers): (Vec<_>, Vec<_>) = (0..1000).map(|_| replies.channel()).unzip();
            thread::spawn(move || pairs.into_iter().for_each(|reply| reply.send_alone(at)));
            (at, receivers)
        };
        let sent: Vec<_> = (0..4).map(send).collect();
        for (at, receivers) in sent {
            for receiver in receivers {
                assert_eq!(timeout(Duration::from_secs(60), receiver).await.unwrap(), Ok(at));
            }
        }
    }

    #[test]
    fn the_end_of_the_runtime_delivers_what_waits_and_what_comes() {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        let replies = runtime.block_on(async { Replies::relayed() }).unwrap();
        let (reply, mut before) = replies.channel();
        reply.send_alone(1);
        assert_eq!(before.try_recv(), Err(TryRecvError::Empty));
        drop(runtime);
        assert_eq!(before.try_recv(), Ok(1));
        let (reply, mut after) = replies.channel();
        reply.send_alone(2);
        assert_eq!(after.try_recv(), Ok(2));
    }

    #[tokio::test]
    async fn the_task_ends_when_nobody_can_send_to_it() {
        let replies = Replies::relayed().unwrap();
        let (reply, receiver) = replies.channel();
        drop(replies);
        reply.send_alone(1);
        assert_eq!(receiver.await, Ok(1));
        let ended = async {
            while Handle::current().metrics().num_alive_tasks() > 0 {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), ended).await.unwrap();
    }
}
