//! Statuses of gRPC as Connect's errors.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use http::StatusCode;
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::Any;
use serde::Serialize;
use serde_json::value::RawValue;
use tonic::{Code, Status};

use crate::to_json::to_json;

/// `google.rpc.Status`, of which the details are needed.
#[derive(Message)]
struct RpcStatus {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// The status of HTTP for a code.
pub fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::Cancelled => StatusCode::from_u16(499).unwrap_or(StatusCode::REQUEST_TIMEOUT),
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => {
            StatusCode::BAD_REQUEST
        }
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

/// An error, as the protocol writes it.
#[derive(Serialize)]
pub struct Error<'s> {
    pub code: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: &'s str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
}

/// A detail, which people read under `debug` if its type is known.
#[derive(Serialize)]
pub struct Detail {
    #[serde(rename = "type")]
    kind: String,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    debug: Option<Box<RawValue>>,
}

/// The error of a status, with its details.
pub fn error<'s>(status: &'s Status, pool: &DescriptorPool) -> Error<'s> {
    let details = RpcStatus::decode(status.details()).unwrap_or_default().details;
    let details = details.iter().map(|it| detail(it, pool)).collect();
    Error { code: name(status.code()), message: status.message(), details }
}

fn detail(any: &Any, pool: &DescriptorPool) -> Detail {
    let kind = any.type_url.rsplit('/').next().unwrap_or_default();
    let known = pool.get_message_by_name(kind);
    let text = known.and_then(|kind| {
        let mut json = Vec::new();
        to_json(&kind, &any.value, &mut json).ok()?;
        String::from_utf8(json).ok()
    });
    let debug = text.and_then(|text| RawValue::from_string(text).ok());
    Detail { kind: kind.to_owned(), value: STANDARD_NO_PAD.encode(&any.value), debug }
}
