//! The answer of each call. A page ends when the answer is full, and its token continues behind it.

use tonic::Status;

use super::{
    event::event,
    fields::{session_key, signed, timestamp},
    json::Mode,
    session::{self, session},
    size::{ANSWER_BYTES, field_bytes, fits, full_page, page},
    written::{Written, written},
};
use crate::{
    domain::{
        error::Error,
        id::Author,
        session::{SessionInfo, State, StateEntry},
    },
    engine::{
        AppendAnswer, EventList, KeyChangeList, SessionAnswer, SessionList, StateAnswer,
        UpdateAnswer,
    },
    proto::v1::{self, get_state_response, key_change::ValueForm, update_state_response},
    rpc::{convert::Form, status::outline},
    store::{self, Created},
};

pub fn create_session(created: Created, form: Form) -> v1::CreateSessionResponse {
    let Created { info, state, created } = created;
    let Written { session, .. } = written(&[], &info, Some(&state), form, 1);
    v1::CreateSessionResponse { session: Some(session), created }
}

/// The session, and as many events as fit beside it.
pub fn get_session(answer: SessionAnswer, form: Form) -> Result<v1::GetSessionResponse, Error> {
    let SessionAnswer { info, state, events: list } = answer;
    let mode = Mode::Read(form);
    let session = session(&info, state.as_ref(), mode, 1)?;
    let used = field_bytes(&session);
    if used > ANSWER_BYTES {
        return Err(Error::AnswerTooLarge);
    }
    let events = page(&list.events, used, |it| event(it, mode, 1))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(v1::GetSessionResponse { session: Some(session), events, next_page_token })
}

pub fn list_sessions(list: SessionList, form: Form) -> Result<v1::ListSessionsResponse, Error> {
    let sessions = full_page(&list.sessions, |(info, state)| {
        session(info, state.as_ref(), Mode::Read(form), 1)
    })?;
    let next_page_token = list.next_page_token(sessions.len()).unwrap_or_default();
    Ok(v1::ListSessionsResponse { sessions, next_page_token })
}

pub fn update_session(info: SessionInfo) -> v1::UpdateSessionResponse {
    v1::UpdateSessionResponse { session: Some(session::envelope(&info)) }
}

pub fn fork_session(answer: SessionAnswer, form: Form) -> v1::ForkSessionResponse {
    let SessionAnswer { info, state, events: _ } = answer;
    let Written { session, .. } = written(&[], &info, state.as_ref(), form, 1);
    v1::ForkSessionResponse { session: Some(session) }
}

pub fn rewind_session(answer: AppendAnswer, form: Form) -> v1::RewindSessionResponse {
    let AppendAnswer { info, events, state } = answer;
    let replayed = events.first().is_some_and(|it| it.replayed);
    let Written { mut events, session } = written(&events, &info, state.as_ref(), form, 1);
    v1::RewindSessionResponse { session: Some(session), event: events.pop(), replayed }
}

/// AppendEvent, or an item of AppendEventStream, which lies `depth` levels below the answer.
pub fn append_event(answer: AppendAnswer, form: Form, depth: usize) -> v1::AppendEventResponse {
    let AppendAnswer { info, events, state } = answer;
    let replayed = events.first().is_some_and(|it| it.replayed);
    let Written { mut events, session } = written(&events, &info, state.as_ref(), form, depth + 1);
    v1::AppendEventResponse { event: events.pop(), replayed, session: Some(session) }
}

pub fn append_events(answer: AppendAnswer, form: Form) -> v1::AppendEventsResponse {
    let AppendAnswer { info, events, state } = answer;
    let replayed = events.iter().map(|it| it.replayed).collect();
    let Written { events, session } = written(&events, &info, state.as_ref(), form, 1);
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
    answer: StateAnswer,
    with_versions: bool,
    form: Form,
) -> Result<v1::GetStateResponse, Error> {
    use get_state_response::StateForm;
    let StateAnswer { state } = answer;
    let (state_form, state_rounded) =
        Mode::Read(form).state(&state, 1, StateForm::State, StateForm::StateJson)?;
    let State(entries) = state;
    // `temp:` keys are not stored, so they have no version.
    let stored = entries.into_iter().filter(|entry| with_versions && entry.key.scope().is_some());
    let version = |StateEntry { key, value: _, version }| (key.to_string(), signed(version));
    let versions = stored.map(version).collect();
    let response = v1::GetStateResponse { state_form: Some(state_form), state_rounded, versions };
    if fits(&response) { Ok(response) } else { Err(Error::AnswerTooLarge) }
}

/// The state as text if it does not fit in the form asked for, and no state if its text does not fit.
pub fn update_state(answer: UpdateAnswer, form: Form) -> v1::UpdateStateResponse {
    use update_state_response::StateForm;
    let UpdateAnswer { state, replayed } = answer;
    let response = |form| {
        let (form, state_rounded) =
            Mode::Write(form).state(&state, 1, StateForm::State, StateForm::StateJson).ok()?;
        let response = v1::UpdateStateResponse { state_form: Some(form), state_rounded, replayed };
        fits(&response).then_some(response)
    };
    let without = v1::UpdateStateResponse { state_form: None, state_rounded: false, replayed };
    response(form).or_else(|| response(Form::Text)).unwrap_or(without)
}

pub fn list_key_changes(
    list: KeyChangeList,
    form: Form,
) -> Result<v1::ListKeyChangesResponse, Error> {
    let changes = full_page(&list.changes, |change| key_change(change, form))?;
    let next_page_token = list.next_page_token(changes.len()).unwrap_or_default();
    Ok(v1::ListKeyChangesResponse { changes, next_page_token })
}

fn key_change(change: &store::KeyChange, form: Form) -> Result<v1::KeyChange, Error> {
    let store::KeyChange { version, value, commit_time, author, source } = change;
    let value = value
        .as_ref()
        .map(|value| Mode::Read(form).value(value, 2, ValueForm::Value, ValueForm::ValueJson));
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
