//! The file that this version writes is opened and read to what was put in, also through the queries of docs/storage.md, and one that
//! no release wrote is refused.
//!
//! The first release keeps the file of its version in `tests/fixtures`. A release that changes the tables of the SQLite store migrates it
//! and reads the same from it.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "a test fails by panicking, and may be long"
)]

mod document;
mod requests;

use std::{fs, ops::RangeInclusive, path::Path, sync::Arc};

use requests::*;
use rusqlite::Connection;
use sessiond::{
    commit::{Append, CreateSession, ForkSession, RewindSession},
    domain::{
        error::Error,
        event::Fingerprint,
        id::{AppName, Author, DisplayName, EventId, InvocationId, SessionId},
        json::Json,
        permission::Users,
        precondition::Precondition,
        scope::{Scope, StateKey},
        session::{Expiration, Labels},
        token::StoreId,
        trace::TraceId,
    },
    store::{
        Clock, KeyChangeQuery, RequestContext, SessionOrder, SessionsQuery, Store,
        sqlite::{self, OpenError, SqliteOptions, SqliteStore, verify},
    },
};

/// Events of the session `long`: more than the list indexes follow at once.
const LONG: u64 = 1030;

/// Events of the session `longer`: many snapshots.
const LONGER: u64 = 5130;

/// The application id of files that builds before the first release made.
const UNRELEASED: i32 = 0x7365_7364;

/// The trace of the event `4` of the session `cart`.
const TRACE: Option<TraceId> = TraceId::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);

#[tokio::test]
async fn a_file_from_before_the_first_release_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let made = format!(
        "PRAGMA application_id = {UNRELEASED}; PRAGMA user_version = 8; CREATE TABLE t (x)"
    );
    Connection::open(&path).unwrap().execute_batch(&made).unwrap();
    let path = path.canonicalize().unwrap();
    let before = fs::read(&path).unwrap();
    assert_eq!(sqlite::dry_run(&path), Err(OpenError::OtherLayout(path.clone())));
    for error in [
        sqlite::migrate_file(&path).unwrap_err(),
        sqlite::compact(&path).unwrap_err(),
        verify::verify(&path, &mut Unheard).unwrap_err(),
        try_open(&path, &TestClock::new(500)).await.err().unwrap(),
    ] {
        assert_eq!(error, OpenError::OtherLayout(path.clone()));
        assert!(fs::read(&path).unwrap() == before, "{error}");
    }
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["test.db", "test.db-lock"]);
}

struct Unheard;

impl verify::Observer for Unheard {
    fn found(&mut self, _: &verify::Finding) {}
    fn progress(&mut self, _: verify::Progress) {}
}

/// Nothing is found in a file.
fn assert_sound(path: &Path) {
    assert_eq!(verify::verify(path, &mut Unheard).unwrap().findings, 0);
}

#[tokio::test]
async fn a_file_of_this_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made.db");
    let clock = TestClock::new(100);
    let store = open(&path, &clock).await;
    fill(&store, &clock).await;
    store.close().await;
    assert_sound(&path);
    document::check(&path);
    clock.set(500);
    let store = open(&path, &clock).await;
    assert_eq!(store.id(), StoreId(*b"fixture of tests"));
    check(&store, &clock).await;
    check_ids(&store, "longer").await;
    store.close().await;
    assert_sound(&path);
}

async fn fill(store: &dyn Store, clock: &TestClock) {
    let call = RequestContext::internal();
    let state = [("app:currency", "\"EUR\""), ("user:name", "\"Ada\""), ("basket", "[]")];
    let cart = CreateSession {
        display_name: DisplayName::new("A cart").unwrap(),
        labels: Labels::new([("kind".to_owned(), "cart".to_owned())].into()).unwrap(),
        ..creation("ada", "cart", &state)
    };
    store.create_session(&call, cart).await.unwrap();
    clock.set(101);
    let events = [
        event("1", &[("basket", "[1]"), ("draft", "true")], &[]),
        event("2", &[("basket", "[1,2]"), ("user:visits", "7")], &["draft"]),
    ];
    let batch = append("cart", "ada", events.into());
    store.append(&call, Append { request: request("first", 9), ..batch }).await.unwrap();
    let fork = ForkSession {
        source: key("ada", "cart"),
        up_to: Some(2),
        session_id: SessionId::new("fork").unwrap(),
        precondition: Precondition::default(),
    };
    clock.set(102);
    store.fork_session(&call, fork).await.unwrap();
    clock.set(103);
    let rewind = RewindSession {
        key: key("ada", "cart"),
        to: 1,
        event_id: EventId::new("back").unwrap(),
        author: Author::new("ada").unwrap(),
        fingerprint: Fingerprint(4),
        precondition: Precondition::default(),
    };
    store.rewind_session(&call, rewind).await.unwrap();
    let after = vec![event("4", &[("app:currency", "\"USD\"")], &[])];
    let traced = RequestContext { trace_id: TRACE, ..call.clone() };
    store.append(&traced, append("cart", "ada", after)).await.unwrap();
    store.update_state(&call, visits(&[("user:visits", "8")])).await.unwrap();

    clock.set(104);
    store.create_session(&call, creation("ada", "long", &[])).await.unwrap();
    append_all(store, "long", 1..=LONG).await;
    store.create_session(&call, creation("ada", "longer", &[])).await.unwrap();
    append_all(store, "longer", 1..=LONGER).await;

    clock.set(105);
    let expiration = Some(Expiration::At(time(1000)));
    let expiring = CreateSession { expiration, ..creation("bob", "expiring", &[("k", "1")]) };
    store.create_session(&call, expiring).await.unwrap();
    store.create_session(&call, creation("bob", "deleted", &[("k", "1")])).await.unwrap();
    store.delete_session(&call, key("bob", "deleted").into()).await.unwrap();
}

/// Appends to a session of Ada's; every tenth event changes the state.
async fn append_all(store: &dyn Store, session: &str, numbers: RangeInclusive<u64>) {
    let event = |number: u64| {
        let count = number.to_string();
        let set = [("n", count.as_str())];
        event(&count, if number.is_multiple_of(10) { &set } else { &[] }, &[])
    };
    let events: Vec<_> = numbers.map(event).collect();
    for batch in events.chunks(500) {
        let batch = append(session, "ada", batch.to_vec());
        store.append(&RequestContext::internal(), batch).await.unwrap();
    }
}

/// Events of a session of [`LONGER`] events or more are found by their ids, wherever those are.
async fn check_ids(store: &dyn Store, session: &str) {
    for number in [1, 1024, 1030, 4095, 4096, 4097, 5120, 5121, LONGER] {
        let again = append(session, "ada", vec![event(&number.to_string(), &[], &[])]);
        let appended = store.append(&RequestContext::internal(), again).await.unwrap();
        assert!(appended.events[0].replayed, "{session} {number}");
        assert_eq!(appended.events[0].event.sequence, number);
    }
}

async fn check(store: &dyn Store, clock: &TestClock) {
    check_sessions(store).await;
    check_states(store).await;
    check_replays(store).await;
    let expiring = store.read_session(query("bob", "expiring", None)).await.unwrap();
    assert_eq!(expiring.info.expire_time, Some(time(1000)));
    clock.set(1000);
    let gone = store.read_session(query("bob", "expiring", None)).await.unwrap_err();
    assert_eq!(gone, Error::not_found(&key("bob", "expiring")));
    while store.sweep().await.unwrap() {}
    let left = store.read_session(query("ada", "cart", None)).await.unwrap();
    assert_eq!(left.info.last_sequence, 4);
}

async fn check_sessions(store: &dyn Store) {
    let list = SessionsQuery {
        app_name: AppName::new("shop").unwrap(),
        user_id: None,
        seen: Users::All,
        labels: Labels::default(),
        order: SessionOrder::MostRecent,
        after: None,
        max_items: 100,
        max_bytes: usize::MAX,
        with_state: false,
    };
    let page = store.list_sessions(list).await.unwrap();
    let found = page.sessions.iter().map(|(info, _)| {
        let key = &info.key;
        format!(
            "{} {} {} {}",
            key.user_id,
            key.session_id,
            info.last_sequence,
            info.last_event_time.secs()
        )
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [
            "bob expiring 0 105",
            "ada long 1030 104",
            "ada longer 5130 104",
            "ada cart 4 103",
            "ada fork 2 101"
        ]
    );
    let cart = &page.sessions[3].0;
    assert_eq!(cart.display_name.as_str(), "A cart");
    assert_eq!(cart.labels.as_map().get("kind").map(String::as_str), Some("cart"));
    assert_eq!((cart.create_time, cart.update_time), (time(100), time(103)));
    let origin = page.sessions[4].0.forked_from.clone().unwrap();
    assert_eq!((origin.key, origin.sequence), (key("ada", "cart"), 2));
}

async fn check_states(store: &dyn Store) {
    let cases: [(&str, Option<u64>, &[&str]); 5] = [
        (
            "cart",
            None,
            &[
                "app:currency=\"USD\"@2",
                "user:name=\"Ada\"@1",
                "user:visits=8@3",
                "basket=[1]@3",
                "draft=true@3",
            ],
        ),
        ("cart", Some(0), &["app:currency=\"EUR\"@1", "user:name=\"Ada\"@1", "basket=[]@0"]),
        (
            "cart",
            Some(2),
            &["app:currency=\"EUR\"@1", "user:name=\"Ada\"@1", "user:visits=7@2", "basket=[1,2]@2"],
        ),
        (
            "fork",
            None,
            &["app:currency=\"USD\"@2", "user:name=\"Ada\"@1", "user:visits=8@3", "basket=[1,2]@2"],
        ),
        (
            "long",
            Some(1025),
            &["app:currency=\"USD\"@2", "user:name=\"Ada\"@1", "user:visits=8@3", "n=1020@1020"],
        ),
    ];
    for (session, as_of, expected) in cases {
        let view = store.read_session(query("ada", session, as_of)).await.unwrap();
        let state = view.state.unwrap().0;
        let state = state.iter().map(|it| format!("{}={}@{}", it.key, it.value, it.version));
        assert_eq!(state.collect::<Vec<_>>(), expected, "{session} as of {as_of:?}");
    }
    let cart = store.read_session(query("ada", "cart", None)).await.unwrap().events.unwrap();
    let ids: Vec<_> = cart.events.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(ids, ["1", "4"]);
    let traces: Vec<_> = cart.events.iter().map(|event| event.trace_id).collect();
    assert_eq!(traces, [None, TRACE]);
    let turn = cart.events[1].invocation_id.as_ref().map(InvocationId::as_str);
    assert_eq!(turn, Some("turn-4"));
    assert_eq!(cart.events[0].body.as_ref().map(Json::as_str), Some("{\"text\": \"1\"}"));
    let history = KeyChangeQuery {
        scope: Scope::Session(key("ada", "long")),
        key: StateKey::new("n").unwrap(),
        before: None,
        max_items: 1000,
        max_bytes: usize::MAX,
    };
    let history = store.list_key_changes(history).await.unwrap();
    let versions: Vec<_> = history.changes.iter().map(|change| change.version).collect();
    assert_eq!(versions, (1..=103).rev().map(|tenth| tenth * 10).collect::<Vec<_>>());
}

/// What was sent once is answered as it was, from every index of ids.
async fn check_replays(store: &dyn Store) {
    let call = RequestContext::internal();
    for (session, id, sequence) in [
        ("cart", "1", 1),
        ("fork", "2", 2),
        ("long", "5", 5),
        ("long", "1024", 1024),
        ("long", "1029", 1029),
    ] {
        let again = append(session, "ada", vec![event(id, &[], &[])]);
        let appended = store.append(&call, again).await.unwrap();
        assert!(appended.events[0].replayed, "{session} {id}");
        assert_eq!(appended.events[0].event.sequence, sequence);
    }
    let updated = store.update_state(&call, visits(&[("user:visits", "9")])).await.unwrap();
    assert!(updated.replayed);
}

async fn open(path: &Path, clock: &Arc<TestClock>) -> SqliteStore {
    try_open(path, clock).await.unwrap()
}

async fn try_open(path: &Path, clock: &Arc<TestClock>) -> Result<SqliteStore, OpenError> {
    let clock: Arc<dyn Clock> = clock.clone();
    let id = StoreId(*b"fixture of tests");
    sqlite::open(SqliteOptions { clock, ..SqliteOptions::new(path, id) }).await
}
