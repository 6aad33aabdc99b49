//! Appending events and listing them.

use std::{mem::take, sync::Arc};

use crate::{
    domain::{
        error::Error,
        event::{Changes, Event, NewEvent, ScopeVersions},
        id::{Author, InvocationId},
        page::{EventFilter, EventPage, EventSelection, Rest, narrow},
        precondition::Precondition,
        scope::SessionRef,
        token::{Digest, EventToken},
    },
    engine::{Engine, bad_page_token},
    store::{Append, Appended, AppendedEvent, EventQuery, RequestContext, SessionQuery},
};

/// An event as a caller sends it, with the `temp:` keys of its delta.
#[derive(Clone, Debug)]
pub struct EventRequest {
    pub event: NewEvent,
    /// A fragment of a streamed answer: answered, never stored.
    pub partial: bool,
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
        let changes_temp = |EventRequest { event, partial }: &EventRequest| {
            let named = event.invocation_id.is_some() && !partial;
            named && event.delta.keys().any(|key| key.scope().is_none())
        };
        !self.events.iter().any(changes_temp)
    }
}

/// Events of one page. The caller may send fewer and continue behind them.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// In the order asked for.
    pub events: Vec<Event>,
    rest: Option<Rest>,
    /// `None` if no page can follow.
    token: Option<EventToken>,
    descending: bool,
}

impl EventList {
    pub(super) fn new(page: EventPage, token: EventToken, descending: bool) -> Self {
        Self { events: page.events, rest: page.rest, token: Some(token), descending }
    }

    /// The token that continues behind the first `taken` events; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        let token = self.token.as_ref()?;
        let rest = if taken >= self.events.len() { self.rest? } else { self.rest_behind(taken) };
        Some(EventToken { rest, ..token.clone() }.encode())
    }

    /// The rest of the selection if fewer events are sent than were read.
    fn rest_behind(&self, taken: usize) -> Rest {
        let sequence = |event: Option<&Event>| event.map_or(0, |event| event.sequence);
        let (first, last) = (sequence(self.events.first()), sequence(self.events.last()));
        // If this page was the last one, its own last event is the end of the interval.
        let interval = if self.descending {
            let after = self.rest.map_or(last.saturating_sub(1), |rest| rest.after);
            Rest { after, up_to: Some(first) }
        } else {
            let up_to = self.rest.map_or(Some(last), |rest| rest.up_to);
            Rest { after: first.saturating_sub(1), up_to }
        };
        match taken.checked_sub(1).and_then(|at| self.events.get(at)) {
            Some(event) => narrow(interval, self.descending, event.sequence),
            None => interval,
        }
    }
}

/// Hash of what a page token of a list of events belongs to.
pub(super) fn request_hash(selection: &EventSelection) -> Digest {
    let EventSelection { filter, after, recent, descending, .. } = selection;
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    Digest::of_texts(&[
        &format!("{after_time:?} {include_rewound} {after} {recent:?} {descending}"),
        author.as_ref().map_or("", Author::as_str),
        invocation_id.as_ref().map_or("", InvocationId::as_str),
    ])
}

impl Engine {
    /// Appends events in one commit. A partial event is answered with sequence 0. The state includes the `temp:` keys of the last
    /// event's invocation.
    pub async fn append_events(
        &self,
        context: &RequestContext,
        request: AppendEvents,
    ) -> Result<Appended, Error> {
        let AppendEvents { session, events, precondition, return_state } = request;
        let now = self.now();
        let last_invocation = events.last().and_then(|it| it.event.invocation_id.clone());
        // Partial events keep their places in the answer and never reach a store.
        let mut stored = Vec::with_capacity(events.len());
        let (mut temps, mut fragments) = (Vec::new(), Vec::new());
        for (at, EventRequest { mut event, partial }) in events.into_iter().enumerate() {
            if partial {
                let (changes, versions) = (Changes::default(), ScopeVersions::default());
                fragments.push((at, event.stored(0, now, changes, versions)));
                continue;
            }
            let (delta, temp) = take(&mut event.delta).split_temp();
            event.delta = delta;
            if let (false, Some(invocation)) = (temp.is_empty(), event.invocation_id.clone()) {
                temps.push((stored.len(), invocation, temp, event.field.clone()));
            }
            stored.push(event);
        }
        let mut answer = if stored.is_empty() {
            let query = SessionQuery { with_state: return_state, ..SessionQuery::info(session) };
            let view = self.store.read_session(query).await?;
            let (info, state) = (view.info, view.state);
            Appended { info, events: Vec::new(), state, request_replayed: false }
        } else {
            let append =
                Append { session, events: stored, precondition, request: None, return_state };
            if temps.is_empty() {
                self.store.append(context, append).await?
            } else {
                self.invocations.append(&self.store, context, append, temps, now).await?
            }
        };
        for (at, event) in fragments {
            answer.events.insert(at, AppendedEvent { event: Arc::new(event), replayed: false });
        }
        if let (Some(state), Some(invocation)) = (&mut answer.state, last_invocation) {
            self.invocations.add_to(state, answer.info.incarnation, &invocation, now).await;
        }
        Ok(answer)
    }

    /// Lists a session's events; `token` is from the previous page.
    pub async fn list_events(
        &self,
        _context: &RequestContext,
        mut query: EventQuery,
        token: Option<EventToken>,
    ) -> Result<EventList, Error> {
        let hash = request_hash(&query.selection);
        let selection = &mut query.selection;
        if let Some(token) = &token {
            let plain = EventSelection::default();
            if token.request != hash && !(token.from_session && hash == request_hash(&plain)) {
                return Err(bad_page_token("with the same filters and order"));
            }
            if token.from_session {
                selection.filter.after_time = token.after_time;
                selection.filter.include_rewound = token.include_rewound;
            }
            (selection.after, selection.up_to) = (token.rest.after, token.rest.up_to);
            (selection.recent, query.as_of) = (None, token.as_of);
        }
        let (recent, descending) = (selection.recent.is_some(), selection.descending);
        let rest = Rest { after: selection.after, up_to: selection.up_to };
        let (info, mut page) = match self.store.list_events(query).await {
            // The session that the token saw was longer: this is another one.
            Err(Error::BeyondLastSequence { .. }) if token.is_some() => {
                return Err(bad_page_token("with the same filters and order"));
            }
            read => read?,
        };
        let token = token.unwrap_or(EventToken {
            incarnation: info.incarnation,
            request: hash,
            from_session: false,
            as_of: None,
            rest,
            after_time: None,
            include_rewound: false,
        });
        if token.incarnation != info.incarnation {
            return Err(bad_page_token("with the same filters and order"));
        }
        // `recent` counts from the newest event of the first page, also on the pages that follow.
        if let Some(rest) = page.rest.as_mut().filter(|_| recent) {
            rest.up_to.get_or_insert(info.last_sequence);
        }
        Ok(EventList::new(page, token, descending))
    }
}
