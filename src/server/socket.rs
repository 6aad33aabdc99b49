//! The socket of a connection as HTTP sees it.
//!
//! * **Reads have a quota a poll** of the connection's task. HTTP/2 reads until the socket is empty before it passes a
//!   call on. A client that sends faster than the server takes would so delay the calls of all others by the backlog of its socket.
//! * **Writes are buffered** until HTTP/2 flushes, so that the frames of an answer share a system call.
//! * **The close lingers.** A kernel resets a socket that is closed while bytes of its client are unread or still on their way, and drops
//!   what the client has not received: the end of the last answers. HTTP/2 clients send window updates until they have everything. So the
//!   server ends its own direction, then discards what comes until the client ends the other.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf},
    time::{Sleep, sleep},
};
use tokio_util::task::{TaskTracker, task_tracker::TaskTrackerToken};

/// Bytes that are read in a poll. They hold fewer than 4096 calls that were begun and reset, of 25 bytes at least: the HTTP/2 library ends a
/// connection when more than 4096 reset calls wait.
const QUOTA_BYTES: usize = 64 * 1024;

/// Bytes of the write buffer: a dozen responses to appends, and a record of TLS.
const BUFFER_BYTES: usize = 16 * 1024;

pub struct Socket<S: AsyncWrite + Unpin> {
    stream: BufWriter<S>,
    /// Bytes that were read before HTTP/2 began.
    preface: io::Cursor<Vec<u8>>,
    polls: Polls,
    /// The poll of the last read, and the bytes that may still be read in it.
    quota: (u64, usize),
    /// Counts what is not flushed as in flight.
    in_flight: TaskTracker,
    unflushed: Option<TaskTrackerToken>,
    linger: Duration,
    /// Ends the wait for the client. `None`: the server has not ended its direction.
    lingering: Option<Pin<Box<Sleep>>>,
}

/// Counts the polls of a connection's task.
#[derive(Clone, Default)]
pub struct Polls(Arc<AtomicU64>);

impl Polls {
    /// Serves a connection, and counts.
    pub async fn serve<T>(self, served: impl Future<Output = T>) -> T {
        let mut served = pin!(served);
        poll_fn(|cx| {
            self.0.fetch_add(1, Relaxed);
            served.as_mut().poll(cx)
        })
        .await
    }
}

impl<S: AsyncWrite + Unpin> Socket<S> {
    /// `linger`: how long a client may take to receive the last answers and to end its direction.
    pub fn new(
        stream: S,
        preface: Vec<u8>,
        in_flight: TaskTracker,
        linger: Duration,
    ) -> (Self, Polls) {
        let polls = Polls::default();
        let socket = Self {
            stream: BufWriter::with_capacity(BUFFER_BYTES, stream),
            preface: io::Cursor::new(preface),
            polls: polls.clone(),
            quota: (0, 0),
            in_flight,
            unflushed: None,
            linger,
            lingering: None,
        };
        (socket, polls)
    }

    /// The stream, of which something is about to be written.
    fn writer(&mut self) -> Pin<&mut BufWriter<S>> {
        self.unflushed.get_or_insert_with(|| self.in_flight.token());
        Pin::new(&mut self.stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.preface.position() < self.preface.get_ref().len() as u64 {
            return Pin::new(&mut self.preface).poll_read(cx, buffer);
        }
        let poll = self.polls.0.load(Relaxed);
        let left = if self.quota.0 == poll { self.quota.1 } else { QUOTA_BYTES };
        if left == 0 {
            // Comes back behind the tasks that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.quota = (poll, left.saturating_sub(buffer.filled().len() - before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.writer().poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.unflushed = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, lingering, linger, unflushed, .. } = &mut *self;
        let wait = match lingering {
            Some(wait) => wait,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                *unflushed = None;
                lingering.insert(Box::pin(sleep(*linger)))
            }
        };
        let mut discarded = [0; 4096];
        loop {
            if wait.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut part = ReadBuf::new(&mut discarded);
            // An error is an end, too.
            let read = ready!(Pin::new(&mut *stream).poll_read(cx, &mut part));
            if read.is_err() || part.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// A client that still reads gets the last responses of a connection that broke off.
impl<S: AsyncWrite + Unpin> Drop for Socket<S> {
    fn drop(&mut self) {
        if self.unflushed.is_some() {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self.stream).poll_flush(&mut context);
        }
    }
}

#[cfg(test)]
mod tests;
