//! Short ways to read answers: JSON of either form as one kind of value, and the parts that tests compare.

use prost_types::{Struct, Timestamp, Value, value::Kind};
use serde_json::Value as Json;
use sessiond::proto::v1::{
    AppendEventResponse, CreateSessionResponse, Event, ForkSessionResponse, GetSessionResponse,
    GetStateResponse, KeyChange, RewindSessionResponse, Session, StateDelta, StateSnapshot,
    UpdateStateResponse, event::BodyForm, get_state_response, key_change, session,
    state_delta::SetForm, state_snapshot, update_state_response,
};

/// What has merged state in one of its two forms.
pub trait HasState {
    /// The state, if it is there.
    fn state_if_any(&self) -> Option<Json>;

    /// The state.
    #[track_caller]
    fn state(&self) -> Json {
        self.state_if_any().expect("an answer with state")
    }
}

/// Reads a oneof of Struct and text.
macro_rules! has_state {
    ($($message:ty: $module:ident;)*) => { $(
        impl HasState for $message {
            fn state_if_any(&self) -> Option<Json> {
                use $module::StateForm;
                match self.state_form.as_ref()? {
                    StateForm::State(state) => Some(from_struct(state)),
                    StateForm::StateJson(text) => Some(parse(text)),
                }
            }
        }
    )* };
}

has_state! {
    Session: session;
    GetStateResponse: get_state_response;
    UpdateStateResponse: update_state_response;
    StateSnapshot: state_snapshot;
}

/// What has a session with merged state.
macro_rules! has_session {
    ($($message:ty)*) => { $(
        impl HasState for $message {
            fn state_if_any(&self) -> Option<Json> {
                self.session.as_ref()?.state_if_any()
            }
        }
    )* };
}

has_session! { CreateSessionResponse GetSessionResponse ForkSessionResponse RewindSessionResponse AppendEventResponse }

/// What an event set, and `null` where it set nothing.
pub fn set_by(event: &Event) -> Json {
    event.state_delta.as_ref().map_or(Json::Null, set_in)
}

/// What a delta sets, and `null` where it sets nothing.
pub fn set_in(delta: &StateDelta) -> Json {
    match &delta.set_form {
        None => Json::Null,
        Some(SetForm::Set(state)) => from_struct(state),
        Some(SetForm::SetJson(text)) => parse(text),
    }
}

/// What an event removed.
pub fn removed_by(event: &Event) -> Vec<String> {
    event.state_delta.as_ref().map(|delta| delta.remove.clone()).unwrap_or_default()
}

/// An event's body as text, byte for byte.
#[track_caller]
pub fn body_text(event: &Event) -> &str {
    match &event.body_form {
        Some(BodyForm::BodyJson(text)) => text,
        form => panic!("no text: {form:?}"),
    }
}

/// A session's state as text, byte for byte.
#[track_caller]
pub fn state_text(session: &Session) -> &str {
    match &session.state_form {
        Some(session::StateForm::StateJson(text)) => text,
        form => panic!("no text: {form:?}"),
    }
}

/// What a key changed to; `None`: it was removed.
pub fn changed_to(change: &KeyChange) -> Option<Json> {
    match change.value_form.as_ref()? {
        key_change::ValueForm::Value(value) => Some(from_value(value)),
        key_change::ValueForm::ValueJson(text) => Some(parse(text)),
    }
}

/// The sequences of events, in the order in which they came.
pub fn sequences(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.sequence).collect()
}

/// The ids of events, in the order in which they came.
pub fn ids(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| &*event.event_id).collect()
}

/// Seconds and nanoseconds, which compare as times do.
#[track_caller]
pub fn instant(time: &Option<Timestamp>) -> (i64, i32) {
    let time = time.as_ref().expect("a time");
    (time.seconds, time.nanos)
}

#[track_caller]
fn parse(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn from_struct(object: &Struct) -> Json {
    object.fields.iter().map(|(key, value)| (key.clone(), from_value(value))).collect()
}

/// Whole numbers become integers, as the server writes them.
fn from_value(value: &Value) -> Json {
    match value.kind.as_ref().expect("a value of some kind") {
        Kind::NullValue(_) => Json::Null,
        Kind::BoolValue(value) => Json::Bool(*value),
        Kind::NumberValue(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            Json::from(*number as i64)
        }
        Kind::NumberValue(number) => Json::from(*number),
        Kind::StringValue(text) => Json::String(text.clone()),
        Kind::ListValue(list) => list.values.iter().map(from_value).collect(),
        Kind::StructValue(object) => from_struct(object),
    }
}
