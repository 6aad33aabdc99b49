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
    harness::{Service, with_server},
    judge::{detail, faulty, refused},
    make::{
        append, create, increment, increment_by, list_append, merge_patch, operating, structure,
        value,
    },
    read::{HasState, set_by},
};

with_server! {
    both_forms_of_an_operand_do_the_same
    a_type_that_does_not_fit_is_refused
    a_number_that_leaves_its_range_is_refused
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
