//! Messages of the contract as JSON, driven by their descriptors.
//!
//! This is protobuf JSON with four differences: fields have the contract's names, 64-bit integers are numbers, times
//! always have nine digits, and JSON that travels as text stands under its plain name (`state`, not `state_json`).

mod read;

pub use read::from_json;

use std::{collections::BTreeMap, sync::LazyLock};

use prost::Name;
use prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, ReflectMessage as _, Value,
};
use prost_types::Timestamp;
use serde::{
    Serialize, Serializer,
    ser::{Error as _, SerializeMap as _},
};
use serde_json::value::RawValue;

use super::time;
use crate::{domain::json::minified, proto::DESCRIPTOR_SET};

static CONTRACT: LazyLock<DescriptorPool> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the build has made these bytes")]
    DescriptorPool::decode(DESCRIPTOR_SET).expect("the descriptors of the contract")
});

fn descriptor_of<M: Name>() -> Option<MessageDescriptor> {
    CONTRACT.get_message_by_name(&M::full_name())
}

/// Fields that are left out while they are empty or false. All others without presence are printed always, so that a new field of the
/// contract is printed until it is listed here.
const OPTIONAL: [&str; 16] = [
    "branch",
    "damaged_keys",
    "display_name",
    "invocation_id",
    "labels",
    "next_page_token",
    "operations",
    "partial",
    "remove",
    "rewound",
    "rounded",
    "state_omitted",
    "state_rounded",
    "trace_id",
    "uid",
    "versions",
];

/// A message that serializes as JSON. Fails on JSON text of the server that is not valid.
#[derive(Debug)]
pub struct AsJson<M>(pub M);

impl<M: Name> Serialize for AsJson<M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let descriptor = descriptor_of::<M>()
            .ok_or_else(|| S::Error::custom("the message is not of the contract"))?;
        let message = DynamicMessage::decode(descriptor, self.0.encode_to_vec().as_slice());
        Plain(&Value::Message(message.map_err(S::Error::custom)?)).serialize(serializer)
    }
}

struct Plain<'a>(&'a Value);

impl Serialize for Plain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Bool(flag) => serializer.serialize_bool(*flag),
            Value::I32(number) => serializer.serialize_i32(*number),
            Value::I64(number) => serializer.serialize_i64(*number),
            Value::F64(number) => serializer.serialize_f64(*number),
            Value::String(text) => serializer.serialize_str(text),
            Value::Message(message) => serialize_message(message, serializer),
            Value::List(items) => serializer.collect_seq(items.iter().map(Plain)),
            // Sorted, so that equal answers are equal texts.
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.as_str(), Plain(value)));
                serializer.collect_map(entries.collect::<BTreeMap<_, _>>())
            }
            // Answers have no fields of other types.
            other => Err(S::Error::custom(format!("cannot print {other:?}"))),
        }
    }
}

fn serialize_message<S: Serializer>(
    message: &DynamicMessage,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let descriptor = message.descriptor();
    if descriptor.full_name() == "google.protobuf.Timestamp" {
        let time = message.transcode_to::<Timestamp>().map_err(S::Error::custom)?;
        return serializer.serialize_str(&time::format(time));
    }
    if descriptor.package_name() == "google.protobuf" {
        return message.serialize(serializer);
    }
    let mut map = serializer.serialize_map(None)?;
    for field in descriptor.fields() {
        let optional = field.supports_presence() || OPTIONAL.contains(&field.name());
        if optional && !message.has_field(&field) {
            continue;
        }
        let value = message.get_field(&field);
        match (field.name().strip_suffix("_json"), &*value) {
            (Some(name), Value::String(text)) => {
                let raw = RawValue::from_string(minified(text).into_string());
                let raw = raw.map_err(S::Error::custom)?;
                map.serialize_entry(name, &raw)?;
            }
            (_, value) => map.serialize_entry(field.name(), &Plain(value))?,
        }
    }
    map.end()
}

#[cfg(test)]
mod tests {
    use prost_types::{ListValue, Struct, value};

    use super::*;
    use crate::proto::v1::{
        CaughtUp, Event, ForkOrigin, GetStateResponse, Session, SessionKey, StateDelta,
        StateSnapshot, WatchResponse,
        event::BodyForm,
        get_state_response,
        session::{Expiration, StateForm},
        state_delta::SetForm,
        state_snapshot,
        watch_response::Kind as WatchKind,
    };

    fn print(message: impl Name) -> String {
        serde_json::to_string(&AsJson(message)).unwrap()
    }

    #[test]
    fn an_event_prints_its_body_on_one_line_with_exact_numbers() {
        let event = Event {
            event_id: "e".to_owned(),
            sequence: 7,
            author: "user".to_owned(),
            state_delta: Some(StateDelta {
                set_form: Some(SetForm::SetJson("{\"a\": 1e2}".to_owned())),
                remove: vec!["b".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson("{\n  \"t\": 1733043686.8428597000\n}".to_owned())),
            rewind_to_sequence: Some(0),
            rewound: true,
            ..Default::default()
        };
        assert_eq!(
            print(event),
            "{\"event_id\":\"e\",\"sequence\":7,\"author\":\"user\",\
             \"state_delta\":{\"set\":{\"a\":1e2},\"remove\":[\"b\"]},\
             \"body\":{\"t\":1733043686.8428597000},\"rewind_to_sequence\":0,\"rewound\":true}"
        );
    }

    #[test]
    fn an_empty_body_is_shown_and_a_missing_one_is_not() {
        let print = |body_form| print(Event { body_form, ..Default::default() });
        assert!(print(Some(BodyForm::BodyJson("{}".to_owned()))).contains("\"body\":{}"));
        assert!(!print(None).contains("body"));
    }

    #[test]
    fn a_session_prints_as_the_contract_names_it() {
        let key = SessionKey {
            app_name: "a".to_owned(),
            user_id: "u".to_owned(),
            session_id: "s".to_owned(),
        };
        let time = |seconds| Some(Timestamp { seconds, nanos: 5 });
        let session = Session {
            key: Some(key.clone()),
            state_form: Some(StateForm::StateJson(
                "{ \"n\": 1.00,\n\"big\": 12345678901234567890123 }".to_owned(),
            )),
            last_sequence: i64::MAX,
            create_time: time(0),
            expiration: time(1).map(Expiration::ExpireTime),
            labels: [("b", "2"), ("a", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            forked_from: Some(ForkOrigin { key: Some(key), sequence: 3 }),
            ..Default::default()
        };
        assert_eq!(
            print(session),
            "{\"key\":{\"app_name\":\"a\",\"user_id\":\"u\",\"session_id\":\"s\"},\
             \"state\":{\"n\":1.00,\"big\":12345678901234567890123},\
             \"last_sequence\":9223372036854775807,\
             \"create_time\":\"1970-01-01T00:00:00.000000005Z\",\
             \"expire_time\":\"1970-01-01T00:00:01.000000005Z\",\
             \"labels\":{\"a\":\"1\",\"b\":\"2\"},\
             \"forked_from\":{\"key\":{\"app_name\":\"a\",\"user_id\":\"u\",\"session_id\":\"s\"},\"sequence\":3}}"
        );
    }

    #[test]
    fn a_watch_names_what_happened() {
        let print = |kind| print(WatchResponse { kind: Some(kind), cursor: "c".to_owned() });
        assert_eq!(print(WatchKind::CaughtUp(CaughtUp {})), r#"{"caught_up":{},"cursor":"c"}"#);
        let snapshot = StateSnapshot {
            state_form: Some(state_snapshot::StateForm::StateJson("{\"a\":1.0}".to_owned())),
            state_rounded: false,
            last_sequence: 2,
            ..Default::default()
        };
        assert_eq!(
            print(WatchKind::Snapshot(snapshot)),
            r#"{"snapshot":{"state":{"a":1.0},"last_sequence":2},"cursor":"c"}"#
        );
        let event = Event { event_id: "e".to_owned(), ..Default::default() };
        assert_eq!(
            print(WatchKind::Event(event)),
            r#"{"event":{"event_id":"e","sequence":0,"author":""},"cursor":"c"}"#
        );
    }

    #[test]
    fn versions_are_numbers_and_a_struct_is_json_too() {
        let kind = |kind| prost_types::Value { kind: Some(kind) };
        let list = ListValue {
            values: vec![kind(value::Kind::NumberValue(0.5)), kind(value::Kind::BoolValue(true))],
        };
        let state =
            Struct { fields: [("l".to_owned(), kind(value::Kind::ListValue(list)))].into() };
        let answer = GetStateResponse {
            state_form: Some(get_state_response::StateForm::State(state)),
            state_rounded: true,
            versions: [("b", 2), ("a", i64::MAX)].map(|(k, v)| (k.to_owned(), v)).into(),
            ..Default::default()
        };
        assert_eq!(
            print(answer),
            r#"{"state":{"l":[0.5,true]},"state_rounded":true,"versions":{"a":9223372036854775807,"b":2}}"#
        );
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        let form = Some(StateForm::StateJson("{".to_owned()));
        let session = Session { state_form: form, ..Default::default() };
        assert!(serde_json::to_string(&AsJson(session)).is_err());
    }
}
