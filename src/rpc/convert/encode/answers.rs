//! The answer of each call. A page ends when the answer is full, and its token continues behind it.

use std::borrow::Cow;

use tonic::Status;

use super::{
    json::{self, Mode, object},
    messages::{changes, event, session, session_envelope, session_key, signed, timestamp},
    size::{field_bytes, fitting, full_page, page, written},
};
use crate::{
    domain::{
        error::Error,
        id::Author,
        session::{SessionInfo, State, StateEntry},
    },
    engine::{EventList, KeyChangeList, SessionAnswer, SessionList, WatchItem},
    proto::v1::{
        self, get_state_response, key_change::ValueForm, state_snapshot, update_state_response,
        watch_response,
    },
    rpc::{convert::Form, status::outline},
    store::{self, Appended, Created, StateUpdated},
};

pub fn create_session(created: Created, form: Form) -> v1::CreateSessionResponse {
    let Created { info, state, created } = created;
    let (_, session) = written(&[], &info, Some(&state), form, 1);
    v1::CreateSessionResponse { session: Some(session), created }
}

/// The session, and as many events as fit beside it.
pub fn get_session(answer: SessionAnswer, form: Form) -> Result<v1::GetSessionResponse, Error> {
    let SessionAnswer { info, state, events: list } = answer;
    let mode = Mode::Read(form);
    let session = session(&info, state.as_ref(), mode, 1)?;
    let session = fitting(session)?;
    let events = page(&list.events, field_bytes(&session), |it| event(it, mode, 1))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(v1::GetSessionResponse { session: Some(session), events, next_page_token })
}

pub fn list_sessions(list: SessionList, form: Form) -> Result<v1::ListSessionsResponse, Error> {
    let sessions = full_page(&list.page.sessions, |(info, state)| {
        session(info, state.as_ref(), Mode::Read(form), 1)
    })?;
    let next_page_token = list.next_page_token(sessions.len()).unwrap_or_default();
    Ok(v1::ListSessionsResponse { sessions, next_page_token })
}

pub fn update_session(info: SessionInfo) -> v1::UpdateSessionResponse {
    v1::UpdateSessionResponse { session: Some(session_envelope(&info)) }
}

pub fn fork_session((info, state): (SessionInfo, State), form: Form) -> v1::ForkSessionResponse {
    let (_, session) = written(&[], &info, Some(&state), form, 1);
    v1::ForkSessionResponse { session: Some(session) }
}

pub fn rewind_session(answer: Appended, form: Form) -> v1::RewindSessionResponse {
    let v1::AppendEventResponse { session, event, replayed } = append_event(answer, form, 0);
    v1::RewindSessionResponse { session, event, replayed }
}

/// AppendEvent, or an item of AppendEventStream, which lies `depth` levels below the answer.
pub fn append_event(answer: Appended, form: Form, depth: usize) -> v1::AppendEventResponse {
    let Appended { info, events, state, request_replayed: _ } = answer;
    let replayed = events.first().is_some_and(|it| it.replayed);
    let (mut events, session) = written(&events, &info, state.as_ref(), form, depth + 1);
    v1::AppendEventResponse { event: events.pop(), replayed, session: Some(session) }
}

pub fn append_events(answer: Appended, form: Form) -> v1::AppendEventsResponse {
    let Appended { info, events, state, request_replayed: _ } = answer;
    let replayed = events.iter().map(|it| it.replayed).collect();
    let (events, session) = written(&events, &info, state.as_ref(), form, 1);
    v1::AppendEventsResponse { events, session: Some(session), replayed }
}

/// The content of the status that AppendEvent would have returned.
pub fn failure(status: &Status) -> v1::AppendFailure {
    let (code, reason, message) = outline(status);
    v1::AppendFailure { code: code.into(), reason, message: message.to_owned() }
}

pub fn list_events(list: EventList, form: Form) -> Result<v1::ListEventsResponse, Error> {
    let events = full_page(&list.events, |it| event(it, Mode::Read(form), 1))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(v1::ListEventsResponse { events, next_page_token })
}

pub fn get_state(
    state: State,
    with_versions: bool,
    form: Form,
) -> Result<v1::GetStateResponse, Error> {
    use get_state_response::StateForm;
    let json = Cow::Owned(state.to_json());
    let (state_form, state_rounded) =
        Mode::Read(form).encode(json, 1, object, StateForm::State, StateForm::StateJson)?;
    let State(entries) = state;
    // `temp:` keys are not stored, so they have no version.
    let stored = entries.into_iter().filter(|entry| with_versions && entry.key.scope().is_some());
    let version = |StateEntry { key, value: _, version }| (key.to_string(), signed(version));
    let versions = stored.map(version).collect();
    fitting(v1::GetStateResponse { state_form: Some(state_form), state_rounded, versions })
}

/// The state as text if it does not fit in the form asked for, and no state if its text does not fit.
pub fn update_state(answer: StateUpdated, form: Form) -> v1::UpdateStateResponse {
    use update_state_response::StateForm;
    let StateUpdated { state, replayed } = answer;
    let response = |form| {
        let json = Cow::Owned(state.to_json());
        let (form, state_rounded) =
            Mode::Write(form).encode(json, 1, object, StateForm::State, StateForm::StateJson)?;
        let state_form = Some(form);
        fitting(v1::UpdateStateResponse { state_form, state_rounded, replayed })
    };
    let without = v1::UpdateStateResponse { state_form: None, state_rounded: false, replayed };
    response(form).or_else(|_| response(Form::Text)).unwrap_or(without)
}

pub fn list_key_changes(
    list: KeyChangeList,
    form: Form,
) -> Result<v1::ListKeyChangesResponse, Error> {
    let changes = full_page(&list.page.changes, |change| key_change(change, form))?;
    let next_page_token = list.next_page_token(changes.len()).unwrap_or_default();
    Ok(v1::ListKeyChangesResponse { changes, next_page_token })
}

fn key_change(change: &store::KeyChange, form: Form) -> Result<v1::KeyChange, Error> {
    let store::KeyChange { version, value, commit_time, author, source } = change;
    let value = value.as_ref().map(|it| {
        let json = Cow::Borrowed(it);
        Mode::Read(form).encode(json, 2, json::value, ValueForm::Value, ValueForm::ValueJson)
    });
    Ok(v1::KeyChange {
        version: signed(*version),
        // A single value has no flag for rounded numbers: callers that need exact ones request text.
        value_form: value.transpose()?.map(|(value_form, _)| value_form),
        commit_time: Some(timestamp(*commit_time)),
        author: Author::to_string(author),
        session: source.as_ref().map(|(key, _)| session_key(key)),
        sequence: source.as_ref().map_or(0, |(_, sequence)| signed(*sequence)),
    })
}

/// One message with the cursor right behind it. What does not fit in the form asked for is sent as text. Text that does not fit ends
/// the watch, since nothing may be left out of it.
pub fn watch(item: WatchItem, cursor: String, form: Form) -> Result<v1::WatchResponse, Error> {
    let response = |form| {
        let kind = Some(kind(&item, Mode::Write(form))?);
        fitting(v1::WatchResponse { kind, cursor: cursor.clone() })
    };
    response(form).or_else(|_| response(Form::Text))
}

fn kind(item: &WatchItem, mode: Mode) -> Result<watch_response::Kind, Error> {
    use state_snapshot::StateForm;
    use watch_response::Kind;
    Ok(match item {
        WatchItem::Snapshot { state, last_sequence } => {
            let json = Cow::Owned(state.to_json());
            let (form, state_rounded) =
                mode.encode(json, 2, object, StateForm::State, StateForm::StateJson)?;
            let (state_form, last_sequence) = (Some(form), signed(*last_sequence));
            Kind::Snapshot(v1::StateSnapshot { state_form, state_rounded, last_sequence })
        }
        WatchItem::Event(it) => Kind::Event(event(it, mode, 1)?),
        WatchItem::StateChange { changes: it, commit_time } => {
            let (delta, _) = changes(it, mode, 2)?;
            let commit_time = Some(timestamp(*commit_time));
            Kind::StateChange(v1::StateChange { delta: Some(delta), commit_time })
        }
        WatchItem::CaughtUp => Kind::CaughtUp(v1::CaughtUp {}),
        WatchItem::Heartbeat(now) => {
            Kind::Heartbeat(v1::Heartbeat { server_time: Some(timestamp(*now)) })
        }
        WatchItem::SessionDeleted => Kind::SessionDeleted(v1::SessionDeleted {}),
    })
}
