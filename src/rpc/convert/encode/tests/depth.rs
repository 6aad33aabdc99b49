//! How deep a Struct may be in each place: exactly as deep as a client decodes with protobuf's default limit.

use prost::Message;

use super::{all, event, info, json, state};
use crate::{
    domain::{
        event::{Changes, Event},
        id::Author,
        json::{Json, MAX_NESTING},
        session::SessionInfo,
    },
    engine::{List, SessionAnswer, WatchItem},
    proto::v1::{
        self, AppendEventStreamResponse, append_event_stream_response::Outcome, event::BodyForm,
        key_change::ValueForm, session::StateForm, watch_response::Kind,
    },
    rpc::convert::{
        Form,
        encode::{self, Mode},
    },
    store::{Appended, AppendedEvent, KeyChange},
};

/// `{"a":{"a":…1}}`, with `levels` objects.
fn objects(levels: usize) -> Json {
    json(format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels)))
}

/// Nested objects within nested arrays.
fn mixed(arrays: usize, objects: usize) -> Json {
    let inner = self::objects(objects);
    json(format!("{}{inner}{}", "[".repeat(arrays), "]".repeat(arrays)))
}

fn decodes<M: Message + Default>(message: &M) -> bool {
    M::decode(message.encode_to_vec().as_slice()).is_ok()
}

/// Tries a read with every depth: what would not decode as Struct comes as text, and both happen. `is_struct` tells which arm is set.
fn assert_read<M: Message + Default>(
    levels: std::ops::Range<usize>,
    read: impl Fn(usize) -> M,
    is_struct: fn(&M) -> bool,
    unchecked: impl Fn(usize) -> M,
) -> usize {
    let deepest = levels.clone().take_while(|&levels| decodes(&unchecked(levels))).last().unwrap();
    for levels in levels.clone() {
        let message = read(levels);
        assert!(decodes(&message), "{levels} levels were answered");
        assert_eq!(is_struct(&message), levels <= deepest, "{levels} levels, {deepest} decode");
    }
    assert!(deepest + 1 < levels.end);
    deepest
}

fn list_of(body: &Json) -> List<Event> {
    all(vec![event(1, body.clone())])
}

/// The Struct that would be answered if there were no limit.
fn unlimited(json: &Json) -> prost_types::Struct {
    fn value(json: &serde_json::Value) -> prost_types::Value {
        use prost_types::value::Kind;
        prost_types::Value {
            kind: Some(match json {
                serde_json::Value::Object(_) => Kind::StructValue(object(json)),
                serde_json::Value::Array(items) => Kind::ListValue(prost_types::ListValue {
                    values: items.iter().map(value).collect(),
                }),
                _ => Kind::NumberValue(1.0),
            }),
        }
    }
    fn object(json: &serde_json::Value) -> prost_types::Struct {
        let members = json.as_object().unwrap().iter();
        prost_types::Struct { fields: members.map(|(key, it)| (key.clone(), value(it))).collect() }
    }
    object(&serde_json::from_str(json.as_str()).unwrap())
}

#[test]
fn a_body_in_a_list_is_as_deep_as_clients_decode() {
    let deepest = assert_read(
        1..MAX_NESTING,
        |levels| encode::list_events(list_of(&objects(levels)), Form::Struct.into()),
        |response| matches!(response.events[0].body_form, Some(BodyForm::Body(_))),
        |levels| v1::ListEventsResponse {
            events: vec![v1::Event {
                body_form: Some(BodyForm::Body(unlimited(&objects(levels)))),
                ..Default::default()
            }],
            ..Default::default()
        },
    );
    // As deep as the request that brought it can be.
    assert_eq!(deepest, 33);
}

#[test]
fn state_is_as_deep_as_clients_decode_in_each_of_its_places() {
    // Arrays take two levels and objects three, so that some of these end at each of the last levels.
    let deepest = [0, 1, 2].map(|arrays| {
        let of = |levels| state([("k", mixed(arrays, levels))]);
        let object = |levels| unlimited(&of(levels).to_json());
        let alone = assert_read(
            1..MAX_NESTING - arrays,
            |levels| encode::get_state((all(of(levels).0), None), Form::Struct.into()),
            |response| {
                matches!(response.state_form, Some(v1::get_state_response::StateForm::State(_)))
            },
            |levels| v1::GetStateResponse {
                state_form: Some(v1::get_state_response::StateForm::State(object(levels))),
                ..Default::default()
            },
        );
        let in_a_session = assert_read(
            1..MAX_NESTING - arrays,
            |levels| {
                let (info, events) = (info(), List::default());
                let answer = SessionAnswer { info, state: Some(of(levels)), events };
                encode::get_session(answer, Form::Struct.into())
            },
            |response| {
                let state = &response.session.as_ref().unwrap().state_form;
                matches!(state, Some(StateForm::State(_)))
            },
            |levels| v1::GetSessionResponse {
                session: Some(v1::Session {
                    state_form: Some(StateForm::State(object(levels))),
                    ..Default::default()
                }),
                ..Default::default()
            },
        );
        (alone, in_a_session)
    });
    assert_eq!(deepest, [(32, 32), (31, 31), (31, 30)]);
}

fn appended(body: Json, of_state: Json) -> Appended {
    let mut event = event(1, body);
    event.changes = Changes { set: Some(json(format!("{{\"k\":{of_state}}}"))), remove: vec![] };
    Appended {
        info: SessionInfo { ..info() },
        events: vec![AppendedEvent { event: event.into(), replayed: false }],
        state: Some(state([("k", of_state)])),
        request_replayed: false,
    }
}

#[test]
fn what_is_too_deep_for_a_write_comes_as_text_field_by_field() {
    let mut as_text = 0;
    for levels in 1..MAX_NESTING {
        let answer = appended(objects(levels), objects(levels));
        let response = AppendEventStreamResponse {
            index: 0,
            outcome: Some(Outcome::Appended(encode::append_event(
                answer,
                vec![],
                Mode::from(Form::Struct).inner(),
            ))),
        };
        assert!(decodes(&response), "{levels} levels were answered");
        let Some(Outcome::Appended(appended)) = response.outcome else { unreachable!() };
        let event = appended.event.unwrap();
        if let Some(BodyForm::BodyJson(text)) = event.body_form {
            assert_eq!(text, objects(levels).into_string());
            as_text += 1;
        }
    }
    // Three levels to the body, three for each object, one hundred in all.
    assert_eq!(as_text, MAX_NESTING - 1 - 32);
    let mixed =
        encode::append_event(appended(json("{}"), objects(60)), vec![], Mode::from(Form::Struct));
    let event = mixed.event.unwrap();
    assert!(matches!(event.body_form, Some(BodyForm::Body(_))));
    let set = event.state_delta.unwrap().set_form;
    assert!(matches!(set, Some(v1::state_delta::SetForm::SetJson(_))));
    let state = mixed.session.unwrap().state_form;
    assert!(matches!(state, Some(StateForm::StateJson(_))));
}

#[test]
fn what_is_too_deep_for_a_watch_comes_as_text() {
    let (mut events, mut snapshots, mut changes) = (0, 0, 0);
    for levels in 1..MAX_NESTING {
        let event = WatchItem::Event(Box::new(event(1, objects(levels))));
        let response = encode::watch(event, "c".into(), Form::Struct.into());
        assert!(decodes(&response), "{levels}");
        let Some(Kind::Event(event)) = response.kind else { panic!("no event") };
        events += usize::from(matches!(event.body_form, Some(BodyForm::Body(_))));

        let state = state([("k", mixed(2, levels.min(98)))]);
        let snapshot = WatchItem::Snapshot { state, last_sequence: 4, life: None };
        let response = encode::watch(snapshot, "c".into(), Form::Struct.into());
        assert!(decodes(&response), "{levels}");
        let Some(Kind::Snapshot(snapshot)) = response.kind else { panic!("no snapshot") };
        assert_eq!((snapshot.last_sequence, response.cursor.as_str()), (4, "c"));
        snapshots += usize::from(matches!(
            snapshot.state_form,
            Some(v1::state_snapshot::StateForm::State(_))
        ));

        let set = Some(objects(levels));
        let commit_time = super::time(4);
        let change =
            WatchItem::StateChange { changes: Changes { set, remove: vec![] }, commit_time };
        let response = encode::watch(change, "c".into(), Form::Struct.into());
        assert!(decodes(&response), "{levels}");
        let Some(Kind::StateChange(change)) = response.kind else { panic!("no change") };
        let set = change.delta.unwrap().set_form;
        changes += usize::from(matches!(set, Some(v1::state_delta::SetForm::Set(_))));
    }
    // As many as decode, and not one less.
    assert_eq!((events, snapshots, changes), (33, 30, 32));
}

/// The list of one change of a key.
fn change_to(value: Json) -> List<KeyChange> {
    let (author, commit_time) = (Author::system(), super::time(4));
    let mut list = List::default();
    list.items =
        vec![KeyChange { version: 1, value: Some(value), commit_time, author, source: None }];
    list
}

#[test]
fn one_too_deep_value_leaves_the_other_items_of_a_page_as_struct() {
    let mut list = List::default();
    list.items = vec![event(1, objects(2)), event(2, objects(60)), event(3, objects(2))];
    let response = encode::list_events(list, Form::Struct.into());
    let arms = response.events.iter().map(|event| match &event.body_form {
        Some(BodyForm::Body(_)) => "struct",
        Some(BodyForm::BodyJson(text)) if *text == objects(60).into_string() => "text",
        other => panic!("{other:?}"),
    });
    assert_eq!(arms.collect::<Vec<_>>(), ["struct", "text", "struct"]);
}

#[test]
fn a_single_value_is_as_deep_as_clients_decode() {
    let deepest = assert_read(
        1..MAX_NESTING,
        |levels| encode::list_key_changes(change_to(objects(levels)), Form::Struct.into()),
        |response| matches!(response.changes[0].value_form, Some(ValueForm::Value(_))),
        |levels| {
            let kind = prost_types::value::Kind::StructValue(unlimited(&objects(levels)));
            let value = prost_types::Value { kind: Some(kind) };
            let value_form = Some(ValueForm::Value(value));
            let change = v1::KeyChange { value_form, ..Default::default() };
            v1::ListKeyChangesResponse { changes: vec![change], ..Default::default() }
        },
    );
    assert_eq!(deepest, 32);
}

#[test]
fn an_author_is_no_reason_to_refuse() {
    // The limit is of JSON alone: an event without any is never too deep.
    let mut plain = event(1, objects(99));
    (plain.body, plain.author) = (None, Author::system());
    let mut list = List::default();
    list.items = vec![plain];
    assert_eq!(encode::list_events(list, Form::Struct.into()).events.len(), 1);
}
