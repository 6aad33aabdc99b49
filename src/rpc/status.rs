//! From errors to statuses: the only mapping to the wire's codes, and the messages that callers read.

mod caller;
mod report;

use std::fmt;

use prost::DecodeError;
use tonic::Status;
use tonic_types::StatusExt;

use super::{prelude::*, within};
use crate::domain::{
    error::{Bounded, Damage, Damaged, SequenceConflict, Violation},
    limits::SCOPE_BYTES,
};
use caller::{invalid_credential, permission_denied, rate_limited};
use report::{Report, encoded_bytes};

/// Milliseconds after which a retry makes sense when the disk is full: people have to do something first.
const DISK_FULL_RETRY_MILLIS: u64 = 5000;

/// The status of a call that failed. `request_id` is sent if the cause is only in the log.
pub fn status(error: &Error, request_id: impl fmt::Display) -> Status {
    stream_status(error, request_id, None)
}

/// The status of a stream that ended with an error. If the server is shutting down, the caller learns where to resume: the `cursor` of a
/// watch, or the number of items that were `answered`.
pub fn stream_status(
    error: &Error,
    request_id: impl fmt::Display,
    position: Option<(&'static str, &str)>,
) -> Status {
    let report = report(error, request_id);
    match position.filter(|_| *error == Error::Draining) {
        Some((name, position)) => report.with(name, position).into_status(),
        None => report.into_status(),
    }
}

/// The status of a message that cannot be decoded. The decoder names the field, every message around the fault, and the fault.
pub fn undecodable(error: &DecodeError) -> Status {
    let text = error.to_string();
    let parts: Vec<_> = text.split(": ").skip(1).collect();
    let cause = match parts[..] {
        [field, _, _, .., fault] if parts.len() > 4 => format!("{field}: …: {fault}"),
        _ => parts.join(": "),
    };
    let advice =
        "Generate the client from this contract, and send deeply nested values as JSON text.";
    bad_message(&cause, advice)
}

/// The status of a request that is no message of its type.
pub fn bad_message(cause: &str, advice: &str) -> Status {
    let message = format!("The request is not a valid message of its type: {cause}. {advice}");
    let fault = Violation::new("", Reason::BadMessage, message).with("cause", cause);
    status(&Error::Invalid(vec![fault]), "")
}

pub fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

fn report(error: &Error, request_id: impl fmt::Display) -> Report {
    let new = Report::new;
    match error {
        Error::Invalid(violations) => invalid(violations),
        Error::MessageTooLarge => {
            new(Reason::MessageTooLarge, MESSAGE_TOO_LARGE).with("limit", MESSAGE_BYTES)
        }
        Error::SessionNotFound(SessionRef::Full(key)) => {
            new(Reason::SessionNotFound, SESSION_NOT_FOUND).with_session(key)
        }
        Error::SessionNotFound(SessionRef::Bare(id, _)) => {
            new(Reason::SessionNotFound, BARE_ID_NOT_FOUND).with("session_id", id)
        }
        Error::SessionExists(key) => new(Reason::SessionExists, SESSION_EXISTS).with_session(key),
        Error::EventIdReused(id) => {
            new(Reason::EventIdReused, EVENT_ID_REUSED).with("event_id", id)
        }
        Error::RequestIdReused(id) => {
            new(Reason::RequestIdReused, REQUEST_ID_REUSED).with("request_id", id)
        }
        Error::Conflict { sequence, keys } => conflict(*sequence, keys),
        Error::Replaced(scope) => replaced(scope),
        Error::PermissionDenied(denial) => permission_denied(denial),
        Error::NotOverHttp => new(Reason::NotOverHttp, NOT_OVER_HTTP),
        Error::ReadOnlyListener => new(Reason::ReadOnlyListener, READ_ONLY_LISTENER),
        Error::AmbiguousSessionId(id) => {
            new(Reason::AmbiguousSessionId, AMBIGUOUS_SESSION_ID).with("session_id", id)
        }
        Error::TypeMismatch { key, wanted, found } => {
            let report = new(Reason::TypeMismatch, TYPE_MISMATCH).with("key", key);
            report.with("type", found).with("wanted", wanted)
        }
        Error::MissingStateKey(keys) => missing_state_key(keys),
        Error::CursorOfOtherStore => new(Reason::CursorOfOtherStore, CURSOR_OF_OTHER_STORE),
        Error::BeyondLastSequence { asked, last_sequence } => {
            let report = new(Reason::BeyondLastSequence, BEYOND_LAST_SEQUENCE);
            report.with("asked", asked).with("last_sequence", last_sequence)
        }
        Error::StateTooLarge(scope) => state_too_large(scope.as_str(), SCOPE_BYTES),
        Error::InvocationTooLarge(limit) => state_too_large("invocation", *limit),
        Error::AnswerTooLarge => {
            new(Reason::AnswerTooLarge, ANSWER_TOO_LARGE).with("limit", MESSAGE_BYTES)
        }
        Error::Overloaded { what, retry_after_millis } => overloaded(*what, *retry_after_millis),
        Error::RateLimited { what, limit, retry_after_millis } => {
            rate_limited(*what, *limit, *retry_after_millis)
        }
        Error::DiskFull => new(Reason::DiskFull, DISK_FULL).retry_after(DISK_FULL_RETRY_MILLIS),
        Error::Starting => new(Reason::Starting, STARTING),
        Error::Draining => new(Reason::Draining, DRAINING),
        Error::StoreUnavailable(_) => new(Reason::StoreUnavailable, STORE_UNAVAILABLE),
        Error::StoreBehind => new(Reason::StoreBehind, STORE_BEHIND),
        Error::FileLost => new(Reason::FileLost, FILE_LOST),
        Error::OutcomeUnknown(_) => new(Reason::OutcomeUnknown, OUTCOME_UNKNOWN),
        Error::ExpiredInQueue => new(Reason::ExpiredInQueue, EXPIRED_IN_QUEUE),
        Error::Damaged(damaged, _) => stored_damage(damaged),
        Error::CredentialMissing => new(Reason::CredentialMissing, CREDENTIAL_MISSING),
        Error::CredentialInvalid(fault) => invalid_credential(*fault),
        Error::CredentialExpired => new(Reason::CredentialExpired, CREDENTIAL_EXPIRED),
        Error::Internal(_) => new(Reason::Internal, INTERNAL).with("request_id", request_id),
    }
}

// Messages. What stands in braces is metadata.
const MESSAGE_TOO_LARGE: &str =
    "The message exceeds the limit of {limit} bytes, uncompressed. Send less per call.";
const ANSWER_TOO_LARGE: &str =
    "The text exceeds the limit of {limit} bytes per response. Render a shorter template.";
const SESSION_NOT_FOUND: &str = "Session '{session_id}' of user '{user_id}' in application \
    '{app_name}' does not exist. Create it first.";
const BARE_ID_NOT_FOUND: &str = "Session '{session_id}' does not exist. Create it first.";
const SESSION_EXISTS: &str = "Session '{session_id}' of user '{user_id}' in application \
    '{app_name}' exists already. Use another id, or set allow_existing of CreateSession.";
const EVENT_ID_REUSED: &str = "Event id '{event_id}' was used for other content. \
    Send the same content to retry, or use another id.";
const REQUEST_ID_REUSED: &str = "Request id '{request_id}' was used for another delta. \
    Send the same delta to retry, or use another id.";
const AMBIGUOUS_SESSION_ID: &str =
    "Several sessions have the id '{session_id}'. Set app_name and user_id as well.";
const TYPE_MISMATCH: &str = "The value of key '{key}' has type {type}, \
    but the operation needs {wanted}. Replace the value, or use another key.";
const BEYOND_LAST_SEQUENCE: &str = "Sequence {asked} is greater than the last sequence, \
    {last_sequence}. Send {last_sequence} or less.";
const STATE_TOO_LARGE: &str = "The {scope} state would exceed {limit} bytes. \
    Remove keys, or store large values elsewhere.";
const CURSOR_OF_OTHER_STORE: &str =
    "The cursor belongs to another store. Start the watch without a cursor.";
const DISK_FULL: &str = "The disk of the store is full and nothing was applied. \
    Free space, or delete sessions, then retry.";
const STARTING: &str = "The server is starting. Retry shortly.";
const DRAINING: &str = "The server is shutting down. \
    Retry the call, resume a stream of appends after the last answered item, \
    or resume a watch at its last cursor.";
const STORE_UNAVAILABLE: &str = "The store is unavailable and nothing was applied. Retry the call.";
const STORE_BEHIND: &str = "The database lacks commits that were acknowledged, and nothing was applied. \
    Retry on a replica whose database has them.";
const FILE_LOST: &str = "The database file was removed or replaced while the server was running, \
    or its disk failed to store it, and nothing was applied. Restart the server, then retry.";
const OUTCOME_UNKNOWN: &str = "The store failed during the commit, \
    so the call may or may not have been applied. \
    Retry with the same event id or request id.";
const EXPIRED_IN_QUEUE: &str = "The deadline passed while the call waited, \
    and nothing was applied. Retry with a later deadline.";
const READ_ONLY_LISTENER: &str = "This HTTP listener takes reads only. \
    Send changes to the gRPC address of the server.";
const NOT_OVER_HTTP: &str = "Streams of a client are served over gRPC alone. \
    Call AppendEvents, or use the gRPC address of the server.";
const CREDENTIAL_MISSING: &str = "The call has no credential. \
    Send the metadata `authorization: Bearer TOKEN`, or connect with a client certificate.";
const CREDENTIAL_EXPIRED: &str = "The token or the client certificate has expired. \
    Send a new token, or connect with a new certificate.";
const INTERNAL: &str = "Internal error. Report it with this request_id.";

fn overloaded(what: Bounded, millis: u64) -> Report {
    let full = match what {
        Bounded::Calls => "Too many calls are in flight",
        Bounded::WriteQueue => "The write queue is full",
        Bounded::ReadQueue => "The read queue is full",
        Bounded::Watches => "Too many watches are open",
        Bounded::TempInvocations => "Too many invocations have temp: state",
        Bounded::Buffers => "The buffers for clients, or those of this connection, are full",
        Bounded::Streams => "Too many calls are open on a connection without a credential",
    };
    let message = format!("{full}. Retry in {millis} ms.");
    Report::new(Reason::Overloaded, message).with("what", what).retry_after(millis)
}

fn stored_damage(Damaged { what, name }: &Damaged) -> Report {
    let shown = name.as_ref().map_or(String::new(), |name| format!(" '{}'", quoted(name)));
    let advice = match what {
        Damage::Key => "Set the key to a new value, restore a backup,",
        _ => "Restore a backup,",
    };
    let message = format!(
        "The stored data is damaged: {what}{shown}. {advice} or save the rest with `sessiond export --app NAME --out DIR --skip-damaged`."
    );
    let report = Report::new(Reason::Damaged, message).with("what", what);
    match name {
        Some(name) => report.with("name", name),
        None => report,
    }
}

fn invalid(violations: &[Violation]) -> Report {
    let [first, others @ ..] = violations else {
        return Report::new(Reason::BadValue, "The request is invalid.");
    };
    let field = match &*first.field {
        "" => String::new(),
        field => format!("{field}: "),
    };
    let more = match others.len() {
        0 => String::new(),
        more => format!(" The field violations list {more} more."),
    };
    let message = format!("{field}{}{more}", first.message);
    let report = Report::new(first.reason, message).with("field", &first.field);
    let mut report = first.metadata.iter().fold(report, |it, (name, value)| it.with(name, value));
    if !others.is_empty() {
        report = report.with("more", others.len());
    }
    Report { violations: violations.to_vec(), ..report }
}

fn conflict(sequence: Option<SequenceConflict>, keys: &[StateKey]) -> Report {
    let failed_sequence = sequence.map(|SequenceConflict { expected, actual }| {
        format!("expected sequence {expected}, found {actual}")
    });
    let failed_keys = match keys {
        [] => None,
        [key] => Some(format!("the condition on key '{}' does not hold", quoted(key.as_str()))),
        _ => Some(format!("the conditions on keys {} do not hold", listed(keys))),
    };
    let failed: Vec<_> = failed_sequence.into_iter().chain(failed_keys).collect();
    let reason = if sequence.is_some() { Reason::SequenceConflict } else { Reason::KeyConflict };
    let message =
        format!("Precondition failed: {}. Read again and decide again.", failed.join(" and "));
    let report = sequence.iter().fold(Report::new(reason, message), |report, it| {
        report.with("expected", it.expected).with("actual", it.actual)
    });
    if keys.is_empty() { report } else { report.with_list("keys", keys) }
}

fn replaced(scope: &Scope) -> Report {
    let (kind, name) = match scope {
        Scope::Session(key) => ("session", key.session_id.as_str()),
        Scope::User(_, user_id) => ("user", user_id.as_str()),
        Scope::Application(app_name) => ("application", app_name.as_str()),
    };
    let message = format!(
        "The {kind} '{}' is another one than the uid names: that one was removed. \
         Read it again and decide again.",
        quoted(name)
    );
    let report = Report::new(Reason::SessionReplaced, message);
    match scope {
        Scope::Session(key) => report.with_session(key),
        Scope::User(app_name, user_id) => {
            report.with("app_name", app_name).with("user_id", user_id)
        }
        Scope::Application(app_name) => report.with("app_name", app_name),
    }
}

/// Keys that a message names before it counts the rest, which is in the metadata.
const KEYS_LISTED: usize = 5;

/// Bytes of these keys as they are sent, which leaves what the message says before and after them.
const KEYS_LISTED_BYTES: usize = 650;

fn listed(keys: &[impl ToString]) -> String {
    let listed = keys.iter().take(KEYS_LISTED).map(|key| format!("'{}'", quoted(&key.to_string())));
    let bytes = |key: &String| encoded_bytes(key) + encoded_bytes(", ");
    let listed: Vec<_> = within(listed, KEYS_LISTED_BYTES, bytes).collect();
    match (keys.len() - listed.len(), listed.as_slice()) {
        (0, [first @ .., last]) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        (0, _) => listed.join(", "),
        (more, _) => format!("{} and {more} more", listed.join(", ")),
    }
}

fn missing_state_key(keys: &[String]) -> Report {
    let message = match keys {
        [key] => format!(
            "Key '{}' of the template has no value. Set it, or make it optional with '?'.",
            quoted(key)
        ),
        _ => format!(
            "Keys {} of the template have no value. Set them, or make them optional with '?'.",
            listed(keys)
        ),
    };
    Report::new(Reason::MissingStateKey, message).with_list("keys", keys)
}

fn state_too_large(scope: &str, limit: usize) -> Report {
    Report::new(Reason::StateTooLarge, STATE_TOO_LARGE).with("scope", scope).with("limit", limit)
}

#[cfg(test)]
mod tests;
