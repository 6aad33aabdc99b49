//! The pages that a lone append changes: each is a frame of the WAL, and has to be written before the caller is answered.

use std::{fs, ops::Range};

use super::*;

/// Users, and sessions of each: the indexes and the logs have many pages.
const USERS: usize = 40;
const SESSIONS: usize = 25;

/// Events that each session begins with.
const EVENTS: usize = 20;

/// Appends that are measured.
const APPENDS: usize = 100;

async fn filled() -> Fixture {
    let fixture = Fixture::new().await;
    for session in 0..USERS * SESSIONS {
        fixture.create(&format!("u{:02}", session % USERS), &format!("s{session:04}")).await;
    }
    for session in 0..USERS * SESSIONS {
        fixture.clock.set(100 + i64::try_from(session).unwrap());
        append(&fixture, session, 0..EVENTS, &[("k", "1"), ("user:k", "1"), ("app:k", "1")]).await;
    }
    fixture
}

async fn append(fixture: &Fixture, session: usize, numbers: Range<usize>, set: &[(&str, &str)]) {
    let address = of_user(&format!("u{:02}", session % USERS), &format!("s{session:04}"));
    let events = numbers.map(|number| {
        let body = Some(json(&format!("{{\"text\":\"{}\"}}", "x".repeat(200))));
        NewEvent { body, ..event(&format!("0198f2c4-9d7e-7cc3-a1b2-{number:012}"), set) }
    });
    let append = Append { session: address, ..batch("s", events) };
    fixture.store().append(&call(), append).await.unwrap();
}

/// Pages that an append to a session changes, on average over sessions all over the file.
async fn pages(fixture: &Fixture, round: usize, set: &[(&str, &str)]) -> f64 {
    let wal = fixture.folder.path().join("test.db-wal");
    let frames = || fs::metadata(&wal).map_or(0, |file| file.len() / (4096 + 24));
    let before = frames();
    for at in 0..APPENDS {
        let number = 1000 * round + at;
        fixture.clock.set(10_000 + i64::try_from(number).unwrap());
        append(fixture, at * 379 % (USERS * SESSIONS), number..number + 1, set).await;
    }
    (frames() - before) as f64 / APPENDS as f64
}

#[tokio::test]
async fn a_lone_append_changes_few_pages() {
    let mut fixture = filled().await;
    fixture.reopen().await;
    let without = pages(&fixture, 1, &[]).await;
    let own = pages(&fixture, 2, &[("k", "2")]).await;
    let all = pages(&fixture, 3, &[("k", "3"), ("user:k", "3"), ("app:k", "3")]).await;
    let found =
        format!("{without:.1} without a change, {own:.1} of a key, {all:.1} of three scopes");
    // About half a page less is found: rows at the end of `event`, its index of ids, `session` and `state`. A change of an application or a
    // user changes pages of `scope`, `state` and `scope_log`; `scope_log_user` follows later.
    assert!(without <= 4.0 && own <= 5.0 && all <= 8.6, "{found}");
}
