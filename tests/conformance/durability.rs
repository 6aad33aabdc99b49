//! What a store is that was closed and opened again.

use sessiond::{
    domain::{error::Error, event::NewEvent},
    store::{Append, CreateSession, StateUpdate},
};

use crate::{bench::*, build::*};

pub async fn everything_is_there_after_a_restart(bench: &mut Bench) {
    let create = CreateSession {
        labels: labels(&[("a", "b")]),
        expire_time: Some(at(50_000)),
        ..create("a/u/s", &[("app:k", "1"), ("user:k", "1"), ("k", "0")])
    };
    bench.create_session(create).await.unwrap();
    let events_of_a_batch = (0..5).map(|at| NewEvent {
        body: Some(json("{ \"a\" : 1.0 }")),
        ..event(&at.to_string(), add("k", 1).add("app:k", 1))
    });
    bench.append(append("a/u/s", events_of_a_batch)).await.unwrap();
    bench.rewind_session(rewind("a/u/s", 2, "m")).await.unwrap();
    bench.fork_session(fork("a/u/s", Some(4), "t")).await.unwrap();
    let gone = bench.new_session("a/v/s", &[]).await.incarnation;
    bench.delete_session(address("a/v/s"), NOW).await.unwrap();
    let asked =
        || StateUpdate { request: request("r", 1), ..update("a/u", set(&[("user:x", "1")])) };
    bench.update_state(asked()).await.unwrap();
    let asked_of_session =
        || Append { request: request("r", 1), ..append("a/u/s", [event("asked", add("k", 1))]) };
    bench.append(asked_of_session()).await.unwrap();

    let id = bench.id();
    let before = snapshot(bench).await;
    for _ in 0..2 {
        bench.reopen().await;
        assert_eq!(bench.id(), id);
        assert_eq!(snapshot(bench).await, before);
    }
    assert!(bench.update_state(asked()).await.unwrap().replayed);
    let asked = bench.append(asked_of_session()).await.unwrap();
    assert!(asked.request_replayed);
    let replay = append("a/u/s", [event("asked", add("k", 2))]);
    let refused = bench.append(replay).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)), "{refused}");
    assert_eq!(bench.put("a/u/s", "next", nothing()).await.sequence, 8);
    let taken: Vec<_> = bench.list_sessions(sessions("a")).await.unwrap().sessions;
    let anew = bench.new_session("a/v/s", &[]).await;
    assert!(taken.iter().all(|(info, _)| info.incarnation != anew.incarnation));
    assert_ne!(anew.incarnation, gone);
}

/// Everything that can be read of the two sessions and their scopes.
async fn snapshot(bench: &Bench) -> Vec<String> {
    let mut all = Vec::new();
    for path in ["a/u/s", "a/u/t"] {
        let info = bench.info(path).await;
        for sequence in 0..=info.last_sequence {
            all.push(bench.state_as_of(path, sequence).await);
        }
        all.push(format!("{info:?} {:?}", bench.whole_log(path).await));
        for name in ["k", "app:k", "user:k"] {
            let page = bench.list_key_changes(changes(path, name)).await.unwrap();
            all.push(format!("{page:?}"));
        }
        let mut start = bench.position(path).await;
        start.sequence = 0;
        start.versions = Default::default();
        let page = bench.read_changes(follow(path, start)).await.unwrap();
        all.push(format!("{page:?} {:?}", bench.versions(path).await));
    }
    let page = bench.list_sessions(sessions("a")).await.unwrap();
    all.push(format!("{page:?}"));
    all
}

pub async fn two_stores_are_not_the_same(bench: &mut Bench) {
    bench.new_session("a/u/s", &[]).await;
    let id = bench.id();
    bench.elsewhere().await;
    assert_ne!(bench.id(), id);
    assert!(bench.list_sessions(sessions("a")).await.unwrap().sessions.is_empty());
}
