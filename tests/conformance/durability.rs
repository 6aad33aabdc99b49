//! Stores that are closed and opened again.

use sessiond::{
    commit::Request,
    domain::{error::Error, event::NewEvent, trace::TraceId},
    store::{Append, CreateSession, RequestContext, StateUpdate},
};

use crate::{fixture::*, requests::*};

pub async fn everything_is_there_after_a_restart(fixture: &mut Fixture) {
    let create = CreateSession {
        labels: labels(&[("a", "b")]),
        expiration: ends(at(50_000)),
        ..create("a/u/s", &[("app:k", "1"), ("user:k", "1"), ("k", "0")])
    };
    fixture.create_session(create).await.unwrap();
    let events_of_a_batch = (0..5).map(|at| NewEvent {
        body: Some(json("{ \"a\" : 1.0 }")),
        ..event(&at.to_string(), add("k", 1).add("app:k", 1))
    });
    let traced = RequestContext { trace_id: TraceId::new(7), ..RequestContext::internal() };
    let batch = Request::Append(append("a/u/s", events_of_a_batch).to(address("a/u/s")));
    fixture.commit(&traced, batch).await.unwrap();
    fixture.rewind_session(rewind("a/u/s", 2, "m")).await.unwrap();
    fixture.fork_session(fork("a/u/s", Some(4), "t")).await.unwrap();
    let gone = fixture.new_session("a/v/s", &[]).await.incarnation;
    fixture.delete_session(address("a/v/s"), NOW).await.unwrap();
    let asked =
        || StateUpdate { request: request("r", 1), ..update("a/u", set(&[("user:x", "1")])) };
    fixture.update_state(asked()).await.unwrap();
    let asked_of_session =
        || Append { request: request("r", 1), ..append("a/u/s", [event("asked", add("k", 1))]) };
    fixture.append(asked_of_session()).await.unwrap();

    let id = fixture.id();
    let before = snapshot(fixture).await;
    for _ in 0..2 {
        fixture.reopen().await;
        assert_eq!(fixture.id(), id);
        assert_eq!(snapshot(fixture).await, before);
    }
    assert!(fixture.update_state(asked()).await.unwrap().replayed);
    let asked = fixture.append(asked_of_session()).await.unwrap();
    assert!(asked.request_replayed);
    let replay = append("a/u/s", [event("asked", add("k", 2))]);
    let refused = fixture.append(replay).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)), "{refused}");
    assert_eq!(fixture.put("a/u/s", "next", nothing()).await.sequence, 8);
    let taken: Vec<_> = fixture.list_sessions(sessions("a")).await.unwrap().sessions;
    let anew = fixture.new_session("a/v/s", &[]).await;
    assert!(taken.iter().all(|(info, _)| info.incarnation != anew.incarnation));
    assert_ne!(anew.incarnation, gone);
}

/// Everything that can be read of the two sessions and their scopes.
async fn snapshot(fixture: &Fixture) -> Vec<String> {
    let mut all = Vec::new();
    for path in ["a/u/s", "a/u/t"] {
        let info = fixture.info(path).await;
        for sequence in 0..=info.last_sequence {
            all.push(fixture.state_as_of(path, sequence).await);
        }
        all.push(format!("{info:?} {:?}", fixture.whole_log(path).await));
        for name in ["k", "app:k", "user:k"] {
            let page = fixture.list_key_changes(changes(path, name)).await.unwrap();
            all.push(format!("{page:?}"));
        }
        let mut start = fixture.position(path).await;
        start.sequence = 0;
        start.versions = Default::default();
        let page = fixture.read_changes(follow(path, start)).await.unwrap();
        all.push(format!("{page:?} {:?}", fixture.versions(path).await));
    }
    let page = fixture.list_sessions(sessions("a")).await.unwrap();
    all.push(format!("{page:?}"));
    all
}

pub async fn two_stores_are_not_the_same(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let id = fixture.id();
    fixture.elsewhere().await;
    assert_ne!(fixture.id(), id);
    assert!(fixture.list_sessions(sessions("a")).await.unwrap().sessions.is_empty());
}
