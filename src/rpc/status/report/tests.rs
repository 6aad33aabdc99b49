//! Statuses keep their size whatever comes in.

use proptest::prelude::*;
use tonic_types::StatusExt;

use crate::{
    domain::{
        error::{Error, Reason, SequenceConflict, Violation},
        field::Path,
        id::{AppName, EventId, SessionId, UserId},
        json::JsonType,
        scope::{SessionKey, StateKey},
    },
    rpc::status::status,
};

fn session_key(part: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::from_stored(part),
        user_id: UserId::from_stored(part),
        session_id: SessionId::from_stored(part),
    }
}

/// Text of any length up to a megabyte, from what is cheap to what is dear on the wire.
fn hostile() -> impl Strategy<Value = String> {
    let unit = prop::sample::select(vec!["a", " ", "\"", "\u{1}", "é", "🦀", "%", "\\", "{"]);
    (unit, prop::sample::select(vec![0usize, 1, 63, 64, 65, 512, 5000, 100_000]))
        .prop_map(|(unit, times)| unit.repeat(times))
}

fn violation() -> impl Strategy<Value = Violation> {
    (
        hostile(),
        hostile(),
        prop::sample::select(vec![Reason::BadId, Reason::FieldTooLong, Reason::KeyOutsideScope]),
        hostile(),
        0usize..20,
    )
        .prop_map(|(field, message, reason, value, entries)| {
            #[rustfmt::skip]
            const NAMES: [&str; 20] = [
                "aaaaaaaaaaaa", "b", "c", "d", "e", "f", "g", "h", "i", "j",
                "k", "l", "m", "n", "o", "p", "q", "r", "s", "t",
            ];
            let violation = Violation::new(Path::REQUEST.field(&field), reason, message);
            NAMES[..entries].iter().fold(violation, |violation, name| violation.with(name, &value))
        })
}

fn any_error() -> impl Strategy<Value = Error> {
    let keys = || prop::collection::vec(hostile(), 0..40);
    prop_oneof![
        prop::collection::vec(violation(), 0..40).prop_map(Error::Invalid),
        (hostile(), hostile(), hostile()).prop_map(|(app_name, user_id, session_id)| {
            let (app_name, user_id) =
                (AppName::from_stored(app_name), UserId::from_stored(user_id));
            let session_id = SessionId::from_stored(session_id);
            Error::not_found(&SessionKey { app_name, user_id, session_id })
        }),
        hostile().prop_map(|id| Error::SessionExists(session_key(&id))),
        hostile().prop_map(|id| Error::EventIdReused(EventId::from_stored(id))),
        hostile().prop_map(|id| Error::AmbiguousSessionId(SessionId::from_stored(id))),
        (any::<u64>(), keys()).prop_map(|(number, keys)| Error::Conflict {
            sequence: Some(SequenceConflict { expected: number, actual: u64::MAX }),
            keys: keys.iter().map(|text| StateKey::from_stored(text.as_str())).collect(),
        }),
        hostile().prop_map(|text| Error::TypeMismatch {
            key: StateKey::from_stored(text),
            wanted: JsonType::Number,
            found: JsonType::Object,
        }),
        keys().prop_map(Error::MissingStateKey),
        hostile().prop_map(Error::internal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Measured as tonic sends it: names and values of all trailers.
    #[test]
    fn a_status_stays_below_five_kibibytes_whatever_comes_in(error in any_error()) {
        let status = status(&error, "0199b5a0-0000-7000-8000-000000000000");
        prop_assert!(status.get_details_error_info().is_some());
        if !matches!(error, Error::Invalid(_)) {
            prop_assert!(status.message().ends_with('.'), "truncated: {}", status.message());
        }
        let response = status.into_http::<()>();
        let bytes: usize = response.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        prop_assert!(bytes < 5 * 1024, "{} bytes", bytes);
    }
}
