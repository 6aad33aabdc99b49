//! Appending events and listing them.

use std::sync::Arc;

use crate::{
    domain::{
        Sequence,
        delta::Delta,
        error::{Error, Reason},
        event::{Event, NewEvent, ScopeVersions, event_fingerprint},
        field::FieldPath,
        id::{Author, Branch, EventId, InvocationId},
        json::Json,
        limits::MESSAGE_BYTES,
        page::{EventFilter, EventSelection, Rest, narrow},
        precondition::Precondition,
        scope::{Prefix, SessionKey, SessionRef},
        session::{SessionInfo, State},
        time::Time,
        token::{EventToken, text_hash},
    },
    engine::{Engine, new_event_id},
    store::{Append, Appended, AppendedEvent, EventQuery, RequestContext, SessionQuery},
};

/// An event as a caller sends it.
#[derive(Clone, Debug)]
pub struct EventRequest {
    /// `None`: the engine makes one.
    pub event_id: Option<EventId>,
    pub invocation_id: Option<InvocationId>,
    pub author: Author,
    pub branch: Branch,
    /// By the client's clock.
    pub event_time: Option<Time>,
    /// A fragment of a streamed answer: answered, never stored.
    pub partial: bool,
    /// Changes of state, `temp:` keys included.
    pub delta: Delta,
    pub body: Option<Json>,
    /// Path of its delta in the request.
    pub field: FieldPath,
}

/// Events to append to one session in one commit.
#[derive(Clone, Debug)]
pub struct AppendEvents {
    pub session: SessionRef,
    /// At least one.
    pub events: Vec<EventRequest>,
    pub precondition: Precondition,
    /// Answer with the merged state.
    pub return_state: bool,
}

impl AppendEvents {
    /// Whether the first poll of [`Engine::append_events`] submits these to the store, so that appends that are polled one after the
    /// other keep that order. Those that change an invocation's `temp:` keys wait for others that do first.
    pub fn submits_at_once(&self) -> bool {
        let changes_temp = |event: &EventRequest| {
            let named = event.invocation_id.is_some() && !event.partial;
            named && event.delta.keys().any(|key| key.prefix() == Prefix::Temp)
        };
        !self.events.iter().any(changes_temp)
    }
}

/// The outcome of an append.
#[derive(Clone, Debug)]
pub struct AppendAnswer {
    /// The session right after the commit.
    pub info: SessionInfo,
    /// The events in the order asked; a partial one with sequence 0.
    pub events: Vec<AppendedEvent>,
    /// Merged state, `temp:` keys of the last event's invocation included.
    pub state: Option<State>,
}

/// The events that a read returns.
#[derive(Clone, Debug, Default)]
pub struct EventsWanted {
    pub filter: EventFilter,
    /// Only those with a greater sequence.
    pub after_sequence: Sequence,
    /// Only the newest ones, this many.
    pub recent: Option<u64>,
}

/// A list of events.
#[derive(Clone, Debug)]
pub struct ListEvents {
    pub key: SessionKey,
    pub wanted: EventsWanted,
    /// Newest first.
    pub descending: bool,
    /// Maximum number of items.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<EventToken>,
}

/// Events of one page. The caller may send fewer and continue behind them.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// In the order asked for.
    pub events: Vec<Event>,
    next: Option<NextEvents>,
}

#[derive(Clone, Debug)]
struct NextEvents {
    token: EventToken,
    descending: bool,
    rest: Option<Rest>,
}

impl EventList {
    pub(super) fn new(
        events: Vec<Event>,
        rest: Option<Rest>,
        token: EventToken,
        descending: bool,
    ) -> Self {
        Self { events, next: Some(NextEvents { token, descending, rest }) }
    }

    /// The token that continues behind the first `taken` events; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        let next = self.next.as_ref()?;
        let rest =
            if taken >= self.events.len() { next.rest? } else { self.rest_behind(next, taken) };
        Some(EventToken { rest, ..next.token.clone() }.encode())
    }

    /// The rest of the selection if fewer events are sent than were read.
    fn rest_behind(&self, next: &NextEvents, taken: usize) -> Rest {
        let ends = (self.events.first(), self.events.last());
        let (first, last) = match ends {
            (Some(first), Some(last)) => (first.sequence, last.sequence),
            _ => (0, 0),
        };
        // If this page was the last one, its own last event is the end of the interval.
        let interval = match (next.rest, next.descending) {
            (Some(rest), false) => Rest { after: first.saturating_sub(1), up_to: rest.up_to },
            (None, false) => Rest { after: first.saturating_sub(1), up_to: Some(last) },
            (Some(rest), true) => Rest { after: rest.after, up_to: Some(first) },
            (None, true) => Rest { after: last.saturating_sub(1), up_to: Some(first) },
        };
        match taken.checked_sub(1).and_then(|at| self.events.get(at)) {
            Some(event) => narrow(interval, next.descending, event.sequence),
            None => interval,
        }
    }
}

/// Hash of what a page token of a list of events belongs to.
pub(super) fn request_hash(wanted: &EventsWanted, descending: bool) -> u64 {
    let EventsWanted { filter, after_sequence, recent } = wanted;
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    text_hash(&[
        &format!("{after_time:?} {include_rewound} {after_sequence} {recent:?} {descending}"),
        author.as_ref().map_or("", Author::as_str),
        invocation_id.as_ref().map_or("", InvocationId::as_str),
    ])
}

fn bad_page_token() -> Error {
    Error::invalid(
        "page_token",
        Reason::BadPageToken,
        "The page token belongs to another request. Send the token of the previous page with the same filters and order, or none.",
    )
}

impl Engine {
    /// Appends events in one commit.
    pub async fn append_events(
        &self,
        context: &RequestContext,
        request: AppendEvents,
    ) -> Result<AppendAnswer, Error> {
        let AppendEvents { session, events, precondition, return_state } = request;
        let now = self.now();
        let last_invocation = events.last().and_then(|event| event.invocation_id.clone());
        // Partial events keep their places in the answer and never reach a store.
        let mut stored = Vec::with_capacity(events.len());
        let mut temps = Vec::new();
        let mut partial = Vec::new();
        for (at, request) in events.into_iter().enumerate() {
            if request.partial {
                partial.push((at, partial_event(request, now)));
                continue;
            }
            let (event, temp) = new_event(request);
            if let (false, Some(invocation)) = (temp.is_empty(), event.invocation_id.clone()) {
                temps.push((stored.len(), invocation, temp, event.field.clone()));
            }
            stored.push(event);
        }
        let mut answer = if stored.is_empty() {
            self.look_at(session, return_state).await?
        } else {
            let append =
                Append { session, events: stored, precondition, request: None, return_state };
            let appended = if temps.is_empty() {
                self.store.append(context, append).await
            } else {
                self.invocations.append(&self.store, context, append, temps, now).await
            };
            let Appended { info, events, state, request_replayed: _ } = appended?;
            AppendAnswer { info, events, state }
        };
        for (at, event) in partial {
            answer.events.insert(at, AppendedEvent { event: Arc::new(event), replayed: false });
        }
        if let (Some(state), Some(invocation)) = (&mut answer.state, last_invocation) {
            self.invocations.add_to(state, answer.info.incarnation, &invocation, now).await;
        }
        Ok(answer)
    }

    /// Reads the session for an append that stores nothing.
    async fn look_at(&self, session: SessionRef, with_state: bool) -> Result<AppendAnswer, Error> {
        let query = SessionQuery { session, as_of: None, with_state, events: None };
        let view = self.store.read_session(query).await?;
        Ok(AppendAnswer { info: view.info, events: Vec::new(), state: view.state })
    }

    /// Lists a session's events.
    pub async fn list_events(
        &self,
        _context: &RequestContext,
        request: ListEvents,
    ) -> Result<EventList, Error> {
        let ListEvents { key, wanted, descending, page_size, page_token: token } = request;
        let hash = request_hash(&wanted, descending);
        if let Some(token) = &token {
            let plain = request_hash(&EventsWanted::default(), false);
            if token.request != hash && !(token.from_session && hash == plain) {
                return Err(bad_page_token());
            }
        }
        let mut filter = wanted.filter;
        let (as_of, after, up_to, recent) = match &token {
            None => (None, wanted.after_sequence, None, wanted.recent),
            Some(token) => {
                if token.from_session {
                    filter.after_time = token.after_time;
                    filter.include_rewound = token.include_rewound;
                }
                (token.as_of, token.rest.after, token.rest.up_to, None)
            }
        };
        let selection = EventSelection {
            filter,
            after,
            up_to,
            recent,
            descending,
            max_items: page_size,
            max_bytes: MESSAGE_BYTES,
        };
        let query = EventQuery { key, as_of, selection };
        let (info, page) = match self.store.list_events(query).await {
            // The session that the token saw was longer: this is another one.
            Err(Error::BeyondLastSequence { .. }) if token.is_some() => {
                return Err(bad_page_token());
            }
            read => read?,
        };
        if token.as_ref().is_some_and(|token| token.incarnation != info.incarnation) {
            return Err(bad_page_token());
        }
        // `recent` counts from the newest event of the first page, also on the pages that follow.
        let rest = page.rest.map(|rest| match (recent, rest.up_to) {
            (Some(_), None) => Rest { up_to: Some(info.last_sequence), ..rest },
            _ => rest,
        });
        let next = token.unwrap_or(EventToken {
            incarnation: info.incarnation,
            request: hash,
            from_session: false,
            as_of,
            rest: Rest { after, up_to },
            after_time: None,
            include_rewound: false,
        });
        Ok(EventList::new(page.events, rest, next, descending))
    }
}

/// Splits off the `temp:` keys, which never reach a store.
fn new_event(request: EventRequest) -> (NewEvent, Delta) {
    let EventRequest {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        partial: _,
        delta,
        body,
        field,
    } = request;
    let fingerprint = event_fingerprint(
        invocation_id.as_ref(),
        &author,
        &branch,
        event_time,
        &delta,
        body.as_ref(),
    );
    let (delta, temp) = delta.split_temp();
    let event_id = event_id.unwrap_or_else(new_event_id);
    let event = NewEvent {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        delta,
        body,
        fingerprint,
        refusal: None,
        field,
    };
    (event, temp)
}

fn partial_event(request: EventRequest, now: Time) -> Event {
    Event {
        event_id: request.event_id.unwrap_or_else(new_event_id),
        sequence: 0,
        invocation_id: request.invocation_id,
        author: request.author,
        branch: request.branch,
        event_time: request.event_time.unwrap_or(now),
        commit_time: now,
        changes: crate::domain::event::Changes::default(),
        body: request.body,
        rewind_to: None,
        rewound: false,
        versions: ScopeVersions::default(),
    }
}
