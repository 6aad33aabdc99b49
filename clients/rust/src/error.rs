//! What a refusal of the server, or its silence, means to the kit.

use adk_core::{AdkError, ErrorCategory, ErrorComponent};
use tonic::Code;
use tonic_types::{ErrorInfo, StatusExt as _};

use crate::call::{Failure, Kind};

/// The domain of the reasons that sessiond gives.
const DOMAIN: &str = "sessiond";

/// What an error leaves open that this side has made.
const OPEN: &str = "whether the call was carried out is not known, and of writes only an append of the same event may always be repeated";

/// What the server calls the table of the turns whose `temp:` keys it holds, where that is what is full.
const TEMPORARY: &str = "temp_invocations";

impl Failure {
    /// The server's reason; none where the transport failed.
    pub fn reason(&self) -> Option<String> {
        let info = self.status.get_details_error_info()?;
        (info.domain == DOMAIN).then_some(info.reason)
    }

    /// Whether the server gave this reason.
    pub fn is(&self, reason: &str) -> bool {
        self.reason().as_deref() == Some(reason)
    }

    /// Whether the server had no room for the `temp:` keys of another turn. A queue that is full has the same reason, and is
    /// another matter: what could not be queued may be sent again as it is.
    pub fn has_no_room_for_temporary(&self) -> bool {
        let what =
            |info: ErrorInfo| info.metadata.get("what").is_some_and(|what| what == TEMPORARY);
        self.is("OVERLOADED") && self.status.get_details_error_info().is_some_and(what)
    }
}

impl From<Failure> for AdkError {
    fn from(failure: Failure) -> Self {
        let reason = failure.reason();
        let (category, code) = match (failure.kind, reason.as_deref()) {
            (Kind::Lost, _) => (ErrorCategory::Unavailable, "session.unavailable"),
            (Kind::Late, _) => (ErrorCategory::Timeout, "session.deadline_exceeded"),
            (Kind::Refused, Some(reason)) => {
                of_reason(reason).unwrap_or_else(|| of_code(failure.status.code()))
            }
            (Kind::Refused, None) => of_code(failure.status.code()),
        };
        let mut error = Self::new(ErrorComponent::Session, category, code, message(&failure))
            .with_provider(DOMAIN);
        if let Some(info) = failure.status.get_details_error_info() {
            let metadata = info.metadata.into_iter().map(|(key, value)| (key, value.into()));
            error.details.metadata.extend(metadata);
        }
        if let Some(reason) = reason {
            error.details.metadata.insert("reason".into(), reason.into());
        }
        if code == "session.outcome_unknown" {
            error.retry.should_retry = true;
        }
        if let Some(after) =
            failure.status.get_details_retry_info().and_then(|info| info.retry_delay)
        {
            error.retry = error.retry.with_retry_after(after);
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
        Kind::Lost => format!("sessiond cannot be reached: {says}{tried}; {OPEN}"),
        Kind::Late => format!("sessiond did not answer within the deadline{tried}; {OPEN}"),
    }
}

/// One row for each reason of `docs/errors.md`.
fn of_reason(reason: &str) -> Option<(ErrorCategory, &'static str)> {
    use ErrorCategory::{Internal, InvalidInput, NotFound, RateLimited, Unavailable};
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
        "KEY_OUTSIDE_SCOPE" => (InvalidInput, "session.key_outside_scope"),
        // The kit's own stores call these three so.
        "SESSION_NOT_FOUND" => (NotFound, "session.not_found"),
        "SESSION_EXISTS" => (InvalidInput, "session.already_exists"),
        "AMBIGUOUS_SESSION_ID" => (InvalidInput, "session.ambiguous_id"),
        "EVENT_ID_REUSED" => (InvalidInput, "session.event_id_reused"),
        "REQUEST_ID_REUSED" => (InvalidInput, "session.request_id_reused"),
        "SEQUENCE_CONFLICT" => (InvalidInput, "session.sequence_conflict"),
        "KEY_CONFLICT" => (InvalidInput, "session.key_conflict"),
        "TYPE_MISMATCH" => (InvalidInput, "session.type_mismatch"),
        "MISSING_STATE_KEY" => (InvalidInput, "session.missing_state_key"),
        "CURSOR_OF_OTHER_STORE" => (InvalidInput, "session.cursor_of_other_store"),
        "TOO_DEEP" => (InvalidInput, "session.too_deep"),
        "BEYOND_LAST_SEQUENCE" => (InvalidInput, "session.beyond_last_sequence"),
        "STATE_TOO_LARGE" => (InvalidInput, "session.state_too_large"),
        "ANSWER_TOO_LARGE" => (InvalidInput, "session.answer_too_large"),
        "OVERLOADED" => (RateLimited, "session.overloaded"),
        "STARTING" | "DRAINING" | "STORE_UNAVAILABLE" => (Unavailable, "session.unavailable"),
        // Not retried here, as the server has answered; whether to repeat it is the caller's to decide, as with a lost answer.
        "OUTCOME_UNKNOWN" => (Unavailable, "session.outcome_unknown"),
        "INTERNAL" => (Internal, "session.internal"),
        _ => return None,
    })
}

/// For statuses without a reason, which the transport, or something between, has made. None of them says that a session is
/// missing, so none may look like it.
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
        // A message beyond what the server receives, which its transport refuses.
        Code::OutOfRange => (ErrorCategory::InvalidInput, "session.message_too_large"),
        Code::Ok
        | Code::Unknown
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Internal
        | Code::DataLoss => (ErrorCategory::Internal, "session.transport"),
    }
}

/// What the caller has to mend.
pub(crate) fn invalid(code: &'static str, says: impl Into<String>) -> AdkError {
    AdkError::new(ErrorComponent::Session, ErrorCategory::InvalidInput, code, says)
}

/// What no server of this contract answers.
pub(crate) fn unexpected(says: impl Into<String>) -> AdkError {
    AdkError::internal(ErrorComponent::Session, "session.unexpected_answer", says)
        .with_provider(DOMAIN)
}
