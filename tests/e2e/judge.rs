//! What holds for every answer and every refusal, whatever a test is about, and short ways to look at them.

use std::collections::BTreeMap;

use sessiond::domain::{
    error::{Reason, quoted},
    limits::MESSAGE_BYTES,
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
        R::BadMessage | R::BatchTooLarge | R::BadPageToken | R::BadCursor | R::BadMask => {
            Code::InvalidArgument
        }
        R::KeyOutsideScope => Code::InvalidArgument,
        R::PermissionDenied | R::ReadOnlyListener => Code::PermissionDenied,
        R::NotOverHttp => Code::Unimplemented,
        R::SessionNotFound => Code::NotFound,
        R::SessionExists | R::EventIdReused | R::RequestIdReused => Code::AlreadyExists,
        R::SequenceConflict | R::KeyConflict | R::SessionReplaced => Code::Aborted,
        R::AmbiguousSessionId | R::TypeMismatch | R::MissingStateKey => Code::FailedPrecondition,
        R::CursorOfOtherStore => Code::FailedPrecondition,
        R::BeyondLastSequence => Code::OutOfRange,
        R::StateTooLarge | R::AnswerTooLarge | R::MessageTooLarge => Code::ResourceExhausted,
        R::Overloaded | R::RateLimited | R::DiskFull => Code::ResourceExhausted,
        R::Starting | R::Draining | R::StoreUnavailable | R::StoreBehind | R::FileLost => {
            Code::Unavailable
        }
        R::OutcomeUnknown => Code::Unknown,
        R::ExpiredInQueue => Code::DeadlineExceeded,
        R::Damaged => Code::DataLoss,
        R::CredentialMissing | R::CredentialInvalid | R::CredentialExpired => Code::Unauthenticated,
        R::Internal => Code::Internal,
    }
}

/// Whether a client may repeat a call that was refused for this reason: `yes`, `same_id` or `no`.
const fn retryable(reason: Reason) -> &'static str {
    use Reason as R;
    match reason {
        R::Overloaded | R::RateLimited | R::DiskFull | R::ExpiredInQueue => "yes",
        R::Starting | R::Draining | R::StoreUnavailable | R::StoreBehind | R::FileLost => "yes",
        R::OutcomeUnknown => "same_id",
        _ => "no",
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
    BatchTooLarge BadPageToken BadCursor BadMask BadMessage KeyOutsideScope SessionNotFound SessionExists EventIdReused RequestIdReused
    SequenceConflict KeyConflict SessionReplaced AmbiguousSessionId TypeMismatch MissingStateKey CursorOfOtherStore BeyondLastSequence
    StateTooLarge AnswerTooLarge MessageTooLarge Overloaded DiskFull Starting Draining StoreUnavailable StoreBehind FileLost OutcomeUnknown ExpiredInQueue
    Damaged CredentialMissing CredentialInvalid CredentialExpired Internal PermissionDenied RateLimited
    ReadOnlyListener NotOverHttp
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
    assert_eq!(info.metadata["retryable"], retryable(reason), "{status:?}");
    let message = status.message();
    let fields = violations(status);
    assert_eq!(status.code() == Code::InvalidArgument, !fields.is_empty(), "{status:?}");
    assert!(fields.len() <= 21, "{status:?}");
    let known = info.metadata.values().flat_map(|value| names(value)).collect::<Vec<_>>();
    assert_sentences(message, &known);
    if let Some(unknown) = unknown_quote(message, &known) {
        panic!("what is quoted at {unknown} is not in the metadata: {status:?}");
    }
    assert!(wire_bytes(status) < STATUS_BYTES, "{} bytes: {status:?}", wire_bytes(status));
}

/// One or two whole sentences, beside the path of a field before them and the number of further violations after them. What they quote
/// may hold anything.
#[track_caller]
fn assert_sentences(message: &str, known: &[String]) {
    let mut plain = message.to_owned();
    for name in known {
        plain =
            plain.replace(&format!("{name}: "), "").replace(&format!("'{}'", quoted(name)), "'x'");
    }
    if let Some((sentences, _)) = plain.split_once(" The field violations list ") {
        plain.truncate(sentences.len());
    }
    let words = plain.split_whitespace().count();
    assert!(plain.ends_with(['.', '…']) && words > 2, "no sentence: {message}");
    assert!(!plain.contains(';'), "two sentences in one: {message}");
    assert!(plain.matches(". ").count() <= 1, "more than two sentences: {message}");
}

/// The end of a message from its first quote that holds none of the known names; names may hold quotes themselves.
fn unknown_quote<'a>(message: &'a str, known: &[String]) -> Option<&'a str> {
    let mut rest = message.strip_suffix("optional with '?'.").unwrap_or(message);
    while let Some(at) = rest.find(" '") {
        let quote = &rest[at + 1..];
        let as_quoted = known.iter().map(|name| format!("'{}'", quoted(name)));
        let longest =
            as_quoted.filter(|name| begins(quote, name)).map(|name| name.len().min(quote.len()));
        let Some(end) = longest.max() else { return Some(quote) };
        rest = &quote[end..];
    }
    None
}

/// Whether a message goes on with this text, as far as the message goes: one that is too long ends with `…` anywhere.
fn begins(message: &str, text: &str) -> bool {
    message.starts_with(text)
        || message.strip_suffix('…').is_some_and(|message| text.starts_with(message))
}

/// A value of the metadata, and its items if it is a list.
fn names(value: &str) -> Vec<String> {
    let items: Vec<String> = serde_json::from_str(value).unwrap_or_default();
    [vec![value.to_owned()], items].concat()
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
    let metadata = status.get_details_error_info().map(|info| info.metadata).unwrap_or_default();
    metadata.into_iter().filter(|(name, _)| name != "retryable").collect()
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

#[test]
fn a_quote_is_known_whatever_it_holds() {
    let known = ["alice", "it's", " ''\";", "a' 'b", &"x".repeat(70)].map(str::to_owned);
    let says = |message: &str| unknown_quote(message, &known).map(str::to_owned);
    let long = quoted(&known[4]);
    assert_eq!(says(&format!("No ' ''\";' of 'alice', 'it's' or 'a' 'b' in '{long}'.")), None);
    assert_eq!(says("It is not 'alice' but 'ali…"), None);
    assert_eq!(says("It is not 'alice' but 'bob'."), Some("'bob'.".to_owned()));
    assert_eq!(says("It is not 'alic'."), Some("'alic'.".to_owned()));
    assert_eq!(says(&format!("It is not '{}'.", known[4])), Some(format!("'{}'.", known[4])));
}
