//! Requests of the event service.

use super::{
    json::{BODY, Forms},
    request::{Asked, At, Decoded, Read, read},
};
use crate::{
    domain::{
        error::Reason,
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        limits::{BATCH_BYTES, BATCH_EVENTS},
        page::{EventFilter, EventSelection},
        token::EventToken,
    },
    engine::{AppendEvents, EventRequest, new_event_id},
    proto::v1,
    store::EventQuery,
};

/// AppendEvent, and an item of AppendEventStream.
pub fn append_event(at: At<'_>, request: v1::AppendEventRequest) -> Asked<AppendEvents> {
    read!(at: v1::AppendEventRequest {
        key, event = at.field("event").required(event), precondition, return_state, json_form
    } = request);
    let events = vec![event];
    Ok((AppendEvents { session: key, events, precondition, return_state }, json_form))
}

pub fn append_events(at: At<'_>, request: v1::AppendEventsRequest) -> Asked<AppendEvents> {
    read!(at: v1::AppendEventsRequest {
        key, events = batch(at.field("events"), events), precondition, return_state, json_form
    } = request);
    Ok((AppendEvents { session: key, events, precondition, return_state }, json_form))
}

pub fn list_events(
    at: At<'_>,
    request: v1::ListEventsRequest,
) -> Asked<(EventQuery, Option<EventToken>)> {
    read!(at: v1::ListEventsRequest {
        key, page_size, page_token,
        selection = selection.unwrap_or_default().read(at.field("selection")),
        descending, author, invocation_id, json_form
    } = request);
    let mut selection = EventSelection { descending, max_items: page_size, ..selection };
    (selection.filter.author, selection.filter.invocation_id) = (author, invocation_id);
    Ok(((EventQuery { key, as_of: None, selection }, page_token), json_form))
}

/// The events that a read returns.
impl Read<EventSelection> for v1::EventSelection {
    fn read(self, at: At<'_>) -> Decoded<EventSelection> {
        read!(at: v1::EventSelection {
            recent, after_time, after_sequence, include_rewound
        } = self);
        let filter = EventFilter { after_time, include_rewound, ..EventFilter::default() };
        Ok(EventSelection { filter, after: after_sequence, recent, ..EventSelection::default() })
    }
}

fn batch(at: At<'_>, events: Vec<v1::Event>) -> Decoded<Vec<EventRequest>> {
    let too_large = |unit, actual, limit| {
        at.over_limit(Reason::BatchTooLarge, (unit, actual, limit), "Split the batch.")
    };
    match events.len() {
        0 => return Err(at.missing()),
        1..=BATCH_EVENTS => {}
        many => return Err(too_large("events", many, BATCH_EVENTS)),
    }
    let events: Vec<EventRequest> = at.each(events, |at, event| event.read(at))?;
    let bytes = events.iter().map(|request| request.event.bytes()).sum();
    if bytes > BATCH_BYTES { Err(too_large("bytes", bytes, BATCH_BYTES)) } else { Ok(events) }
}

impl Read<EventRequest> for v1::Event {
    fn read(self, at: At<'_>) -> Decoded<EventRequest> {
        read!(at: v1::Event {
            event_id, invocation_id, author, branch, event_time, partial,
            state_delta = state_delta.unwrap_or_default().read(at.field("state_delta")),
            body_form = body_form.map(|form| form.json(at, BODY)).transpose();
            // What only answers hold.
            sequence, commit_time, rounded, rewind_to_sequence, rewound,
        } = self);
        let mut event = NewEvent {
            event_id: Option::unwrap_or_else(event_id, new_event_id),
            invocation_id,
            author,
            branch,
            event_time,
            delta: state_delta,
            body: body_form,
            fingerprint: Fingerprint::default(),
            refusal: None,
            field: FieldPath::from(at.field("state_delta").path),
        };
        event.fingerprint = event.content_fingerprint();
        Ok(EventRequest { event, partial })
    }
}
