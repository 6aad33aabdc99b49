//! Calls with messages that were encoded beforehand, so that the client takes little of the
//! processor that it shares with the server.

use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tokio_stream::Stream;
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming},
    codegen::http::uri::PathAndQuery,
    transport::Channel,
};

/// Larger than any answer.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A call as it is sent again and again.
#[derive(Debug, Clone)]
pub struct Call {
    /// `/sessiond.v1.Service/Method`.
    path: PathAndQuery,
    /// The encoded request.
    pub message: Bytes,
}

impl Call {
    /// A call of the method at `path` with `request`.
    pub fn new(path: &'static str, request: &impl prost::Message) -> Self {
        Self { path: PathAndQuery::from_static(path), message: request.encode_to_vec().into() }
    }
}

/// A connection that moves encoded messages.
#[derive(Debug, Clone)]
pub struct RawClient(Grpc<Channel>);

impl RawClient {
    /// Over a connection, which others may share.
    pub fn new(channel: Channel) -> Self {
        Self(Grpc::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES))
    }

    /// Sends a request and waits for its answer, which stays encoded.
    ///
    /// # Errors
    ///
    /// The server's status, or the transport's.
    pub async fn unary(&mut self, call: &Call) -> Result<Bytes, Status> {
        self.ready().await?;
        let request = Request::new(call.message.clone());
        Ok(self.0.unary(request, call.path.clone(), RawCodec).await?.into_inner())
    }

    /// Opens a stream in both directions.
    ///
    /// # Errors
    ///
    /// The server's status, or the transport's.
    pub async fn stream(
        &mut self,
        path: &'static str,
        requests: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Result<Streaming<Bytes>, Status> {
        self.ready().await?;
        let path = PathAndQuery::from_static(path);
        Ok(self.0.streaming(Request::new(requests), path, RawCodec).await?.into_inner())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }
}

/// Moves bytes as they are.
#[derive(Debug, Clone, Copy)]
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
