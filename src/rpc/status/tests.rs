//! The table of errors, row by row, and the size of what is sent.

use std::collections::{BTreeMap, BTreeSet};

use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{reason, report::DOMAIN, status};
use crate::domain::{
    error::{
        Bounded, Cause, CredentialFault, Damage, Error, Limited, Reason, SequenceConflict,
        Violation,
    },
    field::Path,
    id::{AppName, EventId, RequestId, SessionId, UserId},
    json::JsonType,
    permission::{Denial, Right},
    scope::{Scope, ScopeKind, SessionKey, StateKey},
};

fn key(text: &str) -> StateKey {
    StateKey::from_stored(text)
}

fn session(part: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored(part),
        user_id: UserId::from_stored(part),
        session_id: SessionId::from_stored(part),
    }
}

/// An error, and the code, the reason and the metadata that it has to become.
type Row = (Error, Code, &'static str, &'static [(&'static str, &'static str)]);

/// The reasons that may be repeated as they are, and those that may be repeated with the same id.
const RETRYABLE: [&str; 9] = [
    "RATE_LIMITED",
    "OVERLOADED",
    "DISK_FULL",
    "STARTING",
    "DRAINING",
    "STORE_UNAVAILABLE",
    "STORE_BEHIND",
    "FILE_LOST",
    "EXPIRED_IN_QUEUE",
];
const RETRYABLE_WITH_SAME_ID: [&str; 1] = ["OUTCOME_UNKNOWN"];

fn retryable(reason: &str) -> &'static str {
    match reason {
        _ if RETRYABLE.contains(&reason) => "yes",
        _ if RETRYABLE_WITH_SAME_ID.contains(&reason) => "same_id",
        _ => "no",
    }
}

fn conflict(sequence: Option<(u64, u64)>, keys: &[&str]) -> Error {
    Error::Conflict {
        sequence: sequence.map(|(expected, actual)| SequenceConflict { expected, actual }),
        keys: keys.iter().map(|text| key(text)).collect(),
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Row> {
    let whole = Error::not_found(&session("s"));
    let bare = Error::not_found_bare(&SessionId::from_stored("s"));
    let mismatch = Error::TypeMismatch { key: key("n"), wanted: JsonType::Number, found: JsonType::String };
    let missing = Error::MissingStateKey(vec!["a".into(), "b".into()]);
    let beyond = Error::BeyondLastSequence { asked: 9, last_sequence: 4 };
    let overloaded = Error::Overloaded { what: Bounded::WriteQueue, retry_after_millis: 250 };
    let internal = Error::internal("/var/lib/x.db: SQL logic error");
    let address: &[_] = &[("app_name", "s"), ("user_id", "s"), ("session_id", "s")];
    let denied = |right, user: Option<&str>| Error::PermissionDenied(Denial {
        principal: "token:ci".into(),
        right,
        app_name: Some(AppName::from_stored("a")),
        user_id: user.map(UserId::from_stored),
    });
    vec![
        (denied(Right::Write, Some("u")), Code::PermissionDenied, "PERMISSION_DENIED",
            &[("principal", "token:ci"), ("right", "write"), ("app_name", "a"), ("user_id", "u")]),
        (denied(Right::WriteAppState, None), Code::PermissionDenied, "PERMISSION_DENIED",
            &[("principal", "token:ci"), ("right", "write_app_state"), ("app_name", "a")]),
        (Denial { principal: "x".into(), right: Right::Admin, app_name: None, user_id: None }.into(), Code::PermissionDenied,
            "PERMISSION_DENIED", &[("principal", "x"), ("right", "admin")]),
        (whole, Code::NotFound, "SESSION_NOT_FOUND", address),
        (bare, Code::NotFound, "SESSION_NOT_FOUND", &[("session_id", "s")]),
        (Error::SessionExists(session("s")), Code::AlreadyExists, "SESSION_EXISTS", address),
        (Error::EventIdReused(EventId::from_stored("e")), Code::AlreadyExists, "EVENT_ID_REUSED", &[("event_id", "e")]),
        (Error::RequestIdReused(RequestId::from_stored("r")), Code::AlreadyExists, "REQUEST_ID_REUSED", &[("request_id", "r")]),
        (conflict(Some((3, 5)), &[]), Code::Aborted, "SEQUENCE_CONFLICT", &[("expected", "3"), ("actual", "5")]),
        (conflict(Some((3, 5)), &["a", "app:b"]), Code::Aborted, "SEQUENCE_CONFLICT",
            &[("expected", "3"), ("actual", "5"), ("keys", r#"["a","app:b"]"#)]),
        (Error::Replaced(Scope::Session(session("s"))), Code::Aborted, "SESSION_REPLACED", address),
        (Error::Replaced(Scope::User(AppName::from_stored("a"), UserId::from_stored("u"))), Code::Aborted, "SESSION_REPLACED",
            &[("app_name", "a"), ("user_id", "u")]),
        (Error::Replaced(Scope::Application(AppName::from_stored("a"))), Code::Aborted, "SESSION_REPLACED", &[("app_name", "a")]),
        (conflict(None, &["a\""]), Code::Aborted, "KEY_CONFLICT", &[("keys", r#"["a\""]"#)]),
        (Error::AmbiguousSessionId(SessionId::from_stored("s")), Code::FailedPrecondition, "AMBIGUOUS_SESSION_ID", &[("session_id", "s")]),
        (mismatch, Code::FailedPrecondition, "TYPE_MISMATCH", &[("key", "n"), ("type", "string"), ("wanted", "number")]),
        (missing, Code::FailedPrecondition, "MISSING_STATE_KEY", &[("keys", r#"["a","b"]"#)]),
        (Error::CursorOfOtherStore, Code::FailedPrecondition, "CURSOR_OF_OTHER_STORE", &[]),
        (beyond, Code::OutOfRange, "BEYOND_LAST_SEQUENCE", &[("asked", "9"), ("last_sequence", "4")]),
        (Error::StateTooLarge(ScopeKind::User), Code::ResourceExhausted, "STATE_TOO_LARGE", &[("scope", "user"), ("limit", "1048576")]),
        (Error::InvocationTooLarge(7), Code::ResourceExhausted, "STATE_TOO_LARGE", &[("scope", "invocation"), ("limit", "7")]),
        (Error::MessageTooLarge, Code::ResourceExhausted, "MESSAGE_TOO_LARGE", &[("limit", "4194304")]),
        (Error::AnswerTooLarge, Code::ResourceExhausted, "ANSWER_TOO_LARGE", &[("limit", "4194304")]),
        (overloaded, Code::ResourceExhausted, "OVERLOADED", &[("what", "write_queue"), ("retry_after_millis", "250")]),
        (Error::RateLimited { what: Limited::ApplicationWatches, limit: 20, retry_after_millis: 70 }, Code::ResourceExhausted, "RATE_LIMITED",
            &[("what", "application_watches"), ("limit", "20"), ("retry_after_millis", "70")]),
        (Error::RateLimited { what: Limited::PrincipalAppends, limit: 9, retry_after_millis: 8 }, Code::ResourceExhausted, "RATE_LIMITED",
            &[("what", "principal_appends"), ("limit", "9"), ("retry_after_millis", "8")]),
        (Error::DiskFull, Code::ResourceExhausted, "DISK_FULL", &[("retry_after_millis", "5000")]),
        (Error::ReadOnlyListener, Code::PermissionDenied, "READ_ONLY_LISTENER", &[]),
        (Error::NotOverHttp, Code::Unimplemented, "NOT_OVER_HTTP", &[]),
        (Error::StoreBehind, Code::Unavailable, "STORE_BEHIND", &[]),
        (Error::FileLost, Code::Unavailable, "FILE_LOST", &[]),
        (Error::damaged(Damage::Log, "event 3 is missing"), Code::DataLoss, "DAMAGED", &[("what", "log")]),
        (Error::damaged_key(&key("app:k")), Code::DataLoss, "DAMAGED", &[("what", "key"), ("name", "app:k")]),
        (
            Error::damaged(Damage::Row, "no JSON").in_row(Damage::Event, 3),
            Code::DataLoss,
            "DAMAGED",
            &[("what", "event"), ("name", "3")],
        ),
        (Error::Starting, Code::Unavailable, "STARTING", &[]),
        (Error::Draining, Code::Unavailable, "DRAINING", &[]),
        (Error::StoreUnavailable(Cause::new("disk I/O error")), Code::Unavailable, "STORE_UNAVAILABLE", &[]),
        (Error::OutcomeUnknown(Cause::new("disk I/O error")), Code::Unknown, "OUTCOME_UNKNOWN", &[]),
        (Error::ExpiredInQueue, Code::DeadlineExceeded, "EXPIRED_IN_QUEUE", &[]),
        (Error::CredentialMissing, Code::Unauthenticated, "CREDENTIAL_MISSING", &[]),
        (Error::CredentialInvalid(CredentialFault::Audience), Code::Unauthenticated, "CREDENTIAL_INVALID", &[("fault", "audience")]),
        (Error::CredentialInvalid(CredentialFault::CertificateName), Code::Unauthenticated, "CREDENTIAL_INVALID", &[("fault", "certificate_name")]),
        (Error::CredentialExpired, Code::Unauthenticated, "CREDENTIAL_EXPIRED", &[]),
        (internal, Code::Internal, "INTERNAL", &[("request_id", "r-1")]),
    ]
}

/// The reasons of INVALID_ARGUMENT, which travel in violations.
const FAULTS: [Reason; 16] = [
    Reason::MissingField,
    Reason::FieldTooLong,
    Reason::BadId,
    Reason::BadKey,
    Reason::BadValue,
    Reason::BadJson,
    Reason::NumberNotExact,
    Reason::NumberOverflow,
    Reason::ValueTooLarge,
    Reason::EventTooLarge,
    Reason::BatchTooLarge,
    Reason::BadPageToken,
    Reason::BadCursor,
    Reason::BadMask,
    Reason::BadMessage,
    Reason::KeyOutsideScope,
];

/// The metadata beside `retryable`, which every status has.
fn metadata(status: &Status) -> BTreeMap<String, String> {
    let mut info = status.get_details_error_info().expect("every status has one");
    assert_eq!(info.domain, DOMAIN);
    assert_eq!(info.metadata.remove("retryable").as_deref(), Some(retryable(&info.reason)));
    info.metadata.into_iter().collect()
}

/// One or two whole sentences.
fn assert_sentences(message: &str) {
    assert!(message.ends_with('.') && message.len() > 20, "no sentence: {message}");
    assert!(!message.contains(';'), "two sentences in one: {message}");
    assert!(message.matches(". ").count() <= 1, "more than two sentences: {message}");
}

#[test]
fn every_row_of_the_table() {
    for (error, code, name, expected) in rows() {
        let status = status(&error, "r-1");
        let message = status.message();
        assert_eq!((status.code(), reason(&status).as_deref()), (code, Some(name)), "{message}");
        assert_sentences(message);
        let expected =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        assert_eq!(metadata(&status), expected.collect(), "{name}");
    }
}

#[test]
fn every_variable_part_of_a_message_is_in_the_metadata() {
    for (error, _, reason, _) in rows() {
        let status = status(&error, "r-1");
        let mut known = Vec::new();
        for value in metadata(&status).into_values() {
            match serde_json::from_str::<Vec<String>>(&value) {
                Ok(list) => known.extend(list.iter().cloned().chain([list.len().to_string()])),
                Err(_) => known.push(value),
            }
        }
        let message = status.message();
        let quoted = message.split('\'').skip(1).step_by(2).filter(|part| *part != "?");
        let numbers = message.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        for part in quoted.chain(numbers) {
            assert!(known.iter().any(|value| value == part), "{reason}: {part}");
        }
    }
}

#[test]
fn no_reason_is_missing_from_the_table() {
    // `Internal` is the last one, so its place counts them.
    let mut seen: BTreeSet<&str> = rows().iter().map(|row| row.2).collect();
    seen.extend(FAULTS.map(Reason::as_str));
    seen.insert(Reason::KeyConflict.as_str());
    assert_eq!(seen.len(), Reason::Internal as usize + 1);
}

#[test]
fn a_fault_of_the_request_names_its_field_and_keeps_the_first_reason() {
    for fault in FAULTS {
        let violations = vec![
            Violation::new("events[2].event_id", fault, "It has 9 bytes. Shorten it.")
                .with("bytes", 9),
            Violation::new("key", Reason::BadMask, "It is wrong. Fix it."),
        ];
        let status = status(&Error::Invalid(violations), "r-1");
        let actual = (status.code(), reason(&status));
        assert_eq!(actual, (Code::InvalidArgument, Some(fault.as_str().to_owned())));
        assert_eq!(
            status.message(),
            "events[2].event_id: It has 9 bytes. Shorten it. The field violations list 1 more."
        );
        let expected = [("bytes", "9"), ("field", "events[2].event_id"), ("more", "1")];
        assert_eq!(metadata(&status), expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into());
        let fields = status.get_details_bad_request().unwrap().field_violations;
        let fields: Vec<_> =
            fields.iter().map(|f| (&*f.field, f.reason.as_str(), f.description.as_str())).collect();
        assert_eq!(
            fields,
            [
                ("events[2].event_id", fault.as_str(), "It has 9 bytes. Shorten it."),
                ("key", "BAD_MASK", "It is wrong. Fix it.")
            ]
        );
    }
}

#[test]
fn at_most_twenty_violations_are_named_and_the_rest_is_counted() {
    let violation = |at: usize| {
        Violation::new(
            Path::REQUEST.field("event.state_delta.operations").index(at).field("increment"),
            Reason::MissingField,
            format!(
                "The increment has no amount. Set by or by_double. {}",
                "It is long. ".repeat(20)
            ),
        )
    };
    let status = status(&Error::Invalid((0..25).map(violation).collect()), "r-1");
    let fields = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(fields.len(), 21);
    assert_eq!(fields[19].field, "event.state_delta.operations[19].increment");
    assert_eq!((fields[20].field.as_str(), fields[20].description.as_str()), ("", "and 5 more"));
}

#[test]
fn messages_of_conflicts_and_templates_name_their_keys() {
    let said = |error: &Error| status(error, "r-1").message().to_owned();
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    for (keys, named) in [
        (&all[..1], "the condition on key 'a' does not hold"),
        (&all[..2], "the conditions on keys 'a' and 'b' do not hold"),
        (&all[..5], "the conditions on keys 'a', 'b', 'c', 'd' and 'e' do not hold"),
        (&all[..], "the conditions on keys 'a', 'b', 'c', 'd', 'e' and 2 more do not hold"),
    ] {
        let message = format!("Precondition failed: {named}. Read again and decide again.");
        assert_eq!(said(&conflict(None, keys)), message);
    }
    let both = said(&conflict(Some((3, 5)), &all[..2]));
    assert!(both.contains("expected sequence 3, found 5 and the conditions on keys 'a' and 'b'"));
    let missing = Error::MissingStateKey(vec!["a".into(), "b".into()]);
    let message = "Keys 'a' and 'b' of the template have no value.";
    assert!(said(&missing).starts_with(message), "{}", said(&missing));
}

#[test]
fn a_message_with_long_keys_names_fewer_and_keeps_its_advice() {
    let keys: Vec<_> = ["ä", "é", "ö", "ü", "ø"].map(|letter| letter.repeat(200)).to_vec();
    let listed: Vec<_> = keys[..3].iter().map(|key| format!("'{}…'", &key[..64])).collect();
    let named = format!("{} and 2 more", listed.join(", "));
    let texts: Vec<_> = keys.iter().map(String::as_str).collect();
    let status_of = |error: &Error| status(error, "r-1");
    let conflict = status_of(&conflict(Some((u64::MAX, u64::MAX)), &texts));
    let end = format!("the conditions on keys {named} do not hold. Read again and decide again.");
    assert!(conflict.message().ends_with(&end), "{}", conflict.message());
    let missing = status_of(&Error::MissingStateKey(keys));
    let advice = "no value. Set them, or make them optional with '?'.";
    assert_eq!(missing.message(), format!("Keys {named} of the template have {advice}"));
}

#[test]
fn a_list_in_metadata_is_cut_alike() {
    let keys = (0..23).map(|at| format!("key-{at}")).collect();
    let status = status(&Error::MissingStateKey(keys), "r-1");
    let keys: Vec<String> = serde_json::from_str(&metadata(&status)["keys"]).unwrap();
    assert_eq!((keys.len(), keys[19].as_str(), keys[20].as_str()), (21, "key-19", "and 3 more"));
}

#[test]
fn whole_keys_reach_programs_in_lists() {
    let keys = ["k", "l", "m"].map(|letter| letter.repeat(512));
    let status = status(&Error::MissingStateKey(keys.to_vec()), "r-1");
    let shown: Vec<String> = serde_json::from_str(&metadata(&status)["keys"]).unwrap();
    assert_eq!(shown, [&keys[0], &keys[1], "and 1 more"]);
}

#[test]
fn whole_ids_reach_programs_where_a_message_cuts_them() {
    let long = "x".repeat(512);
    let status = status(&Error::SessionExists(session(&long)), "r-1");
    assert_eq!(metadata(&status)["user_id"], long);
    assert!(!status.message().contains(&"x".repeat(65)));
}

#[test]
fn an_overload_says_when_to_come_back_and_an_inner_cause_says_nothing() {
    let overloaded =
        status(&Error::Overloaded { what: Bounded::Watches, retry_after_millis: 1500 }, "r-1");
    let delay = overloaded.get_details_retry_info().unwrap().retry_delay;
    assert_eq!(delay, Some(std::time::Duration::from_millis(1500)));
    let internal = status(&Error::internal("secret path"), "r-1");
    assert!(!format!("{internal:?}").contains("secret"));
    assert!(!String::from_utf8_lossy(internal.details()).contains("secret"));
}
