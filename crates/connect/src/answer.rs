//! Answers of gRPC as those of Connect.

use std::{collections::BTreeMap, future::pending, pin::Pin, sync::Arc, time::Duration};

use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use prost::bytes::Bytes;
use prost_reflect::DescriptorPool;
use serde::Serialize;
use tokio::{
    select,
    time::{Sleep, sleep},
};
use tonic::{Code, Status, body::Body};

use crate::{
    Meter, Options, Refused,
    call::Call,
    codec::Codec,
    error::{Error, error, http_status, name},
    frames::{END, HEADER, Pieces, header},
};

const JSON: &str = "application/json";

/// Metadata of trailers that an answer of one message has in its headers.
const TRAILER: &str = "trailer-";

/// Bytes of an answer, charged until the connection has written them.
struct Unread {
    bytes: Vec<u8>,
    _charge: Box<dyn Send + Sync>,
}

impl AsRef<[u8]> for Unread {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A message in the codec of a call, behind its header if it has one. Errors: the service has made no such message.
fn encoded(message: &[u8], call: &Call, meter: &Meter) -> Result<Bytes, Status> {
    let begin = if call.is_stream { HEADER } else { 0 };
    let mut bytes = vec![0; begin];
    bytes.reserve(message.len());
    call.codec.encode(message, &call.method.output(), &mut bytes).map_err(Status::internal)?;
    if call.is_stream {
        let header = header(0, bytes.len() - HEADER);
        bytes.splice(..HEADER, header);
    }
    Ok(match meter.get().map(|charge| charge.unread(bytes.capacity())) {
        Some(charge) => Bytes::from_owner(Unread { bytes, _charge: charge }),
        None => bytes.into(),
    })
}

/// The answer to a unary call.
pub async fn unary(
    answer: Response<Body>,
    call: &Call,
    options: &Options,
    meter: &Meter,
) -> Response<Body> {
    let (parts, mut body) = answer.into_parts();
    let (mut pieces, mut trailers) = (Pieces::default(), None);
    let mut failed = Status::from_header_map(&parts.headers);
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) => pieces.push(data),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(status) => failed = Some(status),
        }
    }
    let of_trailers = trailers.as_ref().and_then(Status::from_header_map);
    failed = failed.or(of_trailers).filter(|it| it.code() != Code::Ok);
    let message = match (failed, pieces.take()) {
        (Some(status), _) => Err(status),
        (None, None) => Err(Status::internal("the answer has no message")),
        (None, Some(message)) => encoded(&message, call, meter),
    };
    let mut response = match message {
        Err(status) => refused(&status, &options.pool),
        Ok(message) => {
            let kind = format!("application/{}", call.codec.name());
            of_type(Body::new(Full::from(message)), &kind)
        }
    };
    copy(&metadata(&parts.headers), response.headers_mut(), "");
    copy(&metadata(&trailers.unwrap_or_default()), response.headers_mut(), TRAILER);
    response
}

fn json(value: &impl Serialize) -> Vec<u8> {
    // Texts and lists of texts always are JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

fn of_type(body: Body, kind: &str) -> Response<Body> {
    let mut response = Response::new(body);
    // It is always one.
    if let Ok(kind) = HeaderValue::try_from(kind) {
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

/// The answer of one message that is an error, without its metadata.
pub fn refused(status: &Status, pool: &DescriptorPool) -> Response<Body> {
    let text = json(&error(status, pool));
    let mut response = of_type(Body::new(Full::from(text)), JSON);
    *response.status_mut() = http_status(status.code());
    response
}

/// An answer of plain HTTP, with a text for people.
pub fn plain(
    code: StatusCode,
    headers: Vec<(HeaderName, &'static str)>,
    text: &str,
) -> Response<Body> {
    // As clients read a status of HTTP.
    let code_of_grpc = match code {
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        _ => Code::Unknown,
    };
    let text = json(&Error { code: name(code_of_grpc), message: text, details: Vec::new() });
    let mut response = of_type(Body::new(Full::from(text)), JSON);
    *response.status_mut() = code;
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The answer to a server stream: a message in an envelope each, and the end.
pub fn stream(
    answer: Response<Body>,
    call: Arc<Call>,
    options: Arc<Options>,
    meter: Meter,
) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    let (kind, end) = (stream_type(call.codec), Status::from_header_map(&parts.headers));
    let (pieces, is_end) = (Pieces::default(), end.is_some());
    let deadline = call.timeout.map(|millis| Box::pin(sleep(Duration::from_millis(millis))));
    let messages = Messages { body, pieces, call, options, meter, end, deadline, is_ended: false };
    let envelopes = stream::unfold(messages, |mut messages| async move {
        let envelope = messages.next().await?;
        Some((Ok::<_, Status>(Frame::data(envelope)), messages))
    });
    let mut response = of_type(Body::new(StreamBody::new(envelopes)), &kind);
    // Metadata of an answer that is nothing but its end comes with the end.
    if !is_end {
        copy(&metadata(&parts.headers), response.headers_mut(), "");
    }
    response
}

/// The end of a stream that was refused.
pub fn refused_stream(status: &Status, pool: &DescriptorPool) -> Response<Body> {
    of_type(Body::new(Full::from(ended(status, pool))), &stream_type(Codec::Json))
}

fn stream_type(codec: Codec) -> String {
    format!("application/connect+{}", codec.name())
}

struct Messages {
    body: Body,
    pieces: Pieces,
    call: Arc<Call>,
    options: Arc<Options>,
    meter: Meter,
    /// How the stream ends, once that is known.
    end: Option<Status>,
    /// `None`: the client waits for ever.
    deadline: Option<Pin<Box<Sleep>>>,
    is_ended: bool,
}

impl Messages {
    /// The next envelope.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_ended {
            return None;
        }
        loop {
            if let Some(message) = self.pieces.take() {
                let message = encoded(&message, &self.call, &self.meter);
                return Some(message.unwrap_or_else(|status| self.ended(&status)));
            }
            let late = async {
                match &mut self.deadline {
                    Some(deadline) => deadline.await,
                    None => pending().await,
                }
            };
            let frame = select! {
                frame = self.body.frame() => frame,
                () = late => return Some(self.ended(&(self.options.refusal)(Refused::Deadline))),
            };
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => self.pieces.push(data),
                Some(Ok(Err(frame))) => {
                    let status = frame.trailers_ref().and_then(Status::from_header_map);
                    self.end = status.or(self.end.take());
                }
                Some(Err(status)) => return Some(self.ended(&status)),
                None => {
                    let unknown = || Status::internal("the answer ends without a status");
                    let end = self.end.take().unwrap_or_else(unknown);
                    return Some(self.ended(&end));
                }
            }
        }
    }

    fn ended(&mut self, status: &Status) -> Bytes {
        self.is_ended = true;
        ended(status, &self.options.pool)
    }
}

/// The last envelope of a stream.
fn ended(status: &Status, pool: &DescriptorPool) -> Bytes {
    let metadata = metadata(status.metadata().as_ref());
    let values = |name: &HeaderName| {
        let values = metadata.get_all(name).iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let end = End {
        error: (status.code() != Code::Ok).then(|| error(status, pool)),
        metadata: metadata.keys().map(|name| (name.to_string(), values(name))).collect(),
    };
    let end = json(&end);
    [&header(END, end.len())[..], &end].concat().into()
}

/// How a stream ends.
#[derive(Serialize)]
struct End<'s> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Error<'s>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, Vec<String>>,
}

/// What a service has set, without what belongs to gRPC.
fn metadata(headers: &HeaderMap) -> HeaderMap {
    let is_own = |name: &HeaderName| {
        !name.as_str().starts_with("grpc-") && !["content-type", "date"].contains(&name.as_str())
    };
    headers.iter().filter(|(name, _)| is_own(name)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn copy(metadata: &HeaderMap, headers: &mut HeaderMap, prefix: &str) {
    for (name, value) in metadata {
        if let Ok(name) = HeaderName::try_from(format!("{prefix}{name}")) {
            headers.append(name, value.clone());
        }
    }
}
