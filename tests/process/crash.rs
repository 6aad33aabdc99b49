//! Killed at any moment: what was acknowledged is there, nothing is half there, and retries lose and double nothing.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use sessiond::proto::v1::{event::BodyForm, state_delta::SetForm};
use tokio::{sync::Notify, task::JoinSet};
use tonic::transport::Channel;

use crate::{
    cluster::sessions_ended,
    harness::{Server, append, create, event, is_broken, list, read, state},
};

/// Writers at the same time, each on a session of its own, all on one key of the application.
const WRITERS: usize = 8;

fn session(writer: usize) -> String {
    format!("session-{writer}")
}

fn body(writer: usize, number: u64) -> String {
    // Larger than a page of the database, so that an event is spread over several.
    format!("{{\"writer\":{writer},\"number\":{number},\"padding\":\"{}\"}}", "x".repeat(5000))
}

/// Appends events `from`, `from + 1`, … until the server is gone; how many were acknowledged.
async fn write(channel: Channel, writer: usize, from: u64, written: Arc<Progress>) -> u64 {
    let mut acknowledged = from - 1;
    loop {
        let number = acknowledged + 1;
        let set = format!("{{\"count\":{number}}}");
        let event = event(&format!("event-{number}"), &set, &body(writer, number));
        match append(&channel, &session(writer), event).await {
            Ok(answer) => {
                assert_eq!(answer.event.unwrap().sequence, number as i64);
                acknowledged = number;
                written.step();
            }
            Err(status) => {
                assert!(is_broken(&status), "{status}");
                return acknowledged;
            }
        }
    }
}

/// Wakes the killer after a number of acknowledgements.
struct Progress {
    left: AtomicUsize,
    enough: Notify,
}

impl Progress {
    fn step(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.enough.notify_one();
        }
    }
}

/// Compares a recovered store with what was acknowledged; how many events each session has.
async fn check(channel: &Channel, acknowledged: &[u64]) -> Vec<u64> {
    let mut recovered = Vec::new();
    let (mut total, mut used) = (0, Vec::new());
    for (writer, &acknowledged) in acknowledged.iter().enumerate() {
        let answer = read(channel, &session(writer)).await;
        let count = answer.events.len() as u64;
        assert!(
            count >= acknowledged,
            "writer {writer}: {acknowledged} acknowledged, {count} there"
        );
        assert!(count <= acknowledged + 1, "writer {writer}: more than was ever sent");
        for (event, number) in answer.events.into_iter().zip(1..) {
            assert_eq!(event.sequence, number as i64);
            assert_eq!(event.event_id, format!("event-{number}"));
            assert_eq!(event.body_form, Some(BodyForm::BodyJson(body(writer, number))));
            let Some(SetForm::SetJson(set)) = event.state_delta.unwrap().set_form else { panic!() };
            let set: BTreeMap<String, u64> = serde_json::from_str(&set).unwrap();
            assert_eq!(set["count"], number);
        }
        let last = answer.session.as_ref().unwrap().last_event_time.unwrap();
        used.push((last.seconds, last.nanos, session(writer)));
        let state = state(answer.session);
        assert_eq!(
            state["count"].as_u64().unwrap_or(0),
            count,
            "the session's state is of its log"
        );
        recovered.push(count);
        total += count;
    }
    let state = state(read(channel, &session(0)).await.session);
    assert_eq!(state["app:total"].as_u64().unwrap_or(0), total, "all scopes commit together");
    used.sort();
    let used: Vec<_> = used.into_iter().map(|(_, _, session)| session).collect();
    assert_eq!(list(channel).await, used, "lists know the last events");
    recovered
}

async fn acknowledged_is_recovered_after_kill_at_random_moments(store: &str) {
    let mut events = vec![0; WRITERS];
    // Moments in acknowledgements since the start; primes, so that they fall anywhere between commits and checkpoints.
    for acknowledgements in [1, 7, 61, 251, 509, 1021] {
        let server = Server::start_on(store, &[]);
        let channel = server.channel().await;
        for writer in 0..WRITERS {
            create(&channel, &session(writer), "{}").await;
        }
        let progress =
            Arc::new(Progress { left: AtomicUsize::new(acknowledgements), enough: Notify::new() });
        let mut writers = JoinSet::new();
        for (writer, &count) in events.iter().enumerate() {
            // The last recovered event once more: a retry is a replay and keeps its number.
            let from = count.max(1);
            let task = write(channel.clone(), writer, from, Arc::clone(&progress));
            writers.spawn(async move { (writer, task.await) });
        }
        progress.enough.notified().await;
        server.kill();
        if store.starts_with("postgres") {
            sessions_ended(store).await;
        }
        let mut acknowledged = events.clone();
        while let Some(done) = writers.join_next().await {
            let (writer, count) = done.unwrap();
            acknowledged[writer] = acknowledged[writer].max(count);
        }
        let server = Server::start_on(store, &[]);
        events = check(&server.channel().await, &acknowledged).await;
        assert!(server.stop().status.success());
    }
}

/// Creates a session, appends one event that is acknowledged, and one in whose commit the server dies.
async fn die_at(point: &str, store: &str) {
    // The creation is the first commit, the two appends are the second and the third.
    let server = Server::start_on(store, &["--crash-point", point]);
    let channel = server.channel().await;
    create(&channel, "s", "{\"app:total\":0}").await;
    append(&channel, "s", event("one", "{\"count\":1}", "{}")).await.unwrap();
    let status = append(&channel, "s", event("two", "{\"count\":2}", "{}")).await.unwrap_err();
    assert!(is_broken(&status), "{status}");
    assert!(!server.wait().status.success());
}

/// Appends the second event once more; whether it was there, and what the state is then.
async fn retry(store: &str) -> (u64, bool, serde_json::Value) {
    let server = Server::start_on(store, &[]);
    let channel = server.channel().await;
    let recovered = read(&channel, "s").await.events.len() as u64;
    let answer = append(&channel, "s", event("two", "{\"count\":2}", "{}")).await.unwrap();
    assert_eq!(answer.event.unwrap().sequence, 2);
    let state = state(read(&channel, "s").await.session);
    assert!(server.stop().status.success());
    (recovered, answer.replayed, state)
}

async fn a_crash_before_the_commit_leaves_nothing_of_it(store: &str) {
    die_at("before-commit:3", store).await;
    let (recovered, replayed, state) = retry(store).await;
    assert_eq!((recovered, replayed), (1, false));
    assert_eq!(state, serde_json::json!({"app:total": 2, "count": 2}));
}

async fn a_crash_between_commit_and_acknowledgement_is_found_by_the_retry(store: &str) {
    die_at("after-commit:3", store).await;
    let (recovered, replayed, state) = retry(store).await;
    assert_eq!((recovered, replayed), (2, true));
    assert_eq!(state, serde_json::json!({"app:total": 2, "count": 2}));
}

/// Every test on a file, and on a database.
macro_rules! on_every_store {
    ($($test:ident,)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let folder = tempfile::TempDir::new().unwrap();
                super::$test(&crate::harness::file_in(folder.path())).await;
            })+
        }

        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if crate::cluster::shared_server().is_some() {
                    super::$test(&crate::cluster::Database::create().url).await;
                }
            })+
        }
    };
}

on_every_store! {
    acknowledged_is_recovered_after_kill_at_random_moments,
    a_crash_before_the_commit_leaves_nothing_of_it,
    a_crash_between_commit_and_acknowledgement_is_found_by_the_retry,
}
