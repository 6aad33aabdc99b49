//! A server for the conformance suite of Connect, which starts it and tells it how to serve on standard input. Its argument is the folder
//! of the suite's contract: `cargo run --example conformance -- FOLDER`.

use std::{
    convert::Infallible,
    error::Error,
    future::{Ready, ready},
    io::{Read as _, Write as _, stdin, stdout},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, HeaderName};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::Any;
use sessiond_connect::{Connect, Options, Refused};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codec::{CompressionEncoding, EnabledCompressionEncodings},
    codegen::{BoxFuture, Service},
    metadata::MetadataMap,
    server::{Grpc, ServerStreamingService},
};
use tonic_prost::ProstCodec;
use tonic_web::GrpcWebLayer;
use tower_layer::Layer as _;

mod messages;

use messages::{
    Definition, Header, Payload, PayloadAnswer, RequestInfo, ServerCompatRequest,
    ServerCompatResponse, ServerStreamRequest, StreamDefinition, UnaryRequest,
};

const SERVICE: &str = "/connectrpc.conformance.v1.ConformanceService/";

/// Bytes of a message if the suite sets no limit.
const MESSAGE_BYTES: usize = 4 << 20;

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "its only argument, and no flag")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("the folder of the contract is missing")?;
    let mut pool = DescriptorPool::new();
    let service = "connectrpc/conformance/v1/service.proto";
    pool.add_file_descriptor_set(protox::compile([service], [folder])?)?;
    let mut length = [0; 4];
    stdin().read_exact(&mut length)?;
    let mut wanted = vec![0; u32::from_be_bytes(length) as usize];
    stdin().read_exact(&mut wanted)?;
    let wanted = ServerCompatRequest::decode(&*wanted)?;
    let message_bytes = match wanted.message_receive_limit {
        0 => MESSAGE_BYTES,
        limit => limit as usize,
    };
    let options = Options { pool, message_bytes, refusal };
    let service = Conformance { message_bytes };
    let web = GrpcWebLayer::new().layer(service.clone());
    let connect = Connect::new(service, options);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = u32::from(listener.local_addr()?.port());
    let answer = ServerCompatResponse { host: "127.0.0.1".into(), port }.encode_to_vec();
    stdout().write_all(&u32::try_from(answer.len())?.to_be_bytes())?;
    stdout().write_all(&answer)?;
    stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (connect, web) = (connect.clone(), web.clone());
        let service = service_fn(move |request: http::Request<Incoming>| {
            let (mut connect, mut web) = (connect.clone(), web.clone());
            async move {
                // A connection that ends before a client has sent its request fails it.
                let (parts, body) = request.into_parts();
                let body = Full::from(body.collect().await?.to_bytes());
                let kind = parts.headers.get("content-type").map(|it| it.as_bytes());
                let is_web = kind.is_some_and(|it| it.starts_with(b"application/grpc-web"));
                if is_web {
                    let Ok(answer) = web.call(http::Request::from_parts(parts, body)).await;
                    return Ok(answer);
                }
                let Ok(answer) = match connect.read(&parts) {
                    Ok(call) => connect.pass(call, parts, body).await,
                    Err(refusal) => Ok(*refusal),
                };
                Ok::<_, hyper::Error>(answer)
            }
        });
        tokio::spawn(async move {
            let http = auto::Builder::new(TokioExecutor::new());
            // The client may leave.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn refusal(refused: Refused) -> Status {
    match refused {
        Refused::Invalid(cause, advice) => Status::invalid_argument(format!("{cause}. {advice}")),
        Refused::NotOne => Status::unimplemented("Send one message."),
        Refused::Flags => Status::internal("The message is compressed."),
        Refused::TooLarge => Status::resource_exhausted("The message is too large."),
        Refused::ClientStreams => Status::unimplemented("Client streams are not served."),
        Refused::Deadline => Status::deadline_exceeded("The deadline has passed."),
        Refused::Compression => Status::unimplemented("The compression is not known."),
    }
}

#[derive(Clone)]
struct Conformance {
    message_bytes: usize,
}

impl Service<http::Request<Body>> for Conformance {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let limit = self.message_bytes;
        let mut gzip = EnabledCompressionEncodings::default();
        gzip.enable(CompressionEncoding::Gzip);
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            Ok(match path.strip_prefix(SERVICE) {
                Some(name @ ("Unary" | "IdempotentUnary")) => {
                    let codec = ProstCodec::<PayloadAnswer, UnaryRequest>::default();
                    let mut grpc = Grpc::new(codec)
                        .max_decoding_message_size(limit)
                        .apply_compression_config(gzip, EnabledCompressionEncodings::default());
                    grpc.server_streaming(Unary(format!("{name}Request")), request).await
                }
                Some("ServerStream") => {
                    let codec = ProstCodec::<PayloadAnswer, ServerStreamRequest>::default();
                    let mut grpc = Grpc::new(codec)
                        .max_decoding_message_size(limit)
                        .apply_compression_config(gzip, EnabledCompressionEncodings::default());
                    grpc.server_streaming(Streamed, request).await
                }
                // The suite calls one that no service has.
                _ => Status::unimplemented("No service has this method.").into_http(),
            })
        })
    }
}

struct Unary(String);

/// An answer of one message, with trailers.
impl ServerStreamingService<UnaryRequest> for Unary {
    type Response = PayloadAnswer;
    type ResponseStream = Answers;
    type Future = BoxFuture<Response<Answers>, Status>;

    fn call(&mut self, request: Request<UnaryRequest>) -> Self::Future {
        let kind = std::mem::take(&mut self.0);
        Box::pin(async move {
            let definition = request.get_ref().definition.clone().unwrap_or_default();
            let info = info(request.metadata(), &kind, request.get_ref());
            let deadline = info.timeout_ms.map(|it| Duration::from_millis(it.unsigned_abs()));
            let delay = Duration::from_millis(definition.delay_ms.into());
            if timeout(deadline.unwrap_or(Duration::MAX), sleep(delay)).await.is_err() {
                return Err(Status::deadline_exceeded("The deadline has passed."));
            }
            let Definition { headers, trailers, error, data, .. } = definition;
            if let Some(error) = error {
                let detail = Any { type_url: url(RequestInfo::NAME), value: info.encode_to_vec() };
                let end = error.into_status(&trailers, vec![detail]);
                return Ok(answers(&headers, stream::empty(), end));
            }
            let payload = Payload { data: data.unwrap_or_default(), info: Some(info) };
            let answer = ready(Ok(PayloadAnswer { payload: Some(payload) }));
            let end = Status::with_metadata(Code::Ok, "", metadata(&trailers));
            Ok(answers(&headers, stream::once(answer), end))
        })
    }
}

struct Streamed;

type Answers = Pin<Box<dyn Stream<Item = Result<PayloadAnswer, Status>> + Send>>;

impl ServerStreamingService<ServerStreamRequest> for Streamed {
    type Response = PayloadAnswer;
    type ResponseStream = Answers;
    type Future = Ready<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<ServerStreamRequest>) -> Self::Future {
        let info = info(request.metadata(), "ServerStreamRequest", request.get_ref());
        let definition = request.into_inner().definition.unwrap_or_default();
        let StreamDefinition { headers, data, delay_ms, error, trailers } = definition;
        let delay = Duration::from_millis(delay_ms.into());
        let is_empty = data.is_empty();
        let detail = Any { type_url: url(RequestInfo::NAME), value: info.encode_to_vec() };
        let infos = std::iter::once(Some(info)).chain(std::iter::repeat(None));
        let parts = data
            .into_iter()
            .zip(infos)
            .map(|(data, info)| PayloadAnswer { payload: Some(Payload { data, info }) });
        let parts = stream::iter(parts.collect::<Vec<_>>()).then(move |answer| async move {
            sleep(delay).await;
            Ok(answer)
        });
        let end = match error {
            // The properties of a request are told once.
            Some(error) => {
                let details = if is_empty { vec![detail] } else { Vec::new() };
                error.into_status(&trailers, details)
            }
            None => Status::with_metadata(Code::Ok, "", metadata(&trailers)),
        };
        ready(Ok(answers(&headers, parts, end)))
    }
}

fn answers(
    headers: &[Header],
    parts: impl Stream<Item = Result<PayloadAnswer, Status>> + Send + 'static,
    end: Status,
) -> Response<Answers> {
    let answers = parts.chain(stream::once(ready(Err(end))));
    let mut response = Response::new(Box::pin(answers) as Answers);
    *response.metadata_mut() = metadata(headers);
    response
}

fn url(name: &str) -> String {
    format!("type.googleapis.com/connectrpc.conformance.v1.{name}")
}

/// What the server has seen of a request.
fn info(sent: &MetadataMap, kind: &str, request: &impl Message) -> RequestInfo {
    let headers: HeaderMap = sent.clone().into_headers();
    let value = |name| headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
    let headers_seen = headers.keys().map(|name| Header {
        name: name.to_string(),
        value: value(name).map(str::to_owned).collect(),
    });
    let timeout = headers.get("grpc-timeout").and_then(|it| it.to_str().ok());
    let timeout_ms = timeout.and_then(|text| {
        let (count, unit) = text.split_at(text.len() - 1);
        let count: i64 = count.parse().ok()?;
        Some(match unit {
            "n" => count / 1_000_000,
            "u" => count / 1000,
            "m" => count,
            _ => count * 1000,
        })
    });
    let request = Any { type_url: url(kind), value: request.encode_to_vec() };
    RequestInfo { headers: headers_seen.collect(), timeout_ms, requests: vec![request] }
}

fn metadata(headers: &[Header]) -> MetadataMap {
    let mut map = HeaderMap::new();
    for Header { name, value } in headers {
        for value in value {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), value.parse()) {
                map.append(name, value);
            }
        }
    }
    MetadataMap::from_headers(map)
}
