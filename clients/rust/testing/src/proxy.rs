//! A network that loses answers, after the server has committed.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failure here fails the calling test"
)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, watch},
    task::AbortHandle,
};

use crate::client::TIMEOUT;

/// Bytes of an HTTP/2 frame header: 3 of length, 1 of type, 1 of flags, 4 of stream.
const FRAME_HEADER: usize = 9;
/// The type of the first frame of an answer.
const HEADERS: u8 = 1;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server closed it.
    Close,
    /// The network reset it.
    Reset,
    /// The server closed it in the middle of an answer, whose first frame still arrives.
    Torn,
}

/// Forwards everything between clients and a server, except for what it was asked to cut.
///
/// The server answers after it has committed, so a cut answer leaves the client without knowledge of a committed write.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    counts: Arc<Counts>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Counts {
    cut: Cut,
    to_pass: AtomicUsize,
    to_cut: AtomicUsize,
    to_hold: AtomicUsize,
    held: Notify,
    release: Notify,
    answers: AtomicUsize,
    connections: AtomicUsize,
    open: watch::Sender<usize>,
}

impl Proxy {
    /// Listens on a free port, in front of the server at `HOST:PORT`.
    pub async fn start(server: &str, cut: Cut) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let counts = Arc::new(Counts {
            cut,
            to_pass: AtomicUsize::new(0),
            to_cut: AtomicUsize::new(0),
            to_hold: AtomicUsize::new(0),
            held: Notify::new(),
            release: Notify::new(),
            answers: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            open: watch::Sender::new(0),
        });
        let (server, shared) = (server.to_owned(), Arc::clone(&counts));
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.send_modify(|open| *open += 1);
                let (server, shared) = (server.clone(), Arc::clone(&shared));
                tokio::spawn(async move {
                    connect(client, server, Arc::clone(&shared)).await;
                    shared.open.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, counts, accepting: accepting.abort_handle() }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cuts the connection at each of the next `answers`.
    pub fn cut_next(&self, answers: usize) {
        self.counts.to_cut.store(answers, Ordering::SeqCst);
    }

    /// Passes `answers` and cuts the connection at the one after them.
    pub fn cut_after(&self, answers: usize) {
        self.counts.to_pass.store(answers, Ordering::SeqCst);
        self.cut_next(1);
    }

    /// Passes `answers` and holds back the one after them until [`Proxy::release`].
    pub fn hold_after(&self, answers: usize) {
        self.counts.to_pass.store(answers, Ordering::SeqCst);
        self.counts.to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits until an answer is held back.
    pub async fn held(&self) {
        self.counts.held.notified().await;
    }

    /// Passes the answer that is held back.
    pub fn release(&self) {
        self.counts.release.notify_one();
    }

    /// How many answers are still to be cut.
    pub fn left_to_cut(&self) -> usize {
        self.counts.to_cut.load(Ordering::SeqCst)
    }

    /// Connections that clients have made so far, closed ones included.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Waits until this number of connections is open.
    pub async fn until_open(&self, connections: usize) {
        let mut open = self.counts.open.subscribe();
        let reached = tokio::time::timeout(TIMEOUT, open.wait_for(|open| *open == connections));
        reached.await.expect("connections stay open").unwrap();
    }

    /// Answers that the server has begun so far, cut ones included.
    pub fn answers(&self) -> usize {
        self.counts.answers.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves one connection until either side or the proxy closes it.
async fn connect(client: TcpStream, server: String, counts: Arc<Counts>) {
    // If the server is down, the client's connection is closed at once.
    let Ok(server) = TcpStream::connect(server).await else { return };
    if counts.cut == Cut::Reset {
        // Unsent data is lost when the socket is dropped.
        client.set_zero_linger().unwrap();
    }
    let (from_client, mut to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = tokio::spawn(forward_requests(from_client, to_server));
    // Returns when either side closes the connection, or at the cut.
    let _ = forward_answers(from_server, &mut to_client, &counts).await;
    // Both halves of the client's socket are dropped, which closes it.
    requests.abort();
    let _ = requests.await;
}

async fn forward_requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// Frame by frame.
async fn forward_answers(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    counts: &Counts,
) -> std::io::Result<()> {
    let mut newest_stream = 0;
    loop {
        let mut header = [0; FRAME_HEADER];
        from.read_exact(&mut header).await?;
        let [l0, l1, l2, kind, _, s0, s1, s2, s3] = header;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        // The second HEADERS of a stream holds the trailers. Stream numbers rise. Answers may overtake each other only with
        // several calls in flight, which the tests avoid.
        if kind == HEADERS && stream > newest_stream {
            newest_stream = stream;
            counts.answers.fetch_add(1, Ordering::SeqCst);
            let take = |count: &AtomicUsize| {
                let less = |left: usize| left.checked_sub(1);
                count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
            };
            let passes = take(&counts.to_pass);
            if !passes && take(&counts.to_hold) {
                counts.held.notify_one();
                counts.release.notified().await;
            } else if !passes && take(&counts.to_cut) {
                if counts.cut == Cut::Torn {
                    let mut payload = vec![0; length];
                    from.read_exact(&mut payload).await?;
                    to.write_all(&header).await?;
                    to.write_all(&payload).await?;
                }
                return Ok(());
            }
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        to.write_all(&header).await?;
        to.write_all(&payload).await?;
    }
}
