//! The requests that fill a fixture and read it, and its clock.

use std::sync::{Arc, Mutex};

use sessiond::{
    commit::{Append, CreateSession, OnExisting, RequestKey, StateUpdate},
    domain::{
        delta::{Delta, ScopeDelta},
        event::{Fingerprint, NewEvent},
        field::FieldPath,
        id::{
            AppName, Author, Branch, DisplayName, EventId, InvocationId, RequestId, SessionId,
            UserId,
        },
        json::Json,
        page::{EventFilter, EventSelection},
        precondition::Precondition,
        scope::{Scope, SessionKey, SessionRef, StateKey},
        session::Labels,
        time::Time,
    },
    store::{Clock, SessionQuery},
};

pub struct TestClock(Mutex<Time>);

impl TestClock {
    pub fn at(secs: i64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(time(secs))))
    }

    pub fn set(&self, secs: i64) {
        *self.0.lock().unwrap() = time(secs);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        *self.0.lock().unwrap()
    }
}

pub fn time(secs: i64) -> Time {
    Time::new(secs, 0).unwrap()
}

pub fn key(user: &str, session: &str) -> SessionKey {
    SessionKey {
        app_name: AppName::new("shop").unwrap(),
        user_id: UserId::new(user).unwrap(),
        session_id: SessionId::new(session).unwrap(),
    }
}

pub fn values(set: &[(&str, &str)]) -> Vec<(StateKey, Json)> {
    let json = |text: &str| Json::parse(text.to_owned()).unwrap();
    set.iter().map(|(name, text)| (StateKey::new(*name).unwrap(), json(text))).collect()
}

pub fn creation(user: &str, session: &str, state: &[(&str, &str)]) -> CreateSession {
    CreateSession {
        key: key(user, session),
        state: values(state),
        display_name: DisplayName::default(),
        labels: Labels::default(),
        expiration: None,
        on_existing: OnExisting::Refuse,
    }
}

pub fn event(id: &str, set: &[(&str, &str)], remove: &[&str]) -> NewEvent {
    let remove = remove.iter().map(|name| StateKey::new(*name).unwrap()).collect();
    let delta = Delta { set: values(set), remove, ..Delta::default() };
    let body = Json::parse(format!("{{\"text\": \"{id}\"}}")).unwrap();
    NewEvent {
        event_id: EventId::new(id).unwrap(),
        invocation_id: (id.len() == 1).then(|| InvocationId::new(format!("turn-{id}")).unwrap()),
        author: Author::new("a").unwrap(),
        branch: Branch::new("").unwrap(),
        event_time: None,
        partial: false,
        delta: delta.split_temp().0,
        // Most events of a long session have none, for the size of the file.
        body: (id.len() == 1).then_some(body),
        fingerprint: Fingerprint(1),
        refusal: None,
        field: FieldPath::from("event.state_delta"),
    }
}

pub fn append(session: &str, user: &str, events: Vec<NewEvent>) -> Append {
    Append {
        session: SessionRef::Full(key(user, session)),
        events,
        precondition: Precondition::default(),
        request: None,
        return_state: false,
    }
}

pub fn visits(set: &[(&str, &str)]) -> StateUpdate {
    let scope = Scope::User(AppName::new("shop").unwrap(), UserId::new("ada").unwrap());
    let delta = Delta { set: values(set), ..Delta::default() };
    let id = RequestId::new("visits").unwrap();
    StateUpdate {
        delta: ScopeDelta::new(scope, delta).unwrap(),
        precondition: Precondition::default(),
        author: Author::new("shop").unwrap(),
        request: Some(RequestKey { id, fingerprint: Fingerprint(5) }),
    }
}

pub fn query(user: &str, session: &str, as_of: Option<u64>) -> SessionQuery {
    let events = EventSelection {
        filter: EventFilter::default(),
        after: 0,
        up_to: None,
        recent: None,
        descending: false,
        max_items: 1000,
        max_bytes: usize::MAX,
    };
    let session = SessionRef::Full(key(user, session));
    SessionQuery { session, as_of, with_state: true, events: Some(events) }
}
