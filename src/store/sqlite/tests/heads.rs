//! The head of a node lies beside its keys, whose names are texts: also the empty one, and `0`.

use super::{verifying::verified, *};
use crate::store::past::SNAPSHOT_STEP;

const NAMES: [&str; 6] = ["app:", "app:0", "user:", "user:0", "0", "1"];

#[tokio::test]
async fn no_name_of_a_key_is_that_of_the_head() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let set = NAMES.map(|name| (name, "1"));
    // A snapshot of every scope on the way.
    let last = SNAPSHOT_STEP + 2;
    for number in 1..=last {
        fixture.append("s", &number.to_string(), &set).await;
    }
    let expected = |version: u64| NAMES.map(|name| format!("{name}=1@{version}"));
    assert_eq!(fixture.state("s", None).await, expected(last));
    assert_eq!(fixture.state("s", Some(SNAPSHOT_STEP + 1)).await, expected(SNAPSHOT_STEP + 1));
    fixture.reopen().await;
    // Loads all keys of the session, and writes a fork with all of them.
    fixture.store().fork_session(&call(), fork_of("s", "f", None)).await.unwrap();
    assert_eq!(fixture.state("f", None).await, expected(last));
    let remove = Delta { remove: NAMES.map(key).into(), ..Delta::default() };
    fixture.store().append(&call(), batch("s", [event_of("removes", remove)])).await.unwrap();
    assert_eq!(fixture.state("s", None).await, [""; 0]);
    assert_eq!(fixture.state("s", Some(last)).await, expected(last));
    assert!(fixture.delete("f").await);
    let heads = "SELECT count(*) FROM state WHERE name = 0";
    assert_eq!(fixture.count(heads), 3, "of the application, the user and the session");
    fixture.sweep().await;
    fixture.store.close().await;
    assert_eq!(verified(&fixture).0, []);
    assert_eq!(fixture.count("SELECT count(*) FROM state"), 3);
}

/// Removes the head of a node while the store is closed.
async fn behead(fixture: &mut Fixture, node: &str) {
    fixture.store.close().await;
    let delete = format!("DELETE FROM state WHERE name = 0 AND node = ({node})");
    assert_eq!(fixture.tables().execute(&delete, ()), Ok(1));
    fixture.store = open(fixture.options.clone()).await.unwrap();
}

#[tokio::test]
async fn a_user_without_its_head_is_damaged() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    for number in ["1", "2"] {
        fixture.append("s", number, &[("user:k", number)]).await;
    }
    behead(&mut fixture, "SELECT id FROM scope WHERE user = 'u'").await;
    let damaged = || Error::damaged(Damage::Row, "any");
    let past = SessionQuery { as_of: Some(1), with_state: true, ..query("s") };
    assert_eq!(fixture.store.read_session(past).await.err(), Some(damaged()));
    let appended = fixture.store().append(&call(), one("s", "3", &[("user:k", "3")])).await;
    assert_eq!(appended.err(), Some(damaged()));
    fixture.store.close().await;
}

/// A session without its head is damaged, and no other session suffers.
#[tokio::test]
async fn a_missing_head_is_damage() {
    let mut fixture = Fixture::new().await;
    for session in ["s", "t"] {
        fixture.create("u", session).await;
        fixture.append(session, "1", &[("k", "1")]).await;
    }
    behead(&mut fixture, "SELECT id FROM session WHERE session_id = 's'").await;
    let damaged = || Error::damaged(Damage::Row, "any");
    assert_eq!(fixture.store.read_session(query("s")).await.err(), Some(damaged()));
    let appended = fixture.store().append(&call(), one("s", "2", &[])).await;
    assert_eq!(appended.err(), Some(damaged()));
    let created = fixture.store().create_session(&call(), creation("u", "s")).await;
    assert_eq!(created.err(), Some(damaged()));
    assert_eq!(fixture.append("t", "2", &[]).await.info.last_sequence, 2);
    fixture.sweep().await;
    fixture.store.close().await;
    // The lists have followed the other session.
    let behind = "SELECT (SELECT max(id) FROM event) - listed_through FROM meta";
    assert_eq!(fixture.count(behind), 0);
}
