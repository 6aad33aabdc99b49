//! Errors that a caller can act on. `rpc/status.rs` maps them to the wire's codes.

use std::fmt;

use super::{
    Sequence, Version,
    field::FieldPath,
    id::{EventId, RequestId, SessionId},
    json::JsonType,
    permission::Denial,
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
};
pub use super::{field::quoted, reason::Reason};

/// One fault of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub field: FieldPath,
    /// One of the reasons of INVALID_ARGUMENT.
    pub reason: Reason,
    /// One or two sentences: what is wrong, and what to do.
    pub message: String,
    /// Every variable part of the message, by name.
    pub metadata: Vec<(&'static str, String)>,
}

impl Violation {
    pub fn new(field: impl Into<FieldPath>, reason: Reason, message: impl Into<String>) -> Self {
        Self { field: field.into(), reason, message: message.into(), metadata: Vec::new() }
    }

    /// Too much of something countable: its unit, how much there is, and how much is allowed.
    pub fn over_limit(
        field: impl Into<FieldPath>,
        reason: Reason,
        (unit, actual, limit): (&'static str, usize, usize),
        advice: &str,
    ) -> Self {
        let message = format!("{actual} {unit} exceed the limit of {limit}. {advice}");
        Self::new(field, reason, message).with(unit, actual).with("limit", limit)
    }

    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.metadata.push((name, value.to_string()));
        self
    }
}

/// Why a call was refused or failed. Messages of drivers are causes, which are logged and never sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The request itself is at fault; everything at fault, at least one, in the order of the request.
    Invalid(Vec<Violation>),
    MessageTooLarge,
    SessionNotFound(SessionRef),
    SessionExists(SessionKey),
    /// The session has an event of this id with other content.
    EventIdReused(EventId),
    /// The scope has seen a request of this id with another delta.
    RequestIdReused(RequestId),
    /// A precondition does not hold; one of the two at least is there.
    Conflict {
        sequence: Option<SequenceConflict>,
        keys: Vec<StateKey>,
    },
    /// Another session, user or application has the address than the one that the precondition means.
    Replaced(Scope),
    /// The caller lacks a right. Nothing was read.
    PermissionDenied(Denial),
    /// The call came to a listener that takes reads only.
    ReadOnlyListener,
    /// The method has a stream of its client.
    NotOverHttp,
    AmbiguousSessionId(SessionId),
    /// An operation met a value of a type that it cannot work on.
    TypeMismatch {
        key: StateKey,
        wanted: JsonType,
        found: JsonType,
    },
    /// A template names keys without a value; each once.
    MissingStateKey(Vec<String>),
    CursorOfOtherStore,
    BeyondLastSequence {
        asked: Sequence,
        last_sequence: Sequence,
    },
    StateTooLarge(ScopeKind),
    /// A change would make an invocation's `temp:` state larger than it may be; holds the limit in bytes.
    InvocationTooLarge(usize),
    AnswerTooLarge,
    /// A bounded queue or table is full. A retry later may succeed.
    Overloaded {
        what: Bounded,
        retry_after_millis: u64,
    },
    /// A caller or an application does more than its share. A retry later succeeds if it does less.
    RateLimited {
        what: Limited,
        /// A second, or at the same time.
        limit: u32,
        retry_after_millis: u64,
    },
    Starting,
    Draining,
    /// The disk of the store is full; certainly nothing was applied.
    DiskFull,
    /// The file of the store was removed or replaced while it was open, or its disk failed to store it; certainly nothing was applied.
    FileLost,
    /// The database lacks commits that were acknowledged, and is not used; certainly nothing was applied.
    StoreBehind,
    /// The store could not do it; certainly nothing was applied.
    StoreUnavailable(Cause),
    /// The store failed during the commit: it may or may not have been applied.
    OutcomeUnknown(Cause),
    /// The caller's deadline passed before the store began; certainly nothing was applied.
    ExpiredInQueue,
    /// What the store holds cannot be read, or contradicts itself.
    Damaged(Damaged, Cause),
    CredentialMissing,
    /// The caller has shown a credential that proves nothing.
    CredentialInvalid(CredentialFault),
    CredentialExpired,
    Internal(Cause),
}

impl From<Denial> for Error {
    fn from(denial: Denial) -> Self {
        Self::PermissionDenied(denial)
    }
}

/// The source of an error and what lies below it, as one line. It is for the log, never for the caller, and no part of an error's
/// identity.
#[derive(Clone)]
pub struct Cause(pub String);

impl Cause {
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        let source = source.into();
        let first: &dyn std::error::Error = &*source;
        let sources = std::iter::successors(Some(first), |error| error.source());
        Self(sources.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for Cause {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceConflict {
    pub expected: Version,
    pub actual: Version,
}

impl Error {
    pub fn invalid(
        field: impl Into<FieldPath>,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self::Invalid(vec![Violation::new(field, reason, message)])
    }

    /// A defect, in words for the log.
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(Cause::new(cause))
    }

    /// Stored data that cannot be what was written, in words for the log.
    pub fn damaged(
        what: Damage,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Damaged(Damaged { what, name: None }, Cause::new(cause))
    }

    pub fn damaged_key(key: &StateKey) -> Self {
        let damaged = Damaged { what: Damage::Key, name: Some(key.to_string()) };
        Self::Damaged(damaged, Cause("the value is not JSON".to_owned()))
    }

    /// A row's damage with its place in a log.
    pub fn in_row(self, what: Damage, position: u64) -> Self {
        match self {
            Self::Damaged(Damaged { what: Damage::Row, name: None }, cause) => {
                Self::Damaged(Damaged { what, name: Some(position.to_string()) }, cause)
            }
            other => other,
        }
    }

    pub fn not_found(key: &SessionKey) -> Self {
        Self::SessionNotFound(SessionRef::Full(key.clone()))
    }

    /// A watch's position that the store does not reach.
    pub fn cursor_ahead() -> Self {
        let fault = "The cursor is ahead of the store, which was restored from an earlier copy. Start the watch without a cursor.";
        Self::invalid("cursor", Reason::BadCursor, fault)
    }

    pub fn not_found_bare(id: &SessionId) -> Self {
        Self::SessionNotFound(SessionRef::bare(id.clone()))
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
        match self {
            Self::StoreUnavailable(cause) => write!(f, "the store is unavailable: {cause}"),
            Self::OutcomeUnknown(cause) => write!(f, "the outcome is unknown: {cause}"),
            Self::Damaged(Damaged { what, name }, cause) => {
                let name = name.as_deref().unwrap_or_default();
                write!(f, "damaged {what} {name}: {cause}")
            }
            Self::Internal(cause) => write!(f, "a defect: {cause}"),
            // Their variants say what they are.
            other => fmt::Debug::fmt(other, f),
        }
    }
}

impl std::error::Error for Error {}

named! {
    /// A bounded resource that callers share.
    Bounded {
        Calls = "calls",
        WriteQueue = "write_queue",
        ReadQueue = "read_queue",
        Watches = "watches",
        TempInvocations = "temp_invocations",
        /// What is buffered for clients.
        Buffers = "buffers",
        /// Open calls of a connection that has shown no credential.
        Streams = "streams",
    }
}

named! {
    /// A limit of a caller or of an application.
    Limited {
        /// A second.
        PrincipalAppends = "principal_appends",
        /// A second.
        ApplicationAppends = "application_appends",
        /// At the same time.
        PrincipalWatches = "principal_watches",
        /// At the same time.
        ApplicationWatches = "application_watches",
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub what: Damage,
    pub name: Option<String>,
}

named! {
    /// The part of a store that is damaged.
    Damage {
        /// Pages of the file: their structure is broken, or they cannot be read from the disk.
        Pages = "pages",
        /// A row: a column does not hold what is written there.
        Row = "row",
        /// A log: an event or a change is missing.
        Log = "log",
        /// An event of a session; its name is its sequence.
        Event = "event",
        /// A change of an application's or a user's state; its name is its version.
        Change = "change",
        Key = "key",
    }
}

impl Damage {
    pub fn in_log(of: ScopeKind) -> Self {
        match of {
            ScopeKind::Session => Self::Event,
            ScopeKind::Application | ScopeKind::User => Self::Change,
        }
    }
}

named! {
    /// The fault of a credential, without anything of its content.
    CredentialFault {
        /// The metadata `authorization` is not one bearer token.
        NotBearer = "not_bearer",
        TooLong = "too_long",
        UnknownToken = "unknown_token",
        Malformed = "malformed",
        Algorithm = "algorithm",
        /// No key of the server can have signed it.
        UnknownKey = "unknown_key",
        Signature = "signature",
        Issuer = "issuer",
        Audience = "audience",
        NotYetValid = "not_yet_valid",
        /// A required claim is missing, or has another type than it must.
        Claims = "claims",
        /// A certificate from which no single name follows.
        CertificateName = "certificate_name",
    }
}
