//! The socket of a connection as HTTP/2 sees it. It acts by turns, each of which is one poll of the connection's task.
//!
//! * **Reads have a quota a turn.** HTTP/2 reads until the socket is empty, and takes every call that it reads. A client that sends faster
//!   than the server takes would so delay the calls of all others by the whole backlog of its sockets.
//! * **Writes are coalesced under load.** HTTP/2 flushes after each response. With few calls in flight a flush goes to the socket. With
//!   many it waits for the next turn, behind the tasks that are ready, so that the responses of a group commit share a system call.
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

/// Bytes that are read in a turn: what HTTP/2 reads at once, a handful of appends of 1 KiB. Other calls, and the answers of the store, wait
/// for as much of each connection.
const QUOTA_BYTES: usize = 8 * 1024;

/// The same without identities, where a call that is read late is refused late, or answered too late. It holds fewer than 4096 calls that
/// were begun and reset, of 25 bytes at least. The HTTP/2 library reads all that it gets at once before it passes a call on, and ends a
/// connection when more than 4096 reset calls wait.
const LARGE_QUOTA_BYTES: usize = 64 * 1024;

/// Bytes of the write buffer: a dozen responses to appends, and a record of TLS.
const BUFFER_BYTES: usize = 16 * 1024;

/// Calls in flight above which writes are coalesced. Below, a response that waits in the buffer costs its caller more time than the shared
/// system call saves.
const MANY_CALLS: usize = 32;

/// What the connections of a server share, and what is known of the callers of this one.
pub struct Sharing<C> {
    /// Callers have identities, so that each connection gets the smaller quota.
    pub tells_callers_apart: bool,
    /// Returns the number of calls in flight, of all connections.
    pub calls: C,
    /// Counts what is not flushed as in flight.
    pub in_flight: TaskTracker,
}

pub struct Socket<S: AsyncWrite + Unpin, C> {
    stream: BufWriter<S>,
    /// Bytes that were read before HTTP/2 began.
    preface: io::Cursor<Vec<u8>>,
    sharing: Sharing<C>,
    turns: Turns,
    /// The turn of the last read, and the bytes that may still be read in it.
    quota: (u64, usize),
    /// The turn of the first write since the last flush. TLS has a buffer of its own below this one.
    unflushed: Option<(u64, TaskTrackerToken)>,
    linger: Duration,
    /// Ends the wait for the client. `None`: the server has not ended its direction.
    lingering: Option<Pin<Box<Sleep>>>,
}

/// Counts the turns of a connection.
#[derive(Clone, Default)]
pub struct Turns(Arc<AtomicU64>);

impl Turns {
    /// Serves a connection, with a new turn each time that its task is polled.
    pub async fn serve<T>(self, served: impl Future<Output = T>) -> T {
        let mut served = pin!(served);
        poll_fn(|cx| {
            self.0.store(self.now() + 1, Relaxed);
            served.as_mut().poll(cx)
        })
        .await
    }

    fn now(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl<S: AsyncWrite + Unpin, C: Fn() -> usize> Socket<S, C> {
    /// `linger`: how long a client may take to receive the last answers and to end its direction.
    pub fn new(
        stream: S,
        preface: Vec<u8>,
        sharing: Sharing<C>,
        linger: Duration,
    ) -> (Self, Turns) {
        let turns = Turns::default();
        let socket = Self {
            stream: BufWriter::with_capacity(BUFFER_BYTES, stream),
            preface: io::Cursor::new(preface),
            sharing,
            turns: turns.clone(),
            quota: (0, 0),
            unflushed: None,
            linger,
            lingering: None,
        };
        (socket, turns)
    }

    /// The stream, of which something is about to be written.
    fn writer(&mut self) -> Pin<&mut BufWriter<S>> {
        if self.unflushed.is_none() {
            self.unflushed = Some((self.turns.now(), self.sharing.in_flight.token()));
        }
        Pin::new(&mut self.stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, C: Unpin> AsyncRead for Socket<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.preface.position() < self.preface.get_ref().len() as u64 {
            return Pin::new(&mut self.preface).poll_read(cx, buffer);
        }
        let now = self.turns.now();
        if self.quota.0 != now {
            let is_small = self.sharing.tells_callers_apart;
            self.quota = (now, if is_small { QUOTA_BYTES } else { LARGE_QUOTA_BYTES });
        }
        let left = self.quota.1;
        if left == 0 {
            // Comes back behind the tasks that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let read = if left >= buffer.remaining() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
            buffer.filled().len() - before
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(left));
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
            let read = part.filled().len();
            buffer.advance(read);
            read
        };
        self.quota.1 = left - read;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, C: Fn() -> usize + Unpin> AsyncWrite for Socket<S, C> {
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
        let is_new = self.unflushed.as_ref().is_some_and(|(turn, _)| *turn == self.turns.now());
        if is_new && (self.sharing.calls)() > MANY_CALLS {
            // HTTP/2 flushes again in every turn.
            cx.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
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
impl<S: AsyncWrite + Unpin, C> Drop for Socket<S, C> {
    fn drop(&mut self) {
        if self.unflushed.is_some() {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self.stream).poll_flush(&mut context);
        }
    }
}

#[cfg(test)]
mod tests;
