//! What a store is asked and what it answers.

use crate::domain::{
    Sequence, Version,
    delta::Delta,
    event::{Changes, Event, Fingerprint, NewEvent},
    id::{AppName, Author, DisplayName, EventId, RequestId, SessionId, UserId},
    json::Json,
    page::{EventPage, EventSelection},
    precondition::Precondition,
    scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
    session::{Labels, SessionInfo, State},
    time::Time,
    token::Position,
};

/// What creation does where the address is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    /// Refuse.
    Refuse,
    /// Answer with what is there, unchanged.
    Return,
}

/// A session to create.
#[derive(Clone, Debug)]
pub struct CreateSession {
    /// Address.
    pub key: SessionKey,
    /// Initial state: full keys, each once, no `temp:`.
    pub state: Vec<(StateKey, Json)>,
    /// For people.
    pub display_name: DisplayName,
    /// For filters.
    pub labels: Labels,
    /// When it ceases to exist.
    pub expire_time: Option<Time>,
    /// Where the address is taken.
    pub on_existing: OnExisting,
    /// Server clock.
    pub now: Time,
}

/// A session as created or found.
#[derive(Clone, Debug)]
pub struct Created {
    /// The session.
    pub info: SessionInfo,
    /// Its merged state.
    pub state: State,
    /// False where it was there before.
    pub created: bool,
}

/// New values of what is not state; `None`: as it is.
#[derive(Clone, Debug)]
pub struct SessionUpdate {
    /// Address.
    pub key: SessionKey,
    /// For people.
    pub display_name: Option<DisplayName>,
    /// All labels.
    pub labels: Option<Labels>,
    /// `Some(None)`: never.
    pub expire_time: Option<Option<Time>>,
    /// Server clock.
    pub now: Time,
}

/// A session to create from another's past.
#[derive(Clone, Debug)]
pub struct ForkSession {
    /// The source.
    pub source: SessionKey,
    /// The last event to take over; `None`: all.
    pub up_to: Option<Sequence>,
    /// Id of the new session, of the same user.
    pub session_id: SessionId,
    /// Server clock.
    pub now: Time,
}

/// What makes a change of state idempotent within its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub id: RequestId,
    /// What it asks for.
    pub fingerprint: Fingerprint,
}

/// Events to append to one session.
#[derive(Clone, Debug)]
pub struct Append {
    /// Which session.
    pub session: SessionRef,
    /// At least one.
    pub events: Vec<NewEvent>,
    /// Checked once, before the first.
    pub precondition: Precondition,
    /// Where this is a change of state by request.
    pub request: Option<Request>,
    /// Answer with the merged state right after the commit.
    pub return_state: bool,
    /// Server clock.
    pub now: Time,
}

/// What an append did.
#[derive(Clone, Debug)]
pub struct Appended {
    /// The session right after the commit.
    pub info: SessionInfo,
    /// The events as stored, in the order asked; none where a [`Request`] was a replay.
    pub events: Vec<AppendedEvent>,
    /// Merged state right after the commit, where asked for.
    pub state: Option<State>,
    /// Whether a [`Request`] had been carried out before.
    pub request_replayed: bool,
}

/// One event as stored.
#[derive(Clone, Debug)]
pub struct AppendedEvent {
    /// The event.
    pub event: Event,
    /// It had been stored before.
    pub replayed: bool,
}

/// A rewind.
#[derive(Clone, Debug)]
pub struct RewindSession {
    /// Which session.
    pub key: SessionKey,
    /// The last event that stays visible; 0: none.
    pub to: Sequence,
    /// Id of the marker.
    pub event_id: EventId,
    /// Who.
    pub author: Author,
    /// What was asked: `to` and `author`.
    pub fingerprint: Fingerprint,
    /// Checked before the rewind, unless it is a replay.
    pub precondition: Precondition,
    /// Server clock.
    pub now: Time,
}

/// A change of an application's or a user's state.
#[derive(Clone, Debug)]
pub struct StateUpdate {
    /// Never a session's.
    pub scope: Scope,
    /// Only keys of the scope, and for a user of its application.
    pub delta: Delta,
    /// What must hold.
    pub precondition: Precondition,
    /// Who.
    pub author: Author,
    /// What makes it idempotent.
    pub request: Option<Request>,
    /// Server clock.
    pub now: Time,
}

/// What a change of state did.
#[derive(Clone, Debug)]
pub struct StateUpdated {
    /// What is visible from the scope now.
    pub state: State,
    /// It had been carried out before.
    pub replayed: bool,
}

/// A read of one session.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    /// Which session.
    pub session: SessionRef,
    /// As it was right after this event; `None`: now.
    pub as_of: Option<Sequence>,
    /// With merged state.
    pub with_state: bool,
    /// With these events; `None`: without any.
    pub events: Option<EventSelection>,
    /// Server clock.
    pub now: Time,
}

/// A session as read.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// The session; as of an event where that was asked.
    pub info: SessionInfo,
    /// Merged state, where asked for.
    pub state: Option<State>,
    /// Events, where asked for.
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
    /// Of this application.
    pub app_name: AppName,
    /// Of this user alone.
    pub user_id: Option<UserId>,
    /// Only those with all of these.
    pub labels: Labels,
    /// Order.
    pub order: SessionOrder,
    /// Only those behind this one in the order.
    pub after: Option<(Time, UserId, SessionId)>,
    /// Items at most, at least 1.
    pub max_items: usize,
    /// Stop before the states' text exceeds this; the first session always comes.
    pub max_bytes: usize,
    /// With merged state in each.
    pub with_state: bool,
    /// Server clock.
    pub now: Time,
}

/// Sessions of one page.
#[derive(Clone, Debug)]
pub struct SessionPage {
    /// In the order asked for, with their states where asked for.
    pub sessions: Vec<(SessionInfo, Option<State>)>,
    /// The last session looked at, behind which the next page begins; `None` at the end. A page may be short, even empty, and have
    /// more behind it.
    pub rest: Option<(Time, UserId, SessionId)>,
}

/// A read of a session's events.
#[derive(Clone, Debug)]
pub struct EventQuery {
    /// Which session.
    pub key: SessionKey,
    /// As of this event; `None`: now.
    pub as_of: Option<Sequence>,
    /// Which events.
    pub selection: EventSelection,
    /// Server clock.
    pub now: Time,
}

/// A read of state.
#[derive(Clone, Debug)]
pub struct StateQuery {
    /// From where.
    pub scope: Scope,
    /// Only these (full keys); `None`: all. Keys that are not visible from the scope have no value.
    pub keys: Option<Vec<StateKey>>,
    /// Server clock.
    pub now: Time,
}

/// State as read.
#[derive(Clone, Debug)]
pub struct StateView {
    /// What is visible.
    pub state: State,
    /// Where a watch would go on from here.
    pub position: Position,
    /// The session, where the scope is one.
    pub info: Option<SessionInfo>,
}

/// A read of one key's changes.
#[derive(Clone, Debug)]
pub struct KeyChangeQuery {
    /// From where.
    pub scope: Scope,
    /// A key that is visible from there.
    pub key: StateKey,
    /// Only versions below this; `None`: all.
    pub before: Option<Version>,
    /// Items at most, at least 1.
    pub max_items: usize,
    /// Stop before the values' text exceeds this; the first change always comes.
    pub max_bytes: usize,
    /// Server clock.
    pub now: Time,
}

/// How a key came to a value.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyChange {
    /// The version that the change made.
    pub version: Version,
    /// The new value; `None`: it was removed.
    pub value: Option<Json>,
    /// Server clock at commit.
    pub commit_time: Time,
    /// Who; empty for a creation.
    pub author: Author,
    /// The session and the event that made it; `None`: a change of a wider scope by request, or a creation.
    pub source: Option<(SessionKey, Sequence)>,
}

/// Changes of one page, newest first.
#[derive(Clone, Debug)]
pub struct KeyChangePage {
    /// The changes.
    pub changes: Vec<KeyChange>,
    /// Whether older ones are left.
    pub more: bool,
    /// The session's incarnation where the key is a session's own; otherwise 0.
    pub incarnation: crate::domain::session::Incarnation,
}

/// A read of what follows a position.
#[derive(Clone, Debug)]
pub struct WatchQuery {
    /// Which scope.
    pub scope: Scope,
    /// After what. Its incarnation must be the live session's.
    pub position: Position,
    /// Items at most, at least 1.
    pub max_items: usize,
    /// Stop before the items' text exceeds this; the first item always comes.
    pub max_bytes: usize,
    /// Server clock.
    pub now: Time,
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
    /// Server clock at commit.
    pub commit_time: Time,
}

/// What follows a position.
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
    /// When the session ceases to exist, where the scope is a session with an expiry.
    pub expire_time: Option<Time>,
}
