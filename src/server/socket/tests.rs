//! Turns of a connection: what it reads and writes in them, and how it ends.

use std::{
    cell::Cell,
    sync::{Mutex, atomic::AtomicUsize},
    task::Wake,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    net::{TcpListener, TcpStream},
    time::{Instant, pause},
};

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

/// A socket with as many calls in flight, of callers without identities.
fn socket<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    calls: usize,
) -> (Socket<S, impl Fn() -> usize>, Turns) {
    shared(stream, false, calls, TaskTracker::new())
}

fn shared<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    tells_callers_apart: bool,
    calls: usize,
    in_flight: TaskTracker,
) -> (Socket<S, impl Fn() -> usize>, Turns) {
    let sharing = Sharing { tells_callers_apart, calls: move || calls, in_flight };
    Socket::new(stream, Vec::new(), sharing, LIMIT)
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

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A connection that writes and flushes each of these parts, and then flushes in every turn, as HTTP/2 does. For each of the turns that
/// are expected: the writes that the stream has got until then, whether the connection asks for another turn, and whether something is in
/// flight.
fn written(stream: &Stream, calls: usize, parts: &[&[u8]], expected: &[(usize, bool, bool)]) {
    let in_flight = TaskTracker::new();
    let (mut writer, turns) = shared(stream.clone(), false, calls, in_flight.clone());
    let served = async {
        for part in parts {
            writer.write_all(part).await?;
            writer.flush().await?;
        }
        poll_fn(|cx| {
            let _ = Pin::new(&mut writer).poll_flush(cx)?;
            Poll::<io::Result<()>>::Pending
        })
        .await
    };
    let mut served = pin!(turns.serve(served));
    for (number, expected) in expected.iter().enumerate() {
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        assert!(served.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let asks = wakes.0.load(Relaxed) > 0;
        let found = (stream.writes().len(), asks, !in_flight.is_empty());
        assert_eq!(found, *expected, "turn {number}");
        stream.set_full(false);
    }
}

#[test]
fn among_few_calls_each_part_leaves_at_once() {
    for calls in [0, MANY_CALLS] {
        let stream = Stream::default();
        written(&stream, calls, &[b"head", b"body", b"tail"], &[(3, false, false); 2]);
        assert_eq!(stream.writes(), [b"head", b"body", b"tail"]);
    }
}

#[test]
fn an_answer_among_many_calls_waits_once_for_others() {
    let stream = Stream::default();
    let expected = [(0, true, true), (1, false, false), (1, false, false)];
    written(&stream, MANY_CALLS + 1, &[b"head ", b"body"], &expected);
    assert_eq!(stream.writes(), [b"head body"]);
}

#[test]
fn bytes_that_a_client_does_not_take_yet_are_in_flight() {
    for calls in [0, 1] {
        let stream = Stream::default();
        stream.set_full(true);
        written(&stream, calls, &[b"answer"], &[(0, false, true), (1, false, false)]);
    }
}

#[test]
fn more_than_the_buffer_holds_is_written_at_once() {
    let stream = Stream::default();
    let half = [0; BUFFER_BYTES / 2 + 1];
    written(&stream, MANY_CALLS + 1, &[&half, &half], &[(1, true, true), (2, false, false)]);
    let stream = Stream::default();
    let expected = [(1, true, true), (1, false, false)];
    written(&stream, MANY_CALLS + 1, &[&[0; BUFFER_BYTES]], &expected);
}

#[tokio::test]
async fn a_connection_ends_with_the_error_of_its_socket() {
    let (mut writer, _) = socket(Stream::default(), 0);
    writer.write_all(b"broken").await.unwrap();
    assert_eq!(writer.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_shutdown_writes_what_waits() {
    let stream = Stream::default();
    let (mut writer, _) = socket(stream.clone(), MANY_CALLS + 1);
    writer.write_all(b"last").await.unwrap();
    writer.shutdown().await.unwrap();
    assert_eq!(stream.writes(), [b"last"]);
}

#[tokio::test]
async fn a_connection_that_breaks_off_leaves_its_last_answers() {
    let stream = Stream::default();
    let (mut writer, _) = socket(stream.clone(), MANY_CALLS + 1);
    writer.write_all(b"last").await.unwrap();
    drop(writer);
    assert_eq!(stream.writes(), [b"last"]);
}

#[tokio::test]
async fn what_was_read_before_comes_first() {
    let sharing = Sharing { tells_callers_apart: true, calls: || 0, in_flight: TaskTracker::new() };
    let (mut client, server) = duplex(64);
    client.write_all(b"then").await.unwrap();
    drop(client);
    let (mut reader, turns) = Socket::new(server, b"first, ".to_vec(), sharing, LIMIT);
    let mut read = String::new();
    turns.serve(reader.read_to_string(&mut read)).await.unwrap();
    assert_eq!(read, "first, then");
}

/// Bytes that a connection reads each time that it is polled, and whether it asks to be polled again.
async fn polled(tells_apart: bool, read_bytes: usize, expected: &[(usize, bool)]) {
    let (mut client, server) = duplex(4 * QUOTA_BYTES);
    client.write_all(&[1; 2 * QUOTA_BYTES + 1]).await.unwrap();
    let (mut reader, turns) = shared(server, tells_apart, 0, TaskTracker::new());
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
    let mut served = pin!(turns.serve(all));
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
    let (mut reader, turns) = shared(server, true, 0, TaskTracker::new());
    let send = async {
        client.write_all(&sent).await.unwrap();
        drop(client);
    };
    let receive = async { reader.read_to_end(&mut received).await.unwrap() };
    tokio::join!(send, turns.serve(receive));
    assert_eq!(received, sent);
}

/// More than the buffers of two sockets hold.
const ANSWER_BYTES: usize = 16 << 20;

#[tokio::test]
async fn a_client_that_sends_to_the_end_receives_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (server, _) = listener.accept().await.unwrap();
    let served = tokio::spawn(async move {
        let (mut connection, _) = socket(server, 0);
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
    socket(server, 0).0.shutdown().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
async fn a_client_that_has_gone_is_not_waited_for() {
    pause();
    let (client, server) = duplex(64);
    drop(client);
    let began = Instant::now();
    socket(server, 0).0.shutdown().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 0);
}
