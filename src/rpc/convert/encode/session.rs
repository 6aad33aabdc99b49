//! Answers of the session service.

use prost_types::Timestamp;

use super::{
    event::{event, written_event},
    room::{Room, full_page, page},
    shape::{Shape, state_that_fits},
};
use crate::{
    domain::{
        error::Error,
        scope,
        session::{self, SessionInfo, State},
        time::Time,
    },
    engine::{AppendAnswer, SessionAnswer, SessionList},
    proto::v1::{
        CreateSessionResponse, ForkOrigin, ForkSessionResponse, GetSessionResponse,
        ListSessionsResponse, RewindSessionResponse, Session, SessionKey, UpdateSessionResponse,
        session::Expiration,
    },
    rpc::convert::Form,
    store::{AppendedEvent, Created},
};

/// CreateSession.
pub fn create_session(created: Created, form: Form) -> CreateSessionResponse {
    let Created { info, state, created } = created;
    let session = written_session(&info, Some(&state), form, 1, &mut Room::of_answer());
    CreateSessionResponse { session: Some(session), created }
}

/// GetSession: the session, and as many events as fit beside it.
pub fn get_session(answer: SessionAnswer, form: Form) -> Result<GetSessionResponse, Error> {
    let SessionAnswer { info, state, events: list } = answer;
    let mut room = Room::of_answer();
    let session = read_session(&info, state.as_ref(), form, room.left())?;
    if !room.take_field(&session) {
        return Err(Error::AnswerTooLarge);
    }
    let events =
        page(&list.events, &mut room, |it, left| event(it, Shape::Exactly(form), 1, left))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(GetSessionResponse { session: Some(session), events, next_page_token })
}

/// ListSessions.
pub fn list_sessions(list: SessionList, form: Form) -> Result<ListSessionsResponse, Error> {
    let sessions = full_page(&list.sessions, |(info, state), left| {
        read_session(info, state.as_ref(), form, left)
    })?;
    let next_page_token = list.next_page_token(sessions.len()).unwrap_or_default();
    Ok(ListSessionsResponse { sessions, next_page_token })
}

/// UpdateSession.
pub fn update_session(info: SessionInfo) -> UpdateSessionResponse {
    UpdateSessionResponse { session: Some(session(&info)) }
}

/// ForkSession.
pub fn fork_session(answer: SessionAnswer, form: Form) -> ForkSessionResponse {
    let SessionAnswer { info, state, events: _ } = answer;
    let session = written_session(&info, state.as_ref(), form, 1, &mut Room::of_answer());
    ForkSessionResponse { session: Some(session) }
}

/// RewindSession.
pub fn rewind_session(answer: AppendAnswer, form: Form) -> RewindSessionResponse {
    let AppendAnswer { info, events, state } = answer;
    let mut room = Room::of_answer();
    let marker = events.into_iter().next();
    let replayed = marker.as_ref().is_some_and(|AppendedEvent { replayed, .. }| *replayed);
    let event = marker.map(|marker| written_event(&marker.event, form, 1, &mut room));
    let session = written_session(&info, state.as_ref(), form, 1, &mut room);
    RewindSessionResponse { session: Some(session), event, replayed }
}

/// A session as a read answers it.
fn read_session(
    info: &SessionInfo,
    state: Option<&State>,
    form: Form,
    room: usize,
) -> Result<Session, Error> {
    let mut session = session(info);
    if let Some(state) = state {
        let (shaped, rounded) = Shape::Exactly(form).state(state, 2, room)?;
        session.state_form = Some(shaped.into());
        session.state_rounded = rounded;
    }
    Ok(session)
}

/// A session as a write answers it, `depth` levels below the answer: with its state as far as that fits.
pub fn written_session(
    info: &SessionInfo,
    state: Option<&State>,
    form: Form,
    depth: usize,
    room: &mut Room,
) -> Session {
    let mut session = session(info);
    let fits = room.take_field(&session);
    let state = state.filter(|_| fits);
    if let Some((shaped, rounded)) =
        state.and_then(|state| state_that_fits(state, form, depth + 1, room))
    {
        session.state_form = Some(shaped.into());
        session.state_rounded = rounded;
    }
    session
}

/// A session without its state.
fn session(info: &SessionInfo) -> Session {
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
        let session::ForkOrigin { key, sequence } = origin;
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
