//! Several replicas on one database.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use sessiond::{
    commit::{Answer, Request},
    domain::{Sequence, error::Error, event::Event, token::StoreId},
    engine::{Engine, EngineOptions, WatchFrom, WatchItem},
    store::{
        Append, Appended, RequestContext, SessionQuery, Store,
        postgres::{self, PostgresOptions},
    },
};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    cluster::{Database, PATIENCE, shared_server},
    requests::*,
};

/// So long that nothing is found by a look at versions.
const NEVER: Duration = Duration::from_secs(86_400);

pub async fn open(url: &str, change: impl FnOnce(&mut PostgresOptions)) -> Arc<dyn Store> {
    let mut options = PostgresOptions::new(url, StoreId([7; 16]));
    (options.readers, options.settings.writers) = (2, 2);
    change(&mut options);
    Arc::new(postgres::open(options).await.unwrap())
}

/// Replicas on a new database, which goes with the first value.
async fn replicas(count: usize) -> (Database, Vec<Arc<dyn Store>>) {
    replicas_with(count, |_| ()).await
}

async fn replicas_with(
    count: usize,
    change: fn(&mut PostgresOptions),
) -> (Database, Vec<Arc<dyn Store>>) {
    let database = Database::create();
    let mut replicas = Vec::new();
    for _ in 0..count {
        replicas.push(open(&database.url, change).await);
    }
    (database, replicas)
}

pub async fn new_session(store: &Arc<dyn Store>, path: &str) {
    store.create_session(&RequestContext::internal(), create(path, &[])).await.unwrap();
}

async fn put(store: &Arc<dyn Store>, append: Append) -> Result<Appended, Error> {
    store.append(&RequestContext::internal(), append).await
}

async fn log(store: &Arc<dyn Store>, path: &str) -> Vec<Event> {
    let mut query: SessionQuery = read(path);
    query.events = Some(everything());
    let view = store.read_session(query).await.unwrap();
    let page = view.events.unwrap();
    assert_eq!(page.rest, None);
    page.events
}

fn assert_dense(events: &[Event]) {
    let sequences: Vec<Sequence> = events.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=events.len() as u64).collect::<Vec<_>>());
}

async fn close(replicas: Vec<Arc<dyn Store>>) {
    for replica in replicas {
        replica.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_through_two_replicas_sum_up() {
    if shared_server().is_none() {
        return;
    }
    increments_sum_up(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn increments_through_four_replicas_sum_up() {
    if shared_server().is_none() {
        return;
    }
    increments_sum_up(4).await;
}

/// Every writer increments the same keys of an application, a user and a session, and one of a session of its own.
async fn increments_sum_up(count: usize) {
    const WRITERS: usize = 8;
    const EVENTS: u64 = 30;
    let (_database, replicas) = replicas(count).await;
    new_session(&replicas[0], "a/u/s").await;
    for writer in 0..WRITERS {
        new_session(&replicas[writer % count], &format!("a/u/own{writer}")).await;
    }
    let mut tasks = JoinSet::new();
    for writer in 0..WRITERS {
        let replica = Arc::clone(&replicas[writer % count]);
        tasks.spawn(async move {
            for at in 0..EVENTS {
                let delta = || add("n", 1).add("user:n", 1).add("app:n", 1);
                let id = format!("{writer}.{at}");
                put(&replica, append("a/u/s", [event(&id, delta())])).await.unwrap();
                let own = format!("a/u/own{writer}");
                put(&replica, append(&own, [event(&id, delta())])).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let total = WRITERS as u64 * EVENTS;
    for replica in &replicas {
        let state = replica.read_state(read_state("a/u/s")).await.unwrap();
        let both = 2 * total;
        let expected = format!(r#"{{"app:n":{both},"user:n":{both},"n":{total}}}"#);
        assert_eq!(state.state.to_json().as_str(), expected);
        let versions = state.position.versions;
        assert_eq!((versions.application, versions.user), (both, both));
    }
    let mut seen = BTreeSet::new();
    let own = (0..WRITERS).map(|writer| format!("a/u/own{writer}"));
    for path in own.chain(["a/u/s".to_owned()]) {
        let events = log(&replicas[count - 1], &path).await;
        assert_dense(&events);
        // Each event saw what it left: no version was left by two.
        seen.extend(events.iter().map(|event| event.versions.application));
        for event in events {
            let changes = event.changes.set.unwrap();
            let app = event.versions.application;
            assert!(changes.as_str().contains(&format!(r#""app:n":{app}"#)), "{changes:?}");
        }
    }
    assert_eq!(seen.len() as u64, 2 * total);
    close(replicas).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_expected_sequence_has_one_winner() {
    if shared_server().is_none() {
        return;
    }
    let (_database, replicas) = replicas(4).await;
    new_session(&replicas[0], "a/u/s").await;
    for round in 0..25 {
        let mut tasks = JoinSet::new();
        for (at, replica) in replicas.iter().enumerate() {
            let replica = Arc::clone(replica);
            tasks.spawn(async move {
                let mut request = append("a/u/s", [event(&format!("{round}.{at}"), nothing())]);
                request.precondition = expect_sequence(round);
                put(&replica, request).await
            });
        }
        let answers = tasks.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "round {round}: {lost:?}");
        for answer in lost {
            assert!(matches!(answer, Err(Error::Conflict { .. })), "{answer:?}");
        }
    }
    assert_dense(&log(&replicas[1], "a/u/s").await);
    close(replicas).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_event_id_through_all_replicas_is_one_event() {
    if shared_server().is_none() {
        return;
    }
    let (_database, replicas) = replicas(4).await;
    new_session(&replicas[0], "a/u/s").await;
    for round in 0..25 {
        let mut tasks = JoinSet::new();
        for replica in &replicas {
            let replica = Arc::clone(replica);
            tasks.spawn(async move {
                let request = append("a/u/s", [event(&format!("{round}"), add("n", 1))]);
                put(&replica, request).await.unwrap().events[0].replayed
            });
        }
        let replayed = tasks.join_all().await;
        assert_eq!(replayed.iter().filter(|replayed| !**replayed).count(), 1, "round {round}");
    }
    assert_dense(&log(&replicas[1], "a/u/s").await);
    let state = replicas[2].read_state(read_state("a/u/s")).await.unwrap().state;
    assert_eq!(state.to_json().as_str(), r#"{"n":25}"#);
    close(replicas).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_is_created_once() {
    if shared_server().is_none() {
        return;
    }
    let (_database, replicas) = replicas(4).await;
    for round in 0..25 {
        let mut tasks = JoinSet::new();
        for replica in &replicas {
            let replica = Arc::clone(replica);
            let path = format!("a/u/{round}");
            tasks.spawn(async move {
                let create = create(&path, &[("app:n", "1"), ("user:n", "1")]);
                replica.create_session(&RequestContext::internal(), create).await
            });
        }
        let answers = tasks.join_all().await;
        let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1, "round {round}: {lost:?}");
        for answer in lost {
            assert!(matches!(answer, Err(Error::SessionExists(_))), "{answer:?}");
        }
    }
    close(replicas).await;
}

/// Watchers see every event once and in order on every replica.
async fn watchers_see_everything(count: usize, listening: usize, change: fn(&mut PostgresOptions)) {
    const EVENTS: u64 = 60;
    if shared_server().is_none() {
        return;
    }
    let (database, replicas) = replicas_with(count, change).await;
    // What is announced before, a replica does not hear.
    database.wait_for_sessions(listening, "LISTEN").await;
    new_session(&replicas[0], "a/u/s").await;
    let mut watchers = JoinSet::new();
    for replica in &replicas {
        let engine = Arc::new(Engine::new(Arc::clone(replica), EngineOptions::default()));
        let context = RequestContext::internal();
        let scope = scope("a/u/s");
        let mut watch = engine.watch(&context, scope, WatchFrom::Beginning).await.unwrap();
        watchers.spawn(async move {
            let mut seen = Vec::new();
            let mut other = String::new();
            while seen.len() < EVENTS as usize || other != EVENTS.to_string() {
                match watch.next().await.unwrap().unwrap().0 {
                    WatchItem::Event(event) => seen.push(event.sequence),
                    WatchItem::StateChange { changes, .. } => {
                        let set = changes.set.unwrap();
                        let value = set.as_str().trim_start_matches(r#"{"app:other":"#);
                        other = value.trim_end_matches('}').to_owned();
                    }
                    _ => {}
                }
            }
            seen
        });
    }
    for at in 0..EVENTS {
        let replica = &replicas[at as usize % replicas.len()];
        put(replica, plain("a/u/s", &at.to_string())).await.unwrap();
        // A change of the application that no event of the session makes.
        let other = update("a", add("app:other", 1));
        replica.update_state(&RequestContext::internal(), other).await.unwrap();
    }
    let seen = timeout(PATIENCE, watchers.join_all()).await.expect("a watcher waits for ever");
    for seen in seen {
        assert_eq!(seen, (1..=EVENTS).collect::<Vec<_>>());
    }
    close(replicas).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_on_every_replica_are_woken_by_notifications() {
    watchers_see_everything(3, 3, |options| options.look_every = NEVER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_on_every_replica_need_no_notification() {
    // As behind a pooler, which does not listen.
    watchers_see_everything(2, 0, |options| options.settings.unnamed_statements = true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_good_on_every_replica() {
    if shared_server().is_none() {
        return;
    }
    let (_database, replicas) = replicas(2).await;
    new_session(&replicas[0], "a/u/s").await;
    let engines: Vec<_> = replicas
        .iter()
        .map(|store| Arc::new(Engine::new(Arc::clone(store), EngineOptions::default())))
        .collect();
    for id in ["1", "2", "3"] {
        put(&replicas[0], plain("a/u/s", id)).await.unwrap();
    }
    let context = RequestContext::internal();
    let first = engines[0].watch(&context, scope("a/u/s"), WatchFrom::Beginning).await;
    let (_, cursor) = first.unwrap().next().await.unwrap().unwrap();
    let cursor = sessiond::domain::token::Cursor::decode(&cursor).unwrap();
    let next = engines[1].watch(&context, scope("a/u/s"), WatchFrom::Cursor(cursor)).await;
    let (item, _) = next.unwrap().next().await.unwrap().unwrap();
    assert!(matches!(item, WatchItem::Event(event) if event.sequence == 2));
    close(replicas).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_another_replica_has_begun_is_not_swept() {
    if shared_server().is_none() {
        return;
    }
    let (_database, replicas) = replicas(2).await;
    new_session(&replicas[0], "a/u/s").await;
    for at in 0..5 {
        put(&replicas[0], plain("a/u/s", &at.to_string())).await.unwrap();
    }
    let context = RequestContext::internal();
    let begin = Request::Fork(fork("a/u/s", None, "f"));
    let Ok(Answer::ForkBegun(fork)) = replicas[0].commit(&context, begin).await else {
        panic!("the fork does not begin")
    };
    let sweep = async || while replicas[1].sweep().await.unwrap() {};
    sweep().await;
    let copy = Request::CopyEvents(fork.clone(), 0);
    let Ok(Answer::Copied(copied)) = replicas[0].commit(&context, copy).await else {
        panic!("the events are not copied")
    };
    assert_eq!(copied, 5);
    sweep().await;
    let Ok(Answer::Forked((info, _))) =
        replicas[0].commit(&context, Request::FinishFork(fork)).await
    else {
        panic!("the fork does not end")
    };
    assert_eq!(info.last_sequence, 5);
    assert_dense(&log(&replicas[1], "a/u/f").await);
    close(replicas).await;
}

/// An append that neither changes nor checks a key of the application does not wait for one that does.
#[tokio::test(flavor = "multi_thread")]
async fn an_applications_key_holds_up_only_those_who_touch_it() {
    if shared_server().is_none() {
        return;
    }
    let database = Database::create();
    let replica = open(&database.url, |options| options.settings.writers = 1).await;
    new_session(&replica, "a/u/s").await;
    put(&replica, append("a/u/s", [event("first", add("app:n", 1))])).await.unwrap();
    let (holder, connection) =
        tokio_postgres::connect(&database.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = "BEGIN; SELECT version FROM scope WHERE app_name = 'a' AND user_id = '' FOR UPDATE";
    holder.batch_execute(lock).await.unwrap();
    put(&replica, append("a/u/s", [event("plain", add("n", 1))])).await.unwrap();
    put(&replica, append("a/u/s", [event("users", add("user:n", 1))])).await.unwrap();
    let store = Arc::clone(&replica);
    let mut touching = tokio::spawn(async move {
        put(&store, append("a/u/s", [event("touching", add("app:n", 1))])).await
    });
    assert!(timeout(Duration::from_millis(200), &mut touching).await.is_err(), "it does not wait");
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(touching.await.unwrap().unwrap().events[0].event.sequence, 4);
    close(vec![replica]).await;
}
