//! What can go wrong, in words that a caller can act on. The wire's codes are made of this in one place, `rpc/status.rs`.

use std::fmt;

use super::{
    Sequence, Version,
    id::{EventId, RequestId, SessionId},
    json::JsonType,
    limits::QUOTED_BYTES,
    scope::{ScopeKind, SessionKey, StateKey},
};

/// What the wire calls a cause (`ErrorInfo.reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the table of errors in the README explains each, once")]
pub enum Reason {
    MissingField,
    FieldTooLong,
    BadId,
    BadKey,
    BadValue,
    BadJson,
    NumberNotExact,
    NumberOverflow,
    ValueTooLarge,
    EventTooLarge,
    BatchTooLarge,
    BadPageToken,
    BadCursor,
    BadMask,
    KeyOutsideScope,
    SessionNotFound,
    SessionExists,
    EventIdReused,
    RequestIdReused,
    SequenceConflict,
    KeyConflict,
    AmbiguousSessionId,
    TypeMismatch,
    MissingStateKey,
    CursorOfOtherStore,
    TooDeep,
    BeyondLastSequence,
    StateTooLarge,
    AnswerTooLarge,
    Overloaded,
    Starting,
    Draining,
    StoreUnavailable,
    OutcomeUnknown,
    Internal,
}

impl Reason {
    /// As it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingField => "MISSING_FIELD",
            Self::FieldTooLong => "FIELD_TOO_LONG",
            Self::BadId => "BAD_ID",
            Self::BadKey => "BAD_KEY",
            Self::BadValue => "BAD_VALUE",
            Self::BadJson => "BAD_JSON",
            Self::NumberNotExact => "NUMBER_NOT_EXACT",
            Self::NumberOverflow => "NUMBER_OVERFLOW",
            Self::ValueTooLarge => "VALUE_TOO_LARGE",
            Self::EventTooLarge => "EVENT_TOO_LARGE",
            Self::BatchTooLarge => "BATCH_TOO_LARGE",
            Self::BadPageToken => "BAD_PAGE_TOKEN",
            Self::BadCursor => "BAD_CURSOR",
            Self::BadMask => "BAD_MASK",
            Self::KeyOutsideScope => "KEY_OUTSIDE_SCOPE",
            Self::SessionNotFound => "SESSION_NOT_FOUND",
            Self::SessionExists => "SESSION_EXISTS",
            Self::EventIdReused => "EVENT_ID_REUSED",
            Self::RequestIdReused => "REQUEST_ID_REUSED",
            Self::SequenceConflict => "SEQUENCE_CONFLICT",
            Self::KeyConflict => "KEY_CONFLICT",
            Self::AmbiguousSessionId => "AMBIGUOUS_SESSION_ID",
            Self::TypeMismatch => "TYPE_MISMATCH",
            Self::MissingStateKey => "MISSING_STATE_KEY",
            Self::CursorOfOtherStore => "CURSOR_OF_OTHER_STORE",
            Self::TooDeep => "TOO_DEEP",
            Self::BeyondLastSequence => "BEYOND_LAST_SEQUENCE",
            Self::StateTooLarge => "STATE_TOO_LARGE",
            Self::AnswerTooLarge => "ANSWER_TOO_LARGE",
            Self::Overloaded => "OVERLOADED",
            Self::Starting => "STARTING",
            Self::Draining => "DRAINING",
            Self::StoreUnavailable => "STORE_UNAVAILABLE",
            Self::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Self::Internal => "INTERNAL",
        }
    }
}

/// One fault of a request, to be mended by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where, as a path in the request: `events[2].event_id`. Faults that a store finds begin with `events[i]`; the handler
    /// puts its own request's path in the place of that.
    pub field: String,
    /// What kind of fault: one of the reasons of INVALID_ARGUMENT.
    pub reason: Reason,
    /// A whole sentence that says what is wrong and what to do.
    pub message: String,
    /// Every variable part of the message, by name.
    pub metadata: Vec<(&'static str, String)>,
}

impl Violation {
    /// A fault whose message has no variable part but its field.
    pub fn new(field: impl Into<String>, reason: Reason, message: impl Into<String>) -> Self {
        Self { field: field.into(), reason, message: message.into(), metadata: Vec::new() }
    }

    /// Names a variable part of the message.
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.metadata.push((name, value.to_string()));
        self
    }
}

/// Why a call was refused or failed. A driver's own words are logged where they arise and never get in here.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The request itself is at fault; everything at fault, at least one, in the order of the request.
    Invalid(Vec<Violation>),
    /// No live session has this address.
    SessionNotFound(SessionRefText),
    /// The address is taken by a live session.
    SessionExists(SessionKey),
    /// The session has an event of this id with other content.
    EventIdReused(EventId),
    /// The scope has seen a request of this id with another delta.
    RequestIdReused(RequestId),
    /// A precondition does not hold; one of the two at least is there.
    Conflict {
        /// The scope's version is not the one expected.
        sequence: Option<SequenceConflict>,
        /// Keys whose condition does not hold.
        keys: Vec<StateKey>,
    },
    /// Several live sessions have this bare id.
    AmbiguousSessionId(SessionId),
    /// An operation met a value of a type that it cannot work on.
    TypeMismatch {
        /// The key.
        key: StateKey,
        /// What the operation needs.
        wanted: JsonType,
        /// What is there.
        found: JsonType,
    },
    /// A template names keys without a value; each once.
    MissingStateKey(Vec<String>),
    /// A cursor was made by another store.
    CursorOfOtherStore,
    /// A read met a value that `Struct` cannot hold.
    TooDeep,
    /// A sequence lies after the session's newest event.
    BeyondLastSequence {
        /// What was asked for.
        asked: Sequence,
        /// The newest there is.
        last_sequence: Sequence,
    },
    /// A change would make a scope's state larger than it may be.
    StateTooLarge(ScopeKind),
    /// A change would make an invocation's `temp:` state larger than it may be; holds the limit in bytes.
    InvocationTooLarge(usize),
    /// A single item cannot be answered in the form asked for.
    AnswerTooLarge,
    /// A bounded queue or table is full; try again after a while.
    Overloaded {
        /// What is full.
        what: Bounded,
        /// Milliseconds after which a retry makes sense.
        retry_after_millis: u64,
    },
    /// Not yet serving.
    Starting,
    /// No longer serving.
    Draining,
    /// The store could not do it; certainly nothing was applied.
    StoreUnavailable,
    /// The store failed at a moment at which nobody can say whether it was applied.
    OutcomeUnknown,
    /// A defect or a damaged store. The text is for the log, never for the caller.
    Internal(String),
}

/// The address of a session as the caller wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRefText {
    /// Empty where the session was named by its id alone.
    pub app_name: String,
    /// Empty where the session was named by its id alone.
    pub user_id: String,
    /// The session's id.
    pub session_id: String,
}

/// A failed condition on a scope's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceConflict {
    /// What the caller expected.
    pub expected: Version,
    /// What is.
    pub actual: Version,
}

impl Error {
    /// A request with a single fault.
    pub fn invalid(field: impl Into<String>, reason: Reason, message: impl Into<String>) -> Self {
        Self::Invalid(vec![Violation::new(field, reason, message)])
    }

    /// No live session has this whole address.
    pub fn not_found(key: &SessionKey) -> Self {
        Self::SessionNotFound(SessionRefText {
            app_name: key.app_name.to_string(),
            user_id: key.user_id.to_string(),
            session_id: key.session_id.to_string(),
        })
    }

    /// No live session has this bare id.
    pub fn not_found_bare(id: &SessionId) -> Self {
        Self::SessionNotFound(SessionRefText {
            app_name: String::new(),
            user_id: String::new(),
            session_id: id.to_string(),
        })
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Self::Invalid(vec![violation])
    }
}

impl fmt::Display for Error {
    /// For logs and for tests; the wire's messages are made in `rpc/status.rs`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// What has a bound that callers can reach together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// Writes that wait for the store.
    WriteQueue,
    /// Reads that wait for the store.
    ReadQueue,
    /// Forks that take more than one commit.
    Forks,
    /// Watches that are open.
    Watches,
    /// Invocations that have `temp:` state.
    TempInvocations,
}

impl Bounded {
    /// Its name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WriteQueue => "write_queue",
            Self::ReadQueue => "read_queue",
            Self::Forks => "forks",
            Self::Watches => "watches",
            Self::TempInvocations => "temp_invocations",
        }
    }
}

/// Cuts an id that a message quotes at 64 bytes, at a character, and says that it did.
pub fn quoted(id: &str) -> String {
    if id.len() <= QUOTED_BYTES {
        return id.to_owned();
    }
    let cut = (0..=QUOTED_BYTES).rev().find(|&at| id.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &id[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_id_is_cut_at_a_character() {
        assert_eq!(quoted("short"), "short");
        assert_eq!(quoted(&"é".repeat(32)), "é".repeat(32));
        assert_eq!(quoted(&format!("x{}", "é".repeat(32))), format!("x{}…", "é".repeat(31)));
    }
}
