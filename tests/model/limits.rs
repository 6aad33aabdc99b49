//! `commit` at its limits: one byte less is accepted and one byte more is refused, as by the naive model.

use sessiond::{
    commit::{Append, CreateSession, Request},
    domain::{
        delta::{Delta, Operation},
        event::{Fingerprint, NewEvent},
        json::Json,
        limits::{BATCH_BYTES, SCOPE_BYTES},
        scope::StateKey,
    },
};
use sessiond_test_support::requests::{self, address};

use crate::alone::Alone;

/// A name that takes seven bytes in JSON.
const NAME: &str = "\u{1}k";
const NAME_BYTES: usize = 7;

fn key(prefix: &str) -> StateKey {
    StateKey::new(format!("{prefix}{NAME}")).unwrap()
}

/// A value of this many bytes.
fn value(bytes: usize) -> Json {
    Json::from_stored(format!("\"{}\"", "x".repeat(bytes - 2)))
}

fn set(key: StateKey, value: Json) -> Delta {
    Delta { set: vec![(key, value)], ..Delta::default() }
}

fn create(state: Vec<(StateKey, Json)>) -> Request {
    Request::Create(CreateSession { state, ..requests::create("a/u/s", &[]) })
}

fn event(id: u128, delta: Delta, body: Option<Json>) -> NewEvent {
    let fingerprint = Fingerprint(id);
    NewEvent { body, fingerprint, ..requests::event(&id.to_string(), delta) }
}

fn append(events: Vec<NewEvent>) -> Request {
    Request::Append(Append { events, ..requests::append("a/u/s", []) }.to(address("a/u/s")))
}

fn update(path: &str, delta: Delta) -> Request {
    Request::UpdateState(requests::update(path, delta))
}

#[test]
fn each_scope_is_bounded_by_names_and_values() {
    for prefix in ["app:", "user:", ""] {
        let mut alone = Alone::new(true, [0; 3]);
        let full = |excess: usize| value(SCOPE_BYTES - NAME_BYTES + excess);
        assert!(!alone.one(create(vec![(key(prefix), full(1))])));
        assert!(alone.one(create(vec![(key(prefix), full(0))])));
        assert!(!alone.one(append(vec![event(1, set(key(prefix), full(1)), None)])));
        // A value in the place of another, and a key in the place of another.
        assert!(alone.one(append(vec![event(2, set(key(prefix), full(0)), None)])));
        let other = StateKey::new(format!("{prefix}other")).unwrap();
        let small = || (other.clone(), Operation::SetIfAbsent(value(2)));
        let added = Delta { operations: vec![small()], ..Delta::default() };
        assert!(!alone.one(append(vec![event(3, added.clone(), None)])));
        let moved = Delta { remove: vec![key(prefix)], ..added };
        assert!(alone.one(append(vec![event(4, moved, None)])));
        // Each event has to fit, also where a later one frees bytes.
        let (grow, shrink) =
            (set(key(prefix), full(0)), Delta { remove: vec![other.clone()], ..Delta::default() });
        let events = || [event(5, grow.clone(), None), event(6, shrink.clone(), None)];
        assert!(!alone.one(append(events().into())));
        let [first, second] = events();
        assert!(alone.one(append(vec![second, first])));
        if !prefix.is_empty() {
            assert!(!alone.one(update("a/u", set(other.clone(), value(2)))));
            assert!(alone.one(update("a/u", set(key(prefix), full(0)))));
            assert!(!alone.one(update("a/u", set(key(prefix), full(1)))));
        }
    }
}

#[test]
fn a_batch_is_bounded_by_bodies_and_by_what_deltas_resolve_to() {
    for excess in [0, 1] {
        let mut alone = Alone::new(false, [0; 3]);
        assert!(alone.one(create(Vec::new())));
        let first = || event(1, set(key("app:"), value(1_000)), Some(value(1_000_000)));
        let second = |bytes| event(2, Delta::default(), Some(value(bytes)));
        let left = BATCH_BYTES - 1_001_000 - ("app:".len() + NAME_BYTES);
        let half = (left + excess) / 2;
        let batch = vec![
            first(),
            second(half),
            event(3, Delta::default(), Some(value(left + excess - half))),
        ];
        assert_eq!(alone.one(append(batch)), excess == 0);
        // A replay counts as well, and so does an event that comes twice.
        let mut alone = Alone::new(false, [0; 3]);
        assert!(alone.one(create(Vec::new())));
        assert!(alone.one(append(vec![first()])));
        let batch = vec![
            second(half),
            first(),
            event(3, Delta::default(), Some(value(left + excess - half))),
        ];
        assert_eq!(alone.one(append(batch)), excess == 0);
        let twins = BATCH_BYTES / 2 + excess;
        let twin = || event(4, Delta::default(), Some(value(twins)));
        assert_eq!(alone.one(append(vec![twin(), twin()])), excess == 0);
    }
}
