//! Requests of these tests, all to the application `a`.

use super::*;

pub(super) fn call() -> RequestContext {
    RequestContext::internal()
}

pub(super) fn at(secs: i64) -> Time {
    Time::new(secs, 0).unwrap()
}

/// The address of a session of the user `u`.
pub(super) fn address(session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new("a").unwrap(),
        user_id: UserId::new("u").unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

pub(super) fn creation(session: &str) -> CreateSession {
    CreateSession {
        key: address(session),
        state: Vec::new(),
        display_name: DisplayName::default(),
        labels: Labels::default(),
        expiration: None,
        on_existing: OnExisting::Refuse,
    }
}

pub(super) fn key(name: &str) -> StateKey {
    StateKey::new(name).unwrap()
}

pub(super) fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

pub(super) fn delta(set: &[(&str, &str)]) -> Delta {
    let set = set.iter().map(|(name, value)| (key(name), json(value)));
    Delta { set: set.collect(), ..Delta::default() }
}

/// An append of one event.
pub(super) fn one(session: &str, id: &str, set: &[(&str, &str)]) -> Append {
    append(session, id, delta(set))
}

pub(super) fn append(session: &str, id: &str, delta: Delta) -> Append {
    let event = NewEvent {
        event_id: EventId::new(id).unwrap(),
        invocation_id: None,
        author: Author::new("agent").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        partial: false,
        delta,
        body: Some(json("{}")),
        fingerprint: Fingerprint(1),
        refusal: None,
        field: FieldPath::from("event.state_delta"),
    };
    Append {
        session: SessionRef::Full(address(session)),
        events: vec![event],
        precondition: Precondition::default(),
        request: None,
        return_state: false,
    }
}

pub(super) fn rewind(session: &str, to: u64) -> RewindSession {
    RewindSession {
        key: address(session),
        to,
        event_id: EventId::new(format!("rewind to {to}")).unwrap(),
        author: Author::new("a").unwrap(),
        fingerprint: Fingerprint(3),
        precondition: Precondition::default(),
    }
}

/// A change of the user's state.
pub(super) fn of_user(set: &[(&str, &str)]) -> StateUpdate {
    let scope = Scope::User(AppName::new("a").unwrap(), UserId::new("u").unwrap());
    StateUpdate {
        delta: ScopeDelta::new(scope, delta(set)).unwrap(),
        precondition: Precondition::default(),
        author: Author::new("a").unwrap(),
        request: None,
    }
}
