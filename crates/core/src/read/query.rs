//! Queries to a store, their results, and how much of a page is taken.

use super::ListKey;
use crate::domain::{
    permission::{Pattern, Users},
    prelude::*,
    token::NamePlace,
};

#[derive(Clone, Debug)]
pub struct SessionQuery {
    pub session: SessionRef,
    /// As it was right after this event; `None`: now.
    pub as_of: Option<Sequence>,
    pub with_state: bool,
    /// `None`: no events.
    pub events: Option<EventSelection>,
}

impl SessionQuery {
    /// A session as it is now, without state and events.
    pub fn info(session: SessionRef) -> Self {
        Self { session, as_of: None, with_state: false, events: None }
    }
}

#[derive(Clone, Debug)]
pub struct SessionView {
    /// As of an event, if the query named one.
    pub info: SessionInfo,
    /// Merged, if requested.
    pub state: Option<State>,
    /// If requested.
    pub events: Option<EventPage>,
}

/// Events of a session by their ids and sequences.
#[derive(Clone, Debug)]
pub struct EventsQuery {
    pub key: SessionKey,
    pub refs: Vec<EventRef>,
    /// Stop before the events' [`bytes`](Event::bytes) exceed this; the first one always comes.
    pub max_bytes: usize,
}

/// The events that the first refs name, or all of them.
#[derive(Clone, Debug)]
pub struct EventsView {
    pub incarnation: Incarnation,
    /// `None`: no event of the session. One that a rewind hid is marked.
    pub found: Vec<Option<Event>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    /// Oldest `last_event_time` first; ties by user id, then session id, ascending.
    LeastRecent,
    /// Newest first; ties alike, ascending.
    MostRecent,
}

#[derive(Clone, Debug)]
pub struct SessionsQuery {
    pub app_name: AppName,
    /// Only sessions of this user.
    pub user_id: Option<UserId>,
    /// Without one: only sessions of these.
    pub seen: Users,
    /// Only sessions with all of these labels.
    pub labels: Labels,
    pub order: SessionOrder,
    /// Only those behind this one in the order.
    pub after: Option<ListKey>,
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
    /// The last session looked at, behind which the next page begins; `None` at the end. A short or even empty page may have more behind
    /// it.
    pub rest: Option<ListKey>,
}

#[derive(Clone, Debug)]
pub struct ApplicationsQuery {
    /// Only those that match one of these; `None`: all.
    pub seen: Option<Vec<Pattern>>,
    /// Only those behind this place.
    pub after: Option<NamePlace>,
    /// Maximum number of items, at least 1.
    pub max_items: usize,
}

#[derive(Clone, Debug)]
pub struct UsersQuery {
    pub app_name: AppName,
    /// Only those that match one of these; `None`: all.
    pub seen: Option<Vec<Pattern>>,
    /// Only those behind this place.
    pub after: Option<NamePlace>,
    /// Maximum number of items, at least 1.
    pub max_items: usize,
}

/// Names of one page, in byte order.
#[derive(Clone, Debug, PartialEq)]
pub struct NamePage<T> {
    pub names: Vec<T>,
    /// Where the next page begins; `None` at the end. A short or even empty page may have more behind it.
    pub rest: Option<NamePlace>,
}

#[derive(Clone, Debug)]
pub struct StateQuery {
    pub scope: Scope,
    /// Only these (full keys); `None`: all. Keys that are not visible from the scope have no value.
    pub keys: Option<Vec<StateKey>>,
}

#[derive(Clone, Debug)]
pub struct StateView {
    pub state: State,
    /// The position from which a watch continues.
    pub position: Position,
    /// The session, if the scope is one.
    pub info: Option<SessionInfo>,
    pub bases: Bases,
}

/// The versions from which the present lives of an application and a user went on. A position of one of their earlier lives is not after
/// them, except for 0, which is before everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases(pub ScopeVersions);

impl Bases {
    /// Of one scope, by its version and the base of its row.
    pub fn of(version: Version, base: Version) -> Version {
        // Of nothing, every position but 0 is from an earlier life.
        if version == 0 { Version::MAX } else { base }
    }

    /// Whether a position is from an earlier life, whose end a watch may have missed.
    pub fn are_past(self, position: ScopeVersions) -> bool {
        let is_past = |at: Version, base: Version| at > 0 && at <= base;
        is_past(position.application, self.0.application) || is_past(position.user, self.0.user)
    }

    /// The life of an application or a user that was read at a position.
    pub fn life(self, scope: &Scope, position: ScopeVersions) -> Option<Life> {
        let (version, base) = match scope.kind() {
            ScopeKind::Application => (position.application, self.0.application),
            ScopeKind::User => (position.user, self.0.user),
            ScopeKind::Session => return None,
        };
        (version > 0).then(|| Life::of_scope(scope, base))
    }
}

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

#[derive(Clone, Debug, PartialEq)]
pub struct KeyChange {
    /// The version that the change made.
    pub version: Version,
    /// The new value; `None`: it was removed.
    pub value: Option<Json>,
    pub commit_time: Time,
    /// Empty for a creation.
    pub author: Author,
    /// The session and the event that made it; `None`: a change of a shared scope by request, or a creation.
    pub source: Option<(SessionKey, Sequence)>,
}

/// Changes of one page, newest first.
#[derive(Clone, Debug)]
pub struct KeyChangePage {
    pub changes: Vec<KeyChange>,
    /// Only changes below this version are left; `None`: none.
    pub rest: Option<Version>,
    /// The session's incarnation if the key is a session's own, otherwise 0.
    pub incarnation: Incarnation,
}

impl KeyChangePage {
    pub fn empty(incarnation: Incarnation) -> Self {
        Self { changes: Vec::new(), rest: None, incarnation }
    }

    /// Adds a change that fits. Returns whether it did.
    pub fn put(&mut self, change: KeyChange, budget: &mut Budget) -> bool {
        let fits = budget.take(change.value.as_ref().map_or(0, Json::len));
        if fits {
            self.changes.push(change);
        }
        fits
    }
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

/// A change of a shared scope.
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
    pub bases: Bases,
}

/// The items and bytes that a page may still take. The first item always fits.
pub struct Budget {
    items: usize,
    bytes: usize,
    is_first: bool,
}

impl Budget {
    pub fn new(max_items: usize, max_bytes: usize) -> Self {
        Self { items: max_items, bytes: max_bytes, is_first: true }
    }

    /// The items and bytes that are left.
    pub fn left(&self) -> (usize, usize) {
        (self.items, self.bytes)
    }

    /// Spends one item of `bytes`, if it fits. Returns whether it did.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.is_first || (self.items > 0 && bytes <= self.bytes);
        if fits {
            self.items = self.items.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(bytes);
            self.is_first = false;
        }
        fits
    }
}
