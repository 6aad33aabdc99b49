//! Connect in the place of gRPC: what a client of gRPC sends goes over HTTP in JSON, and the answer comes back as if it had not.

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    task::{Context, Poll},
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{body::Frame, client::conn::http1};
use hyper_util::rt::TokioIo;
use prost::{
    Message as _,
    bytes::{Buf as _, Bytes},
};
use prost_reflect::{DynamicMessage, MethodDescriptor};
use prost_types::Any;
use serde_json::Value as Json;
use tokio::net::UnixStream;
use tonic::{
    Code, Status,
    body::Body,
    codegen::{BoxFuture, Service, http},
};

use crate::calls;

/// A way to the HTTP listener on a Unix socket.
#[derive(Clone)]
pub struct OverHttp(PathBuf);

impl OverHttp {
    pub fn new(socket: &Path) -> Self {
        Self(socket.to_owned())
    }
}

impl Service<http::Request<Body>> for OverHttp {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(called(self.0.clone(), request))
    }
}

/// Bytes before a message.
const HEADER: usize = 5;

async fn called(
    socket: PathBuf,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let name = parts.uri.path().rsplit('/').next().unwrap();
    let method = calls::method(name);
    let sent = body.collect().await.unwrap().to_bytes().slice(HEADER..);
    let message = DynamicMessage::decode(method.input(), sent).unwrap();
    let json = serde_json::to_vec(&message).unwrap();
    let is_stream = method.is_server_streaming();
    let (kind, json) = match is_stream {
        true => ("application/connect+json", framed(&json)),
        false => ("application/json", json),
    };
    let mut call = http::Request::post(parts.uri.path())
        .header("host", "localhost")
        .header("content-type", kind);
    if let Some(token) = parts.headers.get("authorization") {
        call = call.header("authorization", token);
    }
    let io = TokioIo::new(UnixStream::connect(socket).await.unwrap());
    let (mut sender, connection) = http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let answer = sender.send_request(call.body(Full::<Bytes>::from(json)).unwrap()).await.unwrap();
    // The connection lasts as long as its sender.
    Ok(match (is_stream, answer.status().is_success()) {
        (true, true) => streamed(answer, method, sender),
        _ => unary(answer, &method).await,
    })
}

async fn unary(
    answer: http::Response<hyper::body::Incoming>,
    method: &MethodDescriptor,
) -> http::Response<Body> {
    let is_ok = answer.status().is_success();
    let json: Json =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    if !is_ok {
        return status(&json).into_http();
    }
    let frames = [binary(&json, method), ended(&Status::new(Code::Ok, ""))];
    of_frames(futures_util::stream::iter(frames.map(Ok::<_, Status>)))
}

fn streamed<S: Send + 'static>(
    answer: http::Response<hyper::body::Incoming>,
    method: MethodDescriptor,
    sender: S,
) -> http::Response<Body> {
    let state = (answer.into_body(), Vec::new(), sender, false);
    of_frames(futures_util::stream::unfold(state, move |(mut body, mut come, sender, is_ended)| {
        let method = method.clone();
        async move {
            if is_ended {
                return None;
            }
            loop {
                if let Some((is_end, json)) = envelope(&mut come) {
                    let frame = match is_end {
                        false => binary(&json, &method),
                        true if json["error"].is_null() => ended(&Status::new(Code::Ok, "")),
                        true => ended(&status(&json["error"])),
                    };
                    return Some((Ok::<_, Status>(frame), (body, come, sender, is_end)));
                }
                let frame = body.frame().await.expect("an end").unwrap();
                come.extend_from_slice(&frame.into_data().unwrap());
            }
        }
    }))
}

/// Takes an envelope from what has come; whether it is the end, and its JSON.
fn envelope(come: &mut Vec<u8>) -> Option<(bool, Json)> {
    let (mut header, length) = (come.get(..HEADER)?, come.len());
    let flags = header.get_u8();
    let end = HEADER + usize::try_from(header.get_u32()).unwrap();
    if length < end {
        return None;
    }
    let json = serde_json::from_slice(&come[HEADER..end]).unwrap();
    come.drain(..end);
    Some((flags & 2 != 0, json))
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0], &length[..], message].concat()
}

fn binary(json: &Json, method: &MethodDescriptor) -> Frame<Bytes> {
    let message = DynamicMessage::deserialize(method.output(), json).unwrap();
    Frame::data(framed(&message.encode_to_vec()).into())
}

fn ended(status: &Status) -> Frame<Bytes> {
    let mut trailers = http::HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    Frame::trailers(trailers)
}

fn of_frames(
    frames: impl futures_util::Stream<Item = Result<Frame<Bytes>, Status>> + Send + 'static,
) -> http::Response<Body> {
    let body = Body::new(StreamBody::new(frames));
    http::Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

#[derive(prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

fn status(error: &Json) -> Status {
    let text = |it: &Json| it.as_str().unwrap_or_default().to_owned();
    let codes = (0..17).map(Code::from_i32);
    let name = text(&error["code"]).replace("canceled", "cancelled");
    let is_named = |it: &Code| sessiond::proto::code_name(*it).eq_ignore_ascii_case(&name);
    let code = codes.into_iter().find(is_named).expect("a code");
    let detail = |it: &Json| Any {
        type_url: format!("type.googleapis.com/{}", text(&it["type"])),
        value: STANDARD_NO_PAD.decode(text(&it["value"])).unwrap(),
    };
    let details = error["details"].as_array().into_iter().flatten().map(detail).collect();
    let message = text(&error["message"]);
    let whole = RpcStatus { code: code as i32, message: message.clone(), details };
    Status::with_details(code, message, whole.encode_to_vec().into())
}
