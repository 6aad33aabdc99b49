//! Files that earlier versions wrote are opened and read to what was put in.
//!
//! A release that changes the tables of the SQLite store keeps a file of the version before in `tests/fixtures`.

#![allow(clippy::unwrap_used, reason = "a test ends where what it takes for granted does not hold")]

mod requests;

use std::{
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use requests::*;
use rusqlite::{Connection, OpenFlags};
use sessiond::{
    commit::{Append, CreateSession, ForkSession, RequestKey, RewindSession},
    domain::{
        error::Error,
        event::Fingerprint,
        id::{AppName, Author, DisplayName, EventId, InvocationId, RequestId, SessionId},
        json::Json,
        precondition::Precondition,
        scope::{Scope, StateKey},
        session::{Expiration, Labels},
        token::StoreId,
        trace::TraceId,
    },
    store::{
        Clock, KeyChangeQuery, RequestContext, SessionOrder, SessionsQuery, Store,
        sqlite::{self, SqliteOptions, SqliteStore, verify},
    },
};

/// Events of the session `long`: more than one step of every index but that of ids, and of that one until version 7.
const LONG: u64 = 1030;

/// Events of the session `longer`: more than one step of the index of ids, all of whose parts are in it. Versions before 8 have no such
/// session.
const LONGER: u64 = 5130;

/// The file that this version writes.
const CURRENT: &str = "sqlite-v8.db";

/// The trace of the event `4` of the session `cart`. Versions before 6 kept none.
const TRACE: Option<TraceId> = TraceId::new(0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736);

/// The effect of the steps from each released version on.
const STEPS: [&str; 4] = [
    "keep the order of lists apart from the time of the last event",
    "keep the trace of an event",
    "keep what an append changes of a session beside its keys",
    "keep the rows of a log that are indexed together in one row of the index",
];

#[tokio::test]
async fn files_of_earlier_versions_are_read() {
    for (version, steps, trace) in [
        (4, &STEPS[..], None),
        (5, &STEPS[1..], None),
        (6, &STEPS[2..], TRACE),
        (7, &STEPS[3..], TRACE),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        fs::copy(fixture(&format!("sqlite-v{version}.db")), &path).unwrap();
        assert_eq!(sqlite::dry_run(&path).unwrap(), steps);
        assert_eq!(sqlite::migrate_file(&path).unwrap(), steps);
        let copy = folder.path().join(format!("test.db.v{version}.bak"));
        let copy = fs::read(copy).unwrap();
        assert_eq!(copy[60..64], [0, 0, 0, version], "the version in the header");
        assert_sound(&path);
        let current = folder.path().join("current.db");
        fs::copy(fixture(CURRENT), &current).unwrap();
        assert_eq!(columns(&path), columns(&current));
        let clock = TestClock::at(500);
        let store = open(&path, &clock).await;
        assert_eq!(store.id(), StoreId(*b"fixture of tests"));
        check(&store, &clock, trace).await;
        // The parts of the index of ids that a migrated file has already.
        append_all(&store, "long", LONG + 1..=LONGER).await;
        check_ids(&store, "long").await;
        store.close().await;
        assert_sound(&path);
    }
}

/// Moving rows leaves no copies of them in the file, which the deletion of a session would not reach.
#[tokio::test]
async fn what_is_deleted_after_a_migration_leaves_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    fs::copy(fixture("sqlite-v6.db"), &path).unwrap();
    let fill = "PRAGMA secure_delete = FAST;
        CREATE TEMP TABLE n AS WITH RECURSIVE n(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000) SELECT n FROM n;
        INSERT INTO session SELECT 100000 + n, app_scope, user_scope, user_id, 'secret id ' || n,
            last_sequence, state_bytes, last_event_secs, last_event_nanos, update_secs,
            update_nanos, create_secs, create_nanos, expire_secs, expire_nanos,
            created_app_version, created_user_version, 'secret name ' || n, labels, fork_session,
            fork_sequence, unindexed, listed_secs, listed_nanos
            FROM session, n WHERE session_id = 'expiring';
        INSERT INTO state SELECT 100000 + n, 'k', '\"secret value ' || n || '\"', 0 FROM n;";
    Connection::open(&path).unwrap().execute_batch(fill).unwrap();
    sqlite::migrate_file(&path).unwrap();
    let secrets = || fs::read(&path).unwrap().windows(7).filter(|it| it == b"secret ").count();
    assert!(secrets() >= 3 * 2000);
    let delete = "PRAGMA secure_delete = FAST;
        DELETE FROM session WHERE id > 100000;
        DELETE FROM state WHERE node > 100000;";
    let file = Connection::open(&path).unwrap();
    file.execute_batch(delete).unwrap();
    let vacuum = ["PRAGMA incremental_vacuum", "PRAGMA wal_checkpoint(TRUNCATE)"];
    for pragma in vacuum {
        let mut statement = file.prepare(pragma).unwrap();
        let mut rows = statement.query(()).unwrap();
        while rows.next().unwrap().is_some() {}
    }
    drop(file);
    assert_eq!(secrets(), 0);
}

/// Nothing is found in a file.
fn assert_sound(path: &Path) {
    struct Unheard;
    impl verify::Observer for Unheard {
        fn found(&mut self, _: &verify::Finding) {}
        fn progress(&mut self, _: verify::Progress) {}
    }
    assert_eq!(verify::verify(path, &mut Unheard).unwrap().findings, 0);
}

/// Every column of every table and index of a file, in order, with its type and default.
fn columns(path: &Path) -> Vec<String> {
    let file = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let sql = "SELECT printf('%s %s %s %s %s %s', s.type, s.name, c.name, c.type, c.\"notnull\", c.dflt_value)
        FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type <> 'index'
        UNION ALL SELECT printf('%s %s %s', s.name, i.name, i.\"desc\")
        FROM sqlite_schema s, pragma_index_xinfo(s.name) i WHERE s.type = 'index' ORDER BY 1";
    let mut statement = file.prepare(sql).unwrap();
    let columns = statement.query_map((), |row| row.get(0)).unwrap();
    columns.collect::<Result<_, _>>().unwrap()
}

/// Also writes the fixture of this version where it is missing.
#[tokio::test]
async fn a_file_of_this_version_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.db");
    let clock = TestClock::at(100);
    let store = open(&path, &clock).await;
    fill(&store, &clock).await;
    store.close().await;
    if !fixture(CURRENT).exists() {
        fs::create_dir_all(fixture("")).unwrap();
        fs::copy(&path, fixture(CURRENT)).unwrap();
    }
    clock.set(500);
    let store = open(&path, &clock).await;
    check(&store, &clock, TRACE).await;
    check_ids(&store, "longer").await;
    store.close().await;
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
    let id = RequestId::new("first").unwrap();
    let request = Some(RequestKey { id, fingerprint: Fingerprint(9) });
    store.append(&call, Append { request, ..batch }).await.unwrap();
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

async fn check(store: &dyn Store, clock: &TestClock, trace: Option<TraceId>) {
    check_sessions(store).await;
    check_states(store, trace).await;
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
        labels: Labels::default(),
        order: SessionOrder::MostRecent,
        after: None,
        max_items: 100,
        max_bytes: usize::MAX,
        with_state: false,
    };
    let mut page = store.list_sessions(list).await.unwrap();
    page.sessions.retain(|(info, _)| info.key.session_id.as_str() != "longer");
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
        ["bob expiring 0 105", "ada long 1030 104", "ada cart 4 103", "ada fork 2 101"]
    );
    let cart = &page.sessions[2].0;
    assert_eq!(cart.display_name.as_str(), "A cart");
    assert_eq!(cart.labels.as_map().get("kind").map(String::as_str), Some("cart"));
    assert_eq!((cart.create_time, cart.update_time), (time(100), time(103)));
    let origin = page.sessions[3].0.forked_from.clone().unwrap();
    assert_eq!((origin.key, origin.sequence), (key("ada", "cart"), 2));
}

async fn check_states(store: &dyn Store, trace: Option<TraceId>) {
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
    assert_eq!(traces, [None, trace]);
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

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

async fn open(path: &Path, clock: &Arc<TestClock>) -> SqliteStore {
    let clock: Arc<dyn Clock> = clock.clone();
    let id = StoreId(*b"fixture of tests");
    sqlite::open(SqliteOptions { clock, ..SqliteOptions::new(path, id) }).await.unwrap()
}
