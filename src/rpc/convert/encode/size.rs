//! The bytes of an answer, in the form in which it is sent, and what is left out of one that is full.

use prost::{Message, length_delimiter_len};

use super::{
    json::Mode,
    messages::{event, event_envelope, session, session_envelope},
};
use crate::{
    domain::{
        error::Error,
        limits::MESSAGE_BYTES,
        session::{SessionInfo, State},
    },
    proto::v1::{Event, Session},
    rpc::convert::Form,
    store::AppendedEvent,
};

/// Bytes of an answer's items. The rest of a message is for a page token of two ids, the flags of a batch, tags and lengths.
const ANSWER_BYTES: usize = MESSAGE_BYTES - 4096;

/// Bytes of a message as a field of another.
pub fn field_bytes(message: &impl Message) -> usize {
    let bytes = message.encoded_len();
    1 + length_delimiter_len(bytes) + bytes
}

/// The answer, unless it is too large.
pub fn fitting<M: Message>(answer: M) -> Result<M, Error> {
    if answer.encoded_len() <= ANSWER_BYTES { Ok(answer) } else { Err(Error::AnswerTooLarge) }
}

/// As many items as fit, in their order, beside the `used` bytes of the answer.
pub fn page<T, M: Message>(
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

/// As [`page`], in an answer of their own. If the first item does not fit, no later page can hold it.
pub fn full_page<T, M: Message>(
    items: &[T],
    encode: impl FnMut(&T) -> Result<M, Error>,
) -> Result<Vec<M>, Error> {
    let page = page(items, 0, encode)?;
    if page.is_empty() && !items.is_empty() { Err(Error::AnswerTooLarge) } else { Ok(page) }
}

/// Events and the session of a write's answer, in the form asked for, or as text if that does not fit. Text that does not fit loses the
/// state, then bodies and deltas of the last events: the request that made it was not much smaller, and a write never fails because of
/// its answer. Envelopes alone always fit: a thousand of them are less than two megabytes.
pub fn written(
    events: &[AppendedEvent],
    info: &SessionInfo,
    state: Option<&State>,
    form: Form,
    depth: usize,
) -> (Vec<Event>, Session) {
    let mode = Mode::Write(form);
    let mut session = session(info, state, mode, depth).unwrap_or_else(|_| session_envelope(info));
    if form == Form::Struct {
        let used = field_bytes(&session);
        let page = page(events, used, |it| event(&it.event, mode, depth)).unwrap_or_default();
        if used <= ANSWER_BYTES && page.len() == events.len() {
            return (page, session);
        }
        return written(events, info, state, Form::Text, depth);
    }
    let whole = |it: &AppendedEvent| {
        event(&it.event, mode, depth).unwrap_or_else(|_| event_envelope(&it.event))
    };
    let mut events: Vec<Event> = events.iter().map(whole).collect();
    let bytes = field_bytes(&session) + events.iter().map(field_bytes).sum::<usize>();
    let mut excess = bytes.saturating_sub(ANSWER_BYTES);
    if excess > 0 {
        excess = excess.saturating_sub(saved(&mut session, |it| it.state_form = None));
    }
    for event in events.iter_mut().rev() {
        if excess == 0 {
            break;
        }
        let without = |it: &mut Event| (it.body_form, it.state_delta) = (None, None);
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
