//! Indexes and snapshots that follow in steps, and a cache that forgets: neither shows.

use super::*;
use sessiond_core::domain::{event::ScopeVersions, session::Incarnation, token::Position};
use sessiond_store::past::SNAPSHOT_STEP;

/// Events of three sessions in turn, over several snapshots; every event changes all scopes.
const EVENTS: u64 = 2 * SNAPSHOT_STEP + 12;

async fn fill(fixture: &Fixture) {
    for session in ["r", "s", "t"] {
        fixture.create("u", session).await;
    }
    for number in 1..=EVENTS {
        for session in ["r", "s", "t"] {
            let (own, shared) = (number.to_string(), format!("\"{session}{number}\""));
            let mut delta = delta(&[("k", &own), ("app:k", &shared), ("user:k", &shared)]);
            // A key that is there for a while only.
            if number == 40 {
                delta.set.push((key("once"), json("1")));
            }
            if number == 70 {
                delta.remove.push(key("once"));
            }
            // One that comes back before a snapshot.
            match number {
                40 => delta.set.push((key("back"), json("1"))),
                50 => delta.remove.push(key("back")),
                60 => delta.set.push((key("back"), json("2"))),
                _ => {}
            }
            let event = event_of(&format!("{number:03}"), delta);
            fixture.store().append(&call(), batch(session, [event])).await.unwrap();
        }
    }
}

async fn check_past(fixture: &Fixture) {
    for sequence in 1..=EVENTS {
        let version = (sequence - 1) * 3 + 2;
        let mut expected = vec![
            format!("app:k=\"s{sequence}\"@{version}"),
            format!("user:k=\"s{sequence}\"@{version}"),
        ];
        match sequence {
            40..50 => expected.push("back=1@40".into()),
            60.. => expected.push("back=2@60".into()),
            _ => {}
        }
        expected.push(format!("k={sequence}@{sequence}"));
        if (40..70).contains(&sequence) {
            expected.push("once=1@40".into());
        }
        assert_eq!(fixture.state("s", Some(sequence)).await, expected);
    }
    assert_eq!(fixture.state("s", Some(0)).await, [""; 0]);
}

async fn check_changes(fixture: &Fixture, name: &str, expected: Vec<u64>) {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let query = KeyChangeQuery {
            scope: Scope::Session(address("s")),
            key: key(name),
            before,
            max_items: 7,
            max_bytes: usize::MAX,
        };
        let page = fixture.store.list_key_changes(query).await.unwrap();
        found.extend(page.changes.iter().map(|change| change.version));
        before = page.rest;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(found, expected, "{name}");
}

async fn check_ids(fixture: &Fixture) {
    for number in 1..=EVENTS {
        let id = format!("{number:03}");
        let replay = fixture.append("s", &id, &[]).await;
        assert!(replay.events[0].replayed);
        assert_eq!(replay.events[0].event.sequence, number);
        let mut other = one("s", &id, &[]);
        other.events[0].fingerprint = Fingerprint(2);
        let refused = fixture.store().append(&call(), other).await.unwrap_err();
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
async fn the_past_is_whole_wherever_the_snapshots_are() {
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
async fn a_small_state_has_a_snapshot_at_each_step() {
    let fixture = Fixture::new().await;
    fill(&fixture).await;
    let of_sessions = "SELECT count(*) FROM snapshot WHERE node IN (SELECT id FROM session)";
    assert_eq!(fixture.count(of_sessions), 3 * 2);
    let of_scopes = "SELECT count(*) FROM snapshot WHERE node IN (SELECT id FROM scope)";
    assert_eq!(fixture.count(of_scopes), 2 * i64::try_from(3 * EVENTS / SNAPSHOT_STEP).unwrap());
}

/// Changes of an eighth of a large state make a snapshot, few changes make none, and the past is the same.
#[tokio::test]
async fn a_large_state_has_snapshots_that_are_worth_their_size() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let value = |number: u64| format!("\"{number:0>1000}\"");
    let large: Vec<_> = (0..32).map(|number| (format!("large-{number:02}"), value(0))).collect();
    let large: Vec<_> = large.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    fixture.append("s", "large", &large).await;
    let snapshots = "SELECT count(*) FROM snapshot";
    // Small changes: two steps of a few bytes each, of 32 KB.
    for number in 2..=2 * SNAPSHOT_STEP {
        fixture.append("s", &number.to_string(), &[("n", &number.to_string())]).await;
    }
    let after_small = fixture.count(snapshots);
    // Large ones: each step is twice the state.
    for number in 2 * SNAPSHOT_STEP + 1..=4 * SNAPSHOT_STEP {
        let name = format!("large-{:02}", number % 32);
        fixture.append("s", &number.to_string(), &[(&name, &value(number))]).await;
    }
    assert_eq!((after_small, fixture.count(snapshots)), (1, 3));
    for _ in 0..2 {
        for sequence in [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256] {
            let state = fixture.state("s", Some(sequence)).await;
            let expected: Vec<_> = (0..32)
                .map(|slot| {
                    let newest = (129..=sequence).rev().find(|number| number % 32 == slot);
                    let (number, version) = newest.map_or((0, 1), |number| (number, number));
                    format!("large-{slot:02}={}@{version}", value(number))
                })
                .chain((sequence > 1).then(|| sequence.min(128)).map(|n| format!("n={n}@{n}")))
                .collect();
            assert_eq!(state, expected, "as of {sequence}");
        }
        fixture.reopen().await;
    }
}

/// The state stays small, and its snapshots grow with the names of removed keys: all of them together have some times the bytes of the
/// last one, however many there are.
#[tokio::test]
async fn snapshots_of_removed_keys_are_worth_their_size() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let job = |number: u64| {
        let mut delta = delta(&[(&format!("job-{number:04}"), "1")]);
        delta.remove.extend((number > 1).then(|| key(&format!("job-{:04}", number - 1))));
        event_of(&number.to_string(), delta)
    };
    let steps = 100;
    for step in 0..steps {
        let events = (1..=SNAPSHOT_STEP).map(|number| job(step * SNAPSHOT_STEP + number));
        fixture.store().append(&call(), batch("s", events)).await.unwrap();
    }
    let bytes =
        |of: &str| fixture.count(&format!("SELECT {of}(octet_length(state)) FROM snapshot"));
    let (all, last) = (bytes("sum"), bytes("max"));
    assert!(last > 20 * 4800 && all < 15 * last, "{all} {last}");
    for number in [1, 64, 65, 2000, 4097, steps * SNAPSHOT_STEP] {
        let expected = format!("job-{number:04}=1@{number}");
        assert_eq!(fixture.state("s", Some(number)).await, [expected]);
    }
}

#[tokio::test]
async fn a_refused_batch_leaves_nothing_in_memory_either() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.append("s", "1", &[("k", "1"), ("app:k", "1"), ("user:k", "1")]).await;
    let before = fixture.state("s", None).await;
    let mut last = event("1", &[("k", "3")]);
    last.fingerprint = Fingerprint(9);
    let changing = event("2", &[("k", "2"), ("new", "2"), ("app:k", "2"), ("user:n", "2")]);
    let refused = fixture.store().append(&call(), batch("s", [changing, last])).await.unwrap_err();
    assert!(matches!(refused, Error::EventIdReused(_)));
    let next = Append { return_state: true, ..one("s", "3", &[]) };
    let appended = fixture.store().append(&call(), next).await.unwrap();
    assert_eq!(shown(&appended.state.unwrap()), before);
    assert_eq!(appended.info.last_sequence, 2);
    assert_eq!(fixture.state("s", None).await, before);
    // The id that was not used is free, and the versions go on where they were.
    fixture.append("s", "2", &[("app:k", "4")]).await;
    assert_eq!(fixture.state("s", None).await[0], "app:k=4@2");
}

/// As many keys as a scope may have: work for one of them must not look at all of them.
#[tokio::test]
async fn the_past_of_very_many_keys_is_whole() {
    const KEYS: usize = 40_000;
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let names: Vec<_> = (0..KEYS).map(|at| format!("{at:05}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    fixture.append("s", "1", &all).await;
    let remove = names.iter().map(|name| key(name)).collect();
    let gone = event_of("2", Delta { remove, ..Delta::default() });
    fixture.store().append(&call(), batch("s", [gone])).await.unwrap();
    fixture.append("s", "3", &[("late", "1")]).await;
    let wanted: Vec<_> = names.iter().map(|name| format!("{name}=1@1")).collect();
    assert_eq!(fixture.state("s", Some(1)).await, wanted);
    assert_eq!(fixture.state("s", Some(2)).await, [""; 0]);
    // The same in a shared scope, whose watchers are told what nothing has changed since.
    let names: Vec<_> = names.iter().map(|name| format!("user:{name}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let remove = names.iter().map(|name| key(name)).collect();
    let gone = Delta { remove, ..Delta::default() };
    for delta in [delta(&all), gone, delta(&[("user:late", "1")])] {
        let change = change(user_scope("v"), delta);
        fixture.store().update_state(&call(), change).await.unwrap();
    }
    let mut told = Vec::new();
    let mut position =
        Position { incarnation: Incarnation(0), sequence: 0, versions: ScopeVersions::default() };
    loop {
        let scope = user_scope("v");
        let (max_items, max_bytes) = (1000, usize::MAX);
        let query = WatchQuery { scope, position, max_items, max_bytes };
        let page = fixture.store.read_changes(query).await.unwrap();
        position = page.position;
        let changes = page.changes.iter().map(|it| (it.version, it.changes.remove.len()));
        told.push((position.versions.user, changes.collect::<Vec<_>>()));
        if page.complete {
            break;
        }
    }
    // A page also ends after a number of keys.
    assert_eq!(told, [(1, vec![]), (2, vec![(2, KEYS)]), (3, vec![(3, 0)])]);
}
