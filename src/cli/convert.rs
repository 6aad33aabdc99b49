//! Between the contract's messages, which are asked for as text, and the events of session files.

use std::slice;

use super::adk_file::{Address, Event};
use crate::{
    domain::json::Json,
    proto::v1::{
        self, event::BodyForm, session, set_if_absent, state_delta::SetForm,
        state_operation::Operation,
    },
};

/// The body of an event that was asked for as text.
pub fn body_of(event: &v1::Event) -> Option<&str> {
    match &event.body_form {
        Some(BodyForm::BodyJson(text)) => Some(text),
        _ => None,
    }
}

/// The merged state of a session that was asked for as text: one object.
pub fn state_of(session: &v1::Session) -> &str {
    match &session.state_form {
        Some(session::StateForm::StateJson(text)) => text,
        _ => "{}",
    }
}

/// The keys that a delta sets, if it was asked for as text, and their values.
pub fn set_members(delta: &v1::StateDelta) -> Vec<(String, Json)> {
    match &delta.set_form {
        Some(SetForm::SetJson(text)) => Json::from_stored(text.clone()).members(),
        _ => Vec::new(),
    }
}

/// An operation that sets a key that has no value.
pub fn set_if_absent(key: String, value: Json) -> v1::StateOperation {
    let value_form = Some(set_if_absent::ValueForm::ValueJson(value.into_string()));
    let operation = Some(Operation::SetIfAbsent(v1::SetIfAbsent { value_form }));
    v1::StateOperation { key, operation }
}

/// `None` if nothing changes. A value that nests as deep as a value may is too deep for a text of one level more: an operation sets it.
pub fn delta(mut set: Vec<(String, Json)>, mut remove: Vec<String>) -> Option<v1::StateDelta> {
    let text = |set: &[(String, Json)]| Json::of_members(set).into_string();
    let mut operations = Vec::new();
    if Json::object(text(&set)).is_err() {
        let is_too_deep =
            |it: &mut (String, Json)| Json::object(text(slice::from_ref(it))).is_err();
        for (key, value) in set.extract_if(.., is_too_deep) {
            remove.push(key.clone());
            operations.push(set_if_absent(key, value));
        }
    }
    let set_form = (!set.is_empty()).then(|| SetForm::SetJson(text(&set)));
    let delta = v1::StateDelta { set_form, remove, operations };
    (delta != v1::StateDelta::default()).then_some(delta)
}

pub fn file_event(event: v1::Event) -> Event {
    let v1::Event {
        event_id,
        sequence,
        invocation_id,
        author,
        branch,
        event_time,
        // The server's own.
        commit_time: _,
        // Fragments are not stored.
        partial: _,
        state_delta,
        body_form,
        // Text is exact.
        rounded: _,
        rewind_to_sequence: rewind_to,
        rewound,
        trace_id,
    } = event;
    let delta = state_delta.unwrap_or_default();
    let set = set_members(&delta);
    // A stored delta has the results of its operations.
    let v1::StateDelta { set_form: _, remove, operations: _ } = delta;
    let body = match body_form {
        Some(BodyForm::BodyJson(text)) => Some(Json::from_stored(text)),
        Some(BodyForm::Body(_)) | None => None,
    };
    Event {
        event_id,
        sequence,
        invocation_id,
        author,
        branch,
        event_time,
        trace_id,
        set,
        remove,
        body,
        rewind_to,
        rewound,
    }
}

/// The event to append. Its trace is that of the call.
pub fn new_event(event: Event) -> v1::Event {
    let Event {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        set,
        remove,
        body,
        sequence: _,
        trace_id: _,
        // A rewind is a call of its own, and hides events by itself.
        rewind_to: _,
        rewound: _,
    } = event;
    v1::Event {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        state_delta: delta(set, remove),
        body_form: body.map(|body| BodyForm::BodyJson(body.into_string())),
        ..Default::default()
    }
}

pub fn address_of(key: v1::SessionKey) -> Address {
    let v1::SessionKey { app_name, user_id, session_id } = key;
    Address { app_name, user_id, session_id }
}

pub fn key_of(address: Address) -> v1::SessionKey {
    let Address { app_name, user_id, session_id } = address;
    v1::SessionKey { app_name, user_id, session_id }
}
