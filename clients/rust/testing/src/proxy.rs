//! A network that loses an answer: what is cut off is what the server has already decided.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test that called it")]

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
    sync::Notify,
    task::AbortHandle,
};

/// Bytes in front of every frame of HTTP/2: 3 of length, 1 of type, 1 of flags, 4 of stream.
const FRAME_HEAD: usize = 9;
/// The type of the frame that an answer begins with.
const HEADERS: u8 = 1;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// As if the other side had ended.
    Close,
    /// As if the network had.
    Reset,
    /// As if the other side had ended in the middle of its answer, whose beginning still arrives.
    Torn,
}

/// Sits between clients and a server, and passes everything on until it is told to cut.
///
/// The server begins an answer when it has committed, so a client whose answer is cut off does not know of a write that stands.
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
        });
        let (server, shared) = (server.to_owned(), Arc::clone(&counts));
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(connect(client, server.clone(), Arc::clone(&shared)));
            }
        });
        Self { address, counts, accepting: accepting.abort_handle() }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cuts the connection at each of the next so many answers.
    pub fn cut_next(&self, answers: usize) {
        self.counts.to_cut.store(answers, Ordering::SeqCst);
    }

    /// Cuts the connection at the answer after the next so many.
    pub fn cut_after(&self, answers: usize) {
        self.counts.to_pass.store(answers, Ordering::SeqCst);
        self.cut_next(1);
    }

    /// Holds back the answer after the next so many, until [`Proxy::release`].
    pub fn hold_after(&self, answers: usize) {
        self.counts.to_pass.store(answers, Ordering::SeqCst);
        self.counts.to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits until an answer is held back.
    pub async fn held(&self) {
        self.counts.held.notified().await;
    }

    /// Lets the answer go that is held back.
    pub fn release(&self) {
        self.counts.release.notify_one();
    }

    /// How many of the answers that were to be cut are still to come.
    pub fn left_to_cut(&self) -> usize {
        self.counts.to_cut.load(Ordering::SeqCst)
    }

    /// Connections that clients have made so far, those that have ended included.
    pub fn connections(&self) -> usize {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Answers that the server has begun so far, those cut off included.
    pub fn answers(&self) -> usize {
        self.counts.answers.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection, until either side or the proxy ends it.
async fn connect(client: TcpStream, server: String, counts: Arc<Counts>) {
    // A server that is down is a connection that is closed at once.
    let Ok(server) = TcpStream::connect(server).await else { return };
    if counts.cut == Cut::Reset {
        // Whatever is not sent yet is lost when the socket is dropped.
        client.set_zero_linger().unwrap();
    }
    let (from_client, mut to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let questions = tokio::spawn(pass(from_client, to_server));
    // Ends with the server, with the client, or with the answer that is cut.
    let _ = answers(from_server, &mut to_client, &counts).await;
    // Both halves of the client's socket are dropped, which ends it.
    questions.abort();
    let _ = questions.await;
}

/// Passes on what the client says.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _ = tokio::io::copy(&mut from, &mut to).await;
}

/// Passes on what the server says, frame by frame.
async fn answers(
    mut from: OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    counts: &Counts,
) -> std::io::Result<()> {
    let mut newest_stream = 0;
    loop {
        let mut head = [0; FRAME_HEAD];
        from.read_exact(&mut head).await?;
        let [l0, l1, l2, kind, _, s0, s1, s2, s3] = head;
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        // The second one of a stream holds its trailers. Clients number their streams upwards; an answer may be overtaken,
        // which the tests avoid by having one call in flight.
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
                    to.write_all(&head).await?;
                    to.write_all(&payload).await?;
                }
                return Ok(());
            }
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload).await?;
        to.write_all(&head).await?;
        to.write_all(&payload).await?;
    }
}
