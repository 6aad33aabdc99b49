//! Answers of the event service.

use tonic::Status;

use super::{
    room::{Room, field_bytes, full_page},
    session::{signed, timestamp, written_session},
    shape::Shape,
};
use crate::{
    domain::{
        error::Error,
        event::{self, Changes},
        id::InvocationId,
        scope::StateKey,
    },
    engine::{AppendAnswer, EventList},
    proto::v1::{
        AppendEventResponse, AppendEventsResponse, AppendFailure, Event, ListEventsResponse,
        StateDelta,
    },
    rpc::{convert::Form, status::outline},
    store::AppendedEvent,
};

/// AppendEvent, and an item of AppendEventStream, `depth` levels below the answer.
pub fn append_event(answer: AppendAnswer, form: Form, depth: usize) -> AppendEventResponse {
    let AppendAnswer { info, events, state } = answer;
    let mut room = Room::of_answer();
    let appended = events.into_iter().next();
    let replayed = appended.as_ref().is_some_and(|AppendedEvent { replayed, .. }| *replayed);
    let event = appended.map(|it| written_event(&it.event, form, depth + 1, &mut room));
    let session = written_session(&info, state.as_ref(), form, depth + 1, &mut room);
    AppendEventResponse { event, replayed, session: Some(session) }
}

/// AppendEvents.
pub fn append_events(answer: AppendAnswer, form: Form) -> AppendEventsResponse {
    let AppendAnswer { info, events, state } = answer;
    let mut room = Room::of_answer();
    let replayed = events.iter().map(|it| it.replayed).collect();
    let events: Vec<_> = events.into_iter().map(|it| it.event).collect();
    let events = written_events(&events, form, 1, &mut room);
    let session = written_session(&info, state.as_ref(), form, 1, &mut room);
    AppendEventsResponse { events, session: Some(session), replayed }
}

/// What the status of AppendEvent would have said.
pub fn failure(status: &Status) -> AppendFailure {
    let (code, reason, message) = outline(status);
    AppendFailure { code: code.into(), reason, message: message.to_owned() }
}

/// ListEvents.
pub fn list_events(list: EventList, form: Form) -> Result<ListEventsResponse, Error> {
    let events = full_page(&list.events, |it, left| event(it, Shape::Exactly(form), 1, left))?;
    let next_page_token = list.next_page_token(events.len()).unwrap_or_default();
    Ok(ListEventsResponse { events, next_page_token })
}

/// One event as a write answers it.
pub fn written_event(event: &event::Event, form: Form, depth: usize, room: &mut Room) -> Event {
    let mut events = written_events(std::slice::from_ref(event), form, depth, room);
    events.pop().unwrap_or_default()
}

/// Events as a write answers them: in the form asked for, as text where there is no room for that, and without body and delta where
/// there is none for text either (a batch that filled its request, with the times and ids that the server added).
fn written_events(
    events: &[event::Event],
    form: Form,
    depth: usize,
    room: &mut Room,
) -> Vec<Event> {
    let mut rest = room.clone();
    let as_asked = |it| {
        let event = event(it, Shape::Rather(form), depth, rest.left()).ok()?;
        rest.take_field(&event).then_some(event)
    };
    if let Some(all) = events.iter().map(as_asked).collect() {
        *room = rest;
        return all;
    }
    // Envelopes alone always fit: a thousand of them are less than two megabytes.
    let envelopes: Vec<_> = events.iter().map(envelope).collect();
    let _ = room.take(envelopes.iter().map(field_bytes).sum());
    let fill = |(it, envelope): (&event::Event, Event)| {
        let whole = event(it, Shape::Exactly(Form::Text), depth, room.left()).ok();
        let fits = |whole: &Event| room.take(field_bytes(whole) - field_bytes(&envelope));
        whole.filter(fits).unwrap_or(envelope)
    };
    events.iter().zip(envelopes).map(fill).collect()
}

/// One event, `depth` levels below the answer.
pub fn event(
    event: &event::Event,
    shape: Shape,
    depth: usize,
    room: usize,
) -> Result<Event, Error> {
    let mut message = envelope(event);
    if let Some(body) = &event.body {
        let (shaped, rounded) = shape.object(body, depth + 1, room)?;
        message.body_form = Some(shaped.into());
        message.rounded = rounded;
    }
    if !event.changes.is_empty() {
        let (delta, rounded) = changes(&event.changes, shape, depth + 1, room)?;
        message.state_delta = Some(delta);
        message.rounded |= rounded;
    }
    Ok(message)
}

/// What keys became, as a delta.
pub fn changes(
    changes: &Changes,
    shape: Shape,
    depth: usize,
    room: usize,
) -> Result<(StateDelta, bool), Error> {
    let Changes { set, remove } = changes;
    let (set_form, rounded) = match set {
        None => (None, false),
        Some(set) => {
            let (shaped, rounded) = shape.object(set, depth + 1, room)?;
            (Some(shaped.into()), rounded)
        }
    };
    let remove = remove.iter().map(StateKey::to_string).collect();
    Ok((StateDelta { set_form, remove, operations: Vec::new() }, rounded))
}

/// An event without its body and its delta.
fn envelope(event: &event::Event) -> Event {
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
