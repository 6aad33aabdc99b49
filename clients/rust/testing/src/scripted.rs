//! A server that answers as it is told: what a real one says only when it is pressed, or never.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test that called it")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tonic::Status;

/// What a call is answered: the bytes of a message, or a refusal.
type Answer = Result<Vec<u8>, Status>;

/// Answers every call by its path, such as `/sessiond.v1.EventService/AppendEvent`, and remembers which have come.
#[derive(Debug)]
pub struct Scripted {
    address: String,
    calls: Arc<Mutex<Vec<String>>>,
    accepting: AbortHandle,
}

impl Scripted {
    /// Listens on a free port.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::default();
        let (answer, remembered) = (Arc::new(answer), Arc::clone(&calls));
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client, Arc::clone(&answer), Arc::clone(&remembered)));
            }
        });
        Self { address, calls, accepting: accepting.abort_handle() }
    }

    /// Where it listens, as `SessiondSessionService::builder` takes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The paths of the calls so far, in the order in which they came.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One connection, until its client leaves.
async fn serve(
    client: TcpStream,
    answer: Arc<impl Fn(&str) -> Answer + Send + Sync + 'static>,
    calls: Arc<Mutex<Vec<String>>>,
) {
    let mut connection = h2::server::handshake(client).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let path = request.uri().path().to_owned();
        let answer = answer(&path);
        calls.lock().unwrap().push(path);
        // On a task of its own, as nothing is received while nobody accepts.
        tokio::spawn(respond_with(answer, request, respond));
    }
}

async fn respond_with(
    answer: Answer,
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    while let Some(Ok(piece)) = request.body_mut().data().await {
        let _ = request.body_mut().flow_control().release_capacity(piece.len());
    }
    // A client that has left meanwhile is none of a test's business.
    let _ = match answer {
        Ok(message) => say(&message, &mut respond),
        Err(status) => respond.send_response(status.into_http(), true).map(drop),
    };
}

/// One message in the frame of gRPC, and that all is well.
fn say(message: &[u8], respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
    let head = Response::builder().header("content-type", "application/grpc");
    let mut body = respond.send_response(head.body(()).unwrap(), false)?;
    let length = u32::try_from(message.len()).unwrap();
    let frame = [&[0], &length.to_be_bytes()[..], message].concat();
    body.send_data(frame.into(), false)?;
    body.send_trailers(HeaderMap::from_iter([(
        "grpc-status".parse().unwrap(),
        HeaderValue::from_static("0"),
    )]))
}
