//! Short ways to write requests. They ask for text, and write JSON as text, unless a test is about the other form.

use prost_types::{ListValue, Struct, Value, value::Kind};
use sessiond::proto::v1::{
    AppendEventRequest, AppendEventsRequest, CreateSessionRequest, Event, EventSelection,
    GetSessionRequest, GetStateRequest, Increment, JsonForm, KeyCheck, ListAppend,
    ListEventsRequest, MergePatch, Precondition, RenderTemplateRequest, RewindSessionRequest,
    Scope, SessionKey, SetIfAbsent, StateDelta, StateOperation, UpdateStateRequest,
    create_session_request::StateForm, event::BodyForm, increment::Amount, key_check::Condition,
    list_append::ValuesForm, merge_patch::PatchForm, set_if_absent::ValueForm,
    state_delta::SetForm, state_operation::Operation,
};

/// The application of most tests.
pub const APP: &str = "my_app";
/// The user of most tests.
pub const USER: &str = "alice";

/// `JSON_FORM_TEXT` as it stands in a request.
pub const TEXT: i32 = JsonForm::Text as i32;
/// `JSON_FORM_STRUCT` as it stands in a request.
pub const STRUCT: i32 = JsonForm::Struct as i32;

pub fn address(app_name: &str, user_id: &str, session_id: &str) -> SessionKey {
    SessionKey { app_name: app_name.into(), user_id: user_id.into(), session_id: session_id.into() }
}

pub fn key(session_id: &str) -> SessionKey {
    address(APP, USER, session_id)
}

/// A session named by its id alone.
pub fn bare(session_id: &str) -> SessionKey {
    address("", "", session_id)
}

pub fn scope(app_name: &str, user_id: &str, session_id: &str) -> Scope {
    Scope { app_name: app_name.into(), user_id: user_id.into(), session_id: session_id.into() }
}

pub fn app_scope() -> Scope {
    scope(APP, "", "")
}

pub fn user_scope() -> Scope {
    scope(APP, USER, "")
}

pub fn session_scope(session_id: &str) -> Scope {
    scope(APP, USER, session_id)
}

/// A session with this state as text; none where the text is empty.
pub fn create(session_id: &str, state: &str) -> CreateSessionRequest {
    let state_form = (!state.is_empty()).then(|| StateForm::StateJson(state.into()));
    CreateSessionRequest {
        app_name: APP.into(),
        user_id: USER.into(),
        session_id: session_id.into(),
        state_form,
        json_form: TEXT,
        ..Default::default()
    }
}

pub fn get(session_id: &str) -> GetSessionRequest {
    GetSessionRequest { key: Some(key(session_id)), json_form: TEXT, ..Default::default() }
}

/// A read of a session with all of its events.
pub fn get_with_events(session_id: &str) -> GetSessionRequest {
    GetSessionRequest { events: Some(EventSelection::default()), ..get(session_id) }
}

pub fn list_events(session_id: &str) -> ListEventsRequest {
    ListEventsRequest { key: Some(key(session_id)), json_form: TEXT, ..Default::default() }
}

pub fn append(session_id: &str, event: Event) -> AppendEventRequest {
    AppendEventRequest {
        key: Some(key(session_id)),
        event: Some(event),
        return_state: true,
        json_form: TEXT,
        ..Default::default()
    }
}

pub fn append_all(session_id: &str, events: Vec<Event>) -> AppendEventsRequest {
    AppendEventsRequest {
        key: Some(key(session_id)),
        events,
        return_state: true,
        json_form: TEXT,
        ..Default::default()
    }
}

pub fn get_state(scope: Scope) -> GetStateRequest {
    GetStateRequest { scope: Some(scope), json_form: TEXT, ..Default::default() }
}

pub fn update(scope: Scope, delta: StateDelta) -> UpdateStateRequest {
    UpdateStateRequest {
        scope: Some(scope),
        delta: Some(delta),
        json_form: TEXT,
        ..Default::default()
    }
}

pub fn rewind(session_id: &str, to_sequence: i64) -> RewindSessionRequest {
    RewindSessionRequest {
        key: Some(key(session_id)),
        to_sequence: Some(to_sequence),
        json_form: TEXT,
        ..Default::default()
    }
}

pub fn render(session_id: &str, template: &str) -> RenderTemplateRequest {
    RenderTemplateRequest {
        key: Some(key(session_id)),
        template: template.into(),
        ..Default::default()
    }
}

/// An event of an agent with nothing in it.
pub fn plain() -> Event {
    Event { author: "agent".into(), ..Default::default() }
}

/// An event with an id of its own.
pub fn event(event_id: &str) -> Event {
    Event { event_id: event_id.into(), ..plain() }
}

/// An event that sets these keys, given as one JSON object.
pub fn setting(state: &str) -> Event {
    Event { state_delta: Some(set(state)), ..plain() }
}

/// An event of this turn that sets these keys.
pub fn setting_in(invocation_id: &str, state: &str) -> Event {
    Event { invocation_id: invocation_id.into(), ..setting(state) }
}

/// An event with one operation on state.
pub fn operating(operation: StateOperation) -> Event {
    Event { state_delta: Some(operations([operation])), ..plain() }
}

/// An event with this body as text.
pub fn saying(body: &str) -> Event {
    Event { body_form: Some(BodyForm::BodyJson(body.into())), ..plain() }
}

pub fn set(state: &str) -> StateDelta {
    StateDelta { set_form: Some(SetForm::SetJson(state.into())), ..Default::default() }
}

pub fn set_struct(state: &str) -> StateDelta {
    StateDelta { set_form: Some(SetForm::Set(structure(state))), ..Default::default() }
}

pub fn remove(keys: &[&str]) -> StateDelta {
    StateDelta { remove: keys.iter().map(|&key| key.into()).collect(), ..Default::default() }
}

pub fn operations(operations: impl IntoIterator<Item = StateOperation>) -> StateDelta {
    StateDelta { operations: operations.into_iter().collect(), ..Default::default() }
}

fn operation(key: &str, operation: Operation) -> StateOperation {
    StateOperation { key: key.into(), operation: Some(operation) }
}

pub fn increment(key: &str, by: i64) -> StateOperation {
    operation(key, Operation::Increment(Increment { amount: Some(Amount::By(by)) }))
}

pub fn increment_by(key: &str, by: f64) -> StateOperation {
    operation(key, Operation::Increment(Increment { amount: Some(Amount::ByDouble(by)) }))
}

pub fn list_append(key: &str, values: &str, max_length: i32) -> StateOperation {
    let values_form = Some(ValuesForm::ValuesJson(values.into()));
    operation(key, Operation::ListAppend(ListAppend { values_form, max_length }))
}

pub fn set_if_absent(key: &str, value: &str) -> StateOperation {
    let value_form = Some(ValueForm::ValueJson(value.into()));
    operation(key, Operation::SetIfAbsent(SetIfAbsent { value_form }))
}

pub fn merge_patch(key: &str, patch: &str) -> StateOperation {
    let patch_form = Some(PatchForm::PatchJson(patch.into()));
    operation(key, Operation::MergePatch(MergePatch { patch_form }))
}

pub fn expecting(sequence: i64) -> Option<Precondition> {
    Some(Precondition { expected_sequence: Some(sequence), keys: Vec::new(), ..Default::default() })
}

pub fn check(key: &str, condition: Condition) -> KeyCheck {
    KeyCheck { key: key.into(), condition: Some(condition) }
}

pub fn checking(keys: impl IntoIterator<Item = KeyCheck>) -> Option<Precondition> {
    Some(Precondition {
        expected_sequence: None,
        keys: keys.into_iter().collect(),
        ..Default::default()
    })
}

/// JSON text as a `Struct`.
#[track_caller]
pub fn structure(text: &str) -> Struct {
    match value(text).kind {
        Some(Kind::StructValue(structure)) => structure,
        kind => panic!("{text} is no object: {kind:?}"),
    }
}

/// JSON text as a `Value`.
#[track_caller]
pub fn value(text: &str) -> Value {
    from_json(&serde_json::from_str(text).unwrap())
}

fn from_json(json: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(*value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Json::String(text) => Kind::StringValue(text.clone()),
        Json::Array(items) => {
            Kind::ListValue(ListValue { values: items.iter().map(from_json).collect() })
        }
        Json::Object(members) => {
            let member = |(key, value): (&String, &Json)| (key.clone(), from_json(value));
            Kind::StructValue(Struct { fields: members.iter().map(member).collect() })
        }
    };
    Value { kind: Some(kind) }
}
