//! A quota of reads: a connection that has much to read lets other tasks run before it reads more.
//!
//! HTTP/2 reads until the socket is empty, and takes every call that it reads. A client that sends faster than the server takes would so
//! delay the calls of all others by the whole backlog of its sockets. Without identities the quota is large: a call that is read late
//! is refused late, or answered too late.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// Bytes that a connection reads each time that its task is polled: what HTTP/2 reads at once, a handful of appends of 1 KiB. Other calls,
/// and the answers of the store, wait for as much of each connection.
const QUOTA_BYTES: usize = 8 * 1024;

/// The same without identities. It holds fewer than 4096 calls that were begun and reset, of 25 bytes at least. The HTTP/2 library reads all
/// that it gets at once before it passes a call on, and ends a connection when more than 4096 reset calls wait.
const LARGE_QUOTA_BYTES: usize = 64 * 1024;

type Left = Arc<AtomicUsize>;

/// A reader that has nothing more to read once its quota is used.
pub struct QuotaReader<R> {
    reader: R,
    left: Left,
}

pub struct Quota {
    left: Left,
    bytes: usize,
}

/// `tells_apart`: callers have identities, so that each connection gets the smaller quota.
pub fn quota<R>(reader: R, tells_apart: bool) -> (QuotaReader<R>, Quota) {
    let left = Left::default();
    let bytes = if tells_apart { QUOTA_BYTES } else { LARGE_QUOTA_BYTES };
    (QuotaReader { reader, left: Arc::clone(&left) }, Quota { left, bytes })
}

impl Quota {
    /// Serves a connection, with a new quota each time that its task is polled.
    pub async fn serve<T>(self, served: impl Future<Output = T>) -> T {
        let mut served = pin!(served);
        poll_fn(|cx| {
            self.left.store(self.bytes, Relaxed);
            served.as_mut().poll(cx)
        })
        .await
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for QuotaReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let left = self.left.load(Relaxed);
        if left == 0 {
            // Comes back behind the tasks that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if left >= buffer.remaining() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.reader).poll_read(cx, buffer))?;
            self.left.store(left - (buffer.filled().len() - before), Relaxed);
            return Poll::Ready(Ok(()));
        }
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(left));
        ready!(Pin::new(&mut self.reader).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.left.store(left - read, Relaxed);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, task::Waker};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use crate::server::write_coalescing::tests::Wakes;

    /// Bytes that a connection reads each time that it is polled, and whether it asks to be polled again.
    async fn polled(tells_apart: bool, read_bytes: usize, expected: &[(usize, bool)]) {
        let (mut client, server) = duplex(4 * QUOTA_BYTES);
        client.write_all(&[1; 2 * QUOTA_BYTES + 1]).await.unwrap();
        let (mut reader, quota) = quota(server, tells_apart);
        let read = Cell::new(0);
        let all = async {
            let mut bytes = vec![0; read_bytes];
            // Asks again and again, as HTTP/2 does for each call that it passes on.
            poll_fn(|cx| {
                for _ in 0..4 * QUOTA_BYTES {
                    let mut buffer = ReadBuf::new(&mut bytes);
                    if Pin::new(&mut reader).poll_read(cx, &mut buffer).is_ready() {
                        read.set(read.get() + buffer.filled().len());
                    }
                }
                Poll::<()>::Pending
            })
            .await
        };
        let mut served = pin!(quota.serve(all));
        for expected in expected {
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(Arc::clone(&wakes));
            assert!(served.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!((read.take(), wakes.0.load(Relaxed) > 0), *expected);
        }
    }

    #[tokio::test]
    async fn a_connection_lets_others_run_between_its_reads() {
        let expected = [(QUOTA_BYTES, true), (QUOTA_BYTES, true), (1, false), (0, false)];
        for read_bytes in [1000, 1024, QUOTA_BYTES, 3 * QUOTA_BYTES] {
            polled(true, read_bytes, &expected).await;
        }
    }

    #[tokio::test]
    async fn a_connection_reads_more_where_callers_are_not_told_apart() {
        polled(false, 1024, &[(2 * QUOTA_BYTES + 1, false)]).await;
    }

    #[tokio::test]
    async fn everything_is_read() {
        let (mut client, server) = duplex(QUOTA_BYTES / 3);
        let sent: Vec<u8> = (0..5 * QUOTA_BYTES).map(|byte| byte as u8).collect();
        let mut received = Vec::new();
        let (mut reader, quota) = quota(server, true);
        let send = async {
            client.write_all(&sent).await.unwrap();
            drop(client);
        };
        let receive = async { reader.read_to_end(&mut received).await.unwrap() };
        tokio::join!(send, quota.serve(receive));
        assert_eq!(received, sent);
    }
}
