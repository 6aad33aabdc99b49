//! Write coalescing: under load the responses of a connection share system calls.
//!
//! HTTP/2 writes a response in two parts and flushes each. With few calls in flight they go straight to the socket. With many they stay in
//! a buffer until the tasks that were ready have run, so that the responses of a group commit leave together.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncWrite, BufWriter};
use tokio_util::task::TaskTracker;

/// Bytes of the buffer: a dozen responses to appends, and a record of TLS.
const BUFFER_BYTES: usize = 16 * 1024;

/// Calls in flight above which writes are buffered. Below, a response that waits in the buffer costs its caller more time than the shared
/// system call saves.
const MANY_CALLS: usize = 32;

/// The writing half of a connection. Flushing it does nothing while many calls are in flight.
pub struct Coalescing<W, C>(Arc<Shared<W, C>>);

pub struct Flusher<W, C>(Arc<Shared<W, C>>);

struct Shared<W, C> {
    buffer: Mutex<Buffer<W>>,
    calls: C,
}

struct Buffer<W> {
    writer: BufWriter<W>,
    /// Whether something was written since the last flush. TLS has a buffer of its own below this one.
    is_unflushed: bool,
}

/// `calls` returns the number of calls in flight, of all connections.
pub fn coalescing<W: AsyncWrite + Unpin, C: Fn() -> usize>(
    writer: W,
    calls: C,
) -> (Coalescing<W, C>, Flusher<W, C>) {
    let writer = BufWriter::with_capacity(BUFFER_BYTES, writer);
    let buffer = Mutex::new(Buffer { writer, is_unflushed: false });
    let shared = Arc::new(Shared { buffer, calls });
    (Coalescing(Arc::clone(&shared)), Flusher(shared))
}

impl<W: AsyncWrite + Unpin, C: Fn() -> usize> Flusher<W, C> {
    /// Serves a connection, and flushes what it leaves in the buffer, which counts as in flight.
    pub async fn serve<E: From<io::Error>>(
        self,
        served: impl Future<Output = Result<(), E>>,
        in_flight: TaskTracker,
    ) -> Result<(), E> {
        let mut served = pin!(served);
        let mut waiting = None;
        poll_fn(|cx| {
            let ended = served.as_mut().poll(cx);
            let mut buffer = self.0.lock();
            if ended.is_ready() {
                // A client that still reads gets the last responses of a connection that broke off.
                let _ = buffer.poll_flush(cx);
                return ended;
            }
            if !buffer.is_unflushed {
                waiting = None;
            } else if waiting.is_none() {
                waiting = Some(in_flight.token());
                // Comes back behind the tasks in the queue of this worker, which may be about to answer other calls.
                cx.waker().wake_by_ref();
            } else {
                ready!(buffer.poll_flush(cx))?;
                waiting = None;
            }
            Poll::Pending
        })
        .await
    }
}

impl<W, C> Shared<W, C> {
    fn lock(&self) -> MutexGuard<'_, Buffer<W>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: AsyncWrite + Unpin> Buffer<W> {
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.writer).poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin, C: Fn() -> usize> AsyncWrite for Coalescing<W, C> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = self.0.lock();
        buffer.is_unflushed = true;
        Pin::new(&mut buffer.writer).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = self.0.lock();
        buffer.is_unflushed = true;
        Pin::new(&mut buffer.writer).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match (self.0.calls)() > MANY_CALLS {
            true => Poll::Ready(Ok(())),
            false => self.0.lock().poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = self.0.lock();
        ready!(Pin::new(&mut buffer.writer).poll_shutdown(cx))?;
        buffer.is_unflushed = false;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
        task::{Wake, Waker},
    };

    use tokio::io::AsyncWriteExt as _;

    use super::*;

    /// The writes to a socket, which takes none while it is full.
    #[derive(Clone, Default)]
    struct Socket(Arc<Mutex<(Vec<Vec<u8>>, bool)>>);

    impl Socket {
        fn writes(&self) -> Vec<Vec<u8>> {
            self.0.lock().unwrap().0.clone()
        }

        fn set_full(&self, is_full: bool) {
            self.0.lock().unwrap().1 = is_full;
        }
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let (writes, is_full) = &mut *self.0.lock().unwrap();
            if *is_full {
                return Poll::Pending;
            }
            writes.push(bytes.to_vec());
            match bytes {
                b"broken" => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                _ => Poll::Ready(Ok(bytes.len())),
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Counts how often a task is woken.
    #[derive(Default)]
    pub struct Wakes(pub AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A connection that writes and flushes each of these parts, and then waits for its client. Polled once for each of the expectations:
    /// the writes that the socket has got until then, whether the connection asks to be polled again, and whether something is in flight.
    fn polled(socket: &Socket, calls: usize, parts: &[&[u8]], expected: &[(usize, bool, bool)]) {
        let in_flight = TaskTracker::new();
        let (mut writer, flusher) = coalescing(socket.clone(), || calls);
        let served = async {
            for part in parts {
                writer.write_all(part).await?;
                writer.flush().await?;
            }
            std::future::pending::<io::Result<()>>().await
        };
        let mut served = pin!(flusher.serve(served, in_flight.clone()));
        for (number, expected) in expected.iter().enumerate() {
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(Arc::clone(&wakes));
            assert!(served.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            let asks = wakes.0.load(Relaxed) > 0;
            let found = (socket.writes().len(), asks, !in_flight.is_empty());
            assert_eq!(found, *expected, "poll {number}");
            socket.set_full(false);
        }
    }

    #[test]
    fn among_few_calls_each_part_leaves_at_once() {
        for calls in [0, MANY_CALLS] {
            let socket = Socket::default();
            polled(&socket, calls, &[b"head", b"body", b"tail"], &[(3, false, false); 2]);
            assert_eq!(socket.writes(), [b"head", b"body", b"tail"]);
        }
    }

    #[test]
    fn an_answer_among_many_calls_waits_once_for_others() {
        let socket = Socket::default();
        let expected = [(0, true, true), (1, false, false), (1, false, false)];
        polled(&socket, MANY_CALLS + 1, &[b"head ", b"body"], &expected);
        assert_eq!(socket.writes(), [b"head body"]);
    }

    #[test]
    fn bytes_that_a_client_does_not_take_yet_are_in_flight() {
        for calls in [0, 1] {
            let socket = Socket::default();
            socket.set_full(true);
            polled(&socket, calls, &[b"answer"], &[(0, true, true), (1, false, false)]);
        }
    }

    #[test]
    fn more_than_the_buffer_holds_is_written_at_once() {
        let socket = Socket::default();
        let half = [0; BUFFER_BYTES / 2 + 1];
        polled(&socket, MANY_CALLS + 1, &[&half, &half], &[(1, true, true), (2, false, false)]);
        let socket = Socket::default();
        let expected = [(1, true, true), (1, false, false)];
        polled(&socket, MANY_CALLS + 1, &[&[0; BUFFER_BYTES]], &expected);
    }

    #[tokio::test]
    async fn a_connection_ends_with_the_error_of_its_socket() {
        let (mut writer, flusher) = coalescing(Socket::default(), || 0);
        let served = async {
            writer.write_all(b"broken").await?;
            std::future::pending::<io::Result<()>>().await
        };
        let ended = flusher.serve(served, TaskTracker::new()).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_shutdown_writes_what_waits() {
        let socket = Socket::default();
        let (mut writer, flusher) = coalescing(socket.clone(), || 0);
        let served = async {
            writer.write_all(b"last").await?;
            writer.shutdown().await
        };
        flusher.serve::<io::Error>(served, TaskTracker::new()).await.unwrap();
        assert_eq!(socket.writes(), [b"last"]);
    }

    #[tokio::test]
    async fn a_connection_that_breaks_off_leaves_its_last_answers() {
        let socket = Socket::default();
        let (mut writer, flusher) = coalescing(socket.clone(), || 0);
        let served = async {
            writer.write_all(b"last").await?;
            Err(io::Error::from(io::ErrorKind::UnexpectedEof))
        };
        assert!(flusher.serve(served, TaskTracker::new()).await.is_err());
        assert_eq!(socket.writes(), [b"last"]);
    }
}
