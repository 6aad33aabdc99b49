//! Requests of the event service.

use super::{
    address::{BareIds, Keys, session_key, session_ref},
    delta::delta,
    fields::{count, name, optional, page_size, page_token, time, with_form},
    json::{BODY, Source, object},
    precondition::precondition,
    request::{At, Decoded, decode, decoded},
};
use crate::{
    domain::{
        delta::Delta,
        error::{Error, Reason},
        id::{Author, Branch, EventId, InvocationId},
        json::Json,
        limits::{BATCH_BYTES, BATCH_EVENTS},
        page::EventFilter,
        scope::ScopeKind,
        token::EventToken,
    },
    engine::{AppendEvents, EventRequest, EventsWanted, ListEvents},
    proto::v1::{self, event::BodyForm},
    rpc::convert::Form,
};

/// AppendEvent, and an item of AppendEventStream.
pub fn append_event(
    request: v1::AppendEventRequest,
    bare: BareIds,
) -> Result<(AppendEvents, Form), Error> {
    decode(|at| {
        let v1::AppendEventRequest { key, event, precondition: must_hold, return_state, json_form } =
            request;
        let append = decoded!(AppendEvents {
            session: session_ref(at.field("key"), key, bare),
            events: match event {
                Some(it) => self::event(at.field("event"), it).map(|event| vec![event]),
                None => Err(at.field("event").missing()),
            },
            precondition: precondition(at.field("precondition"), must_hold, ScopeKind::Session),
            return_state: Ok(return_state),
        });
        with_form(at, append, json_form)
    })
}

/// AppendEvents.
pub fn append_events(
    request: v1::AppendEventsRequest,
    bare: BareIds,
) -> Result<(AppendEvents, Form), Error> {
    decode(|at| {
        let v1::AppendEventsRequest {
            key,
            events,
            precondition: must_hold,
            return_state,
            json_form,
        } = request;
        let append = decoded!(AppendEvents {
            session: session_ref(at.field("key"), key, bare),
            events: batch(at.field("events"), events),
            precondition: precondition(at.field("precondition"), must_hold, ScopeKind::Session),
            return_state: Ok(return_state),
        });
        with_form(at, append, json_form)
    })
}

/// ListEvents.
pub fn list_events(request: v1::ListEventsRequest) -> Result<(ListEvents, Form), Error> {
    decode(|at| {
        let v1::ListEventsRequest {
            key,
            page_size: size,
            page_token: token,
            selection: which,
            descending,
            author,
            invocation_id,
            json_form,
        } = request;
        let list = decoded!(ListEvents {
            key: session_key(at.field("key"), key),
            page_size: page_size(at.field("page_size"), size),
            page_token: page_token(at.field("page_token"), &token, EventToken::decode),
            wanted: selection(at.field("selection"), which.unwrap_or_default()),
            descending: Ok(descending),
        });
        let author = optional(at.field("author"), author, Author::new);
        let invocation_id = optional(at.field("invocation_id"), invocation_id, InvocationId::new);
        let (mut list, form) = with_form(at, list, json_form)?;
        (list.wanted.filter.author, list.wanted.filter.invocation_id) = (author?, invocation_id?);
        Ok((list, form))
    })
}

/// The events that a read returns.
pub fn selection(at: At<'_>, selection: v1::EventSelection) -> Decoded<EventsWanted> {
    let v1::EventSelection { recent, after_time, after_sequence, include_rewound } = selection;
    decoded!(EventsWanted {
        recent: recent.map(|recent| count(at.field("recent"), recent.into())).transpose(),
        filter: after_time.map(|it| time(at.field("after_time"), it)).transpose().map(
            |after_time| EventFilter { after_time, include_rewound, ..EventFilter::default() }
        ),
        after_sequence: count(at.field("after_sequence"), after_sequence),
    })
}

fn batch(at: At<'_>, events: Vec<v1::Event>) -> Decoded<Vec<EventRequest>> {
    match events.len() {
        0 => return Err(at.missing()),
        1..=BATCH_EVENTS => {}
        many => {
            let limit = ("events", many, BATCH_EVENTS);
            return Err(at.over_limit(Reason::BatchTooLarge, limit, "Split the batch."));
        }
    }
    let events = at.each(events, event)?;
    let bytes: usize = events.iter().map(bytes).sum();
    if bytes > BATCH_BYTES {
        let limit = ("bytes", bytes, BATCH_BYTES);
        return Err(at.over_limit(Reason::BatchTooLarge, limit, "Split the batch."));
    }
    Ok(events)
}

/// Bytes of an event that count for its batch.
fn bytes(event: &EventRequest) -> usize {
    event.body.as_ref().map_or(0, Json::len) + event.delta.bytes()
}

fn event(at: At<'_>, event: v1::Event) -> Decoded<EventRequest> {
    let v1::Event {
        event_id,
        sequence: _,
        invocation_id,
        author,
        branch,
        event_time,
        commit_time: _,
        partial,
        state_delta,
        body_form,
        rounded: _,
        rewind_to_sequence: _,
        rewound: _,
    } = event;
    decoded!(EventRequest {
        event_id: optional(at.field("event_id"), event_id, EventId::new),
        invocation_id: optional(at.field("invocation_id"), invocation_id, InvocationId::new),
        author: name(at.field("author"), author, Author::new),
        branch: name(at.field("branch"), branch, Branch::new),
        event_time: event_time.map(|it| time(at.field("event_time"), it)).transpose(),
        partial: Ok(partial),
        delta: match state_delta {
            None => Ok(Delta::default()),
            Some(it) => delta(at.field("state_delta"), it, Keys::Any),
        },
        body: match body_form {
            None => Ok(None),
            Some(BodyForm::Body(it)) => {
                object(at.field("body"), Source::Message(it), BODY).map(Some)
            }
            Some(BodyForm::BodyJson(text)) => {
                object(at.field("body_json"), Source::Text(text), BODY).map(Some)
            }
        },
        field: Ok(at.field("state_delta").path().to_field()),
    })
}
