//! Queries to a store, and their results.

use crate::domain::{
    Sequence, Version,
    event::{Changes, Event},
    id::{AppName, Author, SessionId, UserId},
    json::Json,
    page::{EventPage, EventSelection},
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::{Incarnation, Labels, SessionInfo, State},
    time::Time,
    token::Position,
};

/// A read of one session.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    pub session: SessionRef,
    /// As it was right after this event; `None`: now.
    pub as_of: Option<Sequence>,
    pub with_state: bool,
    /// `None`: no events.
    pub events: Option<EventSelection>,
}

/// A session as read.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// As of an event, if the query named one.
    pub info: SessionInfo,
    /// Merged, if requested.
    pub state: Option<State>,
    /// If requested.
    pub events: Option<EventPage>,
}

/// Order of a list of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    /// Oldest `last_event_time` first; ties by user id, then session id, ascending.
    LeastRecent,
    /// Newest first; ties alike, ascending.
    MostRecent,
}

/// A list of sessions.
#[derive(Clone, Debug)]
pub struct SessionsQuery {
    pub app_name: AppName,
    /// Only sessions of this user.
    pub user_id: Option<UserId>,
    /// Only sessions with all of these labels.
    pub labels: Labels,
    pub order: SessionOrder,
    /// Only those behind this one in the order.
    pub after: Option<(Time, UserId, SessionId)>,
    /// Maximum number of items, at least 1.
    pub max_items: usize,
    /// Stop before the states' text exceeds this; the first session always comes.
    pub max_bytes: usize,
    pub with_state: bool,
}

/// Sessions of one page.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// In the requested order, with their states if requested.
    pub sessions: Vec<(SessionInfo, Option<State>)>,
    /// The last session looked at, behind which the next page begins; `None` at the end. A page may be short, even empty, and have
    /// more behind it.
    pub rest: Option<(Time, UserId, SessionId)>,
}

/// A read of a session's events.
#[derive(Clone, Debug)]
pub struct EventQuery {
    pub key: SessionKey,
    /// As of this event; `None`: now.
    pub as_of: Option<Sequence>,
    pub selection: EventSelection,
}

/// A read of state.
#[derive(Clone, Debug)]
pub struct StateQuery {
    pub scope: Scope,
    /// Only these (full keys); `None`: all. Keys that are not visible from the scope have no value.
    pub keys: Option<Vec<StateKey>>,
}

/// State as read.
#[derive(Clone, Debug)]
pub struct StateView {
    pub state: State,
    /// The position from which a watch continues.
    pub position: Position,
    /// The session, if the scope is one.
    pub info: Option<SessionInfo>,
}

/// A read of one key's changes.
#[derive(Clone, Debug)]
pub struct KeyChangeQuery {
    pub scope: Scope,
    /// A key that is visible from the scope.
    pub key: StateKey,
    /// Only versions below this; `None`: all.
    pub before: Option<Version>,
    /// Maximum number of items, at least 1.
    pub max_items: usize,
    /// Stop before the values' text exceeds this; the first change always comes.
    pub max_bytes: usize,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyChange {
    /// The version that the change made.
    pub version: Version,
    /// The new value; `None`: it was removed.
    pub value: Option<Json>,
    pub commit_time: Time,
    /// Empty for a creation.
    pub author: Author,
    /// The session and the event that made it; `None`: a change of a wider scope by request, or a creation.
    pub source: Option<(SessionKey, Sequence)>,
}

/// Changes of one page, newest first.
#[derive(Clone, Debug)]
pub struct KeyChangePage {
    pub changes: Vec<KeyChange>,
    /// Whether older ones are left.
    pub more: bool,
    /// The session's incarnation if the key is a session's own, otherwise 0.
    pub incarnation: Incarnation,
}

/// A read of what follows a position.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    pub scope: Scope,
    /// Its incarnation must be the live session's.
    pub position: Position,
    /// Maximum number of items, at least 1.
    pub max_items: usize,
    /// Stop before the items' text exceeds this; the first item always comes.
    pub max_bytes: usize,
}

/// A change of a wider scope.
#[derive(Clone, Debug, PartialEq)]
pub struct ScopeChange {
    /// Application or user.
    pub scope: ScopeKind,
    /// The version that it made.
    pub version: Version,
    /// Full keys and what they became, as far as that is still the newest.
    pub changes: Changes,
    pub commit_time: Time,
}

/// Events and changes behind a position.
#[derive(Clone, Debug)]
pub struct WatchPage {
    /// Events, in order.
    pub events: Vec<Event>,
    /// Changes of the application's, then of the user's state, each in order of version.
    pub changes: Vec<ScopeChange>,
    /// Behind all of this page, what it left out included.
    pub position: Position,
    /// Whether nothing was left at this point of time.
    pub complete: bool,
    /// When the session expires, if the scope is a session with an expiry.
    pub expire_time: Option<Time>,
}
