//! The rows of one snapshot, as a store hands them out.

use std::collections::HashMap;

use super::{ListKey, Past, SessionsQuery};
use crate::{
    commit::{ScopeKey, ScopeLogRow},
    domain::prelude::*,
};

/// A scope as rows name it: an application, a user, or one life of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    pub app_name: AppName,
    /// Of an application it is empty.
    pub user_id: UserId,
    /// Of an application and a user it is 0.
    pub incarnation: Incarnation,
}

impl Node {
    pub fn application(app_name: &AppName) -> Self {
        Self::user(app_name, &UserId::from_stored(""))
    }

    pub fn user(app_name: &AppName, user_id: &UserId) -> Self {
        let (app_name, user_id) = (app_name.clone(), user_id.clone());
        Self { app_name, user_id, incarnation: Incarnation(0) }
    }

    pub fn session(key: &SessionKey, incarnation: Incarnation) -> Self {
        Self { incarnation, ..Self::user(&key.app_name, &key.user_id) }
    }

    /// An application or a user; `None` for a session, whose key has no address.
    pub fn shared(key: &ScopeKey) -> Option<Self> {
        match key {
            ScopeKey::Application(app) => Some(Self::application(app)),
            ScopeKey::User(app, user) => Some(Self::user(app, user)),
            ScopeKey::Session(_) => None,
        }
    }

    /// The scopes that are visible from one, from wide to narrow: each at the place of its kind.
    pub fn visible(scope: &Scope, session: Option<Incarnation>) -> Vec<Self> {
        let application = Self::application(scope.app_name());
        let user = scope.user_id().map(|user| Self::user(scope.app_name(), user));
        let own = user.clone().zip(session);
        let own = own.map(|(user, incarnation)| Self { incarnation, ..user });
        [Some(application), user, own].into_iter().flatten().collect()
    }

    pub fn kind(&self) -> ScopeKind {
        match (self.incarnation, self.user_id.as_str()) {
            (Incarnation(0), "") => ScopeKind::Application,
            (Incarnation(0), _) => ScopeKind::User,
            _ => ScopeKind::Session,
        }
    }

    /// As change sets name it.
    pub fn key(&self) -> ScopeKey {
        let Self { app_name, user_id, incarnation } = self.clone();
        match self.kind() {
            ScopeKind::Application => ScopeKey::Application(app_name),
            ScopeKind::User => ScopeKey::User(app_name, user_id),
            ScopeKind::Session => ScopeKey::Session(incarnation),
        }
    }
}

/// A session's row.
#[derive(Clone, Debug)]
pub struct SessionRecord {
    pub info: SessionInfo,
    /// Of its own state: the sum of names and values.
    pub state_bytes: usize,
}

/// The row of an application or a user; one without a row has zeros.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeHead {
    pub version: Version,
    /// The version from which its life went on.
    pub base: Version,
    pub state_bytes: usize,
}

/// The short columns of an event.
#[derive(Clone, Debug)]
pub struct EventHead {
    pub sequence: Sequence,
    pub invocation_id: Option<InvocationId>,
    pub author: Author,
    pub event_time: Time,
    pub commit_time: Time,
    pub versions: ScopeVersions,
}

impl From<&Event> for EventHead {
    fn from(event: &Event) -> Self {
        let Event { sequence, event_time, commit_time, versions, .. } = *event;
        let (invocation_id, author) = (event.invocation_id.clone(), event.author.clone());
        Self { sequence, invocation_id, author, event_time, commit_time, versions }
    }
}

/// An event as a change of its session.
impl From<&Event> for ScopeLogRow {
    fn from(event: &Event) -> Self {
        let Event { sequence: version, commit_time, .. } = *event;
        let (author, changes) = (event.author.clone(), event.changes.clone());
        Self { version, commit_time, author, source: None, changes }
    }
}

/// The rows of a store at one point in time.
///
/// A log's rows are asked for by their versions, which are dense and ascend or descend. Their answer is in the same order and may end
/// early: before a row that is missing or [damaged](super::until_damage), and once the long columns have `max_bytes`. An error says that
/// the first row cannot be read.
pub trait Rows {
    /// The time at this moment, by the store's clock.
    fn time(&self) -> Time;

    /// The time of the snapshot, by the store's clock.
    fn now(&self) -> impl Future<Output = Time> + Send;

    /// The session at an address, expired or not.
    fn session(
        &self,
        key: &SessionKey,
    ) -> impl Future<Output = Result<Option<SessionRecord>, Error>> + Send;

    /// Sessions with an id, expired or not, behind one of them in an order of the store's. `max_rows` unless no more follow.
    fn of_id(
        &self,
        id: &SessionId,
        after: Option<&SessionInfo>,
        max_rows: usize,
    ) -> impl Future<Output = Result<Vec<SessionInfo>, Error>> + Send;

    /// Sessions of an application, expired or not, in the order of the query behind a place, up to one that is damaged. `max_rows` unless
    /// no more follow.
    fn listed(
        &self,
        query: &SessionsQuery,
        after: Option<&ListKey>,
        max_rows: usize,
    ) -> impl Future<Output = Result<Vec<Result<SessionRecord, Error>>, Error>> + Send;

    /// Sessions of any application, or of one, in the order of their addresses: each with its `expire_time`. Those behind one address
    /// and up to another, `max_rows` unless no more follow.
    fn addresses(
        &self,
        app_name: Option<&AppName>,
        range: (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> impl Future<Output = Result<Vec<(SessionKey, Option<Time>)>, Error>> + Send;

    /// Applications and users, or those of one application, in their order: each with the bytes of its state. Those behind one and up to
    /// another, by the addresses of any of their sessions; `max_rows` unless no more follow.
    fn scopes(
        &self,
        app_name: Option<&AppName>,
        range: (&SessionKey, &SessionKey),
        max_rows: usize,
    ) -> impl Future<Output = Result<Vec<(AppName, UserId, usize)>, Error>> + Send;

    /// The rows of applications and users, in the order asked for.
    fn heads(&self, shared: &[Node]) -> impl Future<Output = Result<Vec<ScopeHead>, Error>> + Send;

    /// The states of scopes now, in the order asked for, each in the order of names.
    fn states(
        &self,
        nodes: &[Node],
    ) -> impl Future<Output = Result<Vec<Vec<StateEntry>>, Error>> + Send;

    /// Those of some keys that have a value now.
    fn keys(
        &self,
        keys: &[(&Node, &StateKey)],
    ) -> impl Future<Output = Result<Vec<StateEntry>, Error>> + Send;

    /// The versions that changed or removed keys last, by name.
    fn newest(
        &self,
        node: &Node,
        names: &[&str],
    ) -> impl Future<Output = Result<HashMap<Box<str>, Version>, Error>> + Send;

    /// The newest snapshot up to a version, with its version. Without one: no keys, version 0.
    fn snapshot(
        &self,
        node: &Node,
        at: Version,
    ) -> impl Future<Output = Result<(Past, Version), Error>> + Send;

    /// The newest markers of a session's rewinds behind one event and up to another, in descending order. `max_rows` unless no more
    /// follow.
    fn markers(
        &self,
        session: &Node,
        range: (Sequence, Sequence),
        max_rows: usize,
    ) -> impl Future<Output = Result<Vec<Marker>, Error>> + Send;

    /// The sequences of those events of a session that have some ids.
    fn sequences(
        &self,
        session: &Node,
        ids: &[EventId],
    ) -> impl Future<Output = Result<HashMap<EventId, Sequence>, Error>> + Send;

    /// Events of a session. No column is long.
    fn event_heads(
        &self,
        session: &Node,
        wanted: &[Sequence],
    ) -> impl Future<Output = Result<Vec<EventHead>, Error>> + Send;

    /// Events of a session, as if none were rewound.
    fn events(
        &self,
        session: &Node,
        wanted: &[Sequence],
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<Event>, Error>> + Send;

    /// Changes of a scope. Those of a session are its events, which need no source. Those that the session `except` made are empty: a
    /// reader has them with its events, also if they are damaged here.
    fn changes(
        &self,
        node: &Node,
        wanted: &[Version],
        except: Option<Incarnation>,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Vec<ScopeLogRow>, Error>> + Send;
}
