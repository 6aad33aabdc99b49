//! How keys came to their values.

use sessiond::{
    domain::{error::Error, event::NewEvent, id::Author, json::Json, session::Incarnation},
    store::{KeyChange, KeyChangeQuery, StateUpdate},
};

use crate::{fixture::*, requests::*};

/// A change in one line: `version author@time session.sequence: value`.
fn line(change: &KeyChange) -> String {
    let source = match &change.source {
        Some((key, sequence)) => format!(" {}.{sequence}", key.session_id),
        None => String::new(),
    };
    let value = change.value.as_ref().map_or("-", Json::as_str);
    let secs = change.commit_time.secs();
    format!("{} {}@{secs}{source}: {value}", change.version, change.author)
}

async fn history(fixture: &Fixture, path: &str, name: &str) -> Vec<String> {
    fixture.every_change(changes(path, name)).await.iter().map(line).collect()
}

/// Two sessions and a request write the same keys, in every way there is.
async fn write(fixture: &Fixture) {
    let state = [("app:k", "0"), ("user:k", "0"), ("k", "0"), ("other", "0")];
    fixture.new_session("a/u/s", &state).await;
    let by = |author: &str, id: &str, delta| NewEvent {
        author: Author::new(author).unwrap(),
        ..event(id, delta)
    };
    let all = |value: &str| set(&[("app:k", value), ("user:k", value), ("k", value)]);
    let batch = append(
        "a/u/s",
        [
            by("ann", "1", all("1")),
            by("ann", "2", nothing()),
            by("bob", "3", remove(&["app:k", "user:k", "k"])),
        ],
    );
    fixture.append(batch.at(at(1_100))).await.unwrap();
    let updated = StateUpdate {
        author: Author::new("cli").unwrap(),
        ..update("a/u", set(&[("app:k", "2"), ("user:k", "2")]))
    };
    fixture.update_state(updated.at(at(1_050))).await.unwrap();
    fixture.new_session("a/u/t", &[("app:k", "3"), ("k", "9")]).await;
    fixture.put("a/u/t", "1", add("app:k", 1).add("user:k", 1)).await;
    fixture.put("a/u/s", "4", set(&[("k", "4"), ("app:other", "4")])).await;
    let back = rewind("a/u/s", 1, "m").at(at(1_200));
    fixture.rewind_session(back).await.unwrap();
}

const APP: [&str; 6] = [
    "6 agent@1000 t.1: 4",
    "5 @1000: 3",
    "4 cli@1050: 2",
    "3 bob@1100 s.3: -",
    "2 ann@1100 s.1: 1",
    "1 @1000: 0",
];
const USER: [&str; 5] = [
    "5 agent@1000 t.1: 3",
    "4 cli@1050: 2",
    "3 bob@1100 s.3: -",
    "2 ann@1100 s.1: 1",
    "1 @1000: 0",
];
const OWN: [&str; 5] = [
    "5 system@1200 s.5: 1",
    "4 agent@1100 s.4: 4",
    "3 bob@1100 s.3: -",
    "1 ann@1100 s.1: 1",
    "0 @1000: 0",
];

pub async fn every_change_is_listed_newest_first(fixture: &mut Fixture) {
    write(fixture).await;
    for path in ["a", "a/u", "a/v", "a/u/s", "a/u/t"] {
        assert_eq!(history(fixture, path, "app:k").await, APP, "from {path}");
    }
    for path in ["a/u", "a/u/s", "a/u/t"] {
        assert_eq!(history(fixture, path, "user:k").await, USER, "from {path}");
    }
    assert_eq!(history(fixture, "a/u/s", "k").await, OWN);
    assert_eq!(history(fixture, "a/u/t", "k").await, ["0 @1000: 9"]);
    assert_eq!(history(fixture, "a/u/s", "other").await, ["0 @1000: 0"]);
    for (path, name) in [
        ("a/u/s", "missing"),
        ("a/u/s", "app:missing"),
        ("a/v", "user:k"),
        ("b", "app:k"),
        ("a/u/s", "K"),
        ("a/u/s", "app:K"),
    ] {
        assert_eq!(history(fixture, path, name).await, [""; 0], "{path} {name}");
    }
}

pub async fn history_is_read_in_pages(fixture: &mut Fixture) {
    write(fixture).await;
    for (name, expected) in [("app:k", &APP[..]), ("user:k", &USER), ("k", &OWN)] {
        for (max_items, max_bytes) in [(1, usize::MAX), (2, usize::MAX), (100, 1), (100, 0)] {
            let mut query = KeyChangeQuery { max_items, max_bytes, ..changes("a/u/s", name) };
            let mut found = Vec::new();
            loop {
                let page = fixture.list_key_changes(query.clone()).await.unwrap();
                assert!(page.changes.len() <= max_items);
                found.extend(page.changes.iter().map(line));
                assert!(found.len() <= expected.len(), "{found:?}");
                query.before = page.rest;
                if query.before.is_none() {
                    break;
                }
            }
            assert_eq!(found, expected);
        }
    }
    let oldest = KeyChangeQuery { before: Some(0), ..changes("a/u/s", "k") };
    let page = fixture.list_key_changes(oldest).await.unwrap();
    assert!(page.changes.is_empty() && page.rest.is_none());
}

pub async fn history_names_the_incarnation(fixture: &mut Fixture) {
    let created = fixture.new_session("a/u/s", &[("k", "1"), ("app:k", "1")]).await;
    let page = fixture.list_key_changes(changes("a/u/s", "k")).await.unwrap();
    assert_eq!(page.incarnation, created.incarnation);
    let page = fixture.list_key_changes(changes("a/u/s", "app:k")).await.unwrap();
    assert_eq!(page.incarnation, Incarnation(0));
    fixture.delete_session(address("a/u/s"), NOW).await.unwrap();
    let created = fixture.new_session("a/u/s", &[("k", "2")]).await;
    let page = fixture.list_key_changes(changes("a/u/s", "k")).await.unwrap();
    assert_eq!(page.incarnation, created.incarnation);
    assert_eq!(history(fixture, "a/u/s", "k").await, ["0 @1000: 2"]);
}

pub async fn shared_history_outlives_the_sessions_that_made_it(fixture: &mut Fixture) {
    write(fixture).await;
    for path in ["a/u/s", "a/u/t"] {
        fixture.delete_session(address(path), NOW).await.unwrap();
    }
    fixture.sweep_all(NOW).await;
    assert_eq!(history(fixture, "a", "app:k").await, APP);
    assert_eq!(history(fixture, "a/u", "user:k").await, USER);
    fixture.new_session("a/u/s", &[]).await;
    fixture.put("a/u/s", "1", set(&[("app:k", "5")])).await;
    assert_eq!(history(fixture, "a", "app:k").await[0], "8 agent@1000 s.1: 5");
    let missing = fixture.list_key_changes(changes("a/u/t", "app:k")).await;
    assert_eq!(missing.unwrap_err(), Error::not_found(&address("a/u/t")));
}

pub async fn a_fork_has_the_history_of_copied_events(fixture: &mut Fixture) {
    write(fixture).await;
    let forked = fork("a/u/s", Some(3), "f").at(at(2_000));
    fixture.fork_session(forked).await.unwrap();
    fixture.put("a/u/f", "own", set(&[("k", "7")])).await;
    let mine = history(fixture, "a/u/f", "k").await;
    assert_eq!(mine[0], "4 agent@2000 f.4: 7");
    assert_eq!(mine[1], "3 bob@1100 f.3: -");
    assert_eq!(mine[2], "1 ann@1100 f.1: 1");
    assert!(mine[3].starts_with("0 @") && mine[3].ends_with(": 0"));
    assert_eq!(mine.len(), 4);
}

/// The history of a key agrees with its value as of every event.
pub async fn history_and_past_agree(fixture: &mut Fixture) {
    write(fixture).await;
    for (name, kind) in [("app:k", 0), ("user:k", 1), ("k", 2)] {
        let page = fixture.list_key_changes(changes("a/u/s", name)).await.unwrap();
        let last = fixture.info("a/u/s").await.last_sequence;
        for sequence in 0..=last {
            let mut query = read("a/u/s");
            query.as_of = Some(sequence);
            let view = fixture.read_session(query).await.unwrap();
            let versions = match sequence.checked_sub(1) {
                Some(at) => fixture.whole_log("a/u/s").await[at as usize].versions,
                None => view.info.created_versions,
            };
            let version = [versions.application, versions.user, sequence][kind];
            let then = page.changes.iter().find(|change| change.version <= version);
            let then = then.and_then(|change| change.value.as_ref());
            assert_eq!(view.state.unwrap().get(name), then, "{name} as of {sequence}");
        }
    }
}

/// A step of a read looks at 20,000 rows, and the snapshot alone has as many.
pub async fn history_gets_on_however_many_names_a_snapshot_has(fixture: &mut Fixture) {
    let names: Vec<String> = (0..20_000).map(|at| format!("k{at}")).collect();
    let state: Vec<_> = names.iter().map(|name| (name.as_str(), "0")).collect();
    fixture.new_session("a/u/s", &state).await;
    fixture.put("a/u/s", "1", set(&[("k7", "1")])).await;
    assert_eq!(history(fixture, "a/u/s", "k7").await, ["1 agent@1000 s.1: 1", "0 @1000: 0"]);
}
