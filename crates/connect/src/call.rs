//! What a request asks for: a method, how its messages are written, and the time it has.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TE,
        TRANSFER_ENCODING,
    },
    request::Parts,
};
use percent_encoding::percent_decode_str;
use prost::bytes::Bytes;
use prost_reflect::MethodDescriptor;
use prost_types::method_options::IdempotencyLevel;

use crate::{
    Refused,
    codec::{Codec, base64},
};

/// Digits of a timeout in milliseconds, as the protocol says.
const TIMEOUT_DIGITS: usize = 10;

/// Digits of a timeout of gRPC.
const GRPC_DIGITS: usize = 8;

pub struct Call {
    pub method: MethodDescriptor,
    pub codec: Codec,
    pub is_stream: bool,
    /// The request may be compressed.
    pub is_gzip: bool,
    /// The message of a GET.
    pub message: Option<Bytes>,
    /// In milliseconds.
    pub timeout: Option<u64>,
}

/// Why there is no call.
pub enum NoCall {
    /// A plain answer of HTTP, with a text for people.
    Http(StatusCode, Vec<(HeaderName, &'static str)>, String),
    Refused(Refused),
}

impl From<Refused> for NoCall {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// Headers that belong to the way of a request, or that gRPC says otherwise.
const DROPPED: [HeaderName; 7] = [
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TE,
    TRANSFER_ENCODING,
];

impl Call {
    /// Reads what a request says before its body.
    pub fn read(parts: &Parts, method: &MethodDescriptor) -> Result<Self, NoCall> {
        match parts.method {
            Method::POST if method.is_client_streaming() => Err(Refused::ClientStreams.into()),
            Method::POST => Self::post(parts, method),
            Method::GET if has_no_side_effects(method) && !is_stream(method) => {
                Self::get(parts, method)
            }
            _ => {
                let allowed = match has_no_side_effects(method) && !is_stream(method) {
                    true => "GET, POST",
                    false => "POST",
                };
                let text = format!("This method takes {allowed}.");
                let headers = vec![(http::header::ALLOW, allowed)];
                Err(NoCall::Http(StatusCode::METHOD_NOT_ALLOWED, headers, text))
            }
        }
    }

    fn post(parts: &Parts, method: &MethodDescriptor) -> Result<Self, NoCall> {
        let headers = &parts.headers;
        let sent = text(headers, &CONTENT_TYPE);
        let kind = sent.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let name = kind.strip_prefix("application/").unwrap_or_default();
        let (is_stream, name) = match name.strip_prefix("connect+") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let codec = Codec::named(name).filter(|_| is_stream == self::is_stream(method));
        let Some(codec) = codec else {
            let (accepted, wanted) = match self::is_stream(method) {
                true => (
                    "application/connect+json, application/connect+proto",
                    "application/connect+json",
                ),
                false => ("application/json, application/proto", "application/json"),
            };
            let headers = vec![(HeaderName::from_static("accept-post"), accepted)];
            let text = format!("Send the header `content-type: {wanted}`.");
            return Err(NoCall::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE, headers, text));
        };
        let encoding = match is_stream {
            true => text(headers, &HeaderName::from_static("connect-content-encoding")),
            false => text(headers, &CONTENT_ENCODING),
        };
        let version = text(headers, &HeaderName::from_static("connect-protocol-version"));
        Self::new(headers, method, codec, is_stream, encoding, version)
    }

    fn get(parts: &Parts, method: &MethodDescriptor) -> Result<Self, NoCall> {
        let query = parts.uri.query().unwrap_or_default();
        let find = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.replace('+', " ")).next()
        };
        let decoded = |value: String| percent_decode_str(&value).collect::<Vec<u8>>();
        let named = |name| find(name).map(|it| String::from_utf8_lossy(&decoded(it)).into_owned());
        let Some(codec) = named("encoding").and_then(|name| Codec::named(&name)) else {
            let text = "Send the parameter `encoding=json`.".to_owned();
            return Err(NoCall::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE, Vec::new(), text));
        };
        let version = named("connect").unwrap_or_default();
        let version = version.strip_prefix('v').unwrap_or(&version);
        let encoding = named("compression").unwrap_or_default();
        let call = Self::new(&parts.headers, method, codec, false, &encoding, version)?;
        let Some(message) = find("message").map(decoded) else {
            let cause = "the query has no parameter `message`".to_owned();
            return Err(Refused::Invalid(cause, "Send it, percent-encoded.").into());
        };
        let message = match named("base64").as_deref() {
            Some("1") => base64(&message).map_err(|error| {
                let text = error.to_string();
                let cause = format!("its base64 is wrong: {}", text.trim_end_matches('.'));
                Refused::Invalid(cause, "Send the base64 of URLs, with padding or without.")
            })?,
            _ => message,
        };
        Ok(Self { message: Some(message.into()), ..call })
    }

    fn new(
        headers: &HeaderMap,
        method: &MethodDescriptor,
        codec: Codec,
        is_stream: bool,
        encoding: &str,
        version: &str,
    ) -> Result<Self, NoCall> {
        if !["", "1"].contains(&version) {
            let cause = format!("version {version} of the Connect protocol is not known");
            return Err(Refused::Invalid(cause, "Send version 1, or none.").into());
        }
        let is_gzip = match encoding {
            "" | "identity" => false,
            "gzip" => true,
            _ => return Err(Refused::Compression.into()),
        };
        let timeout = match text(headers, &HeaderName::from_static("connect-timeout-ms")) {
            "" => None,
            digits => match digits.parse().ok().filter(|_| is_timeout(digits)) {
                Some(millis) => Some(millis),
                None => {
                    let cause = "connect-timeout-ms is not a number of up to 10 digits".into();
                    return Err(Refused::Invalid(cause, "Send milliseconds.").into());
                }
            },
        };
        Ok(Self { method: method.clone(), codec, is_stream, is_gzip, message: None, timeout })
    }

    /// Turns the head of a request into that of gRPC.
    pub fn to_grpc(&self, parts: &mut Parts) {
        let is_dropped = |name: &HeaderName| {
            let prefixes = ["connect-", "grpc-"];
            DROPPED.contains(name) || prefixes.iter().any(|it| name.as_str().starts_with(it))
        };
        let names: Vec<_> = parts.headers.keys().filter(|name| is_dropped(name)).cloned().collect();
        for name in names {
            parts.headers.remove(name);
        }
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        parts.headers.insert(TE, HeaderValue::from_static("trailers"));
        if let Some(millis) = self.timeout {
            let millis_text = format!("{millis}m");
            let timeout = match millis_text.len() > GRPC_DIGITS + 1 {
                true => format!("{}S", millis / 1000),
                false => millis_text,
            };
            // Digits and a letter.
            if let Ok(timeout) = HeaderValue::try_from(timeout) {
                parts.headers.insert(HeaderName::from_static("grpc-timeout"), timeout);
            }
        }
        parts.uri = path(&self.method).parse().unwrap_or_default();
        (parts.method, parts.version) = (Method::POST, Version::HTTP_2);
    }
}

fn is_timeout(text: &str) -> bool {
    text.len() <= TIMEOUT_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The path of a method.
pub fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

fn is_stream(method: &MethodDescriptor) -> bool {
    method.is_client_streaming() || method.is_server_streaming()
}

pub fn has_no_side_effects(method: &MethodDescriptor) -> bool {
    let options = method.method_descriptor_proto().options.as_ref();
    options.is_some_and(|it| it.idempotency_level() == IdempotencyLevel::NoSideEffects)
}

/// A header, or nothing.
fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
