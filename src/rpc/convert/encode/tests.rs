//! Answers: their forms, their depth, their size.

mod depth;
mod fields;
mod numbers;
mod size;

use crate::domain::{
    event::{Changes, Event, ScopeVersions},
    id::{AppName, Author, Branch, DisplayName, EventId, SessionId, UserId},
    json::Json,
    scope::{SessionKey, StateKey},
    session::{Incarnation, Labels, SessionInfo, State, StateEntry},
    time::Time,
};
use crate::engine::List;

fn json(text: impl Into<String>) -> Json {
    Json::parse(text.into()).unwrap()
}

fn time(secs: i64) -> Time {
    Time::new(secs, 5).unwrap()
}

/// An event with this body.
fn event(sequence: u64, body: Json) -> Event {
    Event {
        event_id: EventId::new("e").unwrap(),
        sequence,
        invocation_id: None,
        author: Author::new("user").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: time(1),
        commit_time: time(2),
        changes: Changes::default(),
        body: Some(body),
        rewind_to: None,
        rewound: false,
        versions: ScopeVersions { application: 1, user: 2 },
        trace_id: None,
    }
}

fn info() -> SessionInfo {
    SessionInfo {
        key: SessionKey {
            app_name: AppName::new("a").unwrap(),
            user_id: UserId::new("u").unwrap(),
            session_id: SessionId::new("s").unwrap(),
        },
        incarnation: Incarnation(1),
        last_sequence: 7,
        create_time: time(1),
        update_time: time(2),
        last_event_time: time(3),
        expire_time: None,
        display_name: DisplayName::new("").unwrap(),
        labels: Labels::default(),
        forked_from: None,
        created_versions: ScopeVersions::default(),
    }
}

/// State of the session's own keys.
fn state<'a>(entries: impl IntoIterator<Item = (&'a str, Json)>) -> State {
    let entry = |(key, value)| StateEntry { key: StateKey::new(key).unwrap(), value, version: 3 };
    State(entries.into_iter().map(entry).collect())
}

/// A page with nothing behind it.
fn all<T>(items: Vec<T>) -> List<T> {
    let mut list = List::default();
    list.items = items;
    list
}

/// A list of `many` zeros. As a message it is five and a half times as large as its text.
fn zeros(many: usize) -> Json {
    json(format!("[{}]", vec!["0"; many].join(",")))
}

/// An object that holds [`zeros`].
fn body_of_zeros(many: usize) -> Json {
    json(format!("{{\"zeros\":{}}}", zeros(many).as_str()))
}
