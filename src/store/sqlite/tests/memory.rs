//! What the writer keeps in memory stays within its bound, also where it only reads.

use super::{
    writer::{GroupEnd, Writer},
    *,
};
use crate::{domain::id::RequestId, store::Request};

/// Users, each with a session and a state of a fifth of the bench's bound.
const USERS: usize = 12;

/// A file with them, and a writer that remembers nothing yet.
async fn filled() -> (Fixture, Bench) {
    let fixture = Fixture::new().await;
    let large = format!("\"{}\"", "x".repeat(200_000));
    for user in 0..USERS {
        let user = format!("u{user}");
        fixture.create(&user, "s", 1).await;
        let change = change(&user, delta(&[("user:large", &large)]));
        fixture.store.update_state(change).await.unwrap();
    }
    fixture.store.close().await;
    let bench = Bench::open(fixture.folder.path());
    (fixture, bench)
}

/// Does a command for every user. At most so many sessions and scopes are kept: the large ones that fit, and some small ones.
async fn keeps_at_most<T>(most: usize, command: impl Fn(&str, Reply<T>) -> Command) {
    let (_fixture, mut bench) = filled().await;
    let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
    for user in 0..USERS {
        let (reply, mut answer): (_, Answer<T>) = oneshot::channel();
        let mut group = vec![command(&format!("u{user}"), reply)];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        assert!(answer.try_recv().unwrap().is_ok());
        assert!(writer.cache.known() <= most, "after {user}: {}", writer.cache.known());
    }
}

#[tokio::test]
async fn a_session_that_is_found_instead_of_created_counts() {
    keeps_at_most(USERS + USERS / 2, |user, reply| {
        let again = CreateSession { on_existing: OnExisting::Return, ..creation(user, "s", 2) };
        Command::Create(again, reply)
    })
    .await;
}

#[tokio::test]
async fn a_user_whose_state_does_not_change_counts() {
    keeps_at_most(USERS / 2, |user, reply| {
        Command::UpdateState(change(user, Delta::default()), reply)
    })
    .await;
}

#[tokio::test]
async fn a_user_whose_request_is_refused_counts() {
    let (_fixture, mut bench) = filled().await;
    for fingerprint in [1, 2] {
        // The second time remembers nothing of the first, and stops where the request turns out to have been another one.
        let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
        let id = RequestId::new("r").unwrap();
        let request = Some(Request { id, fingerprint: Fingerprint(fingerprint) });
        let update = StateUpdate { request, ..change("u0", Delta::default()) };
        let (reply, mut answer): (_, Answer<StateUpdated>) = oneshot::channel();
        let mut group = vec![Command::UpdateState(update, reply)];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        assert_eq!(answer.try_recv().unwrap().is_ok(), fingerprint == 1);
        assert!(writer.cache.known() == 2 && writer.cache.is_counted());
    }
}
