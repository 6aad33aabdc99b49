//! What holds for every answer and every refusal, whatever a test is about, and short ways to look at them.

use std::collections::BTreeMap;

use sessiond::domain::{
    error::Reason,
    limits::{MESSAGE_BYTES, QUOTED_BYTES},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Bytes of a whole status in the trailers, where clients take 8 KiB of them.
const STATUS_BYTES: usize = 5 * 1024;

/// The code of each reason: the table of errors.
pub const fn code(reason: Reason) -> Code {
    use Reason as R;
    match reason {
        R::MissingField | R::FieldTooLong | R::BadId | R::BadKey | R::BadValue | R::BadJson => {
            Code::InvalidArgument
        }
        R::NumberNotExact | R::NumberOverflow | R::ValueTooLarge | R::EventTooLarge => {
            Code::InvalidArgument
        }
        R::BatchTooLarge | R::BadPageToken | R::BadCursor | R::BadMask | R::KeyOutsideScope => {
            Code::InvalidArgument
        }
        R::SessionNotFound => Code::NotFound,
        R::SessionExists | R::EventIdReused | R::RequestIdReused => Code::AlreadyExists,
        R::SequenceConflict | R::KeyConflict => Code::Aborted,
        R::AmbiguousSessionId | R::TypeMismatch | R::MissingStateKey => Code::FailedPrecondition,
        R::CursorOfOtherStore | R::TooDeep => Code::FailedPrecondition,
        R::BeyondLastSequence => Code::OutOfRange,
        R::StateTooLarge | R::AnswerTooLarge | R::Overloaded => Code::ResourceExhausted,
        R::Starting | R::Draining | R::StoreUnavailable => Code::Unavailable,
        R::OutcomeUnknown => Code::Unknown,
        R::Internal => Code::Internal,
    }
}

/// Defines the list of all reasons, in a way that does not compile while one is missing.
macro_rules! reasons {
    ($($reason:ident)*) => {
        /// Every reason there is.
        pub const REASONS: &[Reason] = &[$(Reason::$reason),*];

        const _: fn(Reason) = |reason| match reason { $(Reason::$reason => {})* };
    };
}

reasons! {
    MissingField FieldTooLong BadId BadKey BadValue BadJson NumberNotExact NumberOverflow ValueTooLarge EventTooLarge
    BatchTooLarge BadPageToken BadCursor BadMask KeyOutsideScope SessionNotFound SessionExists EventIdReused RequestIdReused
    SequenceConflict KeyConflict AmbiguousSessionId TypeMismatch MissingStateKey CursorOfOtherStore TooDeep BeyondLastSequence
    StateTooLarge AnswerTooLarge Overloaded Starting Draining StoreUnavailable OutcomeUnknown Internal
}

/// The reason of this name.
fn named(text: &str) -> Option<Reason> {
    REASONS.iter().copied().find(|reason| reason.as_str() == text)
}

/// An answer is one that every client receives by default.
#[track_caller]
pub fn fits(bytes: usize) {
    assert!(bytes <= MESSAGE_BYTES, "an answer of {bytes} bytes");
}

/// A refusal says in full what the table of errors promises.
#[track_caller]
pub fn well_formed(status: &Status) {
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "sessiond", "{status:?}");
    let Some(reason) = named(&info.reason) else { panic!("no reason of the table: {status:?}") };
    assert_eq!(status.code(), code(reason), "{status:?}");
    let message = status.message();
    assert!(message.ends_with(['.', '…']) && message.len() > 20, "no sentence: {message}");
    let fields = violations(status);
    assert_eq!(status.code() == Code::InvalidArgument, !fields.is_empty(), "{status:?}");
    assert!(fields.len() <= 21, "{status:?}");
    for quoted in quoted(message) {
        let known = info.metadata.values().any(|value| names(value, quoted));
        assert!(known, "'{quoted}' is not in the metadata: {status:?}");
        assert!(quoted.len() <= QUOTED_BYTES, "'{quoted}' is not cut");
    }
    assert!(wire_bytes(status) < STATUS_BYTES, "{} bytes: {status:?}", wire_bytes(status));
}

/// The parts of a message between single quotes that it has from the caller; none where what is quoted may hold quotes itself.
fn quoted(message: &str) -> impl Iterator<Item = &str> {
    let message = message.strip_suffix("or mark it with '?'.").unwrap_or(message);
    let sound = message.matches(" '").count() * 2 == message.matches('\'').count();
    let parts = message.split('\'').skip(1).step_by(2);
    parts.take(if sound { usize::MAX } else { 0 }).map(|part| part.trim_end_matches('…'))
}

/// Whether a value of the metadata begins with this text, or is a list with an item that does.
fn names(value: &str, text: &str) -> bool {
    let items: Vec<String> = serde_json::from_str(value).unwrap_or_default();
    value.starts_with(text) || items.iter().any(|item| item.starts_with(text))
}

/// What the trailers take: the message in its encoding, where most punctuation takes three bytes, and the details as base64.
fn wire_bytes(status: &Status) -> usize {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ,;.:'_-[]()/".contains(&byte);
    let message: usize = status.message().bytes().map(|byte| if plain(byte) { 1 } else { 3 }).sum();
    message + status.details().len().div_ceil(3) * 4
}

/// The reason of a refusal.
pub fn reason(status: &Status) -> String {
    status.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

/// The variable parts of a refusal.
pub fn metadata(status: &Status) -> BTreeMap<String, String> {
    let info = status.get_details_error_info();
    info.map(|info| info.metadata.into_iter().collect()).unwrap_or_default()
}

/// One variable part of a refusal.
#[track_caller]
pub fn detail(status: &Status, name: &str) -> String {
    metadata(status).remove(name).unwrap_or_else(|| panic!("no '{name}': {status:?}"))
}

/// A variable part that is a list.
#[track_caller]
pub fn list(status: &Status, name: &str) -> Vec<String> {
    serde_json::from_str(&detail(status, name)).unwrap()
}

/// The fields at fault, in order, each with its reason.
pub fn violations(status: &Status) -> Vec<(String, String)> {
    let request = status.get_details_bad_request();
    let faults = request.into_iter().flat_map(|request| request.field_violations);
    faults.map(|fault| (fault.field, fault.reason)).collect()
}

/// The refusal of a call that had to be refused, with this code and this reason.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(result: Result<T, Status>, wanted: Reason) -> Status {
    let status = match result {
        Ok(answer) => panic!("{} was wanted: {answer:?}", wanted.as_str()),
        Err(status) => status,
    };
    assert_eq!(reason(&status), wanted.as_str(), "{status:?}");
    assert_eq!(status.code(), code(wanted), "{status:?}");
    status
}

/// The refusal of a request with one fault, of this kind and in this field.
#[track_caller]
pub fn faulty<T: std::fmt::Debug>(
    result: Result<T, Status>,
    wanted: Reason,
    field: &str,
) -> Status {
    let status = refused(result, wanted);
    assert_eq!(violations(&status), [(field.to_owned(), wanted.as_str().to_owned())], "{status:?}");
    status
}
