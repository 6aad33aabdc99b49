//! A connection outlives answers to calls that were given up.

use std::io;

use futures_util::future::{join_all, select};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::oneshot,
};

use crate::{cli::connect::*, proto::v1};

/// More than the HTTP/2 library bears by default: it ends the connection, with all its calls, after 1024 answers to calls that it has
/// forgotten.
const CALLS: usize = 1_200;

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Answers all calls once each of them was given up, and a ping after them. Tells when all have come. Ends with the answer to the ping.
async fn answer_late(listener: TcpListener, have_come: oneshot::Sender<()>) -> io::Result<()> {
    let (mut connection, _) = listener.accept().await?;
    connection.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    connection.write_all(&frame(WINDOW_UPDATE, 0, 0, &[0, 16, 0, 0])).await?;
    connection.read_exact(&mut [0; 24]).await?;
    let (mut have_come, mut calls, mut resets) = (Some(have_come), Vec::new(), 0);
    loop {
        let mut head = [0; 9];
        connection.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        connection.read_exact(&mut vec![0; length as usize]).await?;
        match head[3] {
            HEADERS => calls.push(u32::from_be_bytes([head[5], head[6], head[7], head[8]])),
            RESET => resets += 1,
            PING if head[4] == 1 => return Ok(()),
            _ => continue,
        }
        if calls.len() == CALLS {
            have_come.take().map(|have_come| have_come.send(()));
        }
        if resets == CALLS {
            let answers = calls.drain(..).flat_map(|call| frame(HEADERS, 5, call, b"\x88"));
            let answers: Vec<u8> = answers.chain(frame(PING, 0, 0, b"a ping's")).collect();
            connection.write_all(&answers).await?;
        }
    }
}

#[tokio::test]
async fn a_connection_outlives_late_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let (sender, have_come) = oneshot::channel();
    let answering = tokio::spawn(answer_late(listener, sender));
    let (tls, token) = (TlsArgs::default(), TokenArgs::default());
    let args = ConnectArgs { server, timeout: Duration::ZERO, tls, token, output: None };
    let server = Server::connect(&args).await.unwrap();
    let call = async |_| server.sessions().get_session(v1::GetSessionRequest::default()).await;
    // The calls are given up.
    drop(select(Box::pin(join_all((0..CALLS).map(call))), have_come).await);
    answering.await.unwrap().expect("the connection is there");
}
