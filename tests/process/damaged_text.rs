//! Text that is no JSON any more, in a row that is whole otherwise: every call that needs it says so, and every other call goes on.

use std::any::Any;

use rusqlite::Connection;
use sessiond::proto::v1::{GetSessionRequest, session_service_client::SessionServiceClient};

use crate::{
    every_call::{call_all, fill, outcome, update},
    harness::{Server, key},
};

/// Texts that are no object: cut, of another type, garbage, nothing, half a surrogate pair, a byte too many.
const NO_OBJECT: [&str; 7] =
    [r#"{"a":"MARK"#, "null", "[1]", "garbage", "", r#"{"a":"\ud800"}"#, r#" {"a":1}"#];

/// Texts that are no value.
const NO_VALUE: [&str; 4] = [r#""VAL"#, "{", "garbage", ""];

/// Edits one row of a store that no server has open. What both databases call differently stands in brackets.
async fn edit(url: &str, sql: &str) {
    match url.strip_prefix("sqlite:") {
        Some(file) => {
            let sql = sql
                .replace("[session]", "session = (SELECT id FROM session WHERE session_id = 's')");
            assert_eq!(Connection::open(file).unwrap().execute(&sql, ()).unwrap(), 1, "{sql}");
        }
        None => {
            let incarnation =
                "incarnation = (SELECT incarnation FROM session WHERE session_id = 's')";
            let sql = sql.replace("[session]", incarnation) + " RETURNING 1";
            assert_eq!(crate::cluster::query(url, &sql).await.unwrap().len(), 1, "{sql}");
        }
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Damages a store and compares what every call makes of it; calls that are not named are `ok`. Then sets the keys `repaired`.
async fn assert_damage(store: &Store, sql: &str, expected: &[(&str, &str)], repaired: &str) {
    let url = &store.url;
    fill(url).await;
    edit(url, sql).await;
    let server = Server::start_on(url, &[]);
    let channel = server.channel().await;
    let found = call_all(&channel).await;
    let differ = |(call, outcome): &(&&str, &String)| {
        let wanted = expected.iter().find(|(name, _)| name == *call).map_or("ok", |it| it.1);
        wanted != *outcome
    };
    let wrong: Vec<_> = found.iter().filter(differ).collect();
    assert!(wrong.is_empty(), "{sql}: {wrong:#?}");
    assert!(expected.iter().all(|(name, _)| found.contains_key(name)));
    if !repaired.is_empty() {
        update(&channel, &[], repaired, None).await.unwrap();
        let found = call_all(&channel).await;
        let wrong: Vec<_> = found.iter().filter(|(_, outcome)| *outcome != "ok").collect();
        assert!(wrong.is_empty(), "{sql}, and set anew: {wrong:#?}");
    }
    drop(channel);
    server.stop();
}

/// What a damaged event is to reads of the log.
const EVENT: [(&str, &str); 3] = [
    ("GetSession with event 3", "event 3"),
    ("ListEvents from 3", "event 3"),
    ("Watch from the beginning", "event 3"),
];

async fn a_body(store: fn() -> Store) {
    for text in NO_OBJECT {
        let sql =
            format!("UPDATE event SET body = {} WHERE sequence = 3 AND [session]", quoted(text));
        assert_damage(&store(), &sql, &EVENT, "").await;
    }
}

/// Changes are also needed by what adds them up.
async fn the_changes_of_an_event(store: fn() -> Store) {
    let folded = [
        "GetSession as of 4",
        "ForkSession",
        "RewindSession",
        "ListKeyChanges of own",
        "ListKeyChanges of k2",
    ];
    let expected = [&EVENT[..], &folded.map(|call| (call, "event 3"))].concat();
    for (column, text) in [
        ("set_json", NO_OBJECT[0]),
        ("set_json", "null"),
        ("set_json", "[1]"),
        ("removed", "{}"),
        ("removed", "null"),
    ] {
        let sql = format!(
            "UPDATE event SET {column} = {} WHERE sequence = 3 AND [session]",
            quoted(text)
        );
        assert_damage(&store(), &sql, &expected, "").await;
    }
}

async fn a_value_of_the_session(store: fn() -> Store) {
    let reads = [
        "GetSession",
        "ListSessions with state",
        "GetState",
        "GetState of own",
        "ListKeyChanges of own",
        "RenderTemplate of k",
        "RenderTemplate of app:app",
        "RenderTemplate of user:usr",
        "Watch from a snapshot",
        "increment of own",
        "condition on own",
    ];
    let mut expected = reads.map(|call| (call, "key own")).to_vec();
    // A write does not fail because of its answer.
    expected.extend([("AppendEvent with state", "lacks own"), ("UpdateState", "lacks own")]);
    for text in NO_VALUE {
        let sql = format!("UPDATE state SET value = {} WHERE name = 'own'", quoted(text));
        assert_damage(&store(), &sql, &expected, r#"{"own":1}"#).await;
    }
}

/// What others share is left out of their state.
async fn a_shared_value(store: fn() -> Store) {
    for (name, key) in [("app", "app:app"), ("usr", "user:usr")] {
        let (lacks, of_key) = (format!("lacks {key}"), format!("key {key}"));
        let without = [
            "GetSession",
            "GetSession of another",
            "ListSessions with state",
            "GetState",
            "Watch from a snapshot",
            "CreateSession",
            "ForkSession",
            "AppendEvent with state",
            "UpdateState",
            "RewindSession",
        ];
        let mut expected: Vec<(&str, &str)> = without.map(|call| (call, &*lacks)).to_vec();
        let by_name = [
            "GetState of",
            "ListKeyChanges of",
            "RenderTemplate of",
            "increment of",
            "condition on",
        ];
        let by_name = by_name.map(|call| format!("{call} {key}"));
        let by_name = by_name.iter().filter(|call| key == "app:app" || !call.starts_with("cond"));
        expected.extend(by_name.map(|call| (&**call, &*of_key)));
        for text in NO_VALUE {
            let sql = format!("UPDATE state SET value = {} WHERE name = '{name}'", quoted(text));
            assert_damage(&store(), &sql, &expected, &format!(r#"{{"{key}":1}}"#)).await;
        }
    }
}

/// The value that a key had in a snapshot.
async fn a_value_in_a_snapshot(store: fn() -> Store) {
    let past = [
        "GetSession as of 0",
        "GetSession as of 2",
        "GetSession as of 4",
        "ListKeyChanges of own",
        "ListKeyChanges of k2",
        "ForkSession",
        "RewindSession",
    ];
    let store = store();
    let sql = match store.url.starts_with("sqlite:") {
        true => {
            r#"UPDATE snapshot SET state = replace(state, '"77"', '"7{"') WHERE state LIKE '%77%'"#
        }
        false => {
            "UPDATE snapshot SET key_values = array_replace(key_values, '77', '7{') WHERE '77' = ANY(key_values)"
        }
    };
    assert_damage(&store, sql, &past.map(|call| (call, "key own")), "").await;
}

async fn a_change_of_a_shared_value(store: fn() -> Store) {
    let sql = r#"UPDATE scope_log SET set_json = '{"app:app":' WHERE set_json = '{"app:app":2}'"#;
    // The watch has that change with the event that made it.
    let expected = [("ListKeyChanges of app:app", "change 2")];
    assert_damage(&store(), sql, &expected, "").await;
}

/// Labels are part of every answer that has the session.
async fn the_labels(store: fn() -> Store) {
    for text in ["{", "null", "[1]"] {
        let store = store();
        fill(&store.url).await;
        edit(&store.url, &format!("UPDATE session SET labels = '{text}' WHERE session_id = 's'"))
            .await;
        let server = Server::start_on(&store.url, &[]);
        let channel = server.channel().await;
        for (id, expected) in [("l", "ok"), ("s", "row"), ("r", "ok")] {
            let request = GetSessionRequest { key: Some(key(id)), ..Default::default() };
            let answer = SessionServiceClient::new(channel.clone()).get_session(request).await;
            assert_eq!(outcome(answer, |_| Vec::new()), expected, "{text}");
        }
        server.stop();
    }
}

/// A store for one case, and what it lives in.
struct Store {
    url: String,
    _home: Box<dyn Any + Send>,
}

/// Every test on a file, and on a database.
macro_rules! on_every_store {
    ($($test:ident)+) => {
        mod sqlite {
            fn store() -> super::Store {
                let home = tempfile::TempDir::new().unwrap();
                super::Store { url: crate::harness::file_in(home.path()), _home: Box::new(home) }
            }

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(store).await;
            })+
        }

        mod postgres {
            fn store() -> super::Store {
                let home = crate::cluster::Database::create();
                super::Store { url: home.url.clone(), _home: Box::new(home) }
            }

            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if crate::cluster::shared_server().is_some() {
                    super::$test(store).await;
                }
            })+
        }
    };
}

on_every_store! {
    a_body
    the_changes_of_an_event
    a_value_of_the_session
    a_shared_value
    a_value_in_a_snapshot
    a_change_of_a_shared_value
    the_labels
}
