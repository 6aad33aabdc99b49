//! Requests and answers of the engine about sessions.

use crate::{
    domain::{
        Sequence,
        id::{AppName, Author, DisplayName, EventId, InvocationId, SessionId, UserId},
        json::Json,
        precondition::Precondition,
        scope::{SessionKey, SessionRef, StateKey},
        session::{Expiration, Labels, SessionInfo, State},
        time::Time,
        token::SessionToken,
    },
    engine::{EventList, EventsWanted},
    store::SessionOrder,
};

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub app_name: AppName,
    pub user_id: UserId,
    /// `None`: the engine makes one.
    pub session_id: Option<SessionId>,
    /// Initial state; each key once; `temp:` keys go nowhere.
    pub state: Vec<(StateKey, Json)>,
    pub display_name: DisplayName,
    pub labels: Labels,
    /// When it ceases to exist; `None`: never.
    pub expiration: Option<Expiration>,
    /// Return an existing session instead of refusing.
    pub allow_existing: bool,
}

/// A read of one session.
#[derive(Clone, Debug)]
pub struct GetSession {
    pub session: SessionRef,
    /// `None`: no events.
    pub events: Option<EventsWanted>,
    /// `None`: now.
    pub as_of: Option<Sequence>,
    /// Include the `temp:` keys of this invocation.
    pub invocation_id: Option<InvocationId>,
    pub without_state: bool,
}

/// A session as read.
#[derive(Clone, Debug)]
pub struct SessionAnswer {
    pub info: SessionInfo,
    pub state: Option<State>,
    /// Events, oldest first.
    pub events: EventList,
}

/// A list of sessions.
#[derive(Clone, Debug)]
pub struct ListSessions {
    pub app_name: AppName,
    /// Only sessions of this user.
    pub user_id: Option<UserId>,
    /// Only sessions with all of these labels.
    pub labels: Labels,
    pub order: SessionOrder,
    pub include_state: bool,
    /// Maximum number of items.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<SessionToken>,
}

/// Sessions of one page. The caller may send fewer and continue behind them.
#[derive(Clone, Debug)]
pub struct SessionList {
    /// In the order asked for.
    pub sessions: Vec<(SessionInfo, Option<State>)>,
    pub(super) request: u64,
    pub(super) rest: Option<(Time, UserId, SessionId)>,
}

impl SessionList {
    /// The token that continues behind the first `taken` sessions, at least one if there are any; `None` if nothing follows them.
    pub fn next_page_token(&self, taken: usize) -> Option<String> {
        let last = match taken.checked_sub(1).and_then(|at| self.sessions.get(at)) {
            Some((info, _)) if taken < self.sessions.len() => {
                let SessionKey { app_name: _, user_id, session_id } = info.key.clone();
                (info.last_event_time, user_id, session_id)
            }
            _ => self.rest.clone()?,
        };
        Some(SessionToken { request: self.request, last }.encode())
    }
}

/// New values of a session's metadata.
#[derive(Clone, Debug)]
pub struct UpdateRequest {
    pub key: SessionKey,
    /// `None`: as it is.
    pub display_name: Option<DisplayName>,
    /// `None`: as they are.
    pub labels: Option<Labels>,
    /// `None`: as it is; `Some(None)`: never.
    pub expiration: Option<Option<Expiration>>,
}

/// A session to create from another's past.
#[derive(Clone, Debug)]
pub struct ForkRequest {
    /// The source.
    pub key: SessionKey,
    /// `None`: all events.
    pub up_to: Option<Sequence>,
    /// `None`: the engine makes one.
    pub session_id: Option<SessionId>,
}

/// A rewind.
#[derive(Clone, Debug)]
pub struct RewindRequest {
    pub key: SessionKey,
    /// The last event that stays visible.
    pub to: Sequence,
    /// `None`: the engine makes one.
    pub event_id: Option<EventId>,
    pub author: Author,
    pub precondition: Precondition,
}
