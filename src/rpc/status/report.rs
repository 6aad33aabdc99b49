//! The content of a status, truncated to the size that clients take: they accept 8 KiB of trailers, and details travel as base64.
//!
//! Each part has a fixed budget. Whole ids come before descriptions, since programs read them.

use std::{borrow::Cow, collections::HashMap, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use super::super::within;
use crate::domain::{
    error::{Reason, Violation, quoted},
    json::{Json, text_bytes},
    limits::VIOLATIONS,
    scope::SessionKey,
};

pub const DOMAIN: &str = "sessiond";

/// Bytes of a whole status on the wire. The rest of the 8 KiB is for what proxies add to the trailers.
const STATUS_BYTES: usize = 5 * 1024 - 1;

/// Bytes of the names of the three trailers, the code, and their framing.
const TRAILER_BYTES: usize = 128;

/// Bytes of a message as it is sent in `grpc-message`. It is sent a second time within the details.
const MESSAGE_BYTES: usize = 900;

/// Bytes of the details beside the message, the metadata and the violations: type URLs, reason, domain, retryability and delay.
const DETAILS_BYTES: usize = 300;

/// Bytes of all metadata: three of the longest ids.
const METADATA_BYTES: usize = 1650;

/// Bytes of all metadata if violations follow: a field, one of the longest keys, and what else its fault names.
const METADATA_BESIDE_VIOLATIONS_BYTES: usize = 900;

/// Bytes of a text in metadata: the longest id or key.
const TEXT_BYTES: usize = 512;

/// Bytes of a list in metadata, which leaves what is beside a list.
const LIST_BYTES: usize = 1500;

/// Bytes of a violation's field: a path of the contract with a quoted key in it.
const FIELD_BYTES: usize = 160;

/// Bytes of a violation's description, at most, and however many violations there are.
const DESCRIPTION_BYTES: usize = 300;
const DESCRIPTION_BYTES_LEAST: usize = 10;

/// Bytes of tags and lengths of an entry of metadata, and of a violation with its reason.
const ENTRY_OVERHEAD_BYTES: usize = 10;
const VIOLATION_OVERHEAD_BYTES: usize = 36;

/// The code of an error on the wire. Without a wildcard, so that a new reason does not compile until it has one.
const fn code(reason: Reason) -> Code {
    match reason {
        Reason::PermissionDenied | Reason::ReadOnlyListener => Code::PermissionDenied,
        Reason::NotOverHttp => Code::Unimplemented,
        Reason::SessionNotFound => Code::NotFound,
        Reason::SessionExists | Reason::EventIdReused | Reason::RequestIdReused => {
            Code::AlreadyExists
        }
        Reason::SequenceConflict | Reason::KeyConflict | Reason::SessionReplaced => Code::Aborted,
        Reason::AmbiguousSessionId
        | Reason::TypeMismatch
        | Reason::MissingStateKey
        | Reason::CursorOfOtherStore => Code::FailedPrecondition,
        Reason::BeyondLastSequence => Code::OutOfRange,
        Reason::StateTooLarge
        | Reason::AnswerTooLarge
        | Reason::MessageTooLarge
        | Reason::Overloaded
        | Reason::RateLimited
        | Reason::DiskFull => Code::ResourceExhausted,
        Reason::Starting
        | Reason::Draining
        | Reason::StoreUnavailable
        | Reason::StoreBehind
        | Reason::FileLost => Code::Unavailable,
        Reason::OutcomeUnknown => Code::Unknown,
        Reason::ExpiredInQueue => Code::DeadlineExceeded,
        Reason::Damaged => Code::DataLoss,
        Reason::CredentialMissing | Reason::CredentialInvalid | Reason::CredentialExpired => {
            Code::Unauthenticated
        }
        Reason::Internal => Code::Internal,
        Reason::MissingField
        | Reason::FieldTooLong
        | Reason::BadId
        | Reason::BadKey
        | Reason::BadValue
        | Reason::BadJson
        | Reason::NumberNotExact
        | Reason::NumberOverflow
        | Reason::ValueTooLarge
        | Reason::EventTooLarge
        | Reason::BatchTooLarge
        | Reason::BadPageToken
        | Reason::BadCursor
        | Reason::BadMask
        | Reason::BadMessage
        | Reason::KeyOutsideScope => Code::InvalidArgument,
    }
}

/// Whether a client may repeat the call, as `ErrorInfo.metadata["retryable"]` says it.
const fn retryable(reason: Reason) -> &'static str {
    match reason {
        // The same call, later. It was certainly not applied.
        Reason::Overloaded
        | Reason::RateLimited
        | Reason::DiskFull
        | Reason::Starting
        | Reason::Draining
        | Reason::StoreUnavailable
        | Reason::StoreBehind
        | Reason::FileLost
        | Reason::ExpiredInQueue => "yes",
        // Only with the same event or request id. It may have been applied.
        Reason::OutcomeUnknown => "same_id",
        // The caller has to decide again.
        _ => "no",
    }
}

#[derive(Debug)]
pub struct Report {
    pub reason: Reason,
    /// One or two sentences: what is wrong, and what to do. In a borrowed one, names in braces stand for metadata.
    pub message: Cow<'static, str>,
    pub metadata: Vec<(&'static str, String)>,
    pub violations: Vec<Violation>,
    pub retry_after: Option<Duration>,
}

impl Report {
    pub fn new(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        let (metadata, violations, message) = (Vec::new(), Vec::new(), message.into());
        Self { reason, message, metadata, violations, retry_after: None }
    }

    pub fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        let value = truncated(&value.to_string(), TEXT_BYTES, str::len);
        self.metadata.push((name, value));
        self
    }

    pub fn with_session(self, SessionKey { app_name, user_id, session_id }: &SessionKey) -> Self {
        self.with("app_name", app_name).with("user_id", user_id).with("session_id", session_id)
    }

    pub fn retry_after(self, millis: u64) -> Self {
        let retry_after = Some(Duration::from_millis(millis));
        Self { retry_after, ..self.with("retry_after_millis", millis) }
    }

    /// Adds a JSON array of the first items, at least one, then how many there are more.
    pub fn with_list(mut self, name: &'static str, items: &[impl ToString]) -> Self {
        // Brackets, and the text that counts the rest. An item has quotes and a comma.
        let budget = LIST_BYTES - 32;
        let texts = items.iter().take(VIOLATIONS).enumerate().map(|(at, item)| {
            let item = truncated(&item.to_string(), TEXT_BYTES, str::len);
            if at > 0 { item } else { truncated(&item, budget - 3, text_bytes) }
        });
        let mut shown: Vec<_> = within(texts, budget, |item| text_bytes(item) + 3).collect();
        let more = items.len() - shown.len();
        shown.extend((more > 0).then(|| format!("and {more} more")));
        let shown: Vec<_> = shown.iter().map(|item| Json::string(item).into_string()).collect();
        self.metadata.push((name, format!("[{}]", shown.join(","))));
        self
    }

    pub fn into_status(self) -> Status {
        let Self { reason, message, metadata, violations, retry_after } = self;
        let message = match message {
            Cow::Borrowed(template) => filled(template, &metadata),
            Cow::Owned(message) => message,
        };
        let message = truncated(&message, MESSAGE_BYTES, encoded_bytes);
        let details = (STATUS_BYTES - TRAILER_BYTES - encoded_bytes(&message)) / 4 * 3;
        let of_metadata = match violations.as_slice() {
            [] => METADATA_BYTES,
            _ => METADATA_BESIDE_VIOLATIONS_BYTES,
        };
        let mut left = of_metadata;
        let mut info = HashMap::from([("retryable".to_owned(), retryable(reason).to_owned())]);
        for (name, value) in metadata {
            let Some(rest) = left.checked_sub(name.len() + ENTRY_OVERHEAD_BYTES) else { break };
            let value = truncated(&value, rest, str::len);
            left = rest.saturating_sub(value.len());
            info.insert(name.to_owned(), value);
        }
        let budget = details - message.len() - DETAILS_BYTES - (of_metadata - left);
        let mut details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, info);
        if !violations.is_empty() {
            details.set_bad_request(field_violations(&violations, budget));
        }
        if retry_after.is_some() {
            details.set_retry_info(retry_after);
        }
        Status::with_error_details(code(reason), message, details)
    }
}

fn filled(template: &str, metadata: &[(&str, String)]) -> String {
    let named = |name: &str| metadata.iter().find(|(it, _)| *it == name);
    // Texts and names take turns.
    let parts = template.split(['{', '}']).enumerate().map(|(at, part)| match named(part) {
        Some((_, value)) if at % 2 == 1 => quoted(value).into_owned(),
        _ => {
            debug_assert!(at % 2 == 0, "no metadata {part} for {template}");
            part.to_owned()
        }
    });
    parts.collect()
}

/// The fields at fault that `budget` allows, then how many there are more.
fn field_violations(violations: &[Violation], budget: usize) -> Vec<FieldViolation> {
    // Fields come before descriptions, which share what the fields leave.
    let share = (budget - VIOLATION_OVERHEAD_BYTES) / violations.len().clamp(1, VIOLATIONS);
    let named = violations.iter().take(VIOLATIONS).map(|violation| {
        let field = truncated(&violation.field, FIELD_BYTES, str::len);
        let left = share.saturating_sub(field.len() + VIOLATION_OVERHEAD_BYTES);
        let left = left.clamp(DESCRIPTION_BYTES_LEAST, DESCRIPTION_BYTES);
        FieldViolation {
            description: truncated(&violation.message, left, str::len),
            reason: violation.reason.as_str().to_owned(),
            field,
            localized_message: None,
        }
    });
    let bytes =
        |it: &FieldViolation| it.field.len() + it.description.len() + VIOLATION_OVERHEAD_BYTES;
    let mut shown: Vec<_> = within(named, budget - VIOLATION_OVERHEAD_BYTES, bytes).collect();
    let more = violations.len() - shown.len();
    shown.extend((more > 0).then(|| FieldViolation::new("", format!("and {more} more"))));
    shown
}

/// A text of at most `limit` bytes, as `bytes` counts them. One that was truncated ends with `…`.
fn truncated(text: &str, limit: usize, bytes: fn(&str) -> usize) -> String {
    if bytes(text) <= limit {
        return text.to_owned();
    }
    let bytes_of = |character: &char| bytes(character.encode_utf8(&mut [0; 4]));
    within(text.chars(), limit.saturating_sub(bytes("…")), bytes_of).chain(['…']).collect()
}

/// Bytes of a text in `grpc-message`, never fewer than tonic makes of it: all but plain ASCII takes three bytes a byte.
pub fn encoded_bytes(text: &str) -> usize {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b",;.:'_-[]()/".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { 1 } else { 3 }).sum()
}

#[cfg(test)]
mod tests;
