//! Appending events and listing them.

use std::mem::take;

use super::{Engine, List, bad_page_token, place, prelude::*};
use crate::store::{AppendedEvent, EventsQuery, EventsView};

/// The requests of one batch share this.
const SAME_REFS: &str = "with the same refs, of the same session";

/// The keys that appending these drops: `temp:` keys, which only an invocation can hold.
pub fn dropped_keys(append: &Append) -> impl Iterator<Item = &StateKey> {
    let stored = append.events.iter().filter(|event| !event.partial);
    let unheld = stored.filter(|event| event.invocation_id.is_none());
    unheld.flat_map(|event| event.delta.keys()).filter(|key| key.scope().is_none())
}

/// The events of a page; `token` is that of their request, with any rest.
pub fn list(page: EventPage, token: EventToken, descending: bool) -> List<Event> {
    let EventPage { events, rest, uncounted } = page;
    List::new(events, move |events, taken| {
        let last = events.last().map_or(0, |event| event.sequence);
        // If fewer are sent than were read and this page was the last one, its own last event is the end of the interval.
        let rest = match events.get(taken) {
            None => rest?,
            Some(next) if descending => {
                let after = rest.map_or(last.saturating_sub(1), |rest| rest.after);
                Rest { after, up_to: Some(next.sequence) }
            }
            Some(next) => {
                let up_to = rest.map_or(Some(last), |rest| rest.up_to);
                Rest { after: next.sequence.saturating_sub(1), up_to }
            }
        };
        Some(EventToken { rest, uncounted, ..token.clone() }.encode())
    })
}

/// The token for the events of a request; what it asks for is that of a read of a session, or of a list.
pub fn token(info: &SessionInfo, selection: &EventSelection, from_session: bool) -> EventToken {
    EventToken {
        incarnation: info.incarnation,
        request: request_hash(selection),
        from_session,
        // The pages that follow a session's first show the session as of now, whatever is appended meanwhile.
        as_of: from_session.then_some(info.last_sequence),
        rest: Rest::default(),
        after_time: selection.filter.after_time.filter(|_| from_session),
        include_rewound: selection.filter.include_rewound && from_session,
        uncounted: None,
    }
}

/// Hash of what a page token of a list of events belongs to: the same for every build, because clients send tokens to any replica.
fn request_hash(selection: &EventSelection) -> Digest {
    let EventSelection { filter, after, recent, descending, .. } = selection;
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    let time = after_time.map_or(String::new(), |it| format!("{}.{:09}", it.secs(), it.nanos()));
    let recent = recent.map_or(String::new(), |it| it.to_string());
    Digest::of_texts(&[
        "events",
        &time,
        &include_rewound.to_string(),
        &after.to_string(),
        &recent,
        &descending.to_string(),
        author.as_ref().map_or("", Author::as_str),
        invocation_id.as_ref().map_or("", InvocationId::as_str),
    ])
}

/// Hash of what a page token of events belongs to that a request names.
fn refs_hash(query: &EventsQuery) -> Digest {
    let text = |named: &EventRef| match named {
        EventRef::Id(id) => format!("i{id}"),
        EventRef::Sequence(sequence) => format!("s{sequence}"),
    };
    let refs: Vec<String> = query.refs.iter().map(text).collect();
    let mut texts = vec!["refs"];
    texts.extend(refs.iter().map(String::as_str));
    Digest::of_texts(&texts)
}

impl Engine {
    /// Whether the first poll of [`Engine::append_events`] submits these to the store, so that appends that are polled one after the
    /// other keep that order. Those that change an invocation's `temp:` keys wait for others that do first.
    pub fn submits_at_once(&self, append: &Append) -> bool {
        let changes_temp = |event: &NewEvent| {
            let named = event.invocation_id.is_some() && !event.partial;
            named && event.delta.keys().any(|key| key.scope().is_none())
        };
        !append.events.iter().any(changes_temp)
    }

    /// Appends events in one commit. A partial event is answered with sequence 0. The state includes the `temp:` keys of the last
    /// event's invocation.
    pub async fn append_events(
        &self,
        context: &RequestContext,
        mut append: Append,
    ) -> Result<Appended, Error> {
        let now = self.now();
        let last = append.events.last().filter(|_| append.return_state);
        let invocation = last.and_then(|it| it.invocation_id.clone());
        // Partial events keep their places in the answer and never reach a store.
        let (mut temps, mut fragments) = (Vec::new(), Vec::new());
        for (at, event) in append.events.iter_mut().enumerate() {
            if event.partial {
                let (changes, versions) = (Changes::default(), ScopeVersions::default());
                let event = Arc::new(event.stored(0, now, changes, versions, context.trace_id));
                fragments.push((at, AppendedEvent { event, replayed: false }));
                continue;
            }
            let (delta, temp) = take(&mut event.delta).split_temp();
            event.delta = delta;
            if let (false, Some(invocation)) = (temp.is_empty(), event.invocation_id.clone()) {
                temps.push((at - fragments.len(), invocation, temp, event.field.clone()));
            }
        }
        append.events.retain(|event| !event.partial);
        let mut answer = if append.events.is_empty() {
            self.store.check(context, &mut append)?;
            let Append { session, return_state: with_state, precondition, .. } = append;
            let query = SessionQuery { with_state, ..SessionQuery::info(session.clone()) };
            let SessionView { info, state, events: _ } =
                self.store.read_session(context, query).await?;
            session.require(&info.key)?;
            precondition.check_session(&info)?;
            Appended { info, events: Vec::new(), state, request_replayed: false }
        } else if temps.is_empty() {
            self.store.append(context, append).await?
        } else {
            self.invocations.append(&self.store, context, append, temps, now).await?
        };
        for (at, event) in fragments {
            answer.events.insert(at, event);
        }
        let incarnation = answer.info.incarnation;
        self.invocations.add_to(answer.state.as_mut(), incarnation, invocation, now).await;
        Ok(answer)
    }

    /// Reads events of a session by their ids and sequences; `token` is from the previous page. The answer has each ref with its event.
    pub async fn batch_get_events(
        &self,
        context: &RequestContext,
        mut query: EventsQuery,
        token: Option<RefToken>,
    ) -> Result<List<(EventRef, Option<Event>)>, Error> {
        let request = refs_hash(&query);
        let (of, answered) = place(token, request, SAME_REFS)?.unzip();
        let answered = answered.unwrap_or(0);
        let refs = query.refs.split_off(query.refs.len().min(answered as usize));
        query.refs.clone_from(&refs);
        let EventsView { incarnation, found } = self.store.read_events(context, query).await?;
        if of.is_some_and(|of| of != incarnation) {
            return Err(bad_page_token(SAME_REFS));
        }
        let all = refs.len();
        let items = refs.into_iter().zip(found).collect();
        Ok(List::new(items, move |_, taken| {
            let after = (incarnation, answered + taken as u64);
            (taken < all).then(|| PageToken { request, after }.encode())
        }))
    }

    /// Lists a session's events; `token` is from the previous page.
    pub async fn list_events(
        &self,
        context: &RequestContext,
        mut query: SessionQuery,
        token: Option<EventToken>,
    ) -> Result<List<Event>, Error> {
        let bad_token = || bad_page_token("with the same filters and order");
        let selection = query.events.get_or_insert_default();
        let asked = selection.clone();
        if let Some(token) = &token {
            let hash = request_hash(selection);
            let plain = EventSelection::default();
            if token.request != hash && !(token.from_session && hash == request_hash(&plain)) {
                return Err(bad_token());
            }
            if token.from_session {
                selection.filter.after_time = token.after_time;
                selection.filter.include_rewound = token.include_rewound;
            }
            (selection.after, selection.up_to) = (token.rest.after, token.rest.up_to);
            selection.recent = token.uncounted.map(|it| it.recent);
            selection.counted_to = token.uncounted.map(|it| it.counted_to);
            query.as_of = token.as_of;
        }
        let recent = selection.recent.is_some();
        let SessionView { info, events, state: _ } =
            match self.store.read_session(context, query).await {
                // The session that the token saw was longer: this is another one.
                Err(Error::BeyondLastSequence { .. }) if token.is_some() => return Err(bad_token()),
                read => read?,
            };
        let token = token.unwrap_or_else(|| self::token(&info, &asked, false));
        if token.incarnation != info.incarnation {
            return Err(bad_token());
        }
        let mut page = events.unwrap_or_default();
        // `recent` counts from the newest event of the first page, also on the pages that follow.
        if let Some(rest) = page.rest.as_mut().filter(|_| recent) {
            rest.up_to.get_or_insert(info.last_sequence);
        }
        Ok(list(page, token, asked.descending))
    }
}
