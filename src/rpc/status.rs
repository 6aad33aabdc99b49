//! From errors to statuses: the one place that knows the wire's codes, and the words that callers read.

mod fit;

use std::{fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::domain::{
    error::{Bounded, Error, Reason, SequenceConflict, SessionRefText, Violation, quoted},
    limits::{MESSAGE_BYTES, SCOPE_BYTES},
    scope::{SessionKey, StateKey},
};

/// What every `ErrorInfo.domain` is.
pub const DOMAIN: &str = "sessiond";

/// What a status says, before it is cut to the size that clients take.
#[derive(Debug)]
struct Report {
    code: Code,
    reason: Reason,
    /// Whole sentences: what is wrong, and what to do.
    message: String,
    /// Every variable part of the message.
    metadata: Vec<(&'static str, Detail)>,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
}

/// A variable part of a message.
#[derive(Debug)]
enum Detail {
    Text(String),
    /// Written as a JSON array.
    List(Vec<String>),
}

/// The status of a call that failed. `request_id` is what the log knows the call by; a caller sees it where the cause is only there.
pub fn status(error: Error, request_id: impl fmt::Display) -> Status {
    report(error, request_id).into_status()
}

/// That something is full, as a part of a sentence.
const fn full(what: Bounded) -> &'static str {
    match what {
        Bounded::WriteQueue => "the write queue is full",
        Bounded::ReadQueue => "the read queue is full",
        Bounded::Forks => "no further long fork can be begun",
        Bounded::Watches => "no further watch can be opened",
        Bounded::TempInvocations => "no further invocation can have temp: state",
    }
}

/// The status of a watch that failed behind this cursor, which a caller who was told to come back begins with.
pub fn watch_status(error: Error, request_id: impl fmt::Display, cursor: Option<&str>) -> Status {
    let resumes = error == Error::Draining;
    let report = report(error, request_id);
    match cursor.filter(|_| resumes) {
        Some(cursor) => report.with("cursor", cursor).into_status(),
        None => report.into_status(),
    }
}

/// What is left of a status where an item of a stream failed instead of a call: code, reason (empty where it has none), message.
pub fn outline(status: &Status) -> (Code, String, &str) {
    let info = status.get_details_error_info();
    let reason = info.map(|info| info.reason).unwrap_or_default();
    (status.code(), reason, status.message())
}

fn report(error: Error, request_id: impl fmt::Display) -> Report {
    match error {
        Error::Invalid(violations) => invalid(violations),
        Error::SessionNotFound(address) => session_not_found(address),
        Error::SessionExists(key) => session_exists(&key),
        Error::EventIdReused(id) => Report::new(
            Code::AlreadyExists,
            Reason::EventIdReused,
            format!(
                "The session has an event '{}' with other content; send the same content to repeat it, or take another id.",
                quoted(id.as_str())
            ),
        )
        .with("event_id", id),
        Error::RequestIdReused(id) => Report::new(
            Code::AlreadyExists,
            Reason::RequestIdReused,
            format!(
                "The scope has seen a request '{}' with another delta; send the same delta to repeat it, or take another id.",
                quoted(id.as_str())
            ),
        )
        .with("request_id", id),
        Error::Conflict { sequence, keys } => conflict(sequence, keys),
        Error::AmbiguousSessionId(id) => Report::new(
            Code::FailedPrecondition,
            Reason::AmbiguousSessionId,
            format!(
                "Several sessions have the id '{}'; name app_name and user_id as well.",
                quoted(id.as_str())
            ),
        )
        .with("session_id", id),
        Error::TypeMismatch { key, wanted, found } => Report::new(
            Code::FailedPrecondition,
            Reason::TypeMismatch,
            format!(
                "Key '{}' has a value of type {found}, but the operation needs one of type {wanted}; set the key anew, or use another one.",
                quoted(key.as_str())
            ),
        )
        .with("key", key)
        .with("type", found)
        .with("wanted", wanted),
        Error::MissingStateKey(keys) => missing_state_key(keys),
        Error::CursorOfOtherStore => Report::new(
            Code::FailedPrecondition,
            Reason::CursorOfOtherStore,
            "The cursor was made by another store, and means nothing to this one; begin the watch anew without a cursor.",
        ),
        Error::TooDeep => Report::new(
            Code::FailedPrecondition,
            Reason::TooDeep,
            "A value nests too deep for google.protobuf.Struct; ask for JSON_FORM_TEXT.",
        ),
        Error::BeyondLastSequence {
            asked,
            last_sequence,
        } => Report::new(
            Code::OutOfRange,
            Reason::BeyondLastSequence,
            format!(
                "Sequence {asked} lies beyond the newest event, {last_sequence}; ask for that one at most."
            ),
        )
        .with("asked", asked)
        .with("last_sequence", last_sequence),
        Error::StateTooLarge(scope) => state_too_large(scope, SCOPE_BYTES),
        Error::InvocationTooLarge(limit) => state_too_large("invocation", limit),
        Error::AnswerTooLarge => Report::new(
            Code::ResourceExhausted,
            Reason::AnswerTooLarge,
            format!(
                "A single item takes more than the {MESSAGE_BYTES} bytes of an answer in the form asked for; ask for JSON_FORM_TEXT, or for fewer keys."
            ),
        )
        .with("limit", MESSAGE_BYTES),
        Error::Overloaded {
            what,
            retry_after_millis,
        } => Report {
            retry_after: Some(Duration::from_millis(retry_after_millis)),
            ..Report::new(
                Code::ResourceExhausted,
                Reason::Overloaded,
                format!("The server is at its limit: {}; try again in {retry_after_millis} ms.", full(what)),
            )
            .with("what", what.as_str())
            .with("retry_after_millis", retry_after_millis)
        },
        Error::Starting => Report::new(
            Code::Unavailable,
            Reason::Starting,
            "The server is not yet serving and did nothing; send the same call again shortly.",
        ),
        Error::Draining => Report::new(
            Code::Unavailable,
            Reason::Draining,
            "The server is stopping and did nothing; send the same call again, a stream from its first item without an answer, a watch with its last cursor.",
        ),
        Error::StoreUnavailable => Report::new(
            Code::Unavailable,
            Reason::StoreUnavailable,
            "The store is unavailable and nothing was applied; send the same call again.",
        ),
        Error::OutcomeUnknown => Report::new(
            Code::Unknown,
            Reason::OutcomeUnknown,
            "The store failed during the commit, which may or may not have been applied; send the same call again with the same event id or request id.",
        ),
        Error::Internal(cause) => {
            tracing::error!(%request_id, cause, "a call failed for a cause that is no caller's");
            Report::new(
                Code::Internal,
                Reason::Internal,
                "The server failed for a cause of its own, which its log names under the request id; report it.",
            )
            .with("request_id", request_id)
        }
    }
}

fn invalid(violations: Vec<Violation>) -> Report {
    let Some(first) = violations.first() else {
        return Report::new(
            Code::InvalidArgument,
            Reason::BadValue,
            "The request is at fault; compare it with the contract.",
        );
    };
    let mut message = match first.field.as_str() {
        "" => first.message.clone(),
        field => format!("{field}: {}", first.message),
    };
    let more = violations.len() - 1;
    if more > 0 {
        message = format!("{message} And {more} more, which the field violations name.");
    }
    let mut report = Report::new(Code::InvalidArgument, first.reason, message);
    report = report.with("field", &first.field);
    for (name, value) in &first.metadata {
        report = report.with(name, value);
    }
    if more > 0 {
        report = report.with("more", more);
    }
    Report { violations, ..report }
}

fn session_not_found(address: SessionRefText) -> Report {
    let SessionRefText { app_name, user_id, session_id } = address;
    let whose = if app_name.is_empty() && user_id.is_empty() {
        String::new()
    } else {
        format!(" of user '{}' in application '{}'", quoted(&user_id), quoted(&app_name))
    };
    let report = Report::new(
        Code::NotFound,
        Reason::SessionNotFound,
        format!("There is no session '{}'{whose}; create it first.", quoted(&session_id)),
    );
    [("app_name", app_name), ("user_id", user_id), ("session_id", session_id)]
        .into_iter()
        .filter(|(_, part)| !part.is_empty())
        .fold(report, |report, (name, part)| report.with(name, part))
}

fn session_exists(key: &SessionKey) -> Report {
    let SessionKey { app_name, user_id, session_id } = key;
    Report::new(
        Code::AlreadyExists,
        Reason::SessionExists,
        format!(
            "User '{}' has a session '{}' in application '{}' already; take another id, or ask with allow_existing.",
            quoted(user_id.as_str()),
            quoted(session_id.as_str()),
            quoted(app_name.as_str())
        ),
    )
    .with("app_name", app_name)
    .with("user_id", user_id)
    .with("session_id", session_id)
}

fn conflict(sequence: Option<SequenceConflict>, keys: Vec<StateKey>) -> Report {
    let mut sentences = Vec::new();
    if let Some(SequenceConflict { expected, actual }) = sequence {
        sentences.push(format!("Expected sequence {expected}, but it is {actual}."));
    }
    if !keys.is_empty() {
        sentences.push(format!("{} as the precondition asks.", named(&keys)));
    }
    sentences.push("Nothing was written; read again and decide again.".to_owned());
    let reason = match sequence {
        Some(_) => Reason::SequenceConflict,
        None => Reason::KeyConflict,
    };
    let mut report = Report::new(Code::Aborted, reason, sentences.join(" "));
    if let Some(SequenceConflict { expected, actual }) = sequence {
        report = report.with("expected", expected).with("actual", actual);
    }
    if !keys.is_empty() {
        report = report.with_list("keys", keys.iter().map(StateKey::to_string).collect());
    }
    report
}

fn named(keys: &[StateKey]) -> String {
    match keys {
        [key] => format!("Key '{}' is not", quoted(key.as_str())),
        _ => format!("{} keys are not", keys.len()),
    }
}

fn missing_state_key(keys: Vec<String>) -> Report {
    let what = match keys.as_slice() {
        [key] => format!("key '{}', which has", quoted(key)),
        _ => format!("{} keys that have", keys.len()),
    };
    Report::new(
        Code::FailedPrecondition,
        Reason::MissingStateKey,
        format!("The template names {what} no value; set what is missing, or mark it with '?'."),
    )
    .with_list("keys", keys)
}

fn state_too_large(scope: impl fmt::Display, limit: usize) -> Report {
    Report::new(
        Code::ResourceExhausted,
        Reason::StateTooLarge,
        format!(
            "The state of the {scope} would exceed {limit} bytes; remove keys, or keep large values elsewhere."
        ),
    )
    .with("scope", scope)
    .with("limit", limit)
}

impl Report {
    fn new(code: Code, reason: Reason, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            metadata: Vec::new(),
            violations: Vec::new(),
            retry_after: None,
        }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.metadata.push((name, Detail::Text(value.to_string())));
        self
    }

    fn with_list(mut self, name: &'static str, items: Vec<String>) -> Self {
        self.metadata.push((name, Detail::List(items)));
        self
    }
}

#[cfg(test)]
mod tests;
