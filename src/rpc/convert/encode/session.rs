//! Sessions.

use super::{
    fields::{session_key, signed, timestamp},
    json::Mode,
};
use crate::{
    domain::{
        error::Error,
        session::{self, SessionInfo, State},
    },
    proto::v1::{
        ForkOrigin, Session,
        session::{Expiration, StateForm},
    },
};

/// A session with its state, at `depth` levels below the answer.
pub fn session(
    info: &SessionInfo,
    state: Option<&State>,
    mode: Mode,
    depth: usize,
) -> Result<Session, Error> {
    let mut session = envelope(info);
    if let Some(state) = state {
        let (form, rounded) =
            mode.state(state, depth + 1, StateForm::State, StateForm::StateJson)?;
        session.state_form = Some(form);
        session.state_rounded = rounded;
    }
    Ok(session)
}

/// A session without its state.
pub fn envelope(info: &SessionInfo) -> Session {
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
