//! What a connection reads and writes, and how it ends.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    net::{TcpListener, TcpStream},
    time::{Instant, pause},
};

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

fn socket<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Socket<S> {
    Socket::new(stream, Vec::new(), TaskTracker::new(), LIMIT).0
}

/// The writes to a stream, which takes none while it is full.
#[derive(Clone, Default)]
struct Stream(Arc<Mutex<(Vec<Vec<u8>>, bool)>>);

impl Stream {
    fn writes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().0.clone()
    }

    fn set_full(&self, is_full: bool) {
        self.0.lock().unwrap().1 = is_full;
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
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

#[tokio::test]
async fn the_parts_of_an_answer_leave_together() {
    let stream = Stream::default();
    let mut writer = socket(stream.clone());
    writer.write_all(b"head ").await.unwrap();
    writer.write_all(b"body").await.unwrap();
    assert_eq!(stream.writes(), [b""; 0]);
    writer.flush().await.unwrap();
    assert_eq!(stream.writes(), [b"head body"]);
}

#[tokio::test]
async fn bytes_that_a_client_does_not_take_yet_are_in_flight() {
    let (stream, in_flight) = (Stream::default(), TaskTracker::new());
    let (mut writer, _) = Socket::new(stream.clone(), Vec::new(), in_flight.clone(), LIMIT);
    writer.write_all(b"answer").await.unwrap();
    stream.set_full(true);
    assert!(writer.flush().now_or_never().is_none());
    assert!(!in_flight.is_empty());
    stream.set_full(false);
    writer.flush().await.unwrap();
    assert!(in_flight.is_empty());
}

#[tokio::test]
async fn a_connection_ends_with_the_error_of_its_socket() {
    let mut writer = socket(Stream::default());
    writer.write_all(b"broken").await.unwrap();
    assert_eq!(writer.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_shutdown_writes_what_waits() {
    let stream = Stream::default();
    let mut writer = socket(stream.clone());
    writer.write_all(b"last").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(stream.writes(), [b"last"]);
}

#[tokio::test]
async fn a_connection_that_breaks_off_leaves_its_last_answers() {
    let stream = Stream::default();
    let mut writer = socket(stream.clone());
    writer.write_all(b"last").await.unwrap();
    drop(writer);
    assert_eq!(stream.writes(), [b"last"]);
}

#[tokio::test]
async fn what_was_read_before_comes_first() {
    let (mut client, server) = duplex(64);
    client.write_all(b"then").await.unwrap();
    drop(client);
    let (mut reader, polls) = Socket::new(server, b"first, ".to_vec(), TaskTracker::new(), LIMIT);
    let mut read = String::new();
    polls.serve(reader.read_to_string(&mut read)).await.unwrap();
    assert_eq!(read, "first, then");
}

/// More than the buffers of two sockets hold.
const ANSWER_BYTES: usize = 16 << 20;

#[tokio::test]
async fn a_client_that_sends_to_the_end_receives_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let served = tokio::spawn(async move {
        let mut connection = socket(server);
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
    socket(server).shutdown().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
async fn a_client_that_has_gone_is_not_waited_for() {
    pause();
    let (client, server) = duplex(64);
    drop(client);
    let began = Instant::now();
    socket(server).shutdown().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 0);
}
