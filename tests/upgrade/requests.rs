//! The requests that fill a fixture and read it.

use sessiond::{
    commit::{Append, CreateSession, StateUpdate},
    domain::{
        delta::Delta,
        event::{Fingerprint, NewEvent},
        id::{Author, InvocationId},
        page::EventSelection,
        scope::{SessionKey, StateKey},
    },
    store::SessionQuery,
};
use sessiond_test_support::requests as plain;
pub use sessiond_test_support::{
    TestClock,
    requests::{at as time, request},
};

fn path(user: &str, session: &str) -> String {
    format!("shop/{user}/{session}")
}

pub fn key(user: &str, session: &str) -> SessionKey {
    plain::address(&path(user, session))
}

pub fn creation(user: &str, session: &str, state: &[(&str, &str)]) -> CreateSession {
    plain::create(&path(user, session), state)
}

pub fn event(id: &str, set: &[(&str, &str)], remove: &[&str]) -> NewEvent {
    let remove = remove.iter().map(|name| StateKey::new(*name).unwrap()).collect();
    let delta = Delta { remove, ..plain::set(set) };
    NewEvent {
        invocation_id: (id.len() == 1).then(|| InvocationId::new(format!("turn-{id}")).unwrap()),
        author: Author::new("a").unwrap(),
        // Most events of a long session have none, for the size of the file.
        body: (id.len() == 1).then(|| plain::json(&format!("{{\"text\": \"{id}\"}}"))),
        fingerprint: Fingerprint(1),
        ..plain::event(id, delta)
    }
}

pub fn append(session: &str, user: &str, events: Vec<NewEvent>) -> Append {
    Append { events, ..plain::append(&path(user, session), []) }
}

pub fn visits(set: &[(&str, &str)]) -> StateUpdate {
    let author = Author::new("shop").unwrap();
    let request = plain::request("visits", 5);
    StateUpdate { author, request, ..plain::update("shop/ada", plain::set(set)) }
}

pub fn query(user: &str, session: &str, as_of: Option<u64>) -> SessionQuery {
    let events = EventSelection { max_items: 1000, ..plain::everything() };
    SessionQuery { as_of, events: Some(events), ..plain::read(&path(user, session)) }
}
