//! What the engine is asked and answers about the life of sessions.

use crate::{
    domain::{
        Sequence,
        id::{AppName, Author, DisplayName, EventId, InvocationId, SessionId, UserId},
        json::Json,
        precondition::Precondition,
        scope::{SessionKey, SessionRef, StateKey},
        session::{Labels, SessionInfo, State},
        time::Time,
        token::SessionToken,
    },
    engine::{EventList, EventsWanted},
    store::SessionOrder,
};

/// When a session ceases to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// At this instant.
    At(Time),
    /// So long from now; longer than nothing.
    After {
        /// Whole seconds.
        secs: i64,
        /// And nanoseconds.
        nanos: u32,
    },
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The application.
    pub app_name: AppName,
    /// The user.
    pub user_id: UserId,
    /// `None`: the engine makes one.
    pub session_id: Option<SessionId>,
    /// Initial state; each key once; `temp:` keys go nowhere.
    pub state: Vec<(StateKey, Json)>,
    /// For people.
    pub display_name: DisplayName,
    /// For filters.
    pub labels: Labels,
    /// When it ceases to exist; `None`: never.
    pub expiration: Option<Expiration>,
    /// Answer with what is there.
    pub allow_existing: bool,
}

/// A read of one session.
#[derive(Clone, Debug)]
pub struct GetSession {
    /// Which session.
    pub session: SessionRef,
    /// `None`: no events.
    pub events: Option<EventsWanted>,
    /// `None`: now.
    pub as_of: Option<Sequence>,
    /// Whose `temp:` keys to show.
    pub invocation_id: Option<InvocationId>,
    /// Leave the state out.
    pub without_state: bool,
}

/// A session as read.
#[derive(Clone, Debug)]
pub struct SessionAnswer {
    /// The session.
    pub info: SessionInfo,
    /// Merged state.
    pub state: Option<State>,
    /// Events, oldest first.
    pub events: EventList,
}

/// A list of sessions.
#[derive(Clone, Debug)]
pub struct ListSessions {
    /// Of this application.
    pub app_name: AppName,
    /// Of this user alone.
    pub user_id: Option<UserId>,
    /// Only those with all of these.
    pub labels: Labels,
    /// Order.
    pub order: SessionOrder,
    /// With merged state.
    pub include_state: bool,
    /// Items at most.
    pub page_size: usize,
    /// From the previous page.
    pub page_token: Option<SessionToken>,
}

/// Sessions of one page; the caller may answer with fewer and still go on.
#[derive(Clone, Debug)]
pub struct SessionList {
    /// In the order asked for.
    pub sessions: Vec<(SessionInfo, Option<State>)>,
    pub(super) request: u64,
    pub(super) rest: Option<(Time, UserId, SessionId)>,
}

impl SessionList {
    /// The token behind the first `taken` sessions, at least one where there are any; `None` where nothing follows them.
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

/// New values of what is not state.
#[derive(Clone, Debug)]
pub struct UpdateRequest {
    /// Address.
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
    /// Which session.
    pub key: SessionKey,
    /// The last event that stays visible.
    pub to: Sequence,
    /// `None`: the engine makes one.
    pub event_id: Option<EventId>,
    /// Who.
    pub author: Author,
    /// What must hold.
    pub precondition: Precondition,
}
