//! HTTP/2 without a gRPC library: requests that do not end, and answers that are not taken.

use std::{
    future::poll_fn,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{BufMut as _, Bytes, BytesMut};
use h2::{
    SendStream,
    client::{Builder, ResponseFuture, SendRequest},
};
use http::{HeaderMap, Method, Request};
use prost::Message;
use tokio::net::TcpStream;
use tonic::Code;

/// Bytes that the server may send before they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windows {
    /// As many as those of clients in Rust, which take all answers.
    Usual,
    Zero,
}

#[derive(Clone)]
pub struct Connection {
    requests: SendRequest<Bytes>,
    authority: Arc<str>,
    has_ended: Arc<AtomicBool>,
}

/// A call that has begun. It is cancelled when it is dropped.
pub struct Stream {
    pub response: ResponseFuture,
    pub body: SendStream<Bytes>,
}

/// A message as gRPC frames it.
pub fn frame(message: &impl Message) -> Bytes {
    let bytes = message.encode_to_vec();
    let mut frame = prefix(bytes.len());
    frame.extend_from_slice(&bytes);
    frame.freeze()
}

/// The header of a message of this length.
pub fn prefix(bytes: usize) -> BytesMut {
    let mut prefix = BytesMut::with_capacity(5 + bytes);
    prefix.put_u8(0);
    prefix.put_u32(u32::try_from(bytes).unwrap_or(u32::MAX));
    prefix
}

impl Connection {
    pub async fn open(address: &str, windows: Windows) -> Result<Self, io::Error> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let mut builder = Builder::new();
        builder.enable_push(false).max_local_error_reset_streams(None);
        match windows {
            // The defaults of hyper.
            Windows::Usual => {
                builder.initial_window_size(2 << 20).initial_connection_window_size(5 << 20)
            }
            Windows::Zero => builder.initial_window_size(0),
        };
        let (requests, connection) = builder.handshake(socket).await.map_err(io::Error::other)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        tokio::spawn(async move {
            // Its calls report the error.
            let _ = connection.await;
            ended.store(true, Ordering::Relaxed);
        });
        Ok(Self { requests, authority: address.into(), has_ended })
    }

    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Begins a call, as soon as the server takes the one that was begun before.
    pub async fn begin(&mut self, path: &str, token: Option<&str>) -> Result<Stream, io::Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(()).map_err(io::Error::other)?;
        poll_fn(|context| self.requests.poll_ready(context)).await.map_err(io::Error::other)?;
        let begun = self.requests.send_request(request, false);
        let (response, body) = begun.map_err(io::Error::other)?;
        Ok(Stream { response, body })
    }

    /// Sends a call and reads its response. An error if the stream ends without one.
    pub async fn call(
        &mut self,
        path: &str,
        token: &str,
        message: Bytes,
    ) -> Result<Code, io::Error> {
        let stream = self.begin(path, Some(token)).await?;
        let code = answer(stream, message).await.map_err(io::Error::other)?;
        code.ok_or_else(|| io::Error::other("the answer has no status"))
    }
}

async fn answer(mut stream: Stream, message: Bytes) -> Result<Option<Code>, h2::Error> {
    stream.body.send_data(message, true)?;
    let (head, mut body) = stream.response.await?.into_parts();
    while let Some(data) = body.data().await {
        let taken = data?.len();
        body.flow_control().release_capacity(taken)?;
    }
    let trailers = body.trailers().await?;
    Ok(trailers.as_ref().and_then(code).or_else(|| code(&head.headers)))
}

fn code(headers: &HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|status| Code::from_bytes(status.as_bytes()))
}
