//! The answer of a write: its events and the session, truncated to what a message holds.

use super::{
    event::{self, event},
    json::Mode,
    session::{self, session},
    size::{ANSWER_BYTES, field_bytes},
};
use crate::{
    domain::session::{SessionInfo, State},
    proto::v1::{Event, Session},
    rpc::convert::Form,
    store::AppendedEvent,
};

/// Events and the session of a write's answer.
pub struct Written {
    pub events: Vec<Event>,
    pub session: Session,
}

/// Encodes in the form asked for, or as text if that does not fit. Text that does not fit loses the state, then bodies and deltas of
/// the last events: the request that made it was not much smaller, and a write never fails because of its answer.
pub fn written(
    events: &[AppendedEvent],
    info: &SessionInfo,
    state: Option<&State>,
    form: Form,
    depth: usize,
) -> Written {
    if form == Form::Struct
        && let Some(written) = as_structs(events, info, state, depth)
    {
        return written;
    }
    let mode = Mode::Write(Form::Text);
    let whole = |it: &AppendedEvent| {
        event(&it.event, mode, depth).unwrap_or_else(|_| event::envelope(&it.event))
    };
    let session = session(info, state, mode, depth).unwrap_or_else(|_| session::envelope(info));
    let mut written = Written { events: events.iter().map(whole).collect(), session };
    written.truncate();
    written
}

/// `None` as soon as it is larger than an answer.
fn as_structs(
    events: &[AppendedEvent],
    info: &SessionInfo,
    state: Option<&State>,
    depth: usize,
) -> Option<Written> {
    let mode = Mode::Write(Form::Struct);
    let mut left = ANSWER_BYTES;
    let mut encode = |it: &AppendedEvent| {
        let event = event(&it.event, mode, depth).ok()?;
        left = left.checked_sub(field_bytes(&event))?;
        Some(event)
    };
    let events = events.iter().map(&mut encode).collect::<Option<_>>()?;
    let session = session(info, state, mode, depth).ok()?;
    (field_bytes(&session) <= left).then_some(Written { events, session })
}

impl Written {
    /// Envelopes alone always fit: a thousand of them are less than two megabytes.
    fn truncate(&mut self) {
        let Self { events, session } = self;
        let bytes = field_bytes(session) + events.iter().map(field_bytes).sum::<usize>();
        let mut excess = bytes.saturating_sub(ANSWER_BYTES);
        if excess > 0 {
            let before = field_bytes(session);
            session.state_form = None;
            excess = excess.saturating_sub(before - field_bytes(session));
        }
        for event in events.iter_mut().rev() {
            if excess == 0 {
                break;
            }
            let before = field_bytes(event);
            (event.body_form, event.state_delta) = (None, None);
            excess = excess.saturating_sub(before - field_bytes(event));
        }
    }
}
