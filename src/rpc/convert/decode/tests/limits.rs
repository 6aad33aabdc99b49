//! Every limit at its last legal size and one beyond.

use prost_types::value::Kind;

use super::*;
use crate::{
    domain::limits::{
        BATCH_BYTES, BATCH_EVENTS, BODY_BYTES, DELTA_BYTES, DELTA_OPERATIONS, LABEL_BYTES, LABELS,
        TEMPLATE_BYTES, VALUE_BYTES,
    },
    proto::v1::{
        self, AppendEventRequest, AppendEventsRequest, GetStateRequest, Increment, KeyCheck,
        ListSessionsRequest, Precondition, RenderTemplateRequest, StateDelta, event::BodyForm,
        increment::Amount, key_check::Condition, state_delta::SetForm, state_operation::Operation,
    },
    rpc::convert::decode::BareIds,
};

/// A JSON string of `bytes` bytes, quotes included.
fn string_of(bytes: usize) -> String {
    format!("\"{}\"", "x".repeat(bytes - 2))
}

fn body(text: String) -> v1::Event {
    v1::Event { body_form: Some(BodyForm::BodyJson(text)), ..Default::default() }
}

fn one(event: v1::Event) -> Result<(), crate::domain::error::Error> {
    append_event(append(event), BareIds::Allowed).map(|_| ())
}

#[test]
fn a_value_has_at_most_256_kib_in_either_form() {
    let set = |bytes| set_json(&format!("{{\"k\":{}}}", string_of(bytes)));
    assert!(append_event(with_delta(set(VALUE_BYTES)), BareIds::Allowed).is_ok());
    assert_faults(
        append_event(with_delta(set(VALUE_BYTES + 1)), BareIds::Allowed),
        &[("event.state_delta.set_json[\"k\"]", "VALUE_TOO_LARGE")],
    );
    let text = |bytes: usize| of(Kind::StringValue("x".repeat(bytes - 2)));
    let set = |bytes| StateDelta {
        set_form: Some(SetForm::Set(structure([("a", number(1.0)), ("k", text(bytes))]))),
        ..Default::default()
    };
    assert!(append_event(with_delta(set(VALUE_BYTES)), BareIds::Allowed).is_ok());
    assert_faults(
        append_event(with_delta(set(VALUE_BYTES + 1)), BareIds::Allowed),
        &[("event.state_delta.set[\"k\"]", "VALUE_TOO_LARGE")],
    );
}

#[test]
fn a_body_has_at_most_one_mib_in_either_form() {
    let text = |bytes: usize| format!("{{\"b\":{}}}", string_of(bytes - 6));
    assert!(one(body(text(BODY_BYTES))).is_ok());
    assert!(one(body(format!("  {}\n", text(BODY_BYTES)))).is_ok());
    assert_faults(one(body(text(BODY_BYTES + 1))), &[("event.body_json", "EVENT_TOO_LARGE")]);
    let message = |bytes: usize| v1::Event {
        body_form: Some(BodyForm::Body(structure([(
            "b",
            list([of(Kind::StringValue("\n".repeat((bytes - 10) / 2)))]),
        )]))),
        ..Default::default()
    };
    assert!(one(message(BODY_BYTES)).is_ok());
    assert_faults(one(message(BODY_BYTES + 2)), &[("event.body", "EVENT_TOO_LARGE")]);
}

#[test]
fn a_delta_has_at_most_one_mib() {
    let values = |last: usize| {
        let sizes = [VALUE_BYTES, VALUE_BYTES, VALUE_BYTES, last].into_iter().enumerate();
        let members: Vec<_> =
            sizes.map(|(at, bytes)| format!("\"{at}\":{}", string_of(bytes))).collect();
        with_delta(set_json(&format!("{{{}}}", members.join(" , "))))
    };
    let full = DELTA_BYTES - 3 * VALUE_BYTES - 4;
    assert!(append_event(values(full), BareIds::Allowed).is_ok());
    assert_faults(
        append_event(values(full + 1), BareIds::Allowed),
        &[("event.state_delta", "VALUE_TOO_LARGE")],
    );
}

#[test]
fn operations_and_checks_and_named_keys_are_at_most_a_thousand() {
    let by = Operation::Increment(Increment { amount: Some(Amount::By(1)) });
    let operations = |many| StateDelta {
        operations: vec![operation("k", by.clone()); many],
        ..Default::default()
    };
    assert!(append_event(with_delta(operations(DELTA_OPERATIONS)), BareIds::Allowed).is_ok());
    assert_faults(
        append_event(with_delta(operations(DELTA_OPERATIONS + 1)), BareIds::Allowed),
        &[("event.state_delta.operations", "BAD_VALUE")],
    );
    let checks = |many| {
        let check = KeyCheck { key: "k".into(), condition: Some(Condition::Exists(true)) };
        let precondition = Some(Precondition { keys: vec![check; many], ..Default::default() });
        let request = AppendEventRequest { precondition, ..append(v1::Event::default()) };
        append_event(request, BareIds::Allowed)
    };
    assert!(checks(DELTA_OPERATIONS).is_ok());
    assert_faults(checks(DELTA_OPERATIONS + 1), &[("precondition.keys", "BAD_VALUE")]);
    let named = |many| {
        let keys = vec!["k".to_owned(); many];
        get_state(GetStateRequest { scope: user_scope(), keys, ..Default::default() })
    };
    assert!(named(DELTA_OPERATIONS).is_ok());
    assert_faults(named(DELTA_OPERATIONS + 1), &[("keys", "BAD_VALUE")]);
    let pages = [(0, None), (7, Some(7)), (1000, Some(1000)), (1001, Some(1000))];
    for (page_size, expected) in pages {
        let request = GetStateRequest { scope: user_scope(), page_size, ..Default::default() };
        let ((_, page, _), _) = get_state(request).unwrap();
        assert_eq!(page.max_items, expected);
    }
}

#[test]
fn a_batch_has_at_most_a_thousand_events_and_three_mib() {
    let batch = |events| {
        let request = AppendEventsRequest { key: key(), events, ..Default::default() };
        append_events(request, BareIds::Allowed).map(|(append, _)| append.events.len())
    };
    assert_eq!(batch(vec![v1::Event::default(); BATCH_EVENTS]).unwrap(), BATCH_EVENTS);
    assert_faults(
        batch(vec![v1::Event::default(); BATCH_EVENTS + 1]),
        &[("events", "BATCH_TOO_LARGE")],
    );
    let text = |bytes: usize| format!("{{\"b\":{}}}", string_of(bytes - 6));
    let sizes = |last: usize| {
        let body = [BODY_BYTES, BODY_BYTES, last].map(|bytes| body(text(bytes)));
        let set = v1::Event { state_delta: Some(set_json("{\"k\":1}")), ..Default::default() };
        batch([body.to_vec(), vec![set]].concat())
    };
    let last = BATCH_BYTES - 2 * BODY_BYTES - "k1".len();
    assert!(sizes(last).is_ok());
    assert_faults(sizes(last + 1), &[("events", "BATCH_TOO_LARGE")]);
}

#[test]
fn labels_are_at_most_64_of_63_bytes_each() {
    let list = |labels: Vec<(String, String)>| {
        list_sessions(ListSessionsRequest {
            app_name: "a".into(),
            labels: labels.into_iter().collect(),
            ..Default::default()
        })
    };
    let many = |count| (0..count).map(|at| (at.to_string(), String::new())).collect();
    assert!(list(many(LABELS)).is_ok());
    assert_faults(list(many(LABELS + 1)), &[("labels", "BAD_VALUE")]);
    let long = |bytes| "x".repeat(bytes);
    assert!(list(vec![(long(LABEL_BYTES), long(LABEL_BYTES))]).is_ok());
    assert_faults(
        list(vec![("k".into(), long(LABEL_BYTES + 1))]),
        &[("labels[\"k\"]", "FIELD_TOO_LONG")],
    );
    let key = long(LABEL_BYTES + 1);
    assert_faults(
        list(vec![(key.clone(), "v".into())]),
        &[(&format!("labels[\"{key}\"]"), "FIELD_TOO_LONG")],
    );
}

#[test]
fn a_template_has_at_most_256_kib() {
    let render = |bytes| {
        let template = "x".repeat(bytes);
        render_template(RenderTemplateRequest { key: key(), template, ..Default::default() })
    };
    assert!(render(TEMPLATE_BYTES).is_ok());
    assert_faults(render(TEMPLATE_BYTES + 1), &[("template", "FIELD_TOO_LONG")]);
}

#[test]
fn a_key_has_at_most_512_bytes() {
    let remove = |bytes| {
        let remove = vec!["k".repeat(bytes)];
        append_event(with_delta(StateDelta { remove, ..Default::default() }), BareIds::Allowed)
    };
    assert!(remove(512).is_ok());
    assert_faults(remove(513), &[("event.state_delta.remove[0]", "BAD_KEY")]);
}
