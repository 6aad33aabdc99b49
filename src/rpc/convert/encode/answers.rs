//! The answer of each call, within the size that every client receives in the form in which it is sent. A page ends when the answer is
//! full, and its token continues behind it.

use std::{borrow::Cow, collections::HashMap};

use prost::{Message, length_delimiter_len};
use tonic::Status;
use tonic_types::{FieldViolation, StatusExt};

use super::{
    json::{Mode, object, value},
    messages::*,
};
use crate::{
    engine::{List, SessionAnswer, WatchItem},
    rpc::prelude::*,
    store::{Created, KeyChange, StateUpdated},
};

/// Bytes of an answer's items. The rest of a message is for a page token of two ids, the flags of a batch, tags and lengths.
const ANSWER_BYTES: usize = MESSAGE_BYTES - 4096;

pub fn create_session(
    created: Created,
    dropped: Vec<String>,
    reply: Reply,
) -> v1::CreateSessionResponse {
    let Created { info, state, created } = created;
    let (_, session) = written(&[], &info, Some(&state), Mode::write(reply));
    v1::CreateSessionResponse { session: Some(session), created, dropped_temp_keys: dropped }
}

/// The session, and as many events as fit beside it.
pub fn get_session(answer: SessionAnswer, reply: Reply) -> Result<v1::GetSessionResponse, Error> {
    let SessionAnswer { info, state, events: list } = answer;
    let mode = Mode::read(reply);
    let session = fitting(session(&info, state.as_ref(), mode)?)?;
    let events = page(&list.items, field_bytes(&session), |it| event(it, mode))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(v1::GetSessionResponse { session: Some(session), events, next_page_token })
}

pub fn list_sessions(
    list: List<(SessionInfo, Option<State>)>,
    reply: Reply,
) -> Result<v1::ListSessionsResponse, Error> {
    let encode = |(info, state): &(_, Option<_>)| session(info, state.as_ref(), Mode::read(reply));
    let (sessions, next_page_token) = full_page(&list, encode)?;
    Ok(v1::ListSessionsResponse { sessions, next_page_token })
}

pub fn update_session(info: SessionInfo, store: StoreId) -> v1::UpdateSessionResponse {
    v1::UpdateSessionResponse { session: Some(session_envelope(&info, store)) }
}

pub fn fork_session((info, state): (SessionInfo, State), reply: Reply) -> v1::ForkSessionResponse {
    let (_, session) = written(&[], &info, Some(&state), Mode::write(reply));
    v1::ForkSessionResponse { session: Some(session) }
}

pub fn rewind_session(answer: Appended, reply: Reply) -> v1::RewindSessionResponse {
    let v1::AppendEventResponse { session, event, replayed, dropped_temp_keys: _ } =
        append_event(answer, Vec::new(), Mode::write(reply));
    v1::RewindSessionResponse { session, event, replayed }
}

/// AppendEvent, or an item of AppendEventStream. `dropped` are the keys that were dropped.
pub fn append_event(answer: Appended, dropped: Vec<String>, mode: Mode) -> v1::AppendEventResponse {
    let Appended { info, events, state, request_replayed: _ } = answer;
    let replayed = events.first().is_some_and(|it| it.replayed);
    let (mut events, session) = written(&events, &info, state.as_ref(), mode);
    let (event, session) = (events.pop(), Some(session));
    v1::AppendEventResponse { event, replayed, session, dropped_temp_keys: dropped }
}

pub fn append_events(
    answer: Appended,
    dropped: Vec<String>,
    reply: Reply,
) -> v1::AppendEventsResponse {
    let Appended { info, events, state, request_replayed: _ } = answer;
    let replayed = events.iter().map(|it| it.replayed).collect();
    let (events, session) = written(&events, &info, state.as_ref(), Mode::write(reply));
    let session = Some(session);
    v1::AppendEventsResponse { events, session, replayed, dropped_temp_keys: dropped }
}

/// The content of the status that AppendEvent would have returned.
pub fn failure(status: &Status) -> v1::AppendFailure {
    let details = status.get_error_details();
    let (reason, metadata) = match details.error_info() {
        Some(info) => (info.reason.clone(), info.metadata.clone()),
        None => Default::default(),
    };
    let violations = details.bad_request().map(|it| it.field_violations.clone());
    let violation = |FieldViolation { field, description, reason, localized_message: _ }| {
        v1::FieldViolation { field, description, reason }
    };
    let delay = details.retry_info().and_then(|info| info.retry_delay);
    v1::AppendFailure {
        code: status.code().into(),
        reason,
        message: status.message().to_owned(),
        metadata,
        field_violations: violations.into_iter().flatten().map(violation).collect(),
        retry_delay: delay.and_then(|delay| delay.try_into().ok()),
    }
}

pub fn list_events(list: List<Event>, reply: Reply) -> Result<v1::ListEventsResponse, Error> {
    let (events, next_page_token) = full_page(&list, |it| event(it, Mode::read(reply)))?;
    Ok(v1::ListEventsResponse { events, next_page_token })
}

pub fn get_state(
    (state, life): (State, Option<Life>),
    reply: Reply,
) -> Result<v1::GetStateResponse, Error> {
    use v1::get_state_response::StateForm;
    let mode = Mode::read(reply);
    let json = Cow::Owned(state.to_json());
    let (state_form, state_rounded) =
        mode.encode(json, object, StateForm::State, StateForm::StateJson)?;
    let versions = versions(&state, mode);
    let (state_form, uid) = (Some(state_form), optional_uid(life, reply.store));
    fitting(v1::GetStateResponse { state_form, state_rounded, versions, uid, ..Default::default() })
}

/// The state as text if it does not fit in the form asked for, and no state if its text does not fit.
pub fn update_state(answer: StateUpdated, reply: Reply) -> v1::UpdateStateResponse {
    use v1::update_state_response::StateForm;
    let StateUpdated { state, replayed, life } = answer;
    let without = v1::UpdateStateResponse {
        replayed,
        uid: optional_uid(life, reply.store),
        ..Default::default()
    };
    let response = |reply| {
        let json = Cow::Owned(state.to_json());
        let (form, state_rounded) =
            Mode::write(reply).encode(json, object, StateForm::State, StateForm::StateJson)?;
        fitting(v1::UpdateStateResponse {
            state_form: Some(form),
            state_rounded,
            ..without.clone()
        })
    };
    let text = Reply { form: Form::Text, ..reply };
    response(reply).or_else(|_| response(text)).unwrap_or(without.clone())
}

pub fn list_key_changes(
    list: List<KeyChange>,
    reply: Reply,
) -> Result<v1::ListKeyChangesResponse, Error> {
    let (changes, next_page_token) = full_page(&list, |it| key_change(it, Mode::read(reply)))?;
    Ok(v1::ListKeyChangesResponse { changes, next_page_token })
}

fn key_change(change: &KeyChange, mode: Mode) -> Result<v1::KeyChange, Error> {
    use v1::key_change::ValueForm::{Value, ValueJson};
    let KeyChange { version, value: it, commit_time, author, source } = change;
    let form =
        it.as_ref().map(|it| mode.inner().encode(Cow::Borrowed(it), value, Value, ValueJson));
    Ok(v1::KeyChange {
        version: signed(*version),
        // A single value has no flag for rounded numbers: callers that need exact ones request text.
        value_form: form.transpose()?.map(|(value_form, _)| value_form),
        commit_time: Some(timestamp(*commit_time)),
        author: Author::to_string(author),
        session: source.as_ref().map(|(key, _)| session_key(key)),
        sequence: source.as_ref().map_or(0, |(_, sequence)| signed(*sequence)),
    })
}

pub fn list_applications(list: List<AppName>) -> Result<v1::ListApplicationsResponse, Error> {
    let application = |name: &AppName| Ok(v1::Application { app_name: name.to_string() });
    let (applications, next_page_token) = full_page(&list, application)?;
    Ok(v1::ListApplicationsResponse { applications, next_page_token })
}

pub fn list_users(list: List<UserId>, app: &AppName) -> Result<v1::ListUsersResponse, Error> {
    let user = |id: &UserId| Ok(v1::User { app_name: app.to_string(), user_id: id.to_string() });
    let (users, next_page_token) = full_page(&list, user)?;
    Ok(v1::ListUsersResponse { users, next_page_token })
}

/// One message with the cursor right behind it. What does not fit in the form asked for is sent as text. Text that does not fit ends
/// the watch, since nothing may be left out of it.
pub fn watch(item: WatchItem, cursor: String, reply: Reply) -> Result<v1::WatchResponse, Error> {
    let response = |reply| {
        let kind = Some(kind(&item, Mode::write(reply))?);
        fitting(v1::WatchResponse { kind, cursor: cursor.clone() })
    };
    response(reply).or_else(|_| response(Reply { form: Form::Text, ..reply }))
}

fn kind(item: &WatchItem, mode: Mode) -> Result<v1::watch_response::Kind, Error> {
    use v1::{state_snapshot::StateForm, watch_response::Kind};
    Ok(match item {
        WatchItem::Snapshot { state, last_sequence, life } => {
            let json = Cow::Owned(state.to_json());
            let (form, state_rounded) =
                mode.inner().encode(json, object, StateForm::State, StateForm::StateJson)?;
            let uid = optional_uid(*life, mode.store);
            let (state_form, last_sequence) = (Some(form), signed(*last_sequence));
            Kind::Snapshot(v1::StateSnapshot {
                state_form,
                state_rounded,
                last_sequence,
                uid,
                ..Default::default()
            })
        }
        WatchItem::Event(it) => Kind::Event(event(it, mode)?),
        WatchItem::StateChange { changes: it, commit_time } => {
            let (delta, _) = changes(it, mode.inner())?;
            let commit_time = Some(timestamp(*commit_time));
            Kind::StateChange(v1::StateChange { delta: Some(delta), commit_time })
        }
        WatchItem::CaughtUp => Kind::CaughtUp(v1::CaughtUp {}),
        WatchItem::Heartbeat(now) => {
            Kind::Heartbeat(v1::Heartbeat { server_time: Some(timestamp(*now)) })
        }
        WatchItem::SessionDeleted(life) => {
            Kind::SessionDeleted(v1::SessionDeleted { uid: uid(*life, mode.store) })
        }
    })
}

/// Bytes of a message as a field of another.
pub fn field_bytes(message: &impl Message) -> usize {
    let bytes = message.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

/// The answer, unless it is too large.
fn fitting<M: Message>(answer: M) -> Result<M, Error> {
    if answer.encoded_len() <= ANSWER_BYTES { Ok(answer) } else { Err(Error::AnswerTooLarge) }
}

/// As many items as fit, in their order, beside the `used` bytes of the answer.
fn page<T, M: Message>(
    items: &[T],
    mut used: usize,
    mut encode: impl FnMut(&T) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let mut page = Vec::with_capacity(items.len());
    for item in items {
        let message = match encode(item) {
            Err(Error::AnswerTooLarge) => break,
            message => message?,
        };
        used += field_bytes(&message);
        if used > ANSWER_BYTES {
            break;
        }
        page.push(message);
    }
    Ok(page)
}

/// As [`page`], in an answer of their own, with the token of the next page. If the first item does not fit, no later page can hold it.
fn full_page<T, M: Message>(
    list: &List<T>,
    encode: impl FnMut(&T) -> Result<M, Error>,
) -> Result<(Vec<M>, String), Error> {
    let page = page(&list.items, 0, encode)?;
    if page.is_empty() && !list.items.is_empty() {
        return Err(Error::AnswerTooLarge);
    }
    let token = list.next_page_token(page.len()).unwrap_or_default();
    Ok((page, token))
}

/// Events and the session of a write's answer, in the form asked for, or as text if that does not fit. Text that does not fit loses the
/// state, then bodies and deltas of the last events: the request that made it was not much smaller, and a write never fails because of
/// its answer. Envelopes alone always fit: a thousand of them are less than two megabytes.
fn written(
    events: &[AppendedEvent],
    info: &SessionInfo,
    state: Option<&State>,
    mode: Mode,
) -> (Vec<v1::Event>, v1::Session) {
    let mut session =
        session(info, state, mode).unwrap_or_else(|_| session_envelope(info, mode.store));
    if mode.form == Form::Struct {
        let used = field_bytes(&session);
        let page = page(events, used, |it| event(&it.event, mode)).unwrap_or_default();
        if used <= ANSWER_BYTES && page.len() == events.len() {
            return (page, session);
        }
        return written(events, info, state, Mode { form: Form::Text, ..mode });
    }
    let whole =
        |it: &AppendedEvent| event(&it.event, mode).unwrap_or_else(|_| event_envelope(&it.event));
    let mut events: Vec<_> = events.iter().map(whole).collect();
    let bytes = field_bytes(&session) + events.iter().map(field_bytes).sum::<usize>();
    let mut excess = bytes.saturating_sub(ANSWER_BYTES);
    if excess > 0 {
        let without = |it: &mut v1::Session| (it.state_form, it.versions) = (None, HashMap::new());
        excess = excess.saturating_sub(saved(&mut session, without));
    }
    for event in events.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        let without = |it: &mut v1::Event| (it.body_form, it.state_delta) = (None, None);
        excess = excess.saturating_sub(saved(event, without));
    }
    (events, session)
}

/// The bytes that a message loses with some of its fields.
fn saved<M: Message>(message: &mut M, clear: impl FnOnce(&mut M)) -> usize {
    let before = field_bytes(message);
    clear(message);
    before - field_bytes(message)
}
