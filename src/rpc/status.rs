//! From errors to statuses: the only mapping to the wire's codes, and the messages that callers read.

mod report;
mod truncate;

use std::{fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::domain::{
    error::{Bounded, Error, Reason, SequenceConflict, SessionRefText, Violation, quoted},
    limits::{MESSAGE_BYTES, SCOPE_BYTES},
    scope::{SessionKey, StateKey},
};
use report::{
    Report,
    Retryable::{No, SameId, Yes},
};

/// The status of a call that failed. `request_id` is sent if the cause is only in the log.
pub fn status(error: &Error, request_id: impl fmt::Display) -> Status {
    truncate::status(&report(error, request_id))
}

/// The status of a watch that failed after this cursor, with which a caller resumes once the server is back.
pub fn watch_status(error: &Error, request_id: impl fmt::Display, cursor: Option<&str>) -> Status {
    let report = report(error, request_id);
    match cursor.filter(|_| *error == Error::Draining) {
        Some(cursor) => truncate::status(&report.with("cursor", cursor)),
        None => truncate::status(&report),
    }
}

/// Code, reason (empty if it has none) and message, for an item of a stream.
pub fn outline(status: &Status) -> (Code, String, &str) {
    let info = status.get_details_error_info();
    let reason = info.map(|info| info.reason).unwrap_or_default();
    (status.code(), reason, status.message())
}

#[rustfmt::skip]
fn report(error: &Error, request_id: impl fmt::Display) -> Report {
    match error {
        Error::Invalid(violations) => invalid(violations),
        Error::SessionNotFound(address) => session_not_found(address),
        Error::SessionExists(key) => session_exists(key),
        Error::EventIdReused(id) => Report::new(Code::AlreadyExists, Reason::EventIdReused, No, format!(
            "Event id '{}' was used for other content. Send the same content to retry, or use another id.", quoted(id.as_str())
        )).with("event_id", id),
        Error::RequestIdReused(id) => Report::new(Code::AlreadyExists, Reason::RequestIdReused, No, format!(
            "Request id '{}' was used for another delta. Send the same delta to retry, or use another id.", quoted(id.as_str())
        )).with("request_id", id),
        Error::Conflict { sequence, keys } => conflict(*sequence, keys),
        Error::AmbiguousSessionId(id) => Report::new(Code::FailedPrecondition, Reason::AmbiguousSessionId, No, format!(
            "Several sessions have the id '{}'. Set app_name and user_id as well.", quoted(id.as_str())
        )).with("session_id", id),
        Error::TypeMismatch { key, wanted, found } => Report::new(Code::FailedPrecondition, Reason::TypeMismatch, No, format!(
            "The value of key '{}' has type {found}, but the operation needs {wanted}. Replace the value, or use another key.", quoted(key.as_str())
        )).with("key", key).with("type", found).with("wanted", wanted),
        Error::MissingStateKey(keys) => missing_state_key(keys),
        Error::CursorOfOtherStore => Report::new(Code::FailedPrecondition, Reason::CursorOfOtherStore, No,
            "The cursor belongs to another store. Start the watch without a cursor."),
        Error::TooDeep => Report::new(Code::FailedPrecondition, Reason::TooDeep, No,
            "A value is nested too deeply for google.protobuf.Struct. Request JSON_FORM_TEXT."),
        Error::BeyondLastSequence { asked, last_sequence } => Report::new(Code::OutOfRange, Reason::BeyondLastSequence, No, format!(
            "Sequence {asked} is greater than the last sequence, {last_sequence}."
        )).with("asked", asked).with("last_sequence", last_sequence),
        Error::StateTooLarge(scope) => state_too_large(scope, SCOPE_BYTES),
        Error::InvocationTooLarge(limit) => state_too_large("invocation", *limit),
        Error::AnswerTooLarge => Report::new(Code::ResourceExhausted, Reason::AnswerTooLarge, No, format!(
            "One item exceeds the limit of {MESSAGE_BYTES} bytes per response. Request JSON_FORM_TEXT or fewer keys."
        )).with("limit", MESSAGE_BYTES),
        Error::Overloaded { what, retry_after_millis } => Report {
            retry_after: Some(Duration::from_millis(*retry_after_millis)),
            ..Report::new(Code::ResourceExhausted, Reason::Overloaded, Yes, format!("{}. Retry in {retry_after_millis} ms.", full(*what)))
                .with("what", what.as_str()).with("retry_after_millis", retry_after_millis)
        },
        Error::Starting => Report::new(Code::Unavailable, Reason::Starting, Yes,
            "The server is starting. Retry shortly."),
        Error::Draining => Report::new(Code::Unavailable, Reason::Draining, Yes,
            "The server is shutting down. Retry the call, resume a stream at its first unanswered item, or a watch at its last cursor."),
        Error::StoreUnavailable(_) => Report::new(Code::Unavailable, Reason::StoreUnavailable, Yes,
            "The store is unavailable and nothing was applied. Retry the call."),
        Error::OutcomeUnknown(_) => Report::new(Code::Unknown, Reason::OutcomeUnknown, SameId,
            "The store failed during the commit, so the call may or may not have been applied. Retry with the same event id or request id."),
        Error::ExpiredInQueue => Report::new(Code::DeadlineExceeded, Reason::ExpiredInQueue, Yes,
            "The deadline passed while the call was queued, and nothing was applied. Retry with a later deadline."),
        Error::Internal(_) => Report::new(Code::Internal, Reason::Internal, No,
            "Internal error. Report it with this request_id.").with("request_id", request_id),
    }
}

const fn full(what: Bounded) -> &'static str {
    match what {
        Bounded::WriteQueue => "The write queue is full",
        Bounded::ReadQueue => "The read queue is full",
        Bounded::Watches => "Too many watches are open",
        Bounded::TempInvocations => "Too many invocations have temp: state",
    }
}

fn invalid(violations: &[Violation]) -> Report {
    let (code, bad_request) = (Code::InvalidArgument, "The request is invalid.");
    let Some(first) = violations.first() else {
        return Report::new(code, Reason::BadValue, No, bad_request);
    };
    let mut message = match first.field.as_str() {
        "" => first.message.clone(),
        field => format!("{field}: {}", first.message),
    };
    let more = violations.len() - 1;
    if more > 0 {
        message = format!("{message} The field violations list {more} more.");
    }
    let mut report = Report::new(code, first.reason, No, message).with("field", &first.field);
    for (name, value) in &first.metadata {
        report = report.with(name, value);
    }
    if more > 0 {
        report = report.with("more", more);
    }
    Report { violations: violations.to_vec(), ..report }
}

fn session_not_found(address: &SessionRefText) -> Report {
    let SessionRefText { app_name, user_id, session_id } = address;
    let whose = if app_name.is_empty() && user_id.is_empty() {
        String::new()
    } else {
        format!(" of user '{}' in application '{}'", quoted(user_id), quoted(app_name))
    };
    let message =
        format!("Session '{}'{whose} does not exist. Create it first.", quoted(session_id));
    let report = Report::new(Code::NotFound, Reason::SessionNotFound, No, message);
    [("app_name", app_name), ("user_id", user_id), ("session_id", session_id)]
        .into_iter()
        .filter(|(_, part)| !part.is_empty())
        .fold(report, |report, (name, part)| report.with(name, part))
}

fn session_exists(key: &SessionKey) -> Report {
    let SessionKey { app_name, user_id, session_id } = key;
    let message = format!(
        "Session '{}' of user '{}' in application '{}' exists already. Use another id, or set allow_existing.",
        quoted(session_id.as_str()),
        quoted(user_id.as_str()),
        quoted(app_name.as_str())
    );
    Report::new(Code::AlreadyExists, Reason::SessionExists, No, message)
        .with("app_name", app_name)
        .with("user_id", user_id)
        .with("session_id", session_id)
}

fn conflict(sequence: Option<SequenceConflict>, keys: &[StateKey]) -> Report {
    let mut failed = Vec::new();
    if let Some(SequenceConflict { expected, actual }) = sequence {
        failed.push(format!("expected sequence {expected}, found {actual}"));
    }
    match keys {
        [] => {}
        [key] => {
            failed.push(format!("the condition on key '{}' does not hold", quoted(key.as_str())))
        }
        _ => failed.push(format!("the conditions on {} keys do not hold", keys.len())),
    }
    let reason = if sequence.is_some() { Reason::SequenceConflict } else { Reason::KeyConflict };
    let message =
        format!("Precondition failed: {}. Read again and decide again.", failed.join(" and "));
    let mut report = Report::new(Code::Aborted, reason, No, message);
    if let Some(SequenceConflict { expected, actual }) = sequence {
        report = report.with("expected", expected).with("actual", actual);
    }
    if !keys.is_empty() {
        report = report.with_list("keys", keys.iter().map(StateKey::to_string).collect());
    }
    report
}

fn missing_state_key(keys: &[String]) -> Report {
    let what = match keys {
        [key] => format!("Key '{}' of the template has", quoted(key)),
        _ => format!("{} keys of the template have", keys.len()),
    };
    let message = format!("{what} no value. Set it, or make it optional with '?'.");
    Report::new(Code::FailedPrecondition, Reason::MissingStateKey, No, message)
        .with_list("keys", keys.to_vec())
}

fn state_too_large(scope: impl fmt::Display, limit: usize) -> Report {
    let message = format!(
        "The {scope} state would exceed {limit} bytes. Remove keys, or store large values elsewhere."
    );
    Report::new(Code::ResourceExhausted, Reason::StateTooLarge, No, message)
        .with("scope", scope)
        .with("limit", limit)
}

#[cfg(test)]
mod tests;
