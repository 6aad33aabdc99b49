//! The life of sessions.

use xxhash_rust::xxh3::xxh3_128;

use crate::{
    domain::{
        error::{Error, Reason},
        event::Fingerprint,
        id::UserId,
        limits::MESSAGE_BYTES,
        page::{EventSelection, Rest},
        scope::SessionKey,
        session::SessionInfo,
        token::{EventToken, text_hash},
    },
    engine::{
        AppendAnswer, Engine, EventList, ForkRequest, GetSession, ListSessions, NewSession,
        RewindRequest, SessionAnswer, SessionList, UpdateRequest, events::request_hash,
        new_event_id, new_session_id,
    },
    store::{
        CreateSession, Created, DeleteSession, ForkSession, OnExisting, RequestContext,
        RewindSession, SessionOrder, SessionQuery, SessionUpdate, SessionView, SessionsQuery,
    },
};

impl Engine {
    /// Creates a session, or returns an existing one if that is allowed.
    pub async fn create_session(
        &self,
        context: &RequestContext,
        request: NewSession,
    ) -> Result<Created, Error> {
        let create = CreateSession {
            key: SessionKey {
                app_name: request.app_name,
                user_id: request.user_id,
                session_id: request.session_id.unwrap_or_else(new_session_id),
            },
            state: request.state,
            display_name: request.display_name,
            labels: request.labels,
            expiration: request.expiration,
            on_existing: if request.allow_existing {
                OnExisting::Return
            } else {
                OnExisting::Refuse
            },
        };
        self.store.create_session(context, create).await
    }

    /// Reads a session.
    pub async fn get_session(
        &self,
        _context: &RequestContext,
        request: GetSession,
    ) -> Result<SessionAnswer, Error> {
        let now = self.now();
        let selection = request.events.as_ref().map(|wanted| EventSelection {
            filter: wanted.filter.clone(),
            after: wanted.after_sequence,
            up_to: None,
            recent: wanted.recent,
            descending: false,
            max_items: usize::MAX,
            max_bytes: MESSAGE_BYTES,
        });
        let query = SessionQuery {
            session: request.session,
            as_of: request.as_of,
            with_state: !request.without_state,
            events: selection,
        };
        let SessionView { info, mut state, events } = self.store.read_session(query).await?;
        if let (Some(state), Some(invocation)) = (&mut state, &request.invocation_id) {
            self.invocations.add_to(state, info.incarnation, invocation, now).await;
        }
        let events = match events {
            None => EventList::default(),
            Some(page) => {
                let wanted = request.events.unwrap_or_default();
                // The pages that follow show the session as of now, whatever is appended meanwhile.
                let token = EventToken {
                    incarnation: info.incarnation,
                    request: request_hash(&wanted, false),
                    from_session: true,
                    as_of: Some(info.last_sequence),
                    rest: Rest { after: 0, up_to: None },
                    after_time: wanted.filter.after_time,
                    include_rewound: wanted.filter.include_rewound,
                };
                EventList::new(page.events, page.rest, token, false)
            }
        };
        Ok(SessionAnswer { info, state, events })
    }

    /// Lists sessions.
    pub async fn list_sessions(
        &self,
        _context: &RequestContext,
        request: ListSessions,
    ) -> Result<SessionList, Error> {
        let hash = list_hash(&request);
        let after = match request.page_token {
            None => None,
            Some(token) if token.request == hash => Some(token.last),
            Some(_) => {
                return Err(Error::invalid(
                    "page_token",
                    Reason::BadPageToken,
                    "The page token belongs to another request. Send the token of the previous page with the same filters and order, or none.",
                ));
            }
        };
        let query = SessionsQuery {
            app_name: request.app_name,
            user_id: request.user_id,
            labels: request.labels,
            order: request.order,
            after,
            max_items: request.page_size,
            max_bytes: MESSAGE_BYTES,
            with_state: request.include_state,
        };
        let page = self.store.list_sessions(query).await?;
        Ok(SessionList { sessions: page.sessions, request: hash, rest: page.rest })
    }

    /// Updates session metadata.
    pub async fn update_session(
        &self,
        context: &RequestContext,
        request: UpdateRequest,
    ) -> Result<SessionInfo, Error> {
        let UpdateRequest { key, display_name, labels, expiration } = request;
        let update = SessionUpdate { key, display_name, labels, expiration };
        self.store.update_session(context, update).await
    }

    /// Deletes a session. A missing one is an error unless that is allowed.
    pub async fn delete_session(
        &self,
        context: &RequestContext,
        key: SessionKey,
        allow_missing: bool,
    ) -> Result<(), Error> {
        let missing = Error::not_found(&key);
        let deleted = self.store.delete_session(context, DeleteSession { key }).await?;
        if deleted || allow_missing { Ok(()) } else { Err(missing) }
    }

    /// Creates a session from another's past.
    pub async fn fork_session(
        &self,
        context: &RequestContext,
        request: ForkRequest,
    ) -> Result<SessionAnswer, Error> {
        let fork = ForkSession {
            source: request.key,
            up_to: request.up_to,
            session_id: request.session_id.unwrap_or_else(new_session_id),
        };
        let (info, state) = self.store.fork_session(context, fork).await?;
        Ok(SessionAnswer { info, state: Some(state), events: EventList::default() })
    }

    /// Takes a session back to an earlier event; the answer holds the marker.
    pub async fn rewind_session(
        &self,
        context: &RequestContext,
        request: RewindRequest,
    ) -> Result<AppendAnswer, Error> {
        let RewindRequest { key, to, event_id, author, precondition } = request;
        let mut content = Vec::from(*b"rewind");
        content.extend(to.to_le_bytes());
        content.extend(author.as_str().as_bytes());
        let rewind = RewindSession {
            key,
            to,
            event_id: event_id.unwrap_or_else(new_event_id),
            author,
            fingerprint: Fingerprint(xxh3_128(&content)),
            precondition,
        };
        let appended = self.store.rewind_session(context, rewind).await?;
        Ok(AppendAnswer { info: appended.info, events: appended.events, state: appended.state })
    }
}

/// Hash of what a page token of a list of sessions belongs to.
fn list_hash(request: &ListSessions) -> u64 {
    let order = match request.order {
        SessionOrder::LeastRecent => "least",
        SessionOrder::MostRecent => "most",
    };
    let user = request.user_id.as_ref();
    let mut parts = vec![request.app_name.as_str(), user.map_or("", UserId::as_str), order];
    for (key, value) in request.labels.as_map() {
        parts.extend([key.as_str(), value.as_str()]);
    }
    text_hash(&parts)
}
