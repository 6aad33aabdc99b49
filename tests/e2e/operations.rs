//! Operations on state: what each does to what is there, in either form of its operand, and what it refuses.

use prost_types::{ListValue, value::Kind};
use serde_json::{Value, json};
use sessiond::{
    domain::error::Reason,
    proto::v1::{
        ListAppend, MergePatch, SetIfAbsent, StateOperation, increment::Amount,
        list_append::ValuesForm, merge_patch::PatchForm, set_if_absent::ValueForm,
        state_operation::Operation,
    },
};

use crate::{
    harness::{Service, on_each_store},
    judge::{detail, faulty, refused},
    make::{
        append, create, get, increment, increment_by, list_append, merge_patch, operating,
        set_if_absent, structure, value,
    },
    read::{HasState, set_by, state_text},
};

on_each_store! {
    every_operation_starts_from_nothing
    every_operation_works_on_what_is_there
    both_forms_of_an_operand_do_the_same
    an_increment_keeps_to_the_kind_of_its_numbers
    a_type_that_does_not_fit_is_refused
    a_number_that_leaves_its_range_is_refused
    a_refused_operation_leaves_nothing_behind
}

/// What a key becomes; `before` is JSON text, empty where the key has no value.
async fn becomes(service: &Service, before: &str, operation: StateOperation) -> Value {
    let id = service
        .create_session(create(
            "",
            &if before.is_empty() { "{}".into() } else { format!("{{\"k\":{before}}}") },
        ))
        .await
        .unwrap();
    let id = id.session.unwrap().key.unwrap().session_id;
    let answer = service.append_event(append(&id, operating(operation))).await.unwrap();
    let state = answer.state();
    // What was unchanged is not in the event; what was changed is there as it became.
    let event = set_by(answer.event.as_ref().unwrap());
    assert!(event.is_null() || event["k"] == state["k"], "{event} {state}");
    state["k"].clone()
}

async fn every_operation_starts_from_nothing(service: &Service) {
    assert_eq!(becomes(service, "", increment("k", -2)).await, json!(-2));
    assert_eq!(becomes(service, "", increment_by("k", 0.5)).await, json!(0.5));
    assert_eq!(becomes(service, "", list_append("k", "[1,[2]]", 0)).await, json!([1, [2]]));
    assert_eq!(becomes(service, "", list_append("k", "[]", 0)).await, json!([]));
    assert_eq!(becomes(service, "", set_if_absent("k", "null")).await, json!(null));
    let patch = merge_patch("k", r#"{"a":{"b":null,"c":1}}"#);
    assert_eq!(becomes(service, "", patch).await, json!({"a": {"c": 1}}));
}

async fn every_operation_works_on_what_is_there(service: &Service) {
    assert_eq!(becomes(service, "40", increment("k", 2)).await, json!(42));
    assert_eq!(becomes(service, "[1,2]", list_append("k", "[3]", 0)).await, json!([1, 2, 3]));
    assert_eq!(becomes(service, "[1,2]", list_append("k", "[3,4]", 3)).await, json!([2, 3, 4]));
    assert_eq!(becomes(service, "[1]", list_append("k", "[2,3,4]", 2)).await, json!([3, 4]));
    assert_eq!(
        becomes(service, "null", set_if_absent("k", "1")).await,
        json!(null),
        "null is a value"
    );
    assert_eq!(becomes(service, "0", set_if_absent("k", "1")).await, json!(0));
    let patch = merge_patch("k", r#"{"a":null,"b":{"c":2},"d":[null]}"#);
    let before = r#"{"a":1,"b":{"c":1,"e":1},"d":{}}"#;
    let after = json!({"b": {"c": 2, "e": 1}, "d": [null]});
    assert_eq!(becomes(service, before, patch).await, after);
}

async fn both_forms_of_an_operand_do_the_same(service: &Service) {
    let operation = |operation| StateOperation { key: "k".into(), operation: Some(operation) };
    let Some(Kind::ListValue(ListValue { values })) = value("[1,{\"a\":null}]").kind else {
        panic!()
    };
    let list =
        ListAppend { max_length: 3, values_form: Some(ValuesForm::Values(ListValue { values })) };
    let list = operation(Operation::ListAppend(list));
    assert_eq!(becomes(service, "[7,8]", list).await, json!([8, 1, {"a": null}]));
    let absent = SetIfAbsent { value_form: Some(ValueForm::Value(value(r#"{"a":[1.5]}"#))) };
    let absent = operation(Operation::SetIfAbsent(absent));
    assert_eq!(becomes(service, "", absent).await, json!({"a": [1.5]}));
    let patch = MergePatch { patch_form: Some(PatchForm::Patch(structure(r#"{"a":null,"b":1}"#))) };
    let patch = operation(Operation::MergePatch(patch));
    assert_eq!(becomes(service, r#"{"a":1}"#, patch).await, json!({"b": 1}));
}

async fn an_increment_keeps_to_the_kind_of_its_numbers(service: &Service) {
    let text = async |before: &str, operation: StateOperation| {
        let created =
            service.create_session(create("", &format!("{{\"k\":{before}}}"))).await.unwrap();
        let id = created.session.unwrap().key.unwrap().session_id;
        service.append_event(append(&id, operating(operation))).await.unwrap();
        let session = service.get_session(get(&id)).await.unwrap().session.unwrap();
        state_text(&session).replace([' ', '{', '}'], "").replace("\"k\":", "")
    };
    // Whole and whole is exact, also where a double would round.
    assert_eq!(text("9007199254740993", increment("k", 1)).await, "9007199254740994");
    assert_eq!(text("9223372036854775806", increment("k", 1)).await, i64::MAX.to_string());
    assert_eq!(text("-9223372036854775807", increment("k", -1)).await, i64::MIN.to_string());
    // A point or an exponent makes a double, and so does a fraction to add.
    assert_eq!(text("1.5", increment("k", 1)).await, "2.5");
    assert_eq!(text("1", increment_by("k", 0.25)).await, "1.25");
    for whole in [text("1e2", increment("k", 1)).await, text("100", increment_by("k", 1.0)).await] {
        assert!(whole.contains(['.', 'e']), "{whole} is no double");
        assert_eq!(whole.parse(), Ok(101.0));
    }
}

async fn a_type_that_does_not_fit_is_refused(service: &Service) {
    let state = r#"{"text":"1","list":[],"object":{},"nothing":null,"number":1}"#;
    service.create_session(create("s1", state)).await.unwrap();
    for (operation, found) in [
        (increment("text", 1), "string"),
        (increment("nothing", 1), "null"),
        (list_append("object", "[1]", 0), "object"),
        (list_append("number", "[1]", 0), "number"),
        (merge_patch("list", "{}"), "array"),
        (merge_patch("number", "{}"), "number"),
    ] {
        let key = operation.key.clone();
        let result = service.append_event(append("s1", operating(operation))).await;
        let status = refused(result, Reason::TypeMismatch);
        assert_eq!((detail(&status, "key"), &*detail(&status, "type")), (key, found));
    }
}

async fn a_number_that_leaves_its_range_is_refused(service: &Service) {
    let state = r#"{"most":9223372036854775807,"least":-9223372036854775808,"huge":1.7e308,"big":9223372036854775808}"#;
    service.create_session(create("s1", state)).await.unwrap();
    for operation in [
        increment("most", 1),
        increment("least", -1),
        increment_by("huge", 1.7e308),
        increment("big", 1),
    ] {
        let result = service.append_event(append("s1", operating(operation))).await;
        faulty(result, Reason::NumberOverflow, "event.state_delta.operations[0]");
    }
    for amount in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let result = service.append_event(append("s1", operating(increment_by("n", amount)))).await;
        let field = "event.state_delta.operations[0].increment.by_double";
        faulty(result, Reason::BadValue, field);
    }
    let none = StateOperation {
        key: "n".into(),
        operation: Some(Operation::Increment(Default::default())),
    };
    let field = "event.state_delta.operations[0].increment";
    faulty(service.append_event(append("s1", operating(none))).await, Reason::MissingField, field);
    let zero = StateOperation {
        key: "n".into(),
        operation: Some(Operation::Increment(sessiond::proto::v1::Increment {
            amount: Some(Amount::By(0)),
        })),
    };
    let answer = service.append_event(append("s1", operating(zero))).await.unwrap();
    assert_eq!(answer.state()["n"], 0);
}

async fn a_refused_operation_leaves_nothing_behind(service: &Service) {
    let before = service.create_session(create("s1", r#"{"a":1,"b":"x"}"#)).await.unwrap().session;
    let mut event = operating(increment("a", 1));
    let delta = event.state_delta.as_mut().unwrap();
    delta.operations.extend([increment("app:n", 1), increment("user:n", 1), increment("b", 1)]);
    let result = service.append_event(append("s1", event)).await;
    refused(result, Reason::TypeMismatch);
    assert_eq!(service.get_session(get("s1")).await.unwrap().session, before);
}
