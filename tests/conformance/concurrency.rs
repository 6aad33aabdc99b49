//! Several writers at once.

use std::{collections::BTreeSet, future::poll_fn, task::Poll};

use sessiond::{
    domain::{error::Error, event::Event},
    store::{Append, Appended, CreateSession, OnExisting, StateUpdate},
};

use crate::{fixture::*, requests::*};

const WRITERS: u64 = 8;
const EVENTS: u64 = 25;

/// Runs one task for each writer and waits for all of them.
async fn together<F, T>(writer: impl Fn(u64) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let tasks: Vec<_> = (0..WRITERS).map(|at| tokio::spawn(writer(at))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

pub async fn increments_of_one_session_are_never_lost(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let stored: Vec<Vec<Event>> = together(|writer| {
        let store = fixture.share();
        async move {
            let mut stored = Vec::new();
            for at in 0..EVENTS {
                let delta = add("n", 1).add("app:n", 1).add("user:n", 1);
                let id = format!("{writer}.{at}");
                let appended = store.append(append("a/u/s", [event(&id, delta)])).await;
                stored.push(only_new(appended.unwrap()));
            }
            stored
        }
    })
    .await;
    let total = WRITERS * EVENTS;
    let state = format!(r#"{{"app:n":{total},"user:n":{total},"n":{total}}}"#);
    assert_eq!(fixture.state("a/u/s").await, state);
    let log = fixture.log("a/u/s").await;
    assert_eq!(sequences(&log), (1..=total).collect::<Vec<_>>());
    for event in &log {
        let n = event.sequence;
        let changes = format!(r#"{{"n":{n},"app:n":{n},"user:n":{n}}}"#);
        assert_eq!(became(&event.changes), changes);
        assert_eq!((event.versions.application, event.versions.user), (n, n));
    }
    for stored in stored {
        assert!(stored.is_sorted_by_key(|event| event.sequence));
        for event in stored {
            assert_eq!(event, log[event.sequence as usize - 1]);
        }
    }
}

/// Sessions of two users and updates without a session, all on one application.
pub async fn sessions_that_share_a_scope_lose_nothing(fixture: &mut Fixture) {
    for writer in 0..WRITERS {
        let path = format!("a/u{}/s{writer}", writer % 2);
        fixture.new_session(&path, &[]).await;
    }
    together(|writer| {
        let store = fixture.share();
        async move {
            let path = format!("a/u{}/s{writer}", writer % 2);
            for at in 0..EVENTS {
                let delta = || add("n", 1).add("app:n", 1).add("user:n", 1);
                let batch = [event(&format!("{at}"), delta()), event(&format!("{at}+"), delta())];
                store.append(append(&path, batch)).await.unwrap();
                let alone = update(&format!("a/u{}", writer % 2), add("app:n", 1));
                store.update_state(alone).await.unwrap();
            }
        }
    })
    .await;
    let of_user = WRITERS * EVENTS;
    let of_app = 3 * WRITERS * EVENTS;
    let mut seen = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
    for writer in 0..WRITERS {
        let user = writer % 2;
        let path = format!("a/u{user}/s{writer}");
        let own = 2 * EVENTS;
        let state = format!(r#"{{"app:n":{of_app},"user:n":{of_user},"n":{own}}}"#);
        assert_eq!(fixture.state(&path).await, state);
        let log = fixture.log(&path).await;
        assert_eq!(sequences(&log), (1..=own).collect::<Vec<_>>());
        for pair in log.chunks(2) {
            // A batch is one commit: nothing comes in between.
            let [first, second] = [pair[0].versions, pair[1].versions];
            assert_eq!(second.application, first.application + 1);
            assert_eq!(second.user, first.user + 1);
        }
        for event in log {
            // Every change adds one, so that a counter is its scope's version.
            let versions = event.versions;
            let (app, user_n) = (versions.application, versions.user);
            let n = event.sequence;
            let changes = format!(r#"{{"n":{n},"app:n":{app},"user:n":{user_n}}}"#);
            assert_eq!(became(&event.changes), changes);
            let as_of = format!(r#"{{"app:n":{app},"user:n":{user_n},"n":{n}}}"#);
            assert_eq!(fixture.state_as_of(&path, n).await, as_of);
            assert!(seen[2].insert(app));
            assert!(seen[user as usize].insert(user_n));
        }
    }
    for user in &seen[..2] {
        assert_eq!(user.len() as u64, of_user);
        assert_eq!(user.last(), Some(&of_user));
    }
    assert_eq!(fixture.position("a").await.versions.application, of_app);
}

pub async fn one_of_several_conditional_writers_wins(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for round in 0..10 {
        let results: Vec<Result<Appended, Error>> = together(|writer| {
            let store = fixture.share();
            let id = format!("{round}.{writer}");
            let guarded = Append {
                precondition: expect_sequence(round),
                ..append("a/u/s", [event(&id, add("n", 1))])
            };
            async move { store.append(guarded).await }
        })
        .await;
        let mut won = 0;
        for result in results {
            match result {
                Ok(_) => won += 1,
                Err(Error::Conflict { sequence, .. }) => {
                    assert_eq!(sequence.unwrap().actual, round + 1);
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(won, 1);
    }
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":10}"#);
    // A wider scope likewise, by its version.
    for (path, key) in [("a", "app:n"), ("a/u", "user:n")] {
        for round in 0..5 {
            let won: Vec<bool> = together(|_| {
                let store = fixture.share();
                let precondition = expect_sequence(round);
                let guarded = StateUpdate { precondition, ..update(path, add(key, 1)) };
                async move { store.update_state(guarded).await.is_ok() }
            })
            .await;
            assert_eq!(won.into_iter().filter(|won| *won).count(), 1);
        }
    }
    assert_eq!(fixture.state("a/u").await, r#"{"app:n":5,"user:n":5}"#);
}

pub async fn a_concurrently_repeated_event_is_stored_once(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for round in 1..=10 {
        let answers: Vec<Appended> = together(|_| {
            let store = fixture.share();
            let same = append("a/u/s", [event(&round.to_string(), add("n", 1))]);
            async move { store.append(same).await.unwrap() }
        })
        .await;
        let new = answers.iter().filter(|answer| !answer.events[0].replayed);
        assert_eq!(new.count(), 1);
        for answer in &answers {
            assert_eq!(answer.events[0].event, answers[0].events[0].event);
            assert_eq!(answer.events[0].event.sequence, round);
        }
    }
    assert_eq!(fixture.state("a/u/s").await, r#"{"n":10}"#);
}

pub async fn a_concurrently_repeated_request_is_applied_once(fixture: &mut Fixture) {
    let replayed: Vec<bool> = together(|_| {
        let store = fixture.share();
        let same = StateUpdate { request: request("r", 1), ..update("a/u", add("user:n", 1)) };
        async move { store.update_state(same).await.unwrap().replayed }
    })
    .await;
    assert_eq!(replayed.iter().filter(|replayed| !**replayed).count(), 1);
    assert_eq!(fixture.state("a/u").await, r#"{"user:n":1}"#);
}

pub async fn concurrent_creations_create_one_session(fixture: &mut Fixture) {
    for round in 0..10 {
        let path = format!("a/u/{round}");
        let results: Vec<Result<bool, Error>> = together(|writer| {
            let store = fixture.share();
            // In the later rounds they are answered with what is there.
            let on_existing = if round < 5 { OnExisting::Refuse } else { OnExisting::Return };
            let state = [("n", &*writer.to_string()), ("app:n", "1")];
            let create = CreateSession { on_existing, ..create(&path, &state) };
            async move { store.create_session(create).await.map(|created| created.created) }
        })
        .await;
        let created = results.iter().filter(|result| **result == Ok(true));
        assert_eq!(created.count(), 1);
        let refused = Err(Error::SessionExists(address(&path)));
        let other = if round < 5 { refused } else { Ok(false) };
        let others = results.iter().filter(|result| **result == other);
        assert_eq!(others.count() as u64, WRITERS - 1);
        // A refused creation has written nothing into the application either.
        let version = fixture.position("a").await.versions.application;
        assert_eq!(version, round + 1);
    }
}

pub async fn concurrent_creations_after_an_expiry_create_one_session(fixture: &mut Fixture) {
    for round in 0..10 {
        let path = format!("a/u/{round}");
        let short = CreateSession { expiration: ends(at(2_000)), ..create(&path, &[("old", "1")]) };
        let first = fixture.create_session(short).await.unwrap().info;
        let results = together(|writer| {
            let store = fixture.share();
            let anew = create(&path, &[("n", &writer.to_string()), ("app:n", "1")]);
            async move { store.create_session(anew.at(at(2_000))).await }
        })
        .await;
        let mut created = Vec::new();
        for result in results {
            match result {
                Ok(answer) => created.push(answer),
                Err(error) => assert_eq!(error, Error::SessionExists(address(&path))),
            }
        }
        assert_eq!(created.len(), 1);
        assert_ne!(created[0].info.incarnation, first.incarnation);
        assert_eq!(fixture.info(&path).await, created[0].info);
        assert_eq!(fixture.state(&path).await, text(&created[0].state));
        assert_eq!(fixture.position("a").await.versions.application, round + 1);
    }
}

/// A second session of the id comes and goes. While both are there, the id is refused.
pub async fn a_bare_id_is_resolved_at_the_commit(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    let accepted: Vec<u64> = together(|writer| {
        let store = fixture.share();
        async move {
            let mut accepted = 0;
            for at in 0..EVENTS {
                if writer == 0 {
                    store.create_session(create("a/v/s", &[])).await.unwrap();
                    assert!(store.delete_session(address("a/v/s"), NOW).await.unwrap());
                    continue;
                }
                let id = format!("{writer}.{at}");
                let by_id =
                    Append { session: bare("s"), ..append("a/u/s", [event(&id, add("n", 1))]) };
                match store.append(by_id).await {
                    Ok(appended) => {
                        assert_eq!(appended.info.key, address("a/u/s"));
                        accepted += 1;
                    }
                    Err(refused) => {
                        assert!(matches!(refused, Error::AmbiguousSessionId(_)), "{refused}");
                    }
                }
            }
            accepted
        }
    })
    .await;
    let accepted: u64 = accepted.iter().sum();
    assert_eq!(fixture.info("a/u/s").await.last_sequence, accepted);
    let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
    let n = state.get("n").map_or("0", |n| n.as_str());
    assert_eq!(n, accepted.to_string());
}

pub async fn a_refused_write_does_not_affect_concurrent_writes(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("s", "\"x\"")]).await;
    together(|writer| {
        let store = fixture.share();
        async move {
            for at in 0..EVENTS {
                let id = format!("{writer}.{at}");
                let delta = add("app:n", 1).add("n", 1);
                if writer % 2 == 0 {
                    let good = append("a/u/s", [event(&id, delta)]);
                    store.append(good).await.unwrap();
                } else {
                    let bad = [event(&id, delta), event("never", add("s", 1))];
                    let refused = store.append(append("a/u/s", bad)).await;
                    assert!(matches!(refused, Err(Error::TypeMismatch { .. })));
                }
            }
        }
    })
    .await;
    let good = WRITERS / 2 * EVENTS;
    let state = format!(r#"{{"app:n":{good},"n":{good},"s":"x"}}"#);
    assert_eq!(fixture.state("a/u/s").await, state);
    let log = fixture.log("a/u/s").await;
    assert_eq!(sequences(&log), (1..=good).collect::<Vec<_>>());
    assert_eq!(fixture.position("a").await.versions.application, good);
}

/// A read is of one point in time: it sees a commit whole or not at all.
pub async fn a_read_sees_whole_commits_only(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[("n", "0"), ("app:n", "0"), ("user:n", "0")]).await;
    let store = fixture.share();
    let writer = tokio::spawn(async move {
        for at in 0..200 {
            let delta = || add("n", 1).add("app:n", 1).add("user:n", 1);
            let batch = [event(&format!("{at}"), delta()), event(&format!("{at}+"), delta())];
            store.append(append("a/u/s", batch)).await.unwrap();
        }
    });
    let mut seen = 0;
    while seen < 400 {
        let mut query = read("a/u/s");
        query.events = Some(everything());
        let view = fixture.read_session(query).await.unwrap();
        let n = view.info.last_sequence;
        assert_eq!(n % 2, 0);
        assert!(n >= seen);
        let state = format!(r#"{{"app:n":{n},"user:n":{n},"n":{n}}}"#);
        assert_eq!(text(&view.state.unwrap()), state);
        assert_eq!(view.events.unwrap().events.len() as u64, n);
        let position = fixture.position("a/u/s").await;
        assert_eq!(position.versions.user, position.sequence + 1);
        seen = n;
        tokio::task::yield_now().await;
    }
    writer.await.unwrap();
}

/// A write is complete, even if its caller has stopped waiting.
pub async fn a_cancelled_caller_harms_nobody(fixture: &mut Fixture) {
    fixture.new_session("a/u/s", &[]).await;
    for at in 0..50 {
        let store = fixture.share();
        let left = append("a/u/s", [event(&format!("left {at}"), add("n", 1))]);
        let caller = tokio::spawn(async move { store.append(left).await });
        if at % 2 == 0 {
            tokio::task::yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
        let stays = append("a/u/s", [event(&format!("stays {at}"), add("m", 1))]);
        fixture.append(stays).await.unwrap();
    }
    let log = fixture.log("a/u/s").await;
    assert_eq!(sequences(&log), (1..=log.len() as u64).collect::<Vec<_>>());
    let left = log.iter().filter(|event| event.event_id.as_str().starts_with("left"));
    let state = fixture.read_state(read_state("a/u/s")).await.unwrap().state;
    assert_eq!(state.get("m"), Some(&json("50")));
    let left = left.count();
    let n = state.get("n").map_or("0", |n| n.as_str());
    assert_eq!(n, left.to_string());
}

pub async fn writes_take_effect_in_the_order_of_their_first_polls(fixture: &mut Fixture) {
    const WRITES: u64 = 50;
    fixture.new_session("a/u/s", &[]).await;
    let store = fixture.share();
    let write = |at: u64| {
        let store = store.clone();
        async move { store.append(append("a/u/s", [event(&format!("{at}"), add("n", 1))])).await }
    };
    // The order in which the futures are made does not count.
    let mut writes: Vec<_> = (1..=WRITES).rev().map(|at| (at, Box::pin(write(at)))).collect();
    writes.reverse();
    let mut pending = Vec::new();
    for (at, mut write) in writes {
        let polled = poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(appended) => assert_eq!(only_new(appended.unwrap()).sequence, at),
            Poll::Pending => pending.push((at, write)),
        }
    }
    for (at, write) in pending {
        assert_eq!(only_new(write.await.unwrap()).sequence, at);
    }
}
