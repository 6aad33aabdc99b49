//! What the writer keeps in memory stays within its bound, also where it only reads.

use super::{
    writer::{GroupEnd, Writer},
    *,
};
use crate::domain::scope::Scope;

/// Users, each with a session and a state of a fifth of the bench's bound.
const USERS: usize = 12;

#[tokio::test]
async fn reading_by_the_writer_counts() {
    let fixture = Fixture::new().await;
    let large = format!("\"{}\"", "x".repeat(200_000));
    for user in 0..USERS {
        let user = format!("u{user}");
        fixture.create(&user, "s", 1).await;
        let change = change(&user, delta(&[("user:large", &large)]));
        fixture.store.update_state(change).await.unwrap();
    }
    fixture.store.close().await;
    let mut bench = Bench::open(fixture.folder.path());
    let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
    for user in 0..USERS {
        let user = format!("u{user}");
        let again = CreateSession { on_existing: OnExisting::Return, ..creation(&user, "s", 2) };
        let (reply, mut created): (_, Answer<Created>) = oneshot::channel();
        let mut group = vec![Command::Create(again, reply)];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        assert_eq!(created.try_recv().unwrap().unwrap().state.0.len(), 1);
        let (reply, mut changed): (_, Answer<StateUpdated>) = oneshot::channel();
        let mut group = vec![Command::UpdateState(change(&user, Delta::default()), reply)];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        assert!(changed.try_recv().unwrap().is_ok());
        // The application, and the users that fit with their sessions.
        assert!(writer.cache.known() <= 1 + 2 * 6, "after {user}: {}", writer.cache.known());
    }
}

fn change(user: &str, delta: Delta) -> StateUpdate {
    StateUpdate {
        scope: Scope::User(AppName::new("a").unwrap(), UserId::new(user).unwrap()),
        delta,
        precondition: Precondition::default(),
        author: Author::new("a").unwrap(),
        request: None,
        now: at(3),
    }
}
