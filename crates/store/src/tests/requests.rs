//! Requests with defaults. A case sets the other fields itself.

use std::{collections::BTreeMap, sync::Arc};

use sessiond_core::{
    commit::{
        Append, CreateSession, ForkSession, OnExisting, RequestKey, RewindSession, SessionUpdate,
        StateUpdate,
    },
    domain::{
        Sequence, Version,
        delta::{Delta, Operation, ScopeDelta},
        event::{Fingerprint, NewEvent},
        field::Path,
        id::{AppName, Author, Branch, DisplayName, EventId, RequestId, SessionId, UserId},
        json::{Amount, Json},
        page::EventSelection,
        permission::{Listed, Pattern, Permission, Permissions, Right, Users, Visibility},
        precondition::{Condition, Precondition},
        scope::{Scope, SessionKey, SessionRef, StateKey},
        session::{Expiration, Labels},
        time::Time,
        token::Position,
    },
};

use crate::{KeyChangeQuery, SessionOrder, SessionQuery, SessionsQuery, StateQuery, WatchQuery};

/// The store's clock where a case sets no other time.
pub const NOW: Time = at(1_000);

/// A request, and what the store's clock is set to before it is made.
pub struct Timed<T> {
    pub request: T,
    pub now: Time,
}

impl<T> From<T> for Timed<T> {
    fn from(request: T) -> Self {
        Self { request, now: NOW }
    }
}

/// Requests at other times than [`NOW`].
pub trait At: Sized {
    fn at(self, now: Time) -> Timed<Self> {
        Timed { request: self, now }
    }
}

impl<T> At for T {}

/// Seconds after 1970.
pub const fn at(secs: i64) -> Time {
    match Time::new(secs, 0) {
        Some(time) => time,
        None => panic!("a time out of range"),
    }
}

/// An expiration at an instant.
pub fn ends(at: Time) -> Option<Expiration> {
    Some(Expiration::At(at))
}

pub fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub fn key(text: &str) -> StateKey {
    StateKey::new(text).unwrap()
}

/// `app`, `app/user` or `app/user/session`.
pub fn scope(path: &str) -> Scope {
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    let app_name = AppName::new(parts[0]).unwrap();
    match parts[1..] {
        [] => Scope::Application(app_name),
        [user] => Scope::User(app_name, UserId::new(user).unwrap()),
        [user, session] => Scope::Session(SessionKey {
            app_name,
            user_id: UserId::new(user).unwrap(),
            session_id: SessionId::new(session).unwrap(),
        }),
        _ => unreachable!("at most three parts"),
    }
}

/// `app/user/session`.
pub fn address(path: &str) -> SessionKey {
    match scope(path) {
        Scope::Session(key) => key,
        other => panic!("no session: {other:?}"),
    }
}

/// A session by its id alone.
pub fn bare(id: &str) -> SessionRef {
    SessionRef::bare(SessionId::new(id).unwrap())
}

/// The visibility of a caller that may do everything with the sessions of some users.
pub fn sight_of(users: &[&str]) -> Visibility {
    let users = users.iter().map(|user| UserId::new(*user).unwrap()).collect();
    let all = Permission {
        applications: [Pattern::new("*")].into(),
        users: Users::Only(Arc::new(users)),
        rights: Right::ALL.into_iter().collect(),
    };
    listed(vec![all])
}

/// The visibility of a caller without rights.
pub fn nothing_visible() -> Visibility {
    listed(Vec::new())
}

fn listed(permissions: Vec<Permission>) -> Visibility {
    let listed = Listed { principal: "somebody".to_owned(), permissions };
    Visibility::new(Permissions::Listed(Arc::new(listed)), Right::Write, false)
}

pub fn labels(labels: &[(&str, &str)]) -> Labels {
    let labels = labels.iter();
    let labels = labels.map(|&(key, value)| (key.to_owned(), value.to_owned()));
    Labels::new(labels.collect::<BTreeMap<_, _>>()).unwrap()
}

pub fn create(path: &str, state: &[(&str, &str)]) -> CreateSession {
    CreateSession {
        key: address(path),
        state: set(state).set,
        display_name: DisplayName::new("").unwrap(),
        labels: Labels::default(),
        expiration: None,
        on_existing: OnExisting::Refuse,
    }
}

/// A change of nothing.
pub fn touch(path: &str) -> SessionUpdate {
    SessionUpdate {
        key: address(path),
        display_name: None,
        labels: None,
        expiration: None,
        precondition: Default::default(),
    }
}

pub fn fork(path: &str, up_to: Option<Sequence>, session_id: &str) -> ForkSession {
    ForkSession {
        source: address(path),
        up_to,
        session_id: SessionId::new(session_id).unwrap(),
        precondition: Default::default(),
    }
}

/// A delta that changes nothing.
pub fn nothing() -> Delta {
    Delta::default()
}

/// A delta that sets keys.
pub fn set(values: &[(&str, &str)]) -> Delta {
    let values = values.iter();
    Delta {
        set: values.map(|&(name, value)| (key(name), json(value))).collect(),
        ..Delta::default()
    }
}

/// A delta that removes keys.
pub fn remove(keys: &[&str]) -> Delta {
    nothing().remove(keys)
}

/// A delta that adds to a number.
pub fn add(name: &str, amount: i64) -> Delta {
    nothing().add(name, amount)
}

/// More of the same delta.
pub trait DeltaExt {
    fn remove(self, keys: &[&str]) -> Delta;
    fn add(self, key: &str, amount: i64) -> Delta;
    fn operate(self, key: &str, operation: Operation) -> Delta;
}

impl DeltaExt for Delta {
    fn remove(mut self, keys: &[&str]) -> Delta {
        self.remove.extend(keys.iter().map(|name| key(name)));
        self
    }

    fn add(self, name: &str, amount: i64) -> Delta {
        self.operate(name, Operation::Increment(Amount::Whole(amount)))
    }

    fn operate(mut self, name: &str, operation: Operation) -> Delta {
        self.operations.push((key(name), operation));
        self
    }
}

/// An event by `agent`.
pub fn event(id: &str, delta: Delta) -> NewEvent {
    NewEvent {
        event_id: EventId::new(id).unwrap(),
        invocation_id: None,
        author: Author::new("agent").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        partial: false,
        delta: delta.split_temp().0,
        body: None,
        fingerprint: Fingerprint(0),
        refusal: None,
        field: Default::default(),
    }
}

/// The same event with the fingerprint of its content, at its place in a request.
fn in_request(at: usize, event: NewEvent) -> NewEvent {
    let field = Path::REQUEST.field("events").index(at).field("state_delta").into();
    NewEvent { fingerprint: event.content_fingerprint(), field, ..event }
}

pub fn append(path: &str, events: impl IntoIterator<Item = NewEvent>) -> Append {
    Append {
        session: SessionRef::Full(address(path)),
        events: events.into_iter().enumerate().map(|(at, event)| in_request(at, event)).collect(),
        precondition: Precondition::default(),
        request: None,
        return_state: false,
    }
}

/// An event without changes.
pub fn plain(path: &str, id: &str) -> Append {
    append(path, [event(id, nothing())])
}

pub fn request(id: &str, content: u128) -> Option<RequestKey> {
    Some(RequestKey { id: RequestId::new(id).unwrap(), fingerprint: Fingerprint(content) })
}

pub fn rewind(path: &str, to: Sequence, id: &str) -> RewindSession {
    RewindSession {
        key: address(path),
        to,
        event_id: EventId::new(id).unwrap(),
        author: Author::system(),
        fingerprint: Fingerprint(u128::from(to) << 64 | 1),
        precondition: Precondition::default(),
    }
}

pub fn update(path: &str, delta: Delta) -> StateUpdate {
    StateUpdate {
        delta: ScopeDelta::new(scope(path), delta).unwrap(),
        precondition: Precondition::default(),
        author: Author::system(),
        request: None,
    }
}

pub fn expect_sequence(version: Version) -> Precondition {
    Precondition { expected_sequence: Some(version), ..Precondition::default() }
}

pub fn expect_keys(keys: &[(&str, Condition)]) -> Precondition {
    let keys = keys.iter();
    let keys = keys.map(|(name, condition)| (key(name), condition.clone())).collect();
    Precondition { keys, ..Precondition::default() }
}

/// A session with its state and without events, now.
pub fn read(path: &str) -> SessionQuery {
    SessionQuery {
        session: SessionRef::Full(address(path)),
        as_of: None,
        with_state: true,
        events: None,
    }
}

/// All visible events, oldest first.
pub fn everything() -> EventSelection {
    EventSelection {
        filter: Default::default(),
        after: 0,
        up_to: None,
        recent: None,
        counted_to: None,
        descending: false,
        max_items: usize::MAX,
        max_bytes: usize::MAX,
    }
}

/// Asks for a page of a session's events.
#[derive(Clone, Debug)]
pub struct EventQuery {
    pub key: SessionKey,
    pub as_of: Option<Sequence>,
    pub selection: EventSelection,
}

pub fn events(path: &str) -> EventQuery {
    EventQuery { key: address(path), as_of: None, selection: everything() }
}

pub fn read_state(path: &str) -> StateQuery {
    StateQuery { scope: scope(path), keys: None }
}

pub fn sessions(app: &str) -> SessionsQuery {
    SessionsQuery {
        app_name: AppName::new(app).unwrap(),
        user_id: None,
        seen: Users::All,
        labels: Labels::default(),
        order: SessionOrder::LeastRecent,
        after: None,
        max_items: usize::MAX,
        max_bytes: usize::MAX,
        with_state: false,
    }
}

pub fn changes(path: &str, name: &str) -> KeyChangeQuery {
    KeyChangeQuery {
        scope: scope(path),
        key: key(name),
        before: None,
        max_items: usize::MAX,
        max_bytes: usize::MAX,
    }
}

pub fn follow(path: &str, position: Position) -> WatchQuery {
    WatchQuery { scope: scope(path), position, max_items: usize::MAX, max_bytes: usize::MAX }
}
