//! The life of sessions.

use crate::{
    domain::{
        error::Error,
        id::{InvocationId, UserId},
        page::Rest,
        scope::SessionKey,
        session::{SessionInfo, State},
        token::{Digest, EventToken, SessionToken},
    },
    engine::{Engine, EventList, bad_page_token, events::request_hash},
    store::{
        Appended, CreateSession, Created, ForkSession, RequestContext, RewindSession, SessionOrder,
        SessionPage, SessionQuery, SessionUpdate, SessionView, SessionsQuery,
    },
};

/// A session as read.
#[derive(Clone, Debug)]
pub struct SessionAnswer {
    pub info: SessionInfo,
    pub state: Option<State>,
    /// Events, oldest first.
    pub events: EventList,
}

/// Sessions of one page. The caller may send fewer and continue behind them.
#[derive(Clone, Debug)]
pub struct SessionList {
    pub page: SessionPage,
    request: Digest,
}

impl SessionList {
    /// The token that continues behind the first `taken` sessions, at least one if there are any; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        let SessionPage { sessions, rest } = &self.page;
        let last = match taken.checked_sub(1).and_then(|at| sessions.get(at)) {
            Some((info, _)) if taken < sessions.len() => {
                let SessionKey { app_name: _, user_id, session_id } = info.key.clone();
                (info.last_event_time, user_id, session_id)
            }
            _ => rest.clone()?,
        };
        Some(SessionToken { request: self.request, last }.encode())
    }
}

/// Writes to which the engine adds nothing.
macro_rules! writes {
    ($($(#[$doc:meta])* $name:ident($request:ty) -> $answer:ty;)*) => {$(
        $(#[$doc])*
        pub async fn $name(
            &self,
            context: &RequestContext,
            request: $request,
        ) -> Result<$answer, Error> {
            self.store.$name(context, request).await
        }
    )*};
}

impl Engine {
    writes! {
        /// Creates a session, or returns an existing one if that is allowed.
        create_session(CreateSession) -> Created;
        /// Updates session metadata.
        update_session(SessionUpdate) -> SessionInfo;
        /// Creates a session from another's past; the answer holds its merged state.
        fork_session(ForkSession) -> (SessionInfo, State);
        /// Takes a session back to an earlier event; the answer holds the marker.
        rewind_session(RewindSession) -> Appended;
    }

    /// Reads a session; its state includes the `temp:` keys of `invocation`.
    pub async fn get_session(
        &self,
        _context: &RequestContext,
        query: SessionQuery,
        invocation: Option<InvocationId>,
    ) -> Result<SessionAnswer, Error> {
        let now = self.now();
        let selection = query.events.clone();
        let SessionView { info, mut state, events } = self.store.read_session(query).await?;
        if let (Some(state), Some(invocation)) = (&mut state, &invocation) {
            self.invocations.add_to(state, info.incarnation, invocation, now).await;
        }
        let events = selection.zip(events).map(|(selection, page)| {
            // The pages that follow show the session as of now, whatever is appended meanwhile.
            let token = EventToken {
                incarnation: info.incarnation,
                request: request_hash(&selection),
                from_session: true,
                as_of: Some(info.last_sequence),
                rest: Rest { after: 0, up_to: None },
                after_time: selection.filter.after_time,
                include_rewound: selection.filter.include_rewound,
            };
            EventList::new(page, token, false)
        });
        Ok(SessionAnswer { info, state, events: events.unwrap_or_default() })
    }

    /// Lists sessions; `token` is from the previous page.
    pub async fn list_sessions(
        &self,
        _context: &RequestContext,
        mut query: SessionsQuery,
        token: Option<SessionToken>,
    ) -> Result<SessionList, Error> {
        let request = list_hash(&query);
        if token.as_ref().is_some_and(|token| token.request != request) {
            return Err(bad_page_token("with the same filters and order"));
        }
        query.after = token.map(|token| token.last);
        Ok(SessionList { page: self.store.list_sessions(query).await?, request })
    }

    /// Deletes a session. A missing one is an error unless that is allowed.
    pub async fn delete_session(
        &self,
        context: &RequestContext,
        key: SessionKey,
        allow_missing: bool,
    ) -> Result<(), Error> {
        let missing = Error::not_found(&key);
        let deleted = self.store.delete_session(context, key).await?;
        if deleted || allow_missing { Ok(()) } else { Err(missing) }
    }
}

/// Hash of what a page token of a list of sessions belongs to.
fn list_hash(query: &SessionsQuery) -> Digest {
    let order = match query.order {
        SessionOrder::LeastRecent => "least",
        SessionOrder::MostRecent => "most",
    };
    let user = query.user_id.as_ref();
    let mut parts = vec![query.app_name.as_str(), user.map_or("", UserId::as_str), order];
    for (key, value) in query.labels.as_map() {
        parts.extend([key.as_str(), value.as_str()]);
    }
    Digest::of_texts(&parts)
}
