//! Forks that take several requests, and what happens between those.

use sessiond::{
    commit::{Answer, Fork, Request},
    domain::{
        Sequence,
        error::Error,
        limits::BATCH_EVENTS,
        session::{SessionInfo, State},
    },
    store::{ForkSession, RequestContext},
};

use crate::{fixture::*, requests::*};

async fn begin(fixture: &Fixture, fork: ForkSession) -> Fork {
    match ask(fixture, Request::Fork(fork)).await.unwrap() {
        Answer::ForkBegun(fork) => fork,
        other => panic!("{other:?}"),
    }
}

/// Copies the next piece. Returns the last event that is copied then.
async fn copy(fixture: &Fixture, fork: &Fork, after: Sequence) -> Result<Sequence, Error> {
    match ask(fixture, Request::CopyEvents(fork.clone(), after)).await? {
        Answer::Copied(copied) => Ok(copied),
        other => panic!("{other:?}"),
    }
}

async fn finish(fixture: &Fixture, fork: &Fork) -> Result<(SessionInfo, State), Error> {
    match ask(fixture, Request::FinishFork(fork.clone())).await? {
        Answer::Forked(forked) => Ok(forked),
        other => panic!("{other:?}"),
    }
}

async fn ask(fixture: &Fixture, request: Request) -> Result<Answer, Error> {
    fixture.commit(&RequestContext::internal(), request).await
}

/// Three batches, so that a fork takes several pieces.
async fn long_source(fixture: &Fixture) {
    fixture.new_session("a/u/s", &[("n", "0")]).await;
    for batch in 0..3 {
        let events = (0..BATCH_EVENTS).map(|at| event(&format!("{batch}.{at}"), add("n", 1)));
        fixture.append(append("a/u/s", events)).await.unwrap();
    }
}

pub async fn a_fork_is_copied_in_pieces_while_others_write(fixture: &mut Fixture) {
    long_source(fixture).await;
    let log = fixture.log("a/u/s").await;
    let total = log.len() as Sequence;
    let fork = begin(fixture, fork("a/u/s", None, "t")).await;
    let (mut copied, mut pieces) = (0, 0);
    while copied < total {
        let next = copy(fixture, &fork, copied).await.unwrap();
        assert!(next > copied);
        (copied, pieces) = (next, pieces + 1);
        fixture.put("a/u/s", &format!("later {pieces}"), add("n", 100).add("app:n", 1)).await;
        // It is not visible yet.
        fixture.read_session(read("a/u/t")).await.unwrap_err();
        assert_eq!(fixture.list_sessions(sessions("a")).await.unwrap().sessions.len(), 1);
    }
    assert!(pieces > 1, "one piece took it all");
    assert_eq!(copied, total);
    // The id is taken, and free again.
    fixture.new_session("a/u/t", &[("k", "1")]).await;
    let taken = finish(fixture, &fork).await.unwrap_err();
    assert_eq!(taken, Error::SessionExists(address("a/u/t")));
    assert_eq!(fixture.state("a/u/t").await, format!(r#"{{"app:n":{pieces},"k":1}}"#));
    fixture.delete_session(address("a/u/t"), NOW).await.unwrap();
    let (info, state) = finish(fixture, &fork).await.unwrap();
    assert_eq!(info, fixture.info("a/u/t").await);
    assert_eq!(info.last_sequence, total);
    assert_eq!(text(&state), format!(r#"{{"app:n":{pieces},"n":{total}}}"#));
    assert_eq!(fixture.state("a/u/t").await, text(&state));
    assert_eq!(fixture.log("a/u/t").await, log);
    for sequence in [0, 1, total / 2, total] {
        let as_of = fixture.state_as_of("a/u/t", sequence).await;
        assert_eq!(as_of, format!(r#"{{"n":{sequence}}}"#));
    }
    let listed = fixture.every_change(changes("a/u/t", "n")).await;
    assert_eq!(listed.len() as Sequence, total + 1);
    let replay = append("a/u/t", [event("1.7", add("n", 1))]);
    assert!(fixture.append(replay).await.unwrap().events[0].replayed);
    fixture.sweep_all(at(10_000)).await;
    assert_eq!(fixture.log("a/u/t").await, log);
}

/// Also if a session of the source's address is there again.
pub async fn a_fork_ends_with_its_source(fixture: &mut Fixture) {
    long_source(fixture).await;
    let fork = begin(fixture, fork("a/u/s", None, "t")).await;
    let copied = copy(fixture, &fork, 0).await.unwrap();
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    let gone = Error::not_found(&address("a/u/s"));
    assert_eq!(copy(fixture, &fork, copied).await.unwrap_err(), gone);
    long_source(fixture).await;
    assert_eq!(copy(fixture, &fork, copied).await.unwrap_err(), gone);
    assert_eq!(finish(fixture, &fork).await.unwrap_err(), gone);
    fixture.read_session(read("a/u/t")).await.unwrap_err();
    fixture.sweep_all(at(10_000)).await;
    assert_eq!(fixture.list_sessions(sessions("a")).await.unwrap().sessions.len(), 1);
}

pub async fn a_fork_that_is_never_finished_leaves_nothing(fixture: &mut Fixture) {
    long_source(fixture).await;
    let abandoned = begin(fixture, fork("a/u/s", None, "t")).await;
    copy(fixture, &abandoned, 0).await.unwrap();
    fixture.sweep_all(at(10_000)).await;
    // A part of the events is gone: it must not become a session.
    assert!(finish(fixture, &abandoned).await.is_err());
    fixture.read_session(read("a/u/t")).await.unwrap_err();
    let (info, _) = fixture.fork_session(fork("a/u/s", Some(5), "t")).await.unwrap();
    assert_ne!(info.incarnation, abandoned.target_incarnation);
    assert_eq!(sequences(&fixture.log("a/u/t").await), [1, 2, 3, 4, 5]);
}
