//! Events, and the answers of EventService.

use serde::Serialize;

use super::{
    Raw, SessionView, Time, raw,
    session::session,
    structs::{struct_text, value_text},
};
use crate::{
    cli::{failure::Failure, json},
    proto::v1::{
        AppendEventResponse, Event, StateDelta, StateOperation, event::BodyForm,
        state_delta::SetForm, state_operation::Operation,
    },
};

/// An event.
#[derive(Debug, Serialize)]
pub struct EventView {
    event_id: String,
    sequence: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    invocation_id: String,
    author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_time: Option<Time>,
    #[serde(skip_serializing_if = "super::is_false")]
    partial: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_delta: Option<DeltaView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Raw>,
    #[serde(skip_serializing_if = "super::is_false")]
    rounded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewind_to_sequence: Option<i64>,
    #[serde(skip_serializing_if = "super::is_false")]
    rewound: bool,
}

impl TryFrom<Event> for EventView {
    type Error = Failure;

    fn try_from(event: Event) -> Result<Self, Failure> {
        let Event {
            event_id,
            sequence,
            invocation_id,
            author,
            branch,
            event_time,
            commit_time,
            partial,
            state_delta,
            body_form,
            rounded,
            rewind_to_sequence,
            rewound,
        } = event;
        let body = match body_form {
            None => None,
            Some(BodyForm::BodyJson(text)) => Some(raw(&text)?),
            Some(BodyForm::Body(object)) => Some(raw(&struct_text(&object))?),
        };
        Ok(Self {
            event_id,
            sequence,
            invocation_id,
            author,
            branch,
            event_time: event_time.map(Time),
            commit_time: commit_time.map(Time),
            partial,
            state_delta: state_delta.map(DeltaView::try_from).transpose()?,
            body,
            rounded,
            rewind_to_sequence,
            rewound,
        })
    }
}

/// Changes of state.
#[derive(Debug, Serialize)]
pub struct DeltaView {
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<Raw>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remove: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<Raw>,
}

impl TryFrom<StateDelta> for DeltaView {
    type Error = Failure;

    fn try_from(delta: StateDelta) -> Result<Self, Failure> {
        let StateDelta { set_form, remove, operations } = delta;
        let set = match set_form {
            None => None,
            Some(SetForm::SetJson(text)) => Some(raw(&text)?),
            Some(SetForm::Set(object)) => Some(raw(&struct_text(&object))?),
        };
        let operations =
            operations.iter().map(|o| raw(&operation_text(o))).collect::<Result<_, _>>()?;
        Ok(Self { set, remove, operations })
    }
}

/// An operation as text. Answers hold none; one that does is shown rather than dropped.
fn operation_text(operation: &StateOperation) -> String {
    use crate::proto::v1::{increment::Amount, list_append, merge_patch, set_if_absent};
    let StateOperation { key, operation } = operation;
    let (name, value) = match operation {
        None => ("none", "null".to_owned()),
        Some(Operation::Increment(increment)) => match increment.amount {
            Some(Amount::By(by)) => ("increment", by.to_string()),
            Some(Amount::ByDouble(by)) => ("increment", serde_json::Value::from(by).to_string()),
            None => ("increment", "null".to_owned()),
        },
        Some(Operation::ListAppend(append)) => match &append.values_form {
            Some(list_append::ValuesForm::ValuesJson(text)) => ("list_append", text.clone()),
            Some(list_append::ValuesForm::Values(list)) => {
                let items: Vec<_> = list.values.iter().map(value_text).collect();
                ("list_append", format!("[{}]", items.join(",")))
            }
            None => ("list_append", "null".to_owned()),
        },
        Some(Operation::SetIfAbsent(default)) => match &default.value_form {
            Some(set_if_absent::ValueForm::ValueJson(text)) => ("set_if_absent", text.clone()),
            Some(set_if_absent::ValueForm::Value(value)) => ("set_if_absent", value_text(value)),
            None => ("set_if_absent", "null".to_owned()),
        },
        Some(Operation::MergePatch(patch)) => match &patch.patch_form {
            Some(merge_patch::PatchForm::PatchJson(text)) => ("merge_patch", text.clone()),
            Some(merge_patch::PatchForm::Patch(object)) => ("merge_patch", struct_text(object)),
            None => ("merge_patch", "null".to_owned()),
        },
    };
    json::write_object([("key", json::quote(key).as_str()), (name, &value)])
}

/// Answer of `event append`.
#[derive(Debug, Serialize)]
pub struct AppendView {
    event: EventView,
    replayed: bool,
    session: SessionView,
}

impl TryFrom<AppendEventResponse> for AppendView {
    type Error = Failure;

    fn try_from(answer: AppendEventResponse) -> Result<Self, Failure> {
        let AppendEventResponse { event, replayed, session: after } = answer;
        Ok(Self {
            event: event.unwrap_or_default().try_into()?,
            replayed,
            session: session(after)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ..Event::default()
        };
        let view = EventView::try_from(event).unwrap();
        assert_eq!(
            serde_json::to_string(&view).unwrap(),
            "{\"event_id\":\"e\",\"sequence\":7,\"author\":\"user\",\
             \"state_delta\":{\"set\":{\"a\":1e2},\"remove\":[\"b\"]},\
             \"body\":{\"t\":1733043686.8428597000},\"rewind_to_sequence\":0,\"rewound\":true}"
        );
    }

    #[test]
    fn an_empty_body_is_shown_and_a_missing_one_is_not() {
        let print = |body_form| {
            let event = Event { body_form, ..Event::default() };
            serde_json::to_string(&EventView::try_from(event).unwrap()).unwrap()
        };
        assert!(print(Some(BodyForm::BodyJson("{}".to_owned()))).contains("\"body\":{}"));
        assert!(!print(None).contains("body"));
    }
}
