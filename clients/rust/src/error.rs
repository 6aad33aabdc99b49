//! Failed calls as errors of ADK.

use adk_core::{AdkError, ErrorCategory, ErrorComponent};
use tonic::Code;

use crate::failure::{DOMAIN, Failure, Kind};

/// Ends the message of a call that this side gave up on.
const OUTCOME_NOT_KNOWN: &str = "It is not known whether the call was applied; of the writes, only an append of the same event is always safe to repeat.";

/// The code of a write that is meant for another life of the session id than the one that is there.
pub(crate) const REPLACED: &str = "session.replaced";

impl From<Failure> for AdkError {
    fn from(failure: Failure) -> Self {
        let info = failure.info();
        let (category, code) = match failure.kind {
            Kind::ConnectionLost => (ErrorCategory::Unavailable, "session.unavailable"),
            Kind::DeadlineExceeded => (ErrorCategory::Timeout, "session.deadline_exceeded"),
            Kind::Refused => info
                .as_ref()
                .and_then(|info| of_reason(&info.reason))
                .unwrap_or_else(|| of_code(failure.status.code())),
        };
        let mut error = Self::new(ErrorComponent::Session, category, code, message(&failure))
            .with_provider(DOMAIN);
        if let Some(info) = info {
            let metadata = info.metadata.into_iter().map(|(key, value)| (key, value.into()));
            error.details.metadata.extend(metadata);
            error.details.metadata.insert("reason".into(), info.reason.into());
            error.retry.should_retry = failure.is_retryable();
        }
        if let Some(delay) = failure.retry_delay() {
            error.retry = error.retry.with_retry_after(delay);
        }
        error.with_source(failure.status)
    }
}

fn message(failure: &Failure) -> String {
    let says = failure.status.message();
    let tried = match failure.attempts {
        0 | 1 => String::new(),
        attempts => format!(" (after {attempts} attempts)"),
    };
    match failure.kind {
        Kind::Refused => format!("{says}{tried}"),
        Kind::ConnectionLost => {
            format!(
                "sessiond is unreachable{tried}: {says}. Check the address, or start the server with `sessiond serve`. \
                 {OUTCOME_NOT_KNOWN}"
            )
        }
        Kind::DeadlineExceeded => {
            format!("sessiond did not answer within the deadline{tried}. {OUTCOME_NOT_KNOWN}")
        }
    }
}

/// One row for each reason of `docs/errors.md`.
fn of_reason(reason: &str) -> Option<(ErrorCategory, &'static str)> {
    use ErrorCategory::{
        Forbidden, Internal, InvalidInput, NotFound, RateLimited, Timeout, Unauthorized,
        Unavailable, Unsupported,
    };
    Some(match reason {
        "MISSING_FIELD" => (InvalidInput, "session.missing_field"),
        "FIELD_TOO_LONG" => (InvalidInput, "session.field_too_long"),
        "BAD_ID" => (InvalidInput, "session.bad_id"),
        "BAD_KEY" => (InvalidInput, "session.bad_key"),
        "BAD_VALUE" => (InvalidInput, "session.bad_value"),
        "BAD_JSON" => (InvalidInput, "session.bad_json"),
        "NUMBER_NOT_EXACT" => (InvalidInput, "session.number_not_exact"),
        "NUMBER_OVERFLOW" => (InvalidInput, "session.number_overflow"),
        "VALUE_TOO_LARGE" => (InvalidInput, "session.value_too_large"),
        "EVENT_TOO_LARGE" => (InvalidInput, "session.event_too_large"),
        "BATCH_TOO_LARGE" => (InvalidInput, "session.batch_too_large"),
        "BAD_PAGE_TOKEN" => (InvalidInput, "session.bad_page_token"),
        "BAD_CURSOR" => (InvalidInput, "session.bad_cursor"),
        "BAD_MASK" => (InvalidInput, "session.bad_mask"),
        "BAD_MESSAGE" => (InvalidInput, "session.bad_message"),
        "KEY_OUTSIDE_SCOPE" => (InvalidInput, "session.key_outside_scope"),
        // The codes of ADK's own stores.
        "SESSION_NOT_FOUND" => (NotFound, "session.not_found"),
        "SESSION_EXISTS" => (InvalidInput, "session.already_exists"),
        "AMBIGUOUS_SESSION_ID" => (InvalidInput, "session.ambiguous_id"),
        "EVENT_ID_REUSED" => (InvalidInput, "session.event_id_reused"),
        "REQUEST_ID_REUSED" => (InvalidInput, "session.request_id_reused"),
        "SEQUENCE_CONFLICT" => (InvalidInput, "session.sequence_conflict"),
        "SESSION_REPLACED" => (InvalidInput, REPLACED),
        "KEY_CONFLICT" => (InvalidInput, "session.key_conflict"),
        "TYPE_MISMATCH" => (InvalidInput, "session.type_mismatch"),
        "MISSING_STATE_KEY" => (InvalidInput, "session.missing_state_key"),
        "CURSOR_OF_OTHER_STORE" => (InvalidInput, "session.cursor_of_other_store"),
        "TOO_DEEP" => (InvalidInput, "session.too_deep"),
        "BEYOND_LAST_SEQUENCE" => (InvalidInput, "session.beyond_last_sequence"),
        "STATE_TOO_LARGE" => (InvalidInput, "session.state_too_large"),
        "ANSWER_TOO_LARGE" => (InvalidInput, "session.answer_too_large"),
        "MESSAGE_TOO_LARGE" => (InvalidInput, "session.message_too_large"),
        "OVERLOADED" | "RATE_LIMITED" => (RateLimited, "session.overloaded"),
        "DISK_FULL" => (Unavailable, "session.disk_full"),
        "STARTING" | "DRAINING" | "STORE_UNAVAILABLE" | "STORE_BEHIND" | "FILE_LOST" => {
            (Unavailable, "session.unavailable")
        }
        "DAMAGED" => (Internal, "session.damaged"),
        "OUTCOME_UNKNOWN" => (Unavailable, "session.outcome_unknown"),
        "EXPIRED_IN_QUEUE" => (Timeout, "session.deadline_exceeded"),
        "INTERNAL" => (Internal, "session.internal"),
        "CREDENTIAL_MISSING" | "CREDENTIAL_INVALID" | "CREDENTIAL_EXPIRED" => {
            (Unauthorized, "session.unauthorized")
        }
        "PERMISSION_DENIED" | "READ_ONLY_LISTENER" => (Forbidden, "session.forbidden"),
        "NOT_OVER_HTTP" => (Unsupported, "session.unsupported"),
        _ => return None,
    })
}

/// For statuses without a reason, made by the transport or a proxy. None of them says that a session is missing, so none is
/// `NotFound`.
fn of_code(code: Code) -> (ErrorCategory, &'static str) {
    match code {
        Code::Unavailable => (ErrorCategory::Unavailable, "session.unavailable"),
        Code::DeadlineExceeded | Code::Cancelled => {
            (ErrorCategory::Timeout, "session.deadline_exceeded")
        }
        Code::InvalidArgument => (ErrorCategory::InvalidInput, "session.invalid_argument"),
        Code::Unauthenticated => (ErrorCategory::Unauthorized, "session.unauthorized"),
        Code::PermissionDenied => (ErrorCategory::Forbidden, "session.forbidden"),
        Code::Unimplemented => (ErrorCategory::Unsupported, "session.unsupported"),
        Code::ResourceExhausted => (ErrorCategory::RateLimited, "session.resource_exhausted"),
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss => (ErrorCategory::Internal, "session.transport"),
    }
}

/// An error that the caller has to fix.
pub(crate) fn invalid(code: &'static str, says: impl Into<String>) -> AdkError {
    AdkError::new(ErrorComponent::Session, ErrorCategory::InvalidInput, code, says)
}

/// An answer that violates the contract.
pub(crate) fn unexpected(says: impl Into<String>) -> AdkError {
    AdkError::internal(ErrorComponent::Session, "session.unexpected_answer", says)
        .with_provider(DOMAIN)
}
