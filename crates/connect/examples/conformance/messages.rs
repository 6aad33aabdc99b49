//! The messages of the suite's contract that its server needs.

use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

use super::metadata;

#[derive(Clone, Message)]
pub struct ServerCompatRequest {
    #[prost(uint32, tag = "6")]
    pub message_receive_limit: u32,
}

#[derive(Clone, Message)]
pub struct ServerCompatResponse {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(uint32, tag = "2")]
    pub port: u32,
}

#[derive(Clone, Message)]
pub struct Header {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub value: Vec<String>,
}

#[derive(Clone, Message)]
pub struct Definition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub data: Option<Vec<u8>>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<Fault>,
    #[prost(message, repeated, tag = "4")]
    pub trailers: Vec<Header>,
    #[prost(uint32, tag = "6")]
    pub delay_ms: u32,
}

#[derive(Clone, Message)]
pub struct StreamDefinition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub data: Vec<Vec<u8>>,
    #[prost(uint32, tag = "3")]
    pub delay_ms: u32,
    #[prost(message, optional, tag = "4")]
    pub error: Option<Fault>,
    #[prost(message, repeated, tag = "5")]
    pub trailers: Vec<Header>,
}

/// Also `IdempotentUnaryRequest`.
#[derive(Clone, Message)]
pub struct UnaryRequest {
    #[prost(message, optional, tag = "1")]
    pub definition: Option<Definition>,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

#[derive(Clone, Message)]
pub struct ServerStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub definition: Option<StreamDefinition>,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
}

/// `UnaryResponse`, `IdempotentUnaryResponse` and `ServerStreamResponse`.
#[derive(Clone, Message)]
pub struct PayloadAnswer {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

#[derive(Clone, Message)]
pub struct Payload {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub info: Option<RequestInfo>,
}

#[derive(Clone, Message)]
pub struct RequestInfo {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(int64, optional, tag = "2")]
    pub timeout_ms: Option<i64>,
    #[prost(message, repeated, tag = "3")]
    pub requests: Vec<Any>,
}

impl RequestInfo {
    pub const NAME: &str = "ConformancePayload.RequestInfo";
}

#[derive(Clone, Message)]
pub struct Fault {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, optional, tag = "2")]
    pub message: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

#[derive(Clone, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

impl Fault {
    pub fn into_status(self, headers: &[Header], more: Vec<Any>) -> Status {
        let message = self.message.unwrap_or_default();
        let details = [self.details, more].concat();
        let status = RpcStatus { code: self.code, message: message.clone(), details };
        let details = status.encode_to_vec().into();
        let code = Code::from_i32(self.code);
        Status::with_details_and_metadata(code, message, details, metadata(headers))
    }
}
