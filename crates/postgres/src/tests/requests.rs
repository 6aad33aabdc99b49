//! Requests of these tests, all of the user `u`.

use super::*;
use sessiond_store::tests as shared_tests;

pub(super) fn creation(session: &str) -> CreateSession {
    shared_tests::creation("u", session)
}

/// An append of one event.
pub(super) fn one(session: &str, id: &str, set: &[(&str, &str)]) -> Append<SessionKey> {
    append(session, id, delta(set))
}

pub(super) fn append(session: &str, id: &str, delta: Delta) -> Append<SessionKey> {
    batch(session, [NewEvent { body: Some(json("{}")), ..shared_tests::event_of(id, delta) }])
}

/// A change of the user's state.
pub(super) fn of_user(set: &[(&str, &str)]) -> StateUpdate {
    change(user_scope("u"), delta(set))
}
