//! How replies travel from the store's threads to their callers.
//!
//! When a thread that is not the runtime's wakes a task while all workers are parked, Tokio unparks one worker, and this one, as it begins the
//! task, unparks a second to look for more work. An event of the I/O driver unparks only the worker that waits for it. So the
//! server lets a task that waits for a pipe deliver a reply that comes alone. The price: this reply waits for the next poll of the
//! driver, which a worker postpones while it has other work. So there is never more than one, and the next goes directly.

use std::{
    fmt,
    io::{self, PipeWriter, Write as _},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{io::AsyncReadExt as _, net::unix::pipe::Receiver, sync::oneshot};

/// Hands a reply to its caller.
type Delivery = Box<dyn FnOnce() + Send>;

/// How the replies of a store travel. By default its threads deliver them themselves.
#[derive(Clone, Debug, Default)]
pub struct Replies(Option<Arc<Relay>>);

/// The sending side of the task that delivers replies. The task ends when the last one is dropped.
struct Relay {
    slot: Arc<Slot>,
    wake: PipeWriter,
}

/// What the task is to deliver.
struct Slot(Mutex<Content>);

enum Content {
    Nothing,
    Reply(Delivery),
    /// The task has ended.
    Ended,
}

/// Sends the reply to one caller.
#[derive(Debug)]
pub struct Reply<T> {
    sender: oneshot::Sender<T>,
    relay: Option<Arc<Relay>>,
}

impl Replies {
    /// Lets a task of the current runtime deliver replies that come alone. The runtime must keep running while callers wait: a runtime of
    /// one thread that is not inside `block_on` delivers nothing.
    pub fn relayed() -> io::Result<Self> {
        let (wakes, wake) = io::pipe()?;
        let mut wakes = Receiver::from_owned_fd(wakes.into())?;
        let slot = Arc::new(Slot(Mutex::new(Content::Nothing)));
        let task = EndOfTask(Arc::clone(&slot));
        tokio::spawn(async move {
            // A read of less than the buffer tells Tokio that the pipe is empty, without another one. 0 bytes: the last `Relay` is gone.
            while matches!(wakes.read(&mut [0; 8]).await, Ok(1..)) {
                task.0.replace(Content::Nothing).deliver();
            }
        });
        Ok(Self(Some(Arc::new(Relay { slot, wake }))))
    }

    /// A reply, and its receiver.
    pub fn channel<T>(&self) -> (Reply<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Reply { sender, relay: self.0.clone() }, receiver)
    }
}

impl<T> Reply<T> {
    /// Whether the caller has gone.
    pub fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a reply that others follow at once.
    pub fn send(self, reply: T) {
        drop(self.sender.send(reply));
    }
}

impl<T: Send + 'static> Reply<T> {
    /// Sends a reply that no other follows at once.
    pub fn send_alone(self, reply: T) {
        match self.relay {
            Some(relay) if !self.sender.is_closed() => {
                relay.deliver(Box::new(|| drop(self.sender.send(reply))));
            }
            _ => drop(self.sender.send(reply)),
        }
    }
}

impl Relay {
    fn deliver(&self, delivery: Delivery) {
        let mut content = self.slot.lock();
        if !matches!(*content, Content::Nothing) {
            drop(content);
            return delivery();
        }
        *content = Content::Reply(delivery);
        drop(content);
        // Does not wait: the slot is empty again only after the task has read, so the pipe never holds more than this byte. If the task
        // ends, it delivers what is in the slot.
        let _ = (&self.wake).write_all(&[0]);
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, content: Content) -> Content {
        mem::replace(&mut self.lock(), content)
    }
}

impl Content {
    fn deliver(self) {
        if let Self::Reply(delivery) = self {
            delivery();
        }
    }
}

/// Delivers what is left when the task ends, also where its runtime ends it.
struct EndOfTask(Arc<Slot>);

impl Drop for EndOfTask {
    fn drop(&mut self) {
        self.0.replace(Content::Ended).deliver();
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
    async fn by_default_among_others_and_behind_one_a_thread_delivers_its_reply_itself() {
        let (reply, mut receiver) = Replies::default().channel();
        send_alone_from_a_thread(reply, 1);
        assert_eq!(receiver.try_recv(), Ok(1));
        let replies = Replies::relayed().unwrap();
        let (reply, mut receiver) = replies.channel();
        reply.send(2);
        assert_eq!(receiver.try_recv(), Ok(2));
        let ((first, mut waiting), (second, mut receiver)) = (replies.channel(), replies.channel());
        send_alone_from_a_thread(first, 3);
        send_alone_from_a_thread(second, 4);
        assert_eq!(receiver.try_recv(), Ok(4));
        assert_eq!(waiting.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(waiting.await, Ok(3));
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
        let replies = runtime.block_on(async {
            let replies = Replies::relayed().unwrap();
            // The task waits for the pipe by now.
            let (reply, receiver) = replies.channel();
            reply.send_alone(0);
            assert_eq!(receiver.await, Ok(0));
            replies
        });
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
