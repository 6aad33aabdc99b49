//! Requests: what is read, and every fault with its path.

mod faults;
mod limits;
mod settings;
mod values;

use std::fmt::Debug;

use prost_types::{ListValue, Struct, Value, value::Kind};

use crate::{
    domain::{
        error::{Error, Reason, Violation},
        id::InvocationId,
        scope::{Scope, SessionKey},
        token::{ChangeToken, EventToken, RefToken, SessionToken, StoreId},
    },
    engine,
    proto::v1::{self, AppendEventRequest, StateDelta, StateOperation, state_operation::Operation},
    rpc::convert::{
        Mode,
        decode::{self, BareIds},
    },
    store,
};

/// Whose uids are known.
const STORE: StoreId = StoreId([7; 16]);

/// Functions that decode a whole request, under the names of those that read it.
macro_rules! requests {
    ($($name:ident($request:ident) -> $decoded:ty;)*) => {$(
        fn $name(request: v1::$request) -> Result<$decoded, Error> {
            decode::decode(request, BareIds::Allowed, STORE, decode::$name)
        }
    )*};
}
requests! {
    create_session(CreateSessionRequest) -> (store::CreateSession, Mode);
    list_sessions(ListSessionsRequest) -> ((store::SessionsQuery, Option<SessionToken>), Mode);
    update_session(UpdateSessionRequest) -> store::SessionUpdate;
    delete_session(DeleteSessionRequest) -> store::DeleteSession;
    fork_session(ForkSessionRequest) -> (store::ForkSession, Mode);
    rewind_session(RewindSessionRequest) -> (store::RewindSession, Mode);
    list_events(ListEventsRequest) -> ((store::SessionQuery, Option<EventToken>), Mode);
    batch_get_events(BatchGetEventsRequest) -> ((store::EventsQuery, Option<RefToken>), Mode);
    get_state(GetStateRequest) -> ((store::StateQuery, engine::StatePage, Option<InvocationId>), Mode);
    update_state(UpdateStateRequest) -> (store::StateUpdate, Mode);
    list_key_changes(ListKeyChangesRequest) -> ((store::KeyChangeQuery, Option<ChangeToken>), Mode);
    render_template(RenderTemplateRequest) -> (SessionKey, String, Option<InvocationId>);
    end_invocation(EndInvocationRequest) -> (SessionKey, InvocationId);
    watch(WatchRequest) -> (Scope, engine::WatchFrom, Mode);
}

fn get_session(
    request: v1::GetSessionRequest,
    bare: BareIds,
) -> Result<((store::SessionQuery, Option<InvocationId>), Mode), Error> {
    decode::decode(request, bare, STORE, decode::get_session)
}

fn append_event(
    request: v1::AppendEventRequest,
    bare: BareIds,
) -> Result<(store::Append, Mode), Error> {
    decode::decode(request, bare, STORE, decode::append_event)
}

fn append_events(
    request: v1::AppendEventsRequest,
    bare: BareIds,
) -> Result<(store::Append, Mode), Error> {
    decode::decode(request, bare, STORE, decode::append_events)
}

/// Field and reason of every violation.
fn faults<T: Debug>(result: Result<T, Error>) -> Vec<(String, &'static str)> {
    violations(result)
        .into_iter()
        .map(|Violation { field, reason, .. }| (field.to_string(), Reason::as_str(reason)))
        .collect()
}

fn violations<T: Debug>(result: Result<T, Error>) -> Vec<Violation> {
    match result {
        Err(Error::Invalid(violations)) => violations,
        other => panic!("no fault was found: {other:?}"),
    }
}

#[track_caller]
fn assert_faults<T: Debug>(result: Result<T, Error>, expected: &[(&str, &str)]) {
    let actual = faults(result);
    let actual: Vec<_> = actual.iter().map(|(field, reason)| (field.as_str(), *reason)).collect();
    assert_eq!(actual, expected);
}

fn key() -> Option<v1::SessionKey> {
    Some(v1::SessionKey { app_name: "a".into(), user_id: "u".into(), session_id: "s".into() })
}

fn user_scope() -> Option<v1::Scope> {
    Some(v1::Scope { app_name: "a".into(), user_id: "u".into(), session_id: String::new() })
}

fn append(event: v1::Event) -> AppendEventRequest {
    AppendEventRequest { key: key(), event: Some(event), ..Default::default() }
}

fn with_delta(state_delta: StateDelta) -> AppendEventRequest {
    append(v1::Event { state_delta: Some(state_delta), ..Default::default() })
}

fn set_json(text: &str) -> StateDelta {
    StateDelta {
        set_form: Some(v1::state_delta::SetForm::SetJson(text.into())),
        ..Default::default()
    }
}

fn operation(key: &str, operation: impl Into<Option<Operation>>) -> StateOperation {
    StateOperation { key: key.into(), operation: operation.into() }
}

fn of(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn number(number: f64) -> Value {
    of(Kind::NumberValue(number))
}

fn structure(fields: impl IntoIterator<Item = (&'static str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect() }
}

fn list(values: impl Into<Vec<Value>>) -> Value {
    of(Kind::ListValue(ListValue { values: values.into() }))
}
