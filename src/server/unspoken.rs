//! A connection whose client has yet to say anything: it ends when the server stops, for nothing is under way on it.

use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
};
use tonic::transport::server::Connected;

use super::stopped;

/// Bytes with which every client of HTTP/2 begins. HTTP waits for all of them, however long that takes.
const PREFACE_BYTES: usize = 24;

/// A connection that ends early where it is still silent when the server stops.
pub(super) struct Unspoken<C> {
    connection: C,
    /// `None` once the client has spoken: from then on HTTP knows how to end.
    silence: Option<Silence>,
}

struct Silence {
    missing: usize,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl<C> Unspoken<C> {
    /// `draining` turns true when the server stops.
    pub(super) fn new(connection: C, draining: watch::Receiver<bool>) -> Self {
        let stopped = Box::pin(stopped(draining));
        let silence = Silence { missing: PREFACE_BYTES, stopped, ended: false };
        Self { connection, silence: Some(silence) }
    }
}

impl<C: Connected> Connected for Unspoken<C> {
    type ConnectInfo = C::ConnectInfo;

    fn connect_info(&self) -> C::ConnectInfo {
        self.connection.connect_info()
    }
}

impl<C: AsyncRead + Unpin> AsyncRead for Unspoken<C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.connection).poll_read(context, buffer);
        let Some(silence) = &mut self.silence else {
            return read;
        };
        silence.missing = silence.missing.saturating_sub(buffer.filled().len() - before);
        if silence.missing == 0 {
            self.silence = None;
            return read;
        }
        if read.is_pending() {
            silence.ended = silence.ended || silence.stopped.as_mut().poll(context).is_ready();
            if silence.ended {
                // Nothing read is the end.
                return Poll::Ready(Ok(()));
            }
        }
        read
    }
}

impl<C: AsyncWrite + Unpin> AsyncWrite for Unspoken<C> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }
}
