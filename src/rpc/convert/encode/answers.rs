//! The answer of each call, within the size that every client receives in the form in which it is sent. A page ends when the answer is
//! full, and its token continues behind it.

use std::borrow::Cow;

use prost::{Message, length_delimiter_len};
use tonic::Status;
use tonic_types::{FieldViolation, StatusExt};

use super::{
    json::{Mode, object, value},
    messages::*,
};
use crate::{
    domain::json::text_bytes,
    engine::{List, SessionAnswer, WatchItem},
    rpc::{prelude::*, within},
    store::{Created, KeyChange, StateUpdated},
};

/// Bytes of an answer's items. The rest of a message is for a page token of two ids, the flags of a batch, tags and lengths.
const ANSWER_BYTES: usize = MESSAGE_BYTES - 4096;

pub fn create_session(
    created: Created,
    dropped: Vec<String>,
    mode: Mode,
) -> v1::CreateSessionResponse {
    let Created { info, state, created } = created;
    let (_, session) = written(&[], &info, Some(&state), mode);
    v1::CreateSessionResponse { session: Some(session), created, dropped_temp_keys: dropped }
}

/// The session, and as many events as fit beside it.
pub fn get_session(answer: SessionAnswer, mode: Mode) -> v1::GetSessionResponse {
    let SessionAnswer { info, state, events: list } = answer;
    let session = fitted(mode, |mode| session(&info, state.as_ref(), mode));
    let events =
        page(&list.items, field_bytes(&session), |it| fitted(mode, |mode| event(it, mode)));
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    v1::GetSessionResponse { session: Some(session), events, next_page_token }
}

pub fn list_sessions(
    list: List<(SessionInfo, Option<State>)>,
    mode: Mode,
) -> v1::ListSessionsResponse {
    let encode = |(info, state): &(_, Option<_>), mode| session(info, state.as_ref(), mode);
    let (sessions, next_page_token) = full_page(&list, |it| fitted(mode, |mode| encode(it, mode)));
    v1::ListSessionsResponse { sessions, next_page_token }
}

pub fn update_session(info: SessionInfo, store: StoreId) -> v1::UpdateSessionResponse {
    v1::UpdateSessionResponse { session: Some(session_envelope(&info, store)) }
}

pub fn fork_session((info, state): (SessionInfo, State), mode: Mode) -> v1::ForkSessionResponse {
    let (_, session) = written(&[], &info, Some(&state), mode);
    v1::ForkSessionResponse { session: Some(session) }
}

pub fn rewind_session(answer: Appended, mode: Mode) -> v1::RewindSessionResponse {
    let v1::AppendEventResponse { session, event, replayed, dropped_temp_keys: _ } =
        append_event(answer, Vec::new(), mode);
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
    mode: Mode,
) -> v1::AppendEventsResponse {
    let Appended { info, events, state, request_replayed: _ } = answer;
    let replayed = events.iter().map(|it| it.replayed).collect();
    let (events, session) = written(&events, &info, state.as_ref(), mode);
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

pub fn list_events(list: List<Event>, mode: Mode) -> v1::ListEventsResponse {
    let (events, next_page_token) = full_page(&list, |it| fitted(mode, |mode| event(it, mode)));
    v1::ListEventsResponse { events, next_page_token }
}

/// As many refs as fit, at least one: an event, or the ref if it names none.
pub fn batch_get_events(
    list: &List<(EventRef, Option<Event>)>,
    mode: Mode,
) -> v1::BatchGetEventsResponse {
    let part = |(named, found): &(EventRef, Option<Event>)| match found {
        Some(it) => v1::BatchGetEventsResponse {
            events: vec![fitted(mode, |mode| event(it, mode))],
            ..Default::default()
        },
        None => {
            v1::BatchGetEventsResponse { missing: vec![event_ref(named)], ..Default::default() }
        }
    };
    let (parts, next_page_token) = full_page(list, part);
    let mut response = v1::BatchGetEventsResponse { next_page_token, ..Default::default() };
    for part in parts {
        response.events.extend(part.events);
        response.missing.extend(part.missing);
    }
    response
}

/// All keys in the form asked for, or as text if that does not fit, or as many as fit as text.
pub fn get_state(
    (list, life): (List<StateEntry>, Option<Life>),
    mode: Mode,
) -> v1::GetStateResponse {
    use v1::get_state_response::StateForm;
    let response = |entries: &[StateEntry], mode: Mode| {
        let json = Cow::Owned(State::json_of(entries));
        let (form, state_rounded) =
            mode.encode(json, object, StateForm::State, StateForm::StateJson);
        v1::GetStateResponse {
            state_form: Some(form),
            state_rounded,
            versions: versions(entries, mode),
            damaged_keys: State::damaged(entries),
            next_page_token: list.next_page_token(entries.len()).unwrap_or_default(),
            uid: optional_uid(life, mode.store),
            ..Default::default()
        }
    };
    let all = response(&list.items, mode);
    if fits(&all) {
        return all;
    }
    let many = as_many_as_fit(&list.items, mode);
    if many > 0 {
        return response(&list.items[..many], mode.as_text());
    }
    // No value that was stored is that large.
    let next_page_token = list.next_page_token(1).unwrap_or_default();
    let (state_form, state_omitted) = (None, true);
    v1::GetStateResponse { state_form, state_omitted, next_page_token, ..response(&[], mode) }
}

/// How many of the entries fit into an answer as text.
fn as_many_as_fit(entries: &[StateEntry], mode: Mode) -> usize {
    // Of the object: tag, length and brackets. Of each key: quotes, colon and comma; of its version: a key and a number in an entry.
    let field = |bytes: usize| 1 + length_delimiter_len(bytes) + bytes;
    let bytes = |it: &StateEntry| {
        let (key, number) = (it.key.as_str(), usize::try_from(it.version).unwrap_or(usize::MAX));
        let version = field(field(key.len()) + 1 + length_delimiter_len(number));
        text_bytes(key) + 4 + it.value.len() + if mode.with_versions { version } else { 0 }
    };
    within(entries.iter(), ANSWER_BYTES - 8, |it| bytes(it)).count()
}

pub fn update_state(answer: StateUpdated, mode: Mode) -> v1::UpdateStateResponse {
    use v1::update_state_response::StateForm;
    let StateUpdated { state, replayed, life } = answer;
    fitted(mode, |mode| {
        let json = Cow::Owned(state.to_json());
        let (form, state_rounded) =
            mode.encode(json, object, StateForm::State, StateForm::StateJson);
        v1::UpdateStateResponse {
            state_form: Some(form),
            state_rounded,
            replayed,
            damaged_keys: State::damaged(&state.0),
            uid: optional_uid(life, mode.store),
            ..Default::default()
        }
    })
}

pub fn list_key_changes(list: List<KeyChange>, mode: Mode) -> v1::ListKeyChangesResponse {
    let (changes, next_page_token) =
        full_page(&list, |it| fitted(mode, |mode| key_change(it, mode)));
    v1::ListKeyChangesResponse { changes, next_page_token }
}

fn key_change(change: &KeyChange, mode: Mode) -> v1::KeyChange {
    use v1::key_change::ValueForm::{Value, ValueJson};
    let KeyChange { version, value: it, commit_time, author, source } = change;
    let form =
        it.as_ref().map(|it| mode.inner().encode(Cow::Borrowed(it), value, Value, ValueJson));
    v1::KeyChange {
        version: signed(*version),
        // A single value has no flag for rounded numbers: callers that need exact ones request text.
        value_form: form.map(|(value_form, _)| value_form),
        commit_time: Some(timestamp(*commit_time)),
        author: Author::to_string(author),
        session: source.as_ref().map(|(key, _)| session_key(key)),
        sequence: source.as_ref().map_or(0, |(_, sequence)| signed(*sequence)),
    }
}

pub fn list_applications(list: List<AppName>) -> v1::ListApplicationsResponse {
    let application = |name: &AppName| v1::Application { app_name: name.to_string() };
    let (applications, next_page_token) = full_page(&list, application);
    v1::ListApplicationsResponse { applications, next_page_token }
}

pub fn list_users(list: List<UserId>, app: &AppName) -> v1::ListUsersResponse {
    let user = |id: &UserId| v1::User { app_name: app.to_string(), user_id: id.to_string() };
    let (users, next_page_token) = full_page(&list, user);
    v1::ListUsersResponse { users, next_page_token }
}

/// One message with the cursor right behind it.
pub fn watch(item: WatchItem, cursor: String, mode: Mode) -> v1::WatchResponse {
    fitted(mode, |mode| v1::WatchResponse { kind: Some(kind(&item, mode)), cursor: cursor.clone() })
}

fn kind(item: &WatchItem, mode: Mode) -> v1::watch_response::Kind {
    use v1::{state_snapshot::StateForm, watch_response::Kind};
    match item {
        WatchItem::Snapshot { state, last_sequence, life } => {
            let json = Cow::Owned(state.to_json());
            let (form, state_rounded) =
                mode.inner().encode(json, object, StateForm::State, StateForm::StateJson);
            let uid = optional_uid(*life, mode.store);
            let (state_form, last_sequence) = (Some(form), signed(*last_sequence));
            Kind::Snapshot(v1::StateSnapshot {
                state_form,
                state_rounded,
                last_sequence,
                damaged_keys: State::damaged(&state.0),
                uid,
                ..Default::default()
            })
        }
        WatchItem::Event(it) => Kind::Event(event(it, mode)),
        WatchItem::StateChange { changes: it, commit_time } => {
            let (delta, _) = changes(it, mode.inner());
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
    }
}

pub fn field_bytes(message: &impl Message) -> usize {
    let bytes = message.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

fn fits(message: &impl Message) -> bool {
    field_bytes(message) <= ANSWER_BYTES
}

/// An item in the form asked for; as text if it is larger than an answer; without what it can do without if its text is.
fn fitted<M: LeaveOut>(mode: Mode, encode: impl Fn(Mode) -> M) -> M {
    let mut message = encode(mode);
    if !fits(&message) && mode.form == Form::Struct {
        message = encode(mode.as_text());
    }
    if !fits(&message) {
        message.leave_out();
    }
    message
}

/// As many items as fit, in their order, beside the `used` bytes of the answer. Each is what it is in an answer of its own.
fn page<T, M: Message>(items: &[T], mut used: usize, encode: impl Fn(&T) -> M) -> Vec<M> {
    let mut page = Vec::with_capacity(items.len());
    for item in items {
        let message = encode(item);
        used += field_bytes(&message);
        if used > ANSWER_BYTES {
            break;
        }
        page.push(message);
    }
    page
}

/// As [`page`], in an answer of their own, which always holds the first one, with the token of the next page.
fn full_page<T, M: Message>(list: &List<T>, encode: impl Fn(&T) -> M) -> (Vec<M>, String) {
    let page = page(&list.items, 0, encode);
    let token = list.next_page_token(page.len()).unwrap_or_default();
    (page, token)
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
    let mut session = session(info, state, mode);
    let mut bytes = field_bytes(&session);
    let mut messages = Vec::with_capacity(events.len());
    for it in events {
        let message = event(&it.event, mode);
        bytes += field_bytes(&message);
        messages.push(message);
        if bytes > ANSWER_BYTES && mode.form == Form::Struct {
            break;
        }
    }
    let mut excess = bytes.saturating_sub(ANSWER_BYTES);
    if excess > 0 && mode.form == Form::Struct {
        return written(events, info, state, mode.as_text());
    }
    if excess > 0 {
        excess = excess.saturating_sub(saved(&mut session));
    }
    for event in messages.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        excess = excess.saturating_sub(saved(event));
    }
    (messages, session)
}

/// The bytes that a message loses with what it can do without.
fn saved(message: &mut impl LeaveOut) -> usize {
    let before = field_bytes(message);
    message.leave_out();
    before - field_bytes(message)
}
