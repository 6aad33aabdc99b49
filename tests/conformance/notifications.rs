//! Watchers of a scope are woken after the commit and before the write returns.

use sessiond::store::{
    Append, CreateSession, RewindSession, SessionUpdate, StateUpdate, Subscription,
};

use crate::{fixture::*, requests::*};

/// Subscriptions to an application, a user and a session.
struct Watchers([Subscription; 3]);

impl Watchers {
    fn new(fixture: &Fixture) -> Self {
        Self(["a", "a/u", "a/u/s"].map(|path| fixture.subscribe(path)))
    }

    /// Which were woken since the last call.
    fn woken(&mut self) -> [bool; 3] {
        self.0.each_mut().map(|watcher| {
            let woken = watcher.has_changed().unwrap();
            watcher.mark_unchanged();
            woken
        })
    }
}

pub async fn every_write_wakes_the_scopes_that_it_changed(fixture: &mut Fixture) {
    let mut watchers = Watchers::new(fixture);
    fixture.new_session("a/u/s", &[("app:k", "1")]).await;
    assert_eq!(watchers.woken()[..2], [true, false]);
    fixture.put("a/u/s", "1", set(&[("k", "1")])).await;
    assert_eq!(watchers.woken(), [false, false, true]);
    fixture.put("a/u/s", "2", set(&[("user:k", "1"), ("app:k", "1")])).await;
    assert_eq!(watchers.woken(), [true, true, true]);
    let batch = ["3", "4", "5"].map(|id| event(id, add("app:k", 1)));
    fixture.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(watchers.woken(), [true, false, true]);
    fixture.rewind_session(rewind("a/u/s", 2, "6")).await.unwrap();
    assert_eq!(watchers.woken(), [false, false, true]);
    fixture.update_state(update("a", add("app:k", 1))).await.unwrap();
    assert_eq!(watchers.woken(), [true, false, false]);
    let both = add("app:k", 1).add("user:k", 1);
    fixture.update_state(update("a/u", both)).await.unwrap();
    assert_eq!(watchers.woken(), [true, true, false]);
    fixture.new_session("a/u/t", &[("user:k", "1")]).await;
    assert_eq!(watchers.woken(), [false, true, false]);
    fixture.put("a/u/t", "1", add("app:k", 1)).await;
    assert_eq!(watchers.woken(), [true, false, false]);
    fixture.new_session("a/v/s", &[("user:k", "1")]).await;
    fixture.new_session("b/u/s", &[("user:k", "1"), ("app:k", "1")]).await;
    fixture.put("b/u/s", "1", add("app:k", 1)).await;
    assert_eq!(watchers.woken(), [false; 3]);
    let forked = fixture.subscribe("a/u/f");
    fixture.fork_session(fork("a/u/s", Some(3), "f")).await.unwrap();
    assert!(forked.has_changed().unwrap());
    assert_eq!(watchers.woken(), [false; 3]);
}

pub async fn what_changes_nothing_wakes_nobody(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("k", "\"x\"")]).await;
    fixture.put("a/u/s", "1", nothing()).await;
    fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    let asked = || StateUpdate {
        request: request("r", 1),
        ..update("a/u", set(&[("app:k", "1"), ("user:k", "1")]))
    };
    fixture.update_state(asked()).await.unwrap();
    let mut watchers = Watchers::new(fixture);
    fixture.append(plain("a/u/s", "1")).await.unwrap();
    fixture.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    assert!(fixture.update_state(asked()).await.unwrap().replayed);
    let nothing = remove(&["app:missing", "user:missing"]);
    fixture.update_state(update("a/u", nothing)).await.unwrap();
    let refused = [event("2", set(&[("app:k", "1"), ("user:k", "1")])), event("3", add("k", 1))];
    fixture.append(append("a/u/s", refused)).await.unwrap_err();
    let refused = Append { precondition: expect_sequence(9), ..plain("a/u/s", "4") };
    fixture.append(refused).await.unwrap_err();
    let refused = RewindSession { precondition: expect_sequence(9), ..rewind("a/u/s", 1, "n") };
    fixture.rewind_session(refused).await.unwrap_err();
    let taken = create("a/u/s", &[("app:k", "1"), ("user:k", "1")]);
    fixture.create_session(taken).await.unwrap_err();
    assert!(!fixture.delete_session(address("a/u/x"), NOW).await.unwrap());
    assert_eq!(watchers.woken(), [false; 3]);
}

pub async fn a_deletion_wakes_the_session(fixture: &mut Fixture) {
    for round in 0..3 {
        fixture.new_session("a/u/s", &[("user:k", "1")]).await;
        fixture.put("a/u/s", "1", nothing()).await;
        let mut watchers = Watchers::new(fixture);
        watchers.woken();
        fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
        assert_eq!(watchers.woken(), [false, false, true], "round {round}");
    }
}

/// A watcher of an earlier life is woken when the address is taken again, and when the session is swept.
pub async fn the_end_of_an_expired_session_wakes_it(fixture: &mut Fixture) {
    let short = || CreateSession { expiration: ends(at(2_000)), ..create("a/u/s", &[]) };
    fixture.create_session(short()).await.unwrap();
    let position = fixture.position("a/u/s").await;
    let mut watchers = Watchers::new(fixture);
    let anew = CreateSession { expiration: ends(at(3_000)), ..short() };
    fixture.create_session(anew.at(at(2_000))).await.unwrap();
    assert!(watchers.woken()[2]);
    let query = follow("a/u/s", position).at(at(2_000));
    fixture.read_changes(query).await.unwrap_err();
    fixture.sweep_all(at(3_000)).await;
    assert_eq!(watchers.woken(), [false, false, true]);
}

/// A watcher waits for the end of a session, so it has to know when that is moved.
pub async fn a_new_expiration_wakes_the_session(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let mut watchers = Watchers::new(fixture);
    let moved = SessionUpdate { expiration: Some(ends(at(2_000))), ..touch("a/u/s") };
    fixture.update_session(moved).await.unwrap();
    assert_eq!(watchers.woken(), [false, false, true]);
}

/// Waiting after reading loses nothing: a commit in between has woken the watcher.
pub async fn reading_and_waiting_in_turn_sees_everything(fixture: &mut Fixture) {
    const WRITES: u64 = 200;
    fixture.new_session("a/u/s", &[]).await;
    let mut watcher = fixture.subscribe("a/u/s");
    let store = fixture.share();
    let writer = tokio::spawn(async move {
        for at in 0..WRITES {
            store.append(plain("a/u/s", &at.to_string())).await.unwrap();
        }
    });
    let mut query = follow("a/u/s", fixture.position("a/u/s").await);
    query.position.sequence = 0;
    let mut seen = Vec::new();
    while (seen.len() as u64) < WRITES {
        watcher.mark_unchanged();
        let page = fixture.read_changes(query.clone()).await.unwrap();
        seen.extend(sequences(&page.events));
        query.position = page.position;
        if page.complete && (seen.len() as u64) < WRITES {
            watcher.changed().await.unwrap();
        }
    }
    assert_eq!(seen, (1..=WRITES).collect::<Vec<_>>());
    writer.await.unwrap();
}
