//! Truncates a report to the size that clients take: they accept 8 KiB of trailers, and details travel as base64.
//!
//! Each part has a fixed budget. Whole ids come before descriptions, since programs read them.

use std::{borrow::Cow, collections::HashMap};

use tonic::Status;
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use super::report::{Detail, Report};
use crate::domain::{error::Violation, limits::VIOLATIONS};

/// The domain of every `ErrorInfo`.
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

/// Bytes of a list in metadata.
const LIST_BYTES: usize = 1500;

/// Bytes of a violation's field: a path of the contract with a quoted key in it.
const FIELD_BYTES: usize = 160;

/// Bytes of a violation's description, at least and at most.
const DESCRIPTION_BYTES: std::ops::RangeInclusive<usize> = 10..=500;

/// Bytes of tags and lengths of an entry of metadata, and of a violation with its reason.
const ENTRY_OVERHEAD_BYTES: usize = 10;
const VIOLATION_OVERHEAD_BYTES: usize = 36;

/// Sends a report as a status.
pub fn status(report: &Report) -> Status {
    let message = truncated_message(&report.message);
    let details = (STATUS_BYTES - TRAILER_BYTES - encoded_bytes(&message)) / 4 * 3;
    let budget = details - message.len() - DETAILS_BYTES;
    let of_metadata = if report.violations.is_empty() {
        METADATA_BYTES
    } else {
        METADATA_BESIDE_VIOLATIONS_BYTES
    };
    let (mut metadata, used) = metadata(&report.metadata, of_metadata);
    metadata.insert("retryable".to_owned(), report.retryable.as_str().to_owned());
    let mut details = ErrorDetails::new();
    details.set_error_info(report.reason.as_str(), DOMAIN, metadata);
    if !report.violations.is_empty() {
        details.set_bad_request(field_violations(&report.violations, budget - used));
    }
    if report.retry_after.is_some() {
        details.set_retry_info(report.retry_after);
    }
    Status::with_error_details(report.code, message, details)
}

/// The metadata that `budget` allows, and the bytes that it takes.
fn metadata(entries: &[(&'static str, Detail)], budget: usize) -> (HashMap<String, String>, usize) {
    let mut left = budget;
    let mut metadata = HashMap::new();
    for (name, detail) in entries {
        let Some(rest) = left.checked_sub(name.len() + ENTRY_OVERHEAD_BYTES) else { break };
        let value = match detail {
            Detail::Text(text) => truncated(text, TEXT_BYTES.min(rest)).into_owned(),
            Detail::List(items) => list(items, LIST_BYTES.min(rest)),
        };
        left = rest.saturating_sub(value.len());
        metadata.insert((*name).to_owned(), value);
    }
    (metadata, budget - left)
}

/// The fields at fault that `budget` allows, then how many there are more. What the fields leave is for the descriptions.
fn field_violations(violations: &[Violation], budget: usize) -> Vec<FieldViolation> {
    let least = VIOLATION_OVERHEAD_BYTES + DESCRIPTION_BYTES.start();
    let mut left = budget - least;
    let mut shown = 0;
    for violation in violations.iter().take(VIOLATIONS) {
        let bytes = violation.field.as_str().len().min(FIELD_BYTES) + least;
        let Some(rest) = left.checked_sub(bytes) else { break };
        left = rest;
        shown += 1;
    }
    let share = DESCRIPTION_BYTES.start() + left / shown.max(1);
    let description = share.min(*DESCRIPTION_BYTES.end());
    let named = violations.iter().take(shown).map(|violation| FieldViolation {
        field: truncated(violation.field.as_str(), FIELD_BYTES).into_owned(),
        description: truncated(&violation.message, description).into_owned(),
        reason: violation.reason.as_str().to_owned(),
        localized_message: None,
    });
    let more = violations.len() - shown;
    named.chain((more > 0).then(|| FieldViolation::new("", and_more(more)))).collect()
}

/// A JSON array of the first items, at least one, then how many there are more.
fn list(items: &[String], budget: usize) -> String {
    // Brackets, and the text that counts the rest.
    let mut left = budget.saturating_sub(32);
    let mut shown: Vec<Cow<'_, str>> = Vec::new();
    for item in items.iter().take(VIOLATIONS) {
        let mut shown_item = truncated(item, TEXT_BYTES);
        if shown.is_empty() && json(&shown_item).len() >= left {
            // In JSON a byte becomes six at most.
            shown_item = truncated(item, left / 6);
        }
        match left.checked_sub(json(&shown_item).len() + 1) {
            Some(rest) => left = rest,
            None => break,
        }
        shown.push(shown_item);
    }
    let more = items.len() - shown.len();
    if more > 0 {
        shown.push(and_more(more).into());
    }
    json(&shown)
}

fn and_more(more: usize) -> String {
    format!("and {more} more")
}

fn json<T: serde::Serialize + ?Sized>(value: &T) -> String {
    // Serializing strings and lists of them does not fail.
    serde_json::to_string(value).unwrap_or_default()
}

/// A text of at most `bytes` bytes. One that was truncated ends with `…`.
fn truncated(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes.saturating_sub("…".len()))]).into()
}

/// As [`truncated`], with the bytes counted as they are sent.
fn truncated_message(message: &str) -> Cow<'_, str> {
    if encoded_bytes(message) <= MESSAGE_BYTES {
        return message.into();
    }
    let mut left = MESSAGE_BYTES - encoded_bytes("…");
    let end = message.char_indices().find(|&(at, character)| {
        match left.checked_sub(encoded_bytes(&message[at..at + character.len_utf8()])) {
            Some(rest) => left = rest,
            None => return true,
        }
        false
    });
    format!("{}…", &message[..end.map_or(message.len(), |(at, _)| at)]).into()
}

/// Bytes of a text in `grpc-message`, never fewer than tonic makes of it: all but plain ASCII takes three bytes a byte.
fn encoded_bytes(text: &str) -> usize {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b",;.:'_-[]()/".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { 1 } else { 3 }).sum()
}

#[cfg(test)]
mod tests;
