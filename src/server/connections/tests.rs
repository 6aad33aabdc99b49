//! Connections of clients that send what they like.

use std::sync::OnceLock;

use futures_util::FutureExt as _;
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream, duplex},
    task::unconstrained,
    time::{Instant, advance, pause},
};
use tonic::service::Routes;

use super::*;
use crate::{
    domain::limits::MESSAGE_BYTES,
    server::identity::Caller,
    store::{Condition, account::Account},
};

#[tokio::test]
async fn the_preface_is_read_as_far_as_it_is_one() {
    for (sent, expected) in [
        (PREFACE.to_vec(), PREFACE.to_vec()),
        ([PREFACE, b"more"].concat(), PREFACE.to_vec()),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), b"GET / HTTP/1.1\r\n\r\n".to_vec()),
        (b"PRI".to_vec(), b"PRI".to_vec()),
        (Vec::new(), Vec::new()),
    ] {
        assert_eq!(preface(&mut sent.as_slice()).await.unwrap(), expected);
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test looks how long a connection lived")]
async fn a_connection_without_a_preface_is_closed() {
    pause();
    let phase = watch::Sender::new(Phase::Open(Condition::Ready));
    let dispatch = || dispatch(Arc::default(), &phase, account());
    let watcher = || GracefulShutdown::new().watcher();
    let began = Instant::now();
    let (mut client, server) = duplex(64);
    client.write_all(b"PRI * HT").await.unwrap();
    connection(server, dispatch(), None, phase.subscribe(), watcher()).await;
    assert_eq!(began.elapsed().as_secs(), PREFACE_TIMEOUT_SECS);
    phase.send_replace(Phase::Draining);
    let (_client, server) = duplex(64);
    connection(server, dispatch(), None, phase.subscribe(), watcher()).await;
    assert_eq!(began.elapsed().as_secs(), PREFACE_TIMEOUT_SECS, "at once");
}

/// An account of the largest answers.
fn account() -> Account {
    Account::new(FITTING as usize * MESSAGE_BYTES, || {})
}

fn dispatch(
    services: Arc<OnceLock<Routes>>,
    phase: &watch::Sender<Phase>,
    account: Account,
) -> Dispatch {
    let (in_flight, notes) = Default::default();
    Dispatch::new(services, phase.subscribe(), in_flight, account, notes)
}

/// A connection of a client that has sent these frames, its other end, and the phase of the server.
async fn sent(
    caller: Option<Arc<Caller>>,
    frames: Vec<u8>,
) -> (impl Future<Output = ()>, DuplexStream, watch::Sender<Phase>) {
    let (served, mut client, phase) = begun(Arc::default(), caller, account());
    // Length, kind, flags, stream.
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    client.write_all(&[PREFACE, &settings, &frames].concat()).await.unwrap();
    (served, client, phase)
}

/// A connection on which nothing has come, its other end, and the phase of the server.
fn begun(
    services: Arc<OnceLock<Routes>>,
    caller: Option<Arc<Caller>>,
    account: Account,
) -> (impl Future<Output = ()>, DuplexStream, watch::Sender<Phase>) {
    let (client, server) = duplex(1 << 20);
    let phase = watch::Sender::new(Phase::Open(Condition::Ready));
    let dispatch = dispatch(services, &phase, account).with_caller(
        caller,
        Arc::default(),
        Arc::default(),
        Way::Grpc,
    );
    let watcher = GracefulShutdown::new().watcher();
    (connection(server, dispatch, None, phase.subscribe(), watcher), client, phase)
}

const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0a ping's";

fn pings(answers: &[u8]) -> usize {
    answers.windows(8).filter(|bytes| bytes == b"a ping's").count()
}

#[tokio::test]
async fn a_connection_lets_others_run_between_its_reads() {
    let (served, mut client, _phase) = sent(None, PING.repeat(10_000)).await;
    let mut served = pin!(unconstrained(served));
    let mut answers = Vec::new();
    for answered in [2_000..6_000, 4_000..9_999, 10_000..10_001] {
        assert!(futures_util::poll!(&mut served).is_pending());
        while let Some(read) = client.read_buf(&mut answers).now_or_never() {
            read.unwrap();
        }
        assert!(answered.contains(&pings(&answers)), "{}", pings(&answers));
    }
}

#[tokio::test]
async fn a_connection_outlives_a_backlog_of_calls_that_were_given_up() {
    let given_up = (0..20_000_u32).flat_map(|call| {
        let stream = (2 * call + 1).to_be_bytes();
        let headers = [b"\0\0\x03\x01\x04", &stream[..], b"\x83\x86\x84"];
        let reset = [b"\0\0\x04\x03\0", &stream[..], b"\0\0\0\x08"];
        [headers, reset].concat().concat()
    });
    let frames = given_up.chain(PING.iter().copied()).collect();
    let (served, mut client, _phase) = sent(None, frames).await;
    tokio::spawn(served);
    let mut answers = Vec::new();
    while pings(&answers) == 0 {
        let read = client.read_buf(&mut answers).await.unwrap();
        assert_ne!(read, 0, "the server ended the connection");
    }
}

/// The largest answers that an account holds.
const FITTING: u32 = 20;

#[tokio::test]
async fn a_client_that_leaves_too_many_answers_unread_loses_its_connection() {
    const ANSWER: &[u8] = &[0; MESSAGE_BYTES];
    pause();
    let answer = axum::routing::post(async || ANSWER);
    let routes: Routes = axum::Router::new().route("/", answer).into();
    let services = Arc::new(routes.into());
    let account = account();
    // Two others hold as much as a connection may.
    let others = [(); 2].map(|()| account.connection(true).item());
    others.iter().for_each(|it| it.take(FITTING as usize / 4 * MESSAGE_BYTES).unwrap());
    let (served, mut client, _phase) = begun(services, None, account);
    let served = tokio::spawn(served);
    // Windows of no bytes, and calls that end with their headers.
    let windows = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
    client.write_all(&[PREFACE, windows].concat()).await.unwrap();
    let headers = |number: u32| {
        let stream = (2 * number + 1).to_be_bytes();
        [b"\0\0\x03\x01\x05", &stream[..], b"\x83\x86\x84"].concat()
    };
    let mut calls = async |frames: Vec<u8>| {
        client.write_all(&frames).await.unwrap();
        let mut is_open = true;
        // After a few pings the calls have their answers.
        for _ in 0..10 {
            let mut answers = Vec::new();
            is_open = is_open && client.write_all(PING).await.is_ok();
            while is_open && pings(&answers) == 0 {
                is_open = client.read_buf(&mut answers).await.unwrap() > 0;
            }
        }
        is_open
    };
    for number in 0..FITTING / 4 {
        assert!(calls(headers(number)).await, "{number} are unread");
    }
    assert!(calls(headers(FITTING)).await, "it is refused, and the client may still read");
    advance(Duration::from_secs(6)).await;
    assert!(!calls(headers(FITTING + 1)).await);
    served.await.unwrap();
}
