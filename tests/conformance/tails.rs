//! Who waits for a scope is woken after the commit and before the write returns.

use sessiond::{
    domain::Version,
    store::{
        Append, CreateSession, RewindSession, SessionUpdate, StateUpdate, WatchQuery, tails::GONE,
    },
};
use tokio::sync::watch::Receiver;

use crate::{bench::*, build::*};

/// The tails of an application, a user and a session.
struct Tails([Receiver<Version>; 3]);

impl Tails {
    fn new(bench: &Bench) -> Self {
        Self(["a", "a/u", "a/u/s"].map(|path| bench.tails().subscribe(&scope(path))))
    }

    /// Which have moved since the last look, and to where.
    fn moved(&mut self) -> [Option<Version>; 3] {
        let [application, user, session] = &mut self.0;
        [application, user, session].map(|tail| {
            let moved = tail.has_changed().unwrap();
            let version = *tail.borrow_and_update();
            moved.then_some(version)
        })
    }
}

pub async fn every_write_tells_the_scopes_that_it_changed(bench: &mut Bench) {
    let mut tails = Tails::new(bench);
    bench.new_session("a/u/s", &[("app:k", "1")]).await;
    assert_eq!(tails.moved()[..2], [Some(1), None]);
    bench.put("a/u/s", "1", set(&[("k", "1")])).await;
    assert_eq!(tails.moved(), [None, None, Some(1)]);
    bench.put("a/u/s", "2", set(&[("user:k", "1"), ("app:k", "1")])).await;
    assert_eq!(tails.moved(), [Some(2), Some(1), Some(2)]);
    let batch = ["3", "4", "5"].map(|id| event(id, add("app:k", 1)));
    bench.append(append("a/u/s", batch)).await.unwrap();
    assert_eq!(tails.moved(), [Some(5), None, Some(5)]);
    bench.rewind_session(rewind("a/u/s", 2, "6")).await.unwrap();
    assert_eq!(tails.moved(), [None, None, Some(6)]);
    bench.update_state(update("a", add("app:k", 1))).await.unwrap();
    assert_eq!(tails.moved(), [Some(6), None, None]);
    let both = add("app:k", 1).add("user:k", 1);
    bench.update_state(update("a/u", both)).await.unwrap();
    assert_eq!(tails.moved(), [Some(7), Some(2), None]);
    bench.new_session("a/u/t", &[("user:k", "1")]).await;
    assert_eq!(tails.moved(), [None, Some(3), None]);
    bench.put("a/u/t", "1", add("app:k", 1)).await;
    assert_eq!(tails.moved(), [Some(8), None, None]);
    bench.new_session("a/v/s", &[("user:k", "1")]).await;
    bench.new_session("b/u/s", &[("user:k", "1"), ("app:k", "1")]).await;
    bench.put("b/u/s", "1", add("app:k", 1)).await;
    assert_eq!(tails.moved(), [None; 3]);
    let mut forked = bench.tails().subscribe(&scope("a/u/f"));
    bench.fork_session(fork("a/u/s", Some(3), "f")).await.unwrap();
    assert!(forked.has_changed().unwrap() && *forked.borrow_and_update() == 3);
    assert_eq!(tails.moved(), [None; 3]);
}

pub async fn what_changes_nothing_tells_nobody(bench: &mut Bench) {
    bench.new_session("a/u/s", &[("k", "\"x\"")]).await;
    bench.put("a/u/s", "1", nothing()).await;
    bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    let asked = || StateUpdate {
        request: request("r", 1),
        ..update("a/u", set(&[("app:k", "1"), ("user:k", "1")]))
    };
    bench.update_state(asked()).await.unwrap();
    let mut tails = Tails::new(bench);
    bench.append(plain("a/u/s", "1")).await.unwrap();
    bench.rewind_session(rewind("a/u/s", 0, "m")).await.unwrap();
    assert!(bench.update_state(asked()).await.unwrap().replayed);
    let nothing = remove(&["app:missing", "user:missing"]);
    bench.update_state(update("a/u", nothing)).await.unwrap();
    let refused = [event("2", set(&[("app:k", "1"), ("user:k", "1")])), event("3", add("k", 1))];
    bench.append(append("a/u/s", refused)).await.unwrap_err();
    let refused = Append { precondition: expect_sequence(9), ..plain("a/u/s", "4") };
    bench.append(refused).await.unwrap_err();
    let refused = RewindSession { precondition: expect_sequence(9), ..rewind("a/u/s", 1, "n") };
    bench.rewind_session(refused).await.unwrap_err();
    let taken = create("a/u/s", &[("app:k", "1"), ("user:k", "1")]);
    bench.create_session(taken).await.unwrap_err();
    assert!(!bench.delete_session(address("a/u/x"), NOW).await.unwrap());
    assert_eq!(tails.moved(), [None; 3]);
}

pub async fn a_deletion_tells_that_the_session_is_gone(bench: &mut Bench) {
    for round in 0..3 {
        bench.new_session("a/u/s", &[("user:k", "1")]).await;
        bench.put("a/u/s", "1", nothing()).await;
        let mut tails = Tails::new(bench);
        tails.moved();
        bench.delete_session(address("a/u/s"), NOW).await.unwrap();
        assert_eq!(tails.moved(), [None, None, Some(GONE)], "round {round}");
    }
}

/// Who follows an earlier life learns that it is over when the address is taken again, or swept.
pub async fn the_end_of_an_expired_session_is_told(bench: &mut Bench) {
    let short = || CreateSession { expire_time: Some(at(2_000)), ..create("a/u/s", &[]) };
    bench.create_session(short()).await.unwrap();
    let position = bench.position("a/u/s").await;
    let mut tails = Tails::new(bench);
    let anew = CreateSession { now: at(2_000), expire_time: Some(at(3_000)), ..short() };
    bench.create_session(anew).await.unwrap();
    assert!(tails.moved()[2].is_some());
    let query = WatchQuery { now: at(2_000), ..follow("a/u/s", position) };
    bench.read_changes(query).await.unwrap_err();
    bench.sweep_all(at(3_000)).await;
    assert_eq!(tails.moved(), [None, None, Some(GONE)]);
}

/// Who waits for the end of a session has to know when it is moved.
pub async fn a_new_expiry_is_told(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let mut tails = Tails::new(bench);
    let moved = SessionUpdate { expire_time: Some(Some(at(2_000))), ..touch("a/u/s") };
    bench.update_session(moved).await.unwrap();
    let [application, user, session] = tails.moved();
    assert_eq!((application, user), (None, None));
    assert!(session.is_some());
}

/// Waiting after reading loses nothing: what is committed in between has moved the tail.
pub async fn reading_and_waiting_in_turn_sees_everything(bench: &mut Bench) {
    const WRITES: u64 = 200;
    bench.new_session("a/u/s", &[]).await;
    let mut tail = bench.tails().subscribe(&scope("a/u/s"));
    let store = bench.share();
    let writer = tokio::spawn(async move {
        for at in 0..WRITES {
            store.append(plain("a/u/s", &at.to_string())).await.unwrap();
        }
    });
    let mut query = follow("a/u/s", bench.position("a/u/s").await);
    query.position.sequence = 0;
    let mut seen = Vec::new();
    while (seen.len() as u64) < WRITES {
        tail.borrow_and_update();
        let page = bench.read_changes(query.clone()).await.unwrap();
        seen.extend(sequences(&page.events));
        query.position = page.position;
        if page.complete && (seen.len() as u64) < WRITES {
            tail.changed().await.unwrap();
        }
    }
    assert_eq!(seen, (1..=WRITES).collect::<Vec<_>>());
    writer.await.unwrap();
}
