//! Indexes that follow in steps, and a cache that forgets: neither shows.

use super::*;
use crate::{
    domain::{
        error::Error, event::ScopeVersions, scope::Scope, session::Incarnation, token::Position,
    },
    store::{KeyChangeQuery, WatchQuery},
};

/// Events of three sessions in turn, over several steps of the indexes; every event changes all scopes.
const EVENTS: u64 = 100;

async fn fill(fixture: &Fixture) {
    for session in ["r", "s", "t"] {
        fixture.create("u", session, 1).await;
    }
    for number in 1..=EVENTS {
        for session in ["r", "s", "t"] {
            let (own, shared) = (number.to_string(), format!("\"{session}{number}\""));
            let mut set = vec![("k", own.as_str()), ("app:k", &shared), ("user:k", &shared)];
            // A key that is there for a while only.
            if number == 40 {
                set.push(("once", "1"));
            }
            let mut event = event(&format!("{number:03}"), &set);
            if number == 70 {
                event.delta.remove.push(StateKey::new("once").unwrap());
            }
            fixture.store.append(batch(session, [event])).await.unwrap();
        }
    }
}

async fn check_past(fixture: &Fixture) {
    for sequence in 1..=EVENTS {
        let version = (sequence - 1) * 3 + 2;
        let mut expected = vec![
            format!("app:k=\"s{sequence}\"@{version}"),
            format!("user:k=\"s{sequence}\"@{version}"),
            format!("k={sequence}@{sequence}"),
        ];
        if (40..70).contains(&sequence) {
            expected.push("once=1@40".into());
        }
        assert_eq!(fixture.state("s", Some(sequence)).await, expected);
    }
    assert_eq!(fixture.state("s", Some(0)).await, [""; 0]);
}

async fn check_changes(fixture: &Fixture, key: &str, expected: Vec<u64>) {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let query = KeyChangeQuery {
            scope: Scope::Session(address("s")),
            key: StateKey::new(key).unwrap(),
            before,
            max_items: 7,
            max_bytes: usize::MAX,
            now: at(1000),
        };
        let page = fixture.store.list_key_changes(query).await.unwrap();
        found.extend(page.changes.iter().map(|change| change.version));
        before = found.last().copied();
        if !page.more {
            break;
        }
    }
    assert_eq!(found, expected, "{key}");
}

async fn check_ids(fixture: &Fixture) {
    for number in 1..=EVENTS {
        let id = format!("{number:03}");
        let replay = fixture.append("s", &id, &[]).await;
        assert!(replay.events[0].replayed);
        assert_eq!(replay.events[0].event.sequence, number);
        let mut other = one("s", &id, &[]);
        other.events[0].fingerprint = Fingerprint(2);
        let refused = fixture.store.append(other).await.unwrap_err();
        assert_eq!(refused, Error::EventIdReused(EventId::new(id).unwrap()));
    }
}

async fn check_all(fixture: &Fixture) {
    check_past(fixture).await;
    check_changes(fixture, "k", (1..=EVENTS).rev().collect()).await;
    check_changes(fixture, "once", vec![70, 40]).await;
    check_changes(fixture, "app:k", (1..=3 * EVENTS).rev().collect()).await;
    check_changes(fixture, "user:k", (1..=3 * EVENTS).rev().collect()).await;
    check_changes(fixture, "never", vec![]).await;
    check_ids(fixture).await;
}

#[tokio::test]
async fn the_past_is_whole_wherever_the_indexes_end() {
    let mut fixture = Fixture::new().await;
    fill(&fixture).await;
    check_all(&fixture).await;
    fixture.reopen().await;
    check_all(&fixture).await;
}

#[tokio::test]
async fn a_writer_that_remembers_nothing_does_the_same() {
    let fixture = Fixture::with(|options| SqliteOptions { cache_bytes: 0, ..options }).await;
    fill(&fixture).await;
    check_all(&fixture).await;
}

#[tokio::test]
async fn the_indexes_hold_whole_steps() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    fixture.store.close().await;
    let tables = fixture.tables();
    let count = |sql: &str| tables.query_row(sql, (), |row| row.get::<_, i64>(0)).unwrap();
    let indexed = |version: u64| i64::try_from(schema::indexed(version)).unwrap();
    assert_eq!(count("SELECT count(*) FROM event_id"), 3 * indexed(EVENTS));
    let rows = 3 * indexed(EVENTS) + 2 * indexed(3 * EVENTS);
    assert_eq!(count("SELECT count(*) FROM log_row"), rows);
    let own =
        "SELECT count(*) FROM key_change WHERE name = 'k' AND node IN (SELECT id FROM session)";
    assert_eq!(count(own), 3 * indexed(EVENTS));
    let shared =
        "SELECT count(*) FROM key_change WHERE name = 'k' AND node IN (SELECT id FROM scope)";
    assert_eq!(count(shared), 2 * indexed(3 * EVENTS));
}

#[tokio::test]
async fn a_refused_batch_leaves_nothing_in_memory_either() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s", 1).await;
    fixture.append("s", "1", &[("k", "1"), ("app:k", "1"), ("user:k", "1")]).await;
    let before = fixture.state("s", None).await;
    let mut last = event("1", &[("k", "3")]);
    last.fingerprint = Fingerprint(9);
    let changing = event("2", &[("k", "2"), ("new", "2"), ("app:k", "2"), ("user:n", "2")]);
    let refused = fixture.store.append(batch("s", [changing, last])).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)));
    let next = Append { return_state: true, ..one("s", "3", &[]) };
    let appended = fixture.store.append(next).await.unwrap();
    assert_eq!(shown(&appended.state.unwrap()), before);
    assert_eq!(appended.info.last_sequence, 2);
    assert_eq!(fixture.state("s", None).await, before);
    // The id that was not used is free, and the versions go on where they were.
    fixture.append("s", "2", &[("app:k", "4")]).await;
    assert_eq!(fixture.state("s", None).await[0], "app:k=4@2");
}

/// As many keys as a scope may have: what is done for each of them must not look at all of them.
#[tokio::test]
async fn the_past_of_very_many_keys_is_whole() {
    const KEYS: usize = 40_000;
    let fixture = Fixture::new().await;
    fixture.create("u", "s", 1).await;
    let names: Vec<_> = (0..KEYS).map(|at| format!("{at:05}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    fixture.append("s", "1", &all).await;
    let mut gone = event("2", &[]);
    gone.delta.remove = names.iter().map(|name| StateKey::new(name.as_str()).unwrap()).collect();
    fixture.store.append(batch("s", [gone])).await.unwrap();
    fixture.append("s", "3", &[("late", "1")]).await;
    let wanted: Vec<_> = names.iter().map(|name| format!("{name}=1@1")).collect();
    assert_eq!(fixture.state("s", Some(1)).await, wanted);
    assert_eq!(fixture.state("s", Some(2)).await, [""; 0]);
    // The same in a wider scope, whose watchers are told what nothing has changed since.
    let names: Vec<_> = names.iter().map(|name| format!("user:{name}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let remove = names.iter().map(|name| StateKey::new(name.as_str()).unwrap()).collect();
    let gone = Delta { remove, ..Delta::default() };
    for delta in [delta(&all), gone, delta(&[("user:late", "1")])] {
        fixture.store.update_state(change("v", delta)).await.unwrap();
    }
    let mut told = Vec::new();
    let mut position =
        Position { incarnation: Incarnation(0), sequence: 0, versions: ScopeVersions::default() };
    loop {
        let scope = change("v", Delta::default()).scope;
        let (max_items, max_bytes) = (1000, usize::MAX);
        let query = WatchQuery { scope, position, max_items, max_bytes, now: at(1000) };
        let page = fixture.store.read_changes(query).await.unwrap();
        position = page.position;
        let changes = page.changes.iter().map(|it| (it.version, it.changes.remove.len()));
        told.push((position.versions.user, changes.collect::<Vec<_>>()));
        if page.complete {
            break;
        }
    }
    // A page looks at so many keys, too.
    assert_eq!(told, [(1, vec![]), (2, vec![(2, KEYS)]), (3, vec![(3, 0)])]);
}
