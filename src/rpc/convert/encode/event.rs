//! Events and deltas.

use super::{
    fields::{signed, timestamp},
    json::Mode,
};
use crate::{
    domain::{
        error::Error,
        event::{self, Changes},
        id::InvocationId,
        scope::StateKey,
    },
    proto::v1::{Event, StateDelta, event::BodyForm, state_delta::SetForm},
};

/// One event, at `depth` levels below the answer.
pub fn event(event: &event::Event, mode: Mode, depth: usize) -> Result<Event, Error> {
    let mut message = envelope(event);
    if let Some(body) = &event.body {
        let (form, rounded) = mode.object(body, depth + 1, BodyForm::Body, BodyForm::BodyJson)?;
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
    let set = set.as_ref().map(|set| mode.object(set, depth + 1, SetForm::Set, SetForm::SetJson));
    let (set_form, rounded) = set.transpose()?.unzip();
    let remove = remove.iter().map(StateKey::to_string).collect();
    Ok((StateDelta { set_form, remove, operations: Vec::new() }, rounded.unwrap_or_default()))
}

/// An event without its body and its delta.
pub fn envelope(event: &event::Event) -> Event {
    let event::Event {
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
