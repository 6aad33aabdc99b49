//! Events, sessions and their parts as messages, each at `depth` levels below the answer.

use std::borrow::Cow;

use prost_types::Timestamp;

use super::json::{Mode, object};
use crate::{
    domain::{
        error::Error,
        event::{self as model_event, Changes},
        id::InvocationId,
        scope::{self, StateKey},
        session::{self as model_session, SessionInfo, State},
        time::Time,
    },
    proto::v1::{
        Event, ForkOrigin, Session, SessionKey, StateDelta,
        event::BodyForm,
        session::{Expiration, StateForm},
        state_delta::SetForm,
    },
};

pub fn event(event: &model_event::Event, mode: Mode, depth: usize) -> Result<Event, Error> {
    let mut message = event_envelope(event);
    if let Some(body) = &event.body {
        let json = Cow::Borrowed(body);
        let (form, rounded) =
            mode.encode(json, depth + 1, object, BodyForm::Body, BodyForm::BodyJson)?;
        message.body_form = Some(form);
        message.rounded = rounded;
    }
    if !event.changes.is_empty() {
        let (delta, rounded) = changes(&event.changes, mode, depth + 1)?;
        message.state_delta = Some(delta);
        message.rounded |= rounded;
    }
    Ok(message)
}

/// Changes as a delta, and whether a number was rounded.
pub fn changes(changes: &Changes, mode: Mode, depth: usize) -> Result<(StateDelta, bool), Error> {
    let Changes { set, remove } = changes;
    let set = set.as_ref().map(|set| {
        mode.encode(Cow::Borrowed(set), depth + 1, object, SetForm::Set, SetForm::SetJson)
    });
    let (set_form, rounded) = set.transpose()?.unzip();
    let remove = remove.iter().map(StateKey::to_string).collect();
    Ok((StateDelta { set_form, remove, operations: Vec::new() }, rounded.unwrap_or_default()))
}

/// An event without its body and its delta.
pub fn event_envelope(event: &model_event::Event) -> Event {
    let model_event::Event {
        event_id,
        sequence,
        invocation_id,
        author,
        branch,
        event_time,
        commit_time,
        changes: _,
        body: _,
        rewind_to,
        rewound,
        versions: _,
    } = event;
    Event {
        event_id: event_id.to_string(),
        sequence: signed(*sequence),
        invocation_id: invocation_id.as_ref().map(InvocationId::to_string).unwrap_or_default(),
        author: author.to_string(),
        branch: branch.to_string(),
        event_time: Some(timestamp(*event_time)),
        commit_time: Some(timestamp(*commit_time)),
        // Nothing that was stored has sequence 0.
        partial: *sequence == 0,
        state_delta: None,
        body_form: None,
        rounded: false,
        rewind_to_sequence: rewind_to.map(signed),
        rewound: *rewound,
    }
}

pub fn session(
    info: &SessionInfo,
    state: Option<&State>,
    mode: Mode,
    depth: usize,
) -> Result<Session, Error> {
    let mut session = session_envelope(info);
    if let Some(state) = state {
        let json = Cow::Owned(state.to_json());
        let (form, rounded) =
            mode.encode(json, depth + 1, object, StateForm::State, StateForm::StateJson)?;
        session.state_form = Some(form);
        session.state_rounded = rounded;
    }
    Ok(session)
}

/// A session without its state.
pub fn session_envelope(info: &SessionInfo) -> Session {
    let SessionInfo {
        key,
        incarnation: _,
        last_sequence,
        create_time,
        update_time,
        last_event_time,
        expire_time,
        display_name,
        labels,
        forked_from,
        created_versions: _,
    } = info;
    let forked_from = forked_from.as_ref().map(|origin| {
        let model_session::ForkOrigin { key, sequence } = origin;
        ForkOrigin { key: Some(session_key(key)), sequence: signed(*sequence) }
    });
    let labels = labels.as_map().iter();
    Session {
        key: Some(session_key(key)),
        state_form: None,
        state_rounded: false,
        last_sequence: signed(*last_sequence),
        create_time: Some(timestamp(*create_time)),
        update_time: Some(timestamp(*update_time)),
        last_event_time: Some(timestamp(*last_event_time)),
        expiration: expire_time.map(|at| Expiration::ExpireTime(timestamp(at))),
        display_name: display_name.to_string(),
        labels: labels.map(|(key, value)| (key.clone(), value.clone())).collect(),
        forked_from,
    }
}

pub fn session_key(key: &scope::SessionKey) -> SessionKey {
    let scope::SessionKey { app_name, user_id, session_id } = key;
    SessionKey {
        app_name: app_name.to_string(),
        user_id: user_id.to_string(),
        session_id: session_id.to_string(),
    }
}

pub fn timestamp(time: Time) -> Timestamp {
    // Nanoseconds of a second always fit.
    Timestamp { seconds: time.secs(), nanos: i32::try_from(time.nanos()).unwrap_or_default() }
}

/// A sequence or a version, which stays below what a database's integer holds.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
