//! Fixtures of the tests of both databases: a clock, requests and queries, all of the application `a`, and states as text. The requests
//! of every suite are in [`requests`].

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod requests;

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

pub use self::requests::{at, json, key, set as delta};
use super::{Clock, RequestContext, SessionOrder, SessionQuery, SessionsQuery, group::Submission};
use sessiond_core::{
    commit::{Answer, Append, CreateSession, ForkSession, Request, RewindSession, StateUpdate},
    domain::{
        delta::{Delta, ScopeDelta},
        error::Error,
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{Author, UserId},
        page::EventSelection,
        precondition::Precondition,
        scope::{Scope, SessionKey, SessionRef},
        session::State,
        time::Time,
    },
};

/// A clock that moves when a test sets it.
#[derive(Debug)]
pub struct TestClock(Mutex<Time>);

impl TestClock {
    pub fn new(secs: i64) -> Arc<Self> {
        Self::at(at(secs))
    }

    pub fn at(now: Time) -> Arc<Self> {
        Arc::new(Self(Mutex::new(now)))
    }

    pub fn set(&self, secs: i64) {
        self.set_time(at(secs));
    }

    pub fn set_time(&self, now: Time) {
        *self.0.lock().unwrap() = now;
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

/// The address of a session of the user `u`.
pub fn address(session: &str) -> SessionKey {
    of_user("u", session)
}

pub fn of_user(user: &str, session: &str) -> SessionKey {
    requests::address(&format!("a/{user}/{session}"))
}

pub fn creation(user: &str, session: &str) -> CreateSession {
    requests::create(&format!("a/{user}/{session}"), &[])
}

pub fn event(id: &str, set: &[(&str, &str)]) -> NewEvent {
    event_of(id, delta(set))
}

pub fn event_of(id: &str, delta: Delta) -> NewEvent {
    let (fingerprint, field) = (Fingerprint(1), FieldPath::from("event.state_delta"));
    NewEvent { fingerprint, field, ..requests::event(id, delta) }
}

pub fn batch(session: &str, events: impl IntoIterator<Item = NewEvent>) -> Append<SessionKey> {
    let events = events.into_iter().collect();
    let append = Append { events, ..requests::append(&format!("a/u/{session}"), []) };
    append.to(address(session))
}

pub fn one(session: &str, id: &str, set: &[(&str, &str)]) -> Append<SessionKey> {
    batch(session, [event(id, set)])
}

pub fn rewind(session: &str, to: u64) -> RewindSession {
    requests::rewind(&format!("a/u/{session}"), to, &format!("rewind to {to}"))
}

pub fn query(session: &str) -> SessionQuery {
    SessionQuery::info(SessionRef::Full(address(session)))
}

pub fn selection(recent: Option<u64>) -> EventSelection {
    EventSelection { recent, max_items: 1000, ..requests::everything() }
}

pub fn fork_of(source: &str, session: &str, up_to: Option<u64>) -> ForkSession {
    requests::fork(&format!("a/u/{source}"), up_to, session)
}

pub fn list(user: Option<&str>, order: SessionOrder, max_items: usize) -> SessionsQuery {
    let user_id = user.map(|user| UserId::new(user).unwrap());
    SessionsQuery { user_id, order, max_items, ..requests::sessions("a") }
}

pub fn user_scope(user: &str) -> Scope {
    requests::scope(&format!("a/{user}"))
}

pub fn change(scope: Scope, delta: Delta) -> StateUpdate {
    StateUpdate {
        delta: ScopeDelta::new(scope, delta).unwrap(),
        precondition: Precondition::default(),
        author: Author::new("a").unwrap(),
        request: None,
    }
}
