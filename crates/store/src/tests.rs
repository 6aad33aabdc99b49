//! Fixtures of the tests of both databases: a clock, requests and queries, all of the application `a`, and states as text.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::{
    Clock, OnExisting, RequestContext, SessionOrder, SessionQuery, SessionsQuery, group::Submission,
};
use sessiond_core::{
    commit::{Answer, Append, CreateSession, ForkSession, Request, RewindSession, StateUpdate},
    domain::{
        delta::{Delta, ScopeDelta},
        error::Error,
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{AppName, Author, Branch, DisplayName, EventId, SessionId, UserId},
        json::Json,
        page::{EventFilter, EventSelection},
        permission::{Listed, Pattern, Permission, Permissions, Right, Users, Visibility},
        precondition::Precondition,
        scope::{Scope, SessionKey, SessionRef, StateKey},
        session::{Labels, State},
        time::Time,
    },
};

/// A clock that moves when a test sets it.
#[derive(Debug)]
pub struct TestClock(Mutex<Time>);

impl TestClock {
    pub fn new(secs: i64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(at(secs))))
    }

    pub fn set(&self, secs: i64) {
        *self.0.lock().unwrap() = at(secs);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap()
    }
}

pub fn call() -> RequestContext {
    RequestContext::internal()
}

/// Requests that wait as one group, and their answers to come.
pub fn submissions(
    requests: impl IntoIterator<Item = Request>,
) -> (Vec<Submission>, Vec<oneshot::Receiver<Result<Answer, Error>>>) {
    let submit = |request| {
        let (reply, answer) = oneshot::channel();
        (Submission { context: call(), request, reply }, answer)
    };
    requests.into_iter().map(submit).unzip()
}

/// Every key with its value and its version.
pub fn shown(state: &State) -> Vec<String> {
    let entries = state.0.iter();
    entries.map(|it| format!("{}={}@{}", it.key, it.value, it.version)).collect()
}

pub fn at(secs: i64) -> Time {
    Time::new(secs, 0).unwrap()
}

/// The address of a session of the user `u`.
pub fn address(session: &str) -> SessionKey {
    of_user("u", session)
}

pub fn of_user(user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new("a").unwrap(),
        user_id: UserId::new(user).unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

/// The sight of a caller that may do everything with the sessions of one user, or nothing at all if that is ''.
pub fn sight_of(user: &str) -> Visibility {
    let users = Users::Only(Arc::new(UserId::new(user).into_iter().collect()));
    let rights = Right::ALL.into_iter().collect();
    let all = Permission { applications: [Pattern::new("*")].into(), users, rights };
    let permissions = if user.is_empty() { Vec::new() } else { vec![all] };
    let listed = Listed { principal: user.to_owned(), permissions };
    Visibility::new(Permissions::Listed(Arc::new(listed)), Right::Write, false)
}

pub fn creation(user: &str, session: &str) -> CreateSession {
    CreateSession {
        key: of_user(user, session),
        state: Vec::new(),
        display_name: DisplayName::new("").unwrap(),
        labels: Labels::default(),
        expiration: None,
        on_existing: OnExisting::Refuse,
    }
}

pub fn key(name: &str) -> StateKey {
    StateKey::new(name).unwrap()
}

pub fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub fn delta(set: &[(&str, &str)]) -> Delta {
    let set = set.iter().map(|(name, value)| (key(name), json(value)));
    Delta { set: set.collect(), ..Delta::default() }
}

pub fn event(id: &str, set: &[(&str, &str)]) -> NewEvent {
    event_of(id, delta(set))
}

pub fn event_of(id: &str, delta: Delta) -> NewEvent {
    NewEvent {
        event_id: EventId::new(id).unwrap(),
        invocation_id: None,
        author: Author::new("agent").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        partial: false,
        delta: delta.split_temp().0,
        body: None,
        fingerprint: Fingerprint(1),
        refusal: None,
        field: FieldPath::from("event.state_delta"),
    }
}

pub fn batch(session: &str, events: impl IntoIterator<Item = NewEvent>) -> Append<SessionKey> {
    Append {
        session: address(session),
        events: events.into_iter().collect(),
        precondition: Precondition::default(),
        request: None,
        return_state: false,
    }
}

pub fn one(session: &str, id: &str, set: &[(&str, &str)]) -> Append<SessionKey> {
    batch(session, [event(id, set)])
}

pub fn rewind(session: &str, to: u64) -> RewindSession {
    RewindSession {
        key: address(session),
        to,
        event_id: EventId::new(format!("rewind to {to}")).unwrap(),
        author: Author::new("a").unwrap(),
        fingerprint: Fingerprint(3),
        precondition: Precondition::default(),
    }
}

pub fn query(session: &str) -> SessionQuery {
    SessionQuery {
        session: SessionRef::Full(address(session)),
        as_of: None,
        with_state: false,
        events: None,
    }
}

pub fn selection(recent: Option<u64>) -> EventSelection {
    EventSelection {
        filter: EventFilter::default(),
        after: 0,
        up_to: None,
        recent,
        descending: false,
        max_items: 1000,
        max_bytes: usize::MAX,
    }
}

pub fn fork_of(source: &str, session: &str, up_to: Option<u64>) -> ForkSession {
    ForkSession {
        source: address(source),
        up_to,
        session_id: SessionId::new(session).unwrap(),
        precondition: Default::default(),
    }
}

pub fn list(user: Option<&str>, order: SessionOrder, max_items: usize) -> SessionsQuery {
    SessionsQuery {
        app_name: AppName::new("a").unwrap(),
        user_id: user.map(|user| UserId::new(user).unwrap()),
        labels: Labels::default(),
        order,
        after: None,
        max_items,
        max_bytes: usize::MAX,
        with_state: false,
    }
}

pub fn user_scope(user: &str) -> Scope {
    Scope::User(AppName::new("a").unwrap(), UserId::new(user).unwrap())
}

pub fn change(scope: Scope, delta: Delta) -> StateUpdate {
    StateUpdate {
        delta: ScopeDelta::new(scope, delta).unwrap(),
        precondition: Precondition::default(),
        author: Author::new("a").unwrap(),
        request: None,
    }
}
