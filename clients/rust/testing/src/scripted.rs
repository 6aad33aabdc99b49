//! A server with scripted answers, for statuses that a real server sends only under load.
#![expect(clippy::unwrap_used, reason = "a failure here fails the calling test")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};
use tonic::Status;

/// The bytes of a message, or a status.
type Answer = Result<Vec<u8>, Status>;

#[derive(Debug)]
struct Call {
    path: String,
    headers: HeaderMap,
    /// With the five bytes before each message.
    body: Vec<u8>,
}

/// Answers every call by its path, such as `/sessiond.v1.EventService/AppendEvent`, and records it.
#[derive(Debug)]
pub struct ScriptedServer {
    address: String,
    calls: Arc<Mutex<Vec<Call>>>,
    accepting: AbortHandle,
}

impl ScriptedServer {
    /// Listens on a free port.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let calls = Arc::default();
        let (answer, recorded) = (Arc::new(answer), Arc::clone(&calls));
        let accepting = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(client, Arc::clone(&answer), Arc::clone(&recorded)));
            }
        });
        Self { address, calls, accepting: accepting.abort_handle() }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// The paths of the calls so far, in order.
    pub fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|call| call.path.clone()).collect()
    }

    /// The messages of the calls so far, one for each, as far as they have come.
    pub fn messages(&self) -> Vec<Vec<u8>> {
        let message = |call: &Call| call.body.get(5..).unwrap_or_default().to_vec();
        self.calls.lock().unwrap().iter().map(message).collect()
    }

    /// The values that the calls so far have sent under a name, or "".
    pub fn headers(&self, name: &str) -> Vec<String> {
        let text = |call: &Call| {
            call.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        self.calls.lock().unwrap().iter().map(text).collect()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Serves one connection until the client closes it.
async fn serve(
    client: TcpStream,
    answer: Arc<impl Fn(&str) -> Answer + Send + Sync + 'static>,
    calls: Arc<Mutex<Vec<Call>>>,
) {
    let mut connection = h2::server::handshake(client).await.unwrap();
    while let Some(Ok((request, respond))) = connection.accept().await {
        let path = request.uri().path().to_owned();
        let answer = answer(&path);
        let (headers, body) = (request.headers().clone(), Vec::new());
        let number = {
            let mut calls = calls.lock().unwrap();
            calls.push(Call { path, headers, body });
            calls.len() - 1
        };
        let recorded = Arc::clone(&calls);
        let record = move |piece: &[u8]| recorded.lock().unwrap()[number].body.extend(piece);
        // On its own task, because bodies are received only while `accept` is polled.
        tokio::spawn(respond_with(answer, record, request, respond));
    }
}

async fn respond_with(
    answer: Answer,
    record: impl Fn(&[u8]),
    mut request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    while let Some(Ok(piece)) = request.body_mut().data().await {
        record(&piece);
        let _ = request.body_mut().flow_control().release_capacity(piece.len());
    }
    // The client may have disconnected, which is not an error of the test.
    let _ = match answer {
        Ok(message) => send(&message, &mut respond),
        Err(status) => respond.send_response(status.into_http(), true).map(drop),
    };
}

/// Sends one gRPC message and the status OK.
fn send(message: &[u8], respond: &mut SendResponse<Bytes>) -> Result<(), h2::Error> {
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
