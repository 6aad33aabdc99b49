//! Cutting a status to the size that clients take: they accept 8 KiB of trailers, and details travel as base64.

use std::{borrow::Cow, collections::HashMap};

use tonic::Status;
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use super::{DOMAIN, Detail, Report};
use crate::domain::{error::Violation, limits::VIOLATIONS};

/// Bytes of a whole status on the wire, so that it leaves room for what proxies add to the trailers.
const STATUS_BYTES: usize = 5 * 1024;

/// Bytes of the names of the three trailers, the code, and their framing.
const TRAILER_BYTES: usize = 128;

/// Bytes of a message in the encoding of the wire, where all but plain ASCII takes three bytes a byte. It is sent a second time
/// within the details.
const MESSAGE_ENCODED_BYTES: usize = 900;

/// Bytes of a violation's field: a path of the contract with a cut key in it.
const FIELD_BYTES: usize = 160;

/// Entries of metadata; what a report names itself is fewer.
const METADATA_ENTRIES: usize = 8;

/// How much of each part is shown.
struct Cut {
    /// Bytes of a text in metadata.
    text: usize,
    /// Bytes of a list in metadata.
    list: usize,
    /// Violations named.
    violations: usize,
    /// Bytes of a violation's description.
    description: usize,
}

/// From generous to narrow; the first that fits is taken. Whole ids are kept before long descriptions, since programs read them,
/// and all fields are named before any is described at length. The last always fits.
const CUTS: [Cut; 6] = [
    Cut { text: 512, list: 1600, violations: VIOLATIONS, description: 500 },
    Cut { text: 512, list: 1600, violations: VIOLATIONS, description: 150 },
    Cut { text: 512, list: 1000, violations: VIOLATIONS, description: 60 },
    Cut { text: 128, list: 600, violations: VIOLATIONS, description: 40 },
    Cut { text: 64, list: 300, violations: VIOLATIONS / 2, description: 30 },
    Cut { text: 64, list: 120, violations: 3, description: 30 },
];

impl Report {
    pub(super) fn into_status(self) -> Status {
        let message = cut_encoded(&self.message);
        let [wide @ .., narrowest] = &CUTS;
        wide.iter()
            .map(|cut| self.status(&message, cut))
            .find(|status| wire_bytes(status) < STATUS_BYTES)
            .unwrap_or_else(|| self.status(&message, narrowest))
    }

    fn status(&self, message: &str, cut: &Cut) -> Status {
        let mut details = ErrorDetails::new();
        details.set_error_info(self.reason.as_str(), DOMAIN, self.metadata(cut));
        if !self.violations.is_empty() {
            details.set_bad_request(self.field_violations(cut));
        }
        if self.retry_after.is_some() {
            details.set_retry_info(self.retry_after);
        }
        Status::with_error_details(self.code, message, details)
    }

    fn metadata(&self, cut: &Cut) -> HashMap<String, String> {
        let entries = self.metadata.iter().take(METADATA_ENTRIES);
        entries
            .map(|(name, detail)| {
                let value = match detail {
                    Detail::Text(text) => shortened(text, cut.text).into_owned(),
                    Detail::List(items) => list(items, cut.list),
                };
                ((*name).to_owned(), value)
            })
            .collect()
    }

    fn field_violations(&self, cut: &Cut) -> Vec<FieldViolation> {
        let shown = self.violations.iter().take(cut.violations);
        let mut fields: Vec<_> = shown.map(|violation| field_violation(violation, cut)).collect();
        let more = self.violations.len() - fields.len();
        if more > 0 {
            fields.push(FieldViolation::new("", and_more(more)));
        }
        fields
    }
}

fn field_violation(violation: &Violation, cut: &Cut) -> FieldViolation {
    let Violation { field, reason, message, metadata: _ } = violation;
    FieldViolation {
        field: shortened(field, FIELD_BYTES).into_owned(),
        description: shortened(message, cut.description).into_owned(),
        reason: reason.as_str().to_owned(),
        localized_message: None,
    }
}

/// A JSON array of as many items as there is room for, and of how many were left out.
fn list(items: &[String], bytes: usize) -> String {
    let mut room = bytes;
    let mut shown: Vec<Cow<'_, str>> = Vec::new();
    for item in items.iter().take(VIOLATIONS) {
        // One item at least, however long it is.
        let item = shortened(item, bytes / 2);
        let length = json(&item).len() + 1;
        if length > room && !shown.is_empty() {
            break;
        }
        room = room.saturating_sub(length);
        shown.push(item);
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
    // Strings and lists of them always serialise; a caller could do nothing about it if they did not.
    serde_json::to_string(value).unwrap_or_default()
}

/// Cuts a text at a character, and says that it did.
fn shortened(text: &str, bytes: usize) -> Cow<'_, str> {
    if text.len() <= bytes {
        return text.into();
    }
    format!("{}…", &text[..text.floor_char_boundary(bytes)]).into()
}

/// Cuts a message so that what is sent of it stays below its bound.
fn cut_encoded(message: &str) -> Cow<'_, str> {
    let mut room = MESSAGE_ENCODED_BYTES;
    for (at, character) in message.char_indices() {
        let mut bytes = [0; 4];
        let encoded = encoded_bytes(character.encode_utf8(&mut bytes));
        if encoded > room {
            return format!("{}…", &message[..at]).into();
        }
        room -= encoded;
    }
    message.into()
}

/// Bytes of a text in `grpc-message`, never fewer than tonic makes of it.
fn encoded_bytes(text: &str) -> usize {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b",;.:'_-[]()/".contains(byte);
    text.bytes().map(|byte| if plain(&byte) { 1 } else { 3 }).sum()
}

/// Bytes of a status in the trailers, never fewer than it takes.
fn wire_bytes(status: &Status) -> usize {
    TRAILER_BYTES + encoded_bytes(status.message()) + status.details().len().div_ceil(3) * 4
}

#[cfg(test)]
mod tests;
