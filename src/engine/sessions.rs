//! The life of sessions.

use xxhash_rust::xxh3::xxh3_128;

use crate::{
    domain::{
        error::{Error, Reason},
        event::Fingerprint,
        id::UserId,
        limits::MESSAGE_BYTES,
        page::{EventSelection, Rest},
        scope::{Prefix, SessionKey},
        session::SessionInfo,
        time::Time,
        token::{EventToken, text_hash},
    },
    engine::{
        AppendAnswer, Engine, EventList, Expiration, ForkRequest, GetSession, ListSessions,
        NewSession, RewindRequest, SessionAnswer, SessionList, UpdateRequest, events::request_hash,
        new_event_id, new_session_id,
    },
    store::{
        CreateSession, Created, ForkSession, OnExisting, RewindSession, SessionOrder, SessionQuery,
        SessionUpdate, SessionView, SessionsQuery,
    },
};

impl Engine {
    /// Creates a session, or finds it where that is allowed.
    pub async fn create_session(&self, request: NewSession) -> Result<Created, Error> {
        let now = self.now();
        let expire_time = request.expiration.map(|at| expire_time(at, now)).transpose()?;
        let mut state = request.state;
        state.retain(|(key, _)| key.prefix() != Prefix::Temp);
        let create = CreateSession {
            key: SessionKey {
                app_name: request.app_name,
                user_id: request.user_id,
                session_id: request.session_id.unwrap_or_else(new_session_id),
            },
            state,
            display_name: request.display_name,
            labels: request.labels,
            expire_time,
            on_existing: if request.allow_existing {
                OnExisting::Return
            } else {
                OnExisting::Refuse
            },
            now,
        };
        self.store.create_session(create).await
    }

    /// Reads a session.
    pub async fn get_session(&self, request: GetSession) -> Result<SessionAnswer, Error> {
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
            now,
        };
        let SessionView { info, mut state, events } = self.store.read_session(query).await?;
        if let (Some(state), Some(invocation)) = (&mut state, &request.invocation_id) {
            self.invocations.add_to(state, info.incarnation, invocation, now).await;
        }
        let events = match events {
            None => EventList::default(),
            Some(page) => {
                let wanted = request.events.unwrap_or_default();
                // What follows this answer shows the same moment, whatever is appended meanwhile.
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
    pub async fn list_sessions(&self, request: ListSessions) -> Result<SessionList, Error> {
        let hash = list_hash(&request);
        let after = match request.page_token {
            None => None,
            Some(token) if token.request == hash => Some(token.last),
            Some(_) => {
                return Err(Error::invalid(
                    "page_token",
                    Reason::BadPageToken,
                    "The page token does not belong to this request; use the token of the previous page with the same filters and order, or begin without one.",
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
            now: self.now(),
        };
        let page = self.store.list_sessions(query).await?;
        Ok(SessionList { sessions: page.sessions, request: hash, rest: page.rest })
    }

    /// Changes what is not state.
    pub async fn update_session(&self, request: UpdateRequest) -> Result<SessionInfo, Error> {
        let now = self.now();
        let expire_time = match request.expiration {
            None => None,
            Some(None) => Some(None),
            Some(Some(at)) => Some(Some(expire_time(at, now)?)),
        };
        let UpdateRequest { key, display_name, labels, expiration: _ } = request;
        let update = SessionUpdate { key, display_name, labels, expire_time, now };
        self.store.update_session(update).await
    }

    /// Deletes a session. Whether there was one decides nothing where that is allowed.
    pub async fn delete_session(&self, key: SessionKey, allow_missing: bool) -> Result<(), Error> {
        let missing = Error::not_found(&key);
        let deleted = self.store.delete_session(key, self.now()).await?;
        if deleted || allow_missing { Ok(()) } else { Err(missing) }
    }

    /// Creates a session from another's past.
    pub async fn fork_session(&self, request: ForkRequest) -> Result<SessionAnswer, Error> {
        let fork = ForkSession {
            source: request.key,
            up_to: request.up_to,
            session_id: request.session_id.unwrap_or_else(new_session_id),
            now: self.now(),
        };
        let SessionView { info, state, events: _ } = self.store.fork_session(fork).await?;
        Ok(SessionAnswer { info, state, events: EventList::default() })
    }

    /// Takes a session back to an earlier event; the answer holds the marker.
    pub async fn rewind_session(&self, request: RewindRequest) -> Result<AppendAnswer, Error> {
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
            now: self.now(),
        };
        let appended = self.store.rewind_session(rewind).await?;
        Ok(AppendAnswer { info: appended.info, events: appended.events, state: appended.state })
    }
}

fn expire_time(at: Expiration, now: Time) -> Result<Time, Error> {
    match at {
        Expiration::At(time) if time > now => Ok(time),
        Expiration::At(_) => Err(Error::invalid(
            "session.expire_time",
            Reason::BadValue,
            "The expire time is not in the future; choose a later one, or delete the session.",
        )),
        Expiration::After { secs, nanos } => now.plus(secs, nanos).ok_or_else(|| {
            Error::invalid(
                "session.ttl",
                Reason::BadValue,
                "The time to live ends after the year 9999; choose a shorter one, or none for a session that stays.",
            )
        }),
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
