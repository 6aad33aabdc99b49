//! The end of a connection, which waits for its client's end.
//!
//! A kernel resets a socket that is closed while bytes of its client are unread or still on their way, and drops what the client has
//! not received: the end of the last answers. HTTP/2 clients send window updates until they have everything. So a connection ends its own
//! direction, then discards what comes until the client ends the other.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream whose shutdown waits for the client's end.
pub struct LingeringClose<S> {
    stream: S,
    /// Ends the wait for the client. `None`: the server has not ended its direction.
    wait: Option<Pin<Box<Sleep>>>,
    limit: Duration,
}

/// `limit`: how long a client may take to receive the last answers and to end its direction.
pub fn lingering_close<S>(stream: S, limit: Duration) -> LingeringClose<S> {
    LingeringClose { stream, wait: None, limit }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringClose<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringClose<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, wait, limit } = &mut *self;
        let wait = match wait {
            Some(wait) => wait,
            None => {
                ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
                wait.insert(Box::pin(sleep(*limit)))
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        net::{TcpListener, TcpStream},
        time::{Instant, pause},
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    /// More than the buffers of two sockets hold.
    const ANSWER_BYTES: usize = 16 << 20;

    #[tokio::test]
    async fn a_client_that_sends_to_the_end_receives_everything() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let served = tokio::spawn(async move {
            let mut connection = lingering_close(server, LIMIT);
            connection.write_all(&vec![1; ANSWER_BYTES]).await.unwrap();
            connection.shutdown().await.unwrap();
        });
        let mut answer = vec![0; ANSWER_BYTES / 2];
        client.read_exact(&mut answer).await.unwrap();
        // A window update, perhaps.
        client.write_all(&[2; 13]).await.unwrap();
        let mut rest = Vec::new();
        // The server has written all of it once the last MiB is on its way.
        while rest.len() < ANSWER_BYTES / 2 - (1 << 20) {
            client.read_buf(&mut rest).await.unwrap();
        }
        client.write_all(&[2; 13]).await.unwrap();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest.len(), ANSWER_BYTES / 2);
        client.write_all(&[2; 13]).await.unwrap();
        assert!(!served.is_finished(), "the client has not ended its direction");
        client.shutdown().await.unwrap();
        served.await.unwrap();
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
    async fn a_client_that_does_not_end_is_left() {
        pause();
        let (mut client, server) = duplex(64);
        client.write_all(b"sent before").await.unwrap();
        let began = Instant::now();
        lingering_close(server, LIMIT).shutdown().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
    async fn a_client_that_has_gone_is_not_waited_for() {
        pause();
        let (client, server) = duplex(64);
        drop(client);
        let began = Instant::now();
        lingering_close(server, LIMIT).shutdown().await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 0);
    }
}
