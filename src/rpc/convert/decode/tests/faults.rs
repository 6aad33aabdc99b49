//! Every fault of a request is found, in the order of its fields, under its path.

use prost_types::{Timestamp, Value, value::Kind};

use super::*;
use crate::{
    domain::{
        id::SessionId,
        scope::{Scope, SessionRef},
    },
    proto::v1::{
        self, AppendEventRequest, AppendEventsRequest, DeleteSessionRequest, EventSelection,
        ForkSessionRequest, GetSessionRequest, GetStateRequest, Increment, KeyCheck, ListAppend,
        ListEventsRequest, ListKeyChangesRequest, ListSessionsRequest, MergePatch, Precondition,
        RewindSessionRequest, SetIfAbsent, StateDelta, UpdateStateRequest, WatchRequest,
        key_check::Condition, state_operation::Operation,
    },
    rpc::convert::decode::BareIds,
};

#[test]
fn an_empty_request_names_everything_that_it_lacks() {
    let missing = |fields: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        fields.iter().map(|field| (*field, "MISSING_FIELD")).collect()
    };
    let bare = BareIds::Allowed;
    assert_faults(create_session(Default::default()), &missing(&["app_name", "user_id"]));
    assert_faults(get_session(Default::default(), bare), &missing(&["key"]));
    assert_faults(list_sessions(Default::default()), &missing(&["app_name"]));
    assert_faults(update_session(Default::default()), &missing(&["key", "update_mask"]));
    assert_faults(delete_session(Default::default()), &missing(&["key"]));
    assert_faults(fork_session(Default::default()), &missing(&["key"]));
    assert_faults(rewind_session(Default::default()), &missing(&["key", "to_sequence"]));
    assert_faults(append_event(Default::default(), bare), &missing(&["key", "event"]));
    assert_faults(append_events(Default::default(), bare), &missing(&["key", "events"]));
    assert_faults(batch_get_events(Default::default()), &missing(&["key", "refs"]));
    assert_faults(list_events(Default::default()), &missing(&["key"]));
    assert_faults(get_state(Default::default()), &missing(&["scope"]));
    assert_faults(update_state(Default::default()), &missing(&["scope", "delta"]));
    assert_faults(list_key_changes(Default::default()), &missing(&["scope", "key"]));
    assert_faults(render_template(Default::default()), &missing(&["key", "template"]));
    assert_faults(end_invocation(Default::default()), &missing(&["key", "invocation_id"]));
    assert_faults(watch(Default::default()), &missing(&["scope"]));
}

#[test]
fn each_event_has_a_name() {
    use v1::event_ref::Ref;
    let batch = |refs: Vec<Option<Ref>>| {
        let refs = refs.into_iter().map(|named| v1::EventRef { r#ref: named }).collect();
        batch_get_events(v1::BatchGetEventsRequest { key: key(), refs, ..Default::default() })
    };
    let sequence = |it| Some(Ref::Sequence(it));
    let names = [None, sequence(-1), Some(Ref::EventId(String::new())), sequence(0)];
    assert_faults(
        batch(names.to_vec()),
        &[
            ("refs[0]", "MISSING_FIELD"),
            ("refs[1].sequence", "BAD_VALUE"),
            ("refs[2].event_id", "MISSING_FIELD"),
            ("refs[3].sequence", "BAD_VALUE"),
        ],
    );
    let many = |count| batch(vec![Some(Ref::Sequence(1)); count]);
    assert!(many(1000).is_ok());
    assert_faults(many(1001), &[("refs", "BAD_VALUE")]);
}

#[test]
fn half_an_address_names_what_it_lacks() {
    let part = |app: &str, user: &str, session: &str| {
        Some(v1::SessionKey {
            app_name: app.into(),
            user_id: user.into(),
            session_id: session.into(),
        })
    };
    let get = |key, bare| get_session(GetSessionRequest { key, ..Default::default() }, bare);
    let (allowed, refused) = (BareIds::Allowed, BareIds::Refused);
    let missing = "MISSING_FIELD";
    assert_faults(get(part("a", "", "s"), allowed), &[("key.user_id", missing)]);
    assert_faults(get(part("", "u", "s"), allowed), &[("key.app_name", missing)]);
    assert_faults(get(part("a", "u", ""), allowed), &[("key.session_id", missing)]);
    assert_faults(get(part("", "", ""), allowed), &[("key.session_id", missing)]);
    assert_faults(
        get(part("", "", "s"), refused),
        &[("key.app_name", missing), ("key.user_id", missing)],
    );
    let bare = SessionRef::bare(SessionId::new("s").unwrap());
    assert_eq!(get(part("", "", "s"), allowed).unwrap().0.0.session, bare);
    assert!(matches!(get(key(), refused).unwrap().0.0.session, SessionRef::Full(_)));
    let delete = DeleteSessionRequest { key: part("", "", "s"), ..Default::default() };
    assert_faults(delete_session(delete), &[("key.app_name", missing), ("key.user_id", missing)]);
}

#[test]
fn a_scope_is_a_node_of_the_tree() {
    let scope = |app: &str, user: &str, session: &str| {
        let scope = Some(v1::Scope {
            app_name: app.into(),
            user_id: user.into(),
            session_id: session.into(),
        });
        get_state(GetStateRequest { scope, ..Default::default() }).map(|((get, ..), _)| get.scope)
    };
    assert!(matches!(scope("a", "", ""), Ok(Scope::Application(_))));
    assert!(matches!(scope("a", "u", ""), Ok(Scope::User(..))));
    assert!(matches!(scope("a", "u", "s"), Ok(Scope::Session(_))));
    assert_faults(scope("a", "", "s"), &[("scope.user_id", "MISSING_FIELD")]);
    assert_faults(scope("", "u", ""), &[("scope.app_name", "MISSING_FIELD")]);
    let long = "x".repeat(513);
    assert_faults(
        scope(&long, &long, &long),
        &[
            ("scope.app_name", "BAD_ID"),
            ("scope.user_id", "BAD_ID"),
            ("scope.session_id", "BAD_ID"),
        ],
    );
}

#[test]
fn faults_of_an_event_come_in_the_order_of_its_fields() {
    let event = v1::Event {
        event_id: "x".repeat(129),
        invocation_id: "a\0".into(),
        author: "x".repeat(257),
        branch: "x".repeat(1025),
        event_time: Some(Timestamp { seconds: 0, nanos: -1 }),
        state_delta: Some(set_json("[]")),
        body_form: Some(v1::event::BodyForm::BodyJson(String::new())),
        ..Default::default()
    };
    let expected = [
        ("event_id", "BAD_ID"),
        ("invocation_id", "BAD_ID"),
        ("author", "FIELD_TOO_LONG"),
        ("branch", "FIELD_TOO_LONG"),
        ("event_time", "BAD_VALUE"),
        ("state_delta.set_json", "BAD_JSON"),
        ("body_json", "BAD_JSON"),
    ];
    let under = |path: &str| -> Vec<(String, &str)> {
        expected.iter().map(|(field, reason)| (format!("{path}.{field}"), *reason)).collect()
    };
    let single = append_event(append(event.clone()), BareIds::Allowed);
    assert_eq!(super::faults(single), under("event"));
    let batch = AppendEventsRequest {
        key: key(),
        events: vec![v1::Event::default(), event.clone(), event],
        ..Default::default()
    };
    let both = [under("events[1]"), under("events[2]")].concat();
    assert_eq!(super::faults(append_events(batch, BareIds::Allowed)), both);
}

#[test]
fn faults_of_operations_name_the_operation() {
    use v1::{increment::Amount, list_append::ValuesForm, set_if_absent::ValueForm};
    let by = |amount| Operation::Increment(Increment { amount });
    let append =
        |max_length, values_form| Operation::ListAppend(ListAppend { max_length, values_form });
    let delta = StateDelta {
        remove: vec!["ok".into(), String::new()],
        operations: vec![
            operation("", by(Some(Amount::By(1)))),
            operation("a", by(None)),
            operation("a", by(Some(Amount::ByDouble(f64::NAN)))),
            operation("a", None),
            operation("a", append(-1, None)),
            operation("a", append(0, Some(ValuesForm::ValuesJson("{}".into())))),
            operation("a", Operation::SetIfAbsent(SetIfAbsent { value_form: None })),
            operation(
                "a",
                Operation::SetIfAbsent(SetIfAbsent {
                    value_form: Some(ValueForm::Value(Value { kind: None })),
                }),
            ),
            operation("a", Operation::MergePatch(MergePatch { patch_form: None })),
            operation(
                "temp:a",
                Operation::MergePatch(MergePatch {
                    patch_form: Some(v1::merge_patch::PatchForm::PatchJson("1".into())),
                }),
            ),
        ],
        ..Default::default()
    };
    assert_faults(
        append_event(with_delta(delta), BareIds::Allowed),
        &[
            ("event.state_delta.remove[1]", "BAD_KEY"),
            ("event.state_delta.operations[0].key", "BAD_KEY"),
            ("event.state_delta.operations[1].increment", "MISSING_FIELD"),
            ("event.state_delta.operations[2].increment.by_double", "BAD_VALUE"),
            ("event.state_delta.operations[3]", "MISSING_FIELD"),
            ("event.state_delta.operations[4].list_append", "MISSING_FIELD"),
            ("event.state_delta.operations[4].list_append.max_length", "BAD_VALUE"),
            ("event.state_delta.operations[5].list_append.values_json", "BAD_JSON"),
            ("event.state_delta.operations[6].set_if_absent", "MISSING_FIELD"),
            ("event.state_delta.operations[7].set_if_absent.value", "BAD_JSON"),
            ("event.state_delta.operations[8].merge_patch", "MISSING_FIELD"),
            ("event.state_delta.operations[9].merge_patch.patch_json", "BAD_JSON"),
        ],
    );
}

#[test]
fn faults_of_a_precondition_name_the_check() {
    let check = |key: &str, condition: Option<Condition>| KeyCheck { key: key.into(), condition };
    let precondition = Some(Precondition {
        expected_sequence: Some(-1),
        keys: vec![
            check("", Some(Condition::Exists(true))),
            check("temp:x", Some(Condition::Exists(true))),
            check("a", None),
            check("a", Some(Condition::Version(-1))),
            check("a", Some(Condition::Value(list([number(f64::INFINITY)])))),
            check("a", Some(Condition::ValueJson(String::new()))),
            check("app:a", Some(Condition::Version(0))),
        ],
        ..Default::default()
    });
    let request = AppendEventRequest { precondition, ..append(v1::Event::default()) };
    assert_faults(
        append_event(request, BareIds::Allowed),
        &[
            ("precondition.expected_sequence", "BAD_VALUE"),
            ("precondition.keys[0].key", "BAD_KEY"),
            ("precondition.keys[1].key", "KEY_OUTSIDE_SCOPE"),
            ("precondition.keys[2]", "MISSING_FIELD"),
            ("precondition.keys[3].version", "BAD_VALUE"),
            ("precondition.keys[4].value[0]", "BAD_JSON"),
            ("precondition.keys[5].value_json", "BAD_JSON"),
        ],
    );
}

#[test]
fn a_scope_takes_its_own_and_wider_keys() {
    let update = |user: &str, session: &str| {
        let keys = ["app:k", "user:k", "k", "temp:k"];
        let request = UpdateStateRequest {
            scope: Some(v1::Scope {
                app_name: "a".into(),
                user_id: user.into(),
                session_id: session.into(),
            }),
            delta: Some(StateDelta { remove: keys.map(Into::into).into(), ..Default::default() }),
            precondition: Some(Precondition {
                keys: keys
                    .map(|key| KeyCheck {
                        key: key.into(),
                        condition: Some(Condition::Exists(true)),
                    })
                    .into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        violations(update_state(request))
            .into_iter()
            .map(|it| {
                assert_eq!(it.reason.as_str(), "KEY_OUTSIDE_SCOPE");
                it.field.to_string()
            })
            .collect::<Vec<_>>()
    };
    let expected = |from: usize| -> Vec<String> {
        let remove = (from..4).map(|at| format!("delta.remove[{at}]"));
        remove.chain((from..4).map(|at| format!("precondition.keys[{at}].key"))).collect()
    };
    assert_eq!(update("", ""), expected(1));
    assert_eq!(update("u", ""), expected(2));
    assert_eq!(update("u", "s"), expected(3));
    let changes = |key: &str| {
        list_key_changes(ListKeyChangesRequest {
            scope: user_scope(),
            key: key.into(),
            ..Default::default()
        })
    };
    assert!(changes("app:k").is_ok() && changes("user:").is_ok());
    assert_faults(changes("k"), &[("key", "KEY_OUTSIDE_SCOPE")]);
    assert_faults(changes("temp:k"), &[("key", "KEY_OUTSIDE_SCOPE")]);
}

#[test]
fn an_event_may_change_and_a_read_may_name_temp_keys() {
    assert!(append_event(with_delta(set_json(r#"{"temp:":1}"#)), BareIds::Allowed).is_ok());
    assert_faults(
        append_event(with_delta(set_json(r#"{"temp:":1,"temp:x":1e999}"#)), BareIds::Allowed),
        &[("event.state_delta.set_json", "BAD_JSON")],
    );
    let keys = vec!["temp:x".into(), "a".into()];
    assert!(get_state(GetStateRequest { scope: user_scope(), keys, ..Default::default() }).is_ok());
    let request = GetStateRequest {
        scope: user_scope(),
        page_size: -1,
        page_token: "?".into(),
        ..Default::default()
    };
    assert_faults(
        get_state(request),
        &[("page_size", "BAD_VALUE"), ("page_token", "BAD_PAGE_TOKEN")],
    );
}

#[test]
fn numbers_times_and_enums_out_of_range_are_bad_values() {
    let selection = EventSelection {
        recent: Some(-1),
        after_time: Some(Timestamp { seconds: 253_402_300_800, nanos: 0 }),
        after_sequence: -1,
        include_rewound: true,
    };
    assert_faults(
        get_session(
            GetSessionRequest {
                key: key(),
                events: Some(selection),
                as_of_sequence: Some(-5),
                json_form: 3,
                ..Default::default()
            },
            BareIds::Allowed,
        ),
        &[
            ("events.recent", "BAD_VALUE"),
            ("events.after_time", "BAD_VALUE"),
            ("events.after_sequence", "BAD_VALUE"),
            ("as_of_sequence", "BAD_VALUE"),
            ("json_form", "BAD_VALUE"),
        ],
    );
    assert_faults(
        list_events(ListEventsRequest {
            key: key(),
            page_size: -1,
            selection: Some(selection),
            ..Default::default()
        }),
        &[
            ("page_size", "BAD_VALUE"),
            ("selection.recent", "BAD_VALUE"),
            ("selection.after_time", "BAD_VALUE"),
            ("selection.after_sequence", "BAD_VALUE"),
        ],
    );
    let fork = ForkSessionRequest { key: key(), up_to_sequence: Some(-1), ..Default::default() };
    assert_faults(fork_session(fork), &[("up_to_sequence", "BAD_VALUE")]);
    let rewind = RewindSessionRequest { key: key(), to_sequence: Some(-1), ..Default::default() };
    assert_faults(rewind_session(rewind), &[("to_sequence", "BAD_VALUE")]);
    let list = ListSessionsRequest {
        app_name: "a".into(),
        page_size: i32::MIN,
        order: 3,
        labels: [(String::new(), String::new())].into(),
        ..Default::default()
    };
    assert_faults(
        list_sessions(list),
        &[("page_size", "BAD_VALUE"), ("order", "BAD_VALUE"), ("labels[\"\"]", "BAD_VALUE")],
    );
    let watching = WatchRequest { scope: user_scope(), start: -1, ..Default::default() };
    assert_faults(watch(watching), &[("start", "BAD_VALUE")]);
}

#[test]
fn what_only_answers_hold_is_ignored_in_an_event() {
    let event = v1::Event {
        sequence: -7,
        commit_time: Some(Timestamp { seconds: i64::MAX, nanos: -1 }),
        rounded: true,
        rewind_to_sequence: Some(-1),
        rewound: true,
        body_form: Some(v1::event::BodyForm::Body(structure([("a", of(Kind::BoolValue(true)))]))),
        ..Default::default()
    };
    let (append, _) = append_event(append(event), BareIds::Allowed).unwrap();
    assert_eq!(append.events[0].body.as_ref().unwrap().as_str(), r#"{"a":true}"#);
}
