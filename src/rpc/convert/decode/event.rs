//! Requests of the event service.

use super::{
    address::{BareIds, Keys, session_key, session_ref},
    delta::delta,
    faults::{Decoded, Faults, Path, decode},
    fields::{count, form, name, optional, page_size, page_token, time},
    json::{BODY, Source, object},
    precondition::precondition,
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
    engine::{AppendEvents, EventDraft, EventsWanted, ListEvents},
    proto::v1::{self, AppendEventRequest, AppendEventsRequest, EventSelection, ListEventsRequest},
    rpc::convert::Form,
};

/// AppendEvent, and an item of AppendEventStream.
pub fn append_event(
    request: AppendEventRequest,
    bare: BareIds,
) -> Result<(AppendEvents, Form), Error> {
    decode(|faults| {
        let AppendEventRequest { key, event, precondition: must_hold, return_state, json_form } =
            request;
        let at = Path::REQUEST;
        let session = session_ref(faults, at.field("key"), key, bare);
        let event = match event {
            Some(event) => draft(faults, at.field("event"), event),
            None => Err(faults.missing(at.field("event"))),
        };
        let precondition =
            precondition(faults, at.field("precondition"), must_hold, ScopeKind::Session);
        let form = form(faults, at.field("json_form"), json_form)?;
        let (session, events, precondition) = (session?, vec![event?], precondition?);
        Ok((AppendEvents { session, events, precondition, return_state }, form))
    })
}

/// AppendEvents.
pub fn append_events(
    request: AppendEventsRequest,
    bare: BareIds,
) -> Result<(AppendEvents, Form), Error> {
    decode(|faults| {
        let AppendEventsRequest { key, events, precondition: must_hold, return_state, json_form } =
            request;
        let at = Path::REQUEST;
        let session = session_ref(faults, at.field("key"), key, bare);
        let events = batch(faults, at.field("events"), events);
        let precondition =
            precondition(faults, at.field("precondition"), must_hold, ScopeKind::Session);
        let form = form(faults, at.field("json_form"), json_form)?;
        let (session, events, precondition) = (session?, events?, precondition?);
        Ok((AppendEvents { session, events, precondition, return_state }, form))
    })
}

/// ListEvents.
pub fn list_events(request: ListEventsRequest) -> Result<(ListEvents, Form), Error> {
    decode(|faults| {
        let ListEventsRequest {
            key,
            page_size: size,
            page_token: token,
            selection: which,
            descending,
            author,
            invocation_id,
            json_form,
        } = request;
        let at = Path::REQUEST;
        let key = session_key(faults, at.field("key"), key);
        let size = page_size(faults, at.field("page_size"), size);
        let token = page_token(faults, at.field("page_token"), &token, EventToken::decode);
        let which = selection(faults, at.field("selection"), which.unwrap_or_default());
        let author = optional(faults, at.field("author"), author, Author::new);
        let invocation =
            optional(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
        let form = form(faults, at.field("json_form"), json_form)?;
        let mut wanted = which?;
        wanted.filter =
            EventFilter { author: author?, invocation_id: invocation?, ..wanted.filter };
        Ok((
            ListEvents { key: key?, wanted, descending, page_size: size?, page_token: token? },
            form,
        ))
    })
}

/// Which events a read returns.
pub fn selection(
    faults: &mut Faults,
    at: Path<'_>,
    selection: EventSelection,
) -> Decoded<EventsWanted> {
    let EventSelection { recent, after_time, after_sequence, include_rewound } = selection;
    let recent = recent.map(|recent| count(faults, at.field("recent"), recent.into())).transpose();
    let after_time =
        after_time.map(|after| time(faults, at.field("after_time"), after)).transpose();
    let after_sequence = count(faults, at.field("after_sequence"), after_sequence);
    let filter =
        EventFilter { after_time: after_time?, include_rewound, author: None, invocation_id: None };
    Ok(EventsWanted { filter, after_sequence: after_sequence?, recent: recent? })
}

fn batch(faults: &mut Faults, at: Path<'_>, events: Vec<v1::Event>) -> Decoded<Vec<EventDraft>> {
    match events.len() {
        0 => return Err(faults.missing(at)),
        1..=BATCH_EVENTS => {}
        many => {
            let message = format_args!(
                "There are {many} events, {BATCH_EVENTS} are allowed; append them in several batches."
            );
            return Err(faults.add_with(at, Reason::BatchTooLarge, message, |fault| {
                fault.with("events", many).with("limit", BATCH_EVENTS)
            }));
        }
    }
    let drafts = faults.each(at, events, draft)?;
    let bytes: usize = drafts.iter().map(bytes).sum();
    if bytes > BATCH_BYTES {
        let message = format_args!(
            "The events have {bytes} bytes of bodies and deltas, {BATCH_BYTES} are allowed; append them in several batches."
        );
        return Err(faults.add_with(at, Reason::BatchTooLarge, message, |fault| {
            fault.with("bytes", bytes).with("limit", BATCH_BYTES)
        }));
    }
    Ok(drafts)
}

/// What an event adds to the size of its batch.
fn bytes(draft: &EventDraft) -> usize {
    draft.body.as_ref().map_or(0, Json::len) + draft.delta.bytes()
}

fn draft(faults: &mut Faults, at: Path<'_>, event: v1::Event) -> Decoded<EventDraft> {
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
    let event_id = optional(faults, at.field("event_id"), event_id, EventId::new);
    let invocation_id =
        optional(faults, at.field("invocation_id"), invocation_id, InvocationId::new);
    let author = name(faults, at.field("author"), author, Author::new);
    let branch = name(faults, at.field("branch"), branch, Branch::new);
    let event_time =
        event_time.map(|event_time| time(faults, at.field("event_time"), event_time)).transpose();
    let delta = match state_delta {
        None => Ok(Delta::default()),
        Some(it) => delta(faults, at.field("state_delta"), it, Keys::Any),
    };
    let body = match body_form {
        None => Ok(None),
        Some(v1::event::BodyForm::Body(it)) => {
            object(faults, at.field("body"), Source::Message(it), BODY).map(Some)
        }
        Some(v1::event::BodyForm::BodyJson(text)) => {
            object(faults, at.field("body_json"), Source::Text(text), BODY).map(Some)
        }
    };
    Ok(EventDraft {
        event_id: event_id?,
        invocation_id: invocation_id?,
        author: author?,
        branch: branch?,
        event_time: event_time?,
        partial,
        delta: delta?,
        body: body?,
    })
}
