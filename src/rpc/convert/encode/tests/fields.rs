//! Every field of an answer comes from where it should.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use tonic::Code;

use super::{event, info, json, state, time};
use crate::{
    domain::{
        error::{Bounded, Error, Reason, Violation},
        event::Changes,
        id::InvocationId,
        scope::StateKey,
        session::{ForkOrigin, Labels, SessionInfo},
        token::{Life, StoreId, Uid},
    },
    engine::{List, WatchItem},
    proto::v1::{
        self, AppendFailure, StateDelta, event::BodyForm, session, state_delta::SetForm,
        watch_response::Kind,
    },
    rpc::{
        convert::{Form, Mode, encode},
        status::status,
    },
    store::{Appended, AppendedEvent, Created},
};

fn stamp(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 5 })
}

fn uid_of(info: &SessionInfo) -> String {
    Uid { store: StoreId([0; 16]), life: Life::of_session(info) }.encode()
}

#[test]
fn a_session_says_everything_about_itself() {
    let mut info = info();
    let labels = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    info.labels = Labels::new(labels).unwrap();
    info.expire_time = Some(time(9));
    info.display_name = crate::domain::id::DisplayName::new("name").unwrap();
    info.forked_from = Some(ForkOrigin { key: info.key.clone(), sequence: 3 });
    let created_info = info.clone();
    let created = Created { info, state: state([("a", json("1.0"))]), created: true };
    let mode = Mode { with_versions: true, ..Form::Text.into() };
    let response = encode::create_session(created, vec!["temp:x".into()], mode);
    let key = v1::SessionKey { app_name: "a".into(), user_id: "u".into(), session_id: "s".into() };
    let expected = v1::Session {
        key: Some(key.clone()),
        state_form: Some(session::StateForm::StateJson("{\"a\":1.0}".into())),
        state_rounded: false,
        last_sequence: 7,
        create_time: stamp(1),
        update_time: stamp(2),
        last_event_time: stamp(3),
        expiration: Some(session::Expiration::ExpireTime(stamp(9).unwrap())),
        display_name: "name".into(),
        labels: [("k".to_owned(), "v".to_owned())].into(),
        forked_from: Some(v1::ForkOrigin { key: Some(key), sequence: 3 }),
        versions: [("a".to_owned(), 3)].into(),
        uid: uid_of(&created_info),
        ..Default::default()
    };
    assert_eq!((response.session, response.created), (Some(expected), true));
}

#[test]
fn an_event_says_everything_about_itself() {
    let mut event = event(6, json("{\"b\": 9007199254740993}"));
    event.invocation_id = Some(InvocationId::new("i").unwrap());
    event.changes =
        Changes { set: Some(json("{\"k\":1}")), remove: vec![StateKey::new("app:r").unwrap()] };
    event.rewind_to = Some(2);
    event.rewound = true;
    event.trace_id = crate::domain::trace::TraceId::new(0xab);
    let listed = |form| {
        let mut list = List::default();
        list.items = vec![event.clone()];
        encode::list_events(list, form).events.remove(0)
    };
    let text = v1::Event {
        event_id: "e".into(),
        sequence: 6,
        invocation_id: "i".into(),
        author: "user".into(),
        branch: String::new(),
        event_time: stamp(1),
        commit_time: stamp(2),
        partial: false,
        state_delta: Some(StateDelta {
            set_form: Some(SetForm::SetJson("{\"k\":1}".into())),
            remove: vec!["app:r".into()],
            operations: vec![],
        }),
        body_form: Some(BodyForm::BodyJson("{\"b\": 9007199254740993}".into())),
        rounded: false,
        rewind_to_sequence: Some(2),
        rewound: true,
        trace_id: format!("{:032x}", 0xab),
    };
    assert_eq!(listed(Form::Text.into()), text);
    let message = listed(Form::Struct.into());
    assert!(message.rounded && matches!(message.body_form, Some(BodyForm::Body(_))));
}

#[test]
fn a_delta_alone_can_be_the_one_that_is_rounded() {
    let mut event = event(6, json("{}"));
    event.changes = Changes { set: Some(json("{\"k\":9007199254740993}")), remove: vec![] };
    let mut list = List::default();
    list.items = vec![event];
    assert!(encode::list_events(list, Form::Struct.into()).events[0].rounded);
}

#[test]
fn an_event_that_was_never_stored_is_partial() {
    let events = vec![AppendedEvent { event: event(0, json("{}")).into(), replayed: false }];
    let answer = Appended { info: info(), events, state: None, request_replayed: false };
    let event = encode::append_event(answer, vec![], Mode::from(Form::Text)).event.unwrap();
    assert!(event.partial && event.state_delta.is_none());
}

#[test]
fn every_kind_of_watch_message_keeps_its_cursor() {
    let changes = Changes { set: None, remove: vec![StateKey::new("user:r").unwrap()] };
    for (item, kind) in [
        (WatchItem::CaughtUp, Kind::CaughtUp(v1::CaughtUp {})),
        (WatchItem::Heartbeat(time(4)), Kind::Heartbeat(v1::Heartbeat { server_time: stamp(4) })),
        (
            WatchItem::SessionDeleted(Life::of_session(&info())),
            Kind::SessionDeleted(v1::SessionDeleted { uid: uid_of(&info()) }),
        ),
        (
            WatchItem::StateChange { changes, commit_time: time(4) },
            Kind::StateChange(v1::StateChange {
                delta: Some(StateDelta { remove: vec!["user:r".into()], ..Default::default() }),
                commit_time: stamp(4),
            }),
        ),
    ] {
        let response = encode::watch(item, "cursor".into(), Form::Struct.into());
        assert_eq!((response.kind, response.cursor.as_str()), (Some(kind), "cursor"));
    }
}

#[test]
fn a_failure_says_what_the_status_would_have() {
    let failure = encode::failure(&status(&Error::Draining, "r-1"));
    let AppendFailure { code, reason, message, metadata, field_violations, retry_delay } = failure;
    assert_eq!((code, reason.as_str()), (Code::Unavailable as i32, "DRAINING"));
    assert!(message.contains("Retry the call"));
    assert_eq!(metadata, [("retryable".to_owned(), "yes".to_owned())].into());
    assert_eq!((field_violations, retry_delay), (vec![], None));
}

#[test]
fn a_failure_has_the_details_of_a_status() {
    let keys = ["a", "app:b"].map(|text| StateKey::new(text).unwrap());
    let conflict = Error::Conflict { sequence: None, keys: keys.into() };
    let failure = encode::failure(&status(&conflict, "r-1"));
    assert_eq!(failure.metadata["keys"], r#"["a","app:b"]"#);
    assert_eq!(failure.metadata["retryable"], "no");

    let fault =
        |field: &'static str| Violation::new(field, Reason::BadId, "It has 9 bytes. Shorten it.");
    let faults = Error::Invalid(vec![fault("event.event_id"), fault("key.user_id")]);
    let failure = encode::failure(&status(&faults, "r-1"));
    let violation = |field: &str| v1::FieldViolation {
        field: field.into(),
        description: "It has 9 bytes. Shorten it.".into(),
        reason: "BAD_ID".into(),
    };
    assert_eq!(failure.field_violations, [violation("event.event_id"), violation("key.user_id")]);

    let full = Error::Overloaded { what: Bounded::WriteQueue, retry_after_millis: 250 };
    let failure = encode::failure(&status(&full, "r-1"));
    let delay = prost_types::Duration { seconds: 0, nanos: 250_000_000 };
    assert_eq!(failure.retry_delay, Some(delay));
}

#[test]
fn dropped_keys_are_named_once_in_order_within_their_bytes() {
    let key = |text: &str| StateKey::new(text).unwrap();
    let keys = ["temp:b", "a", "temp:a", "app:c", "temp:b"].map(key);
    assert_eq!(encode::dropped_temp_keys(keys.iter()), ["temp:a", "temp:b"]);
    let long: Vec<_> = (0..9).map(|at| key(&format!("temp:{at}{}", "x".repeat(506)))).collect();
    assert_eq!(encode::dropped_temp_keys(long.iter()).len(), 4, "of the longest");
}
