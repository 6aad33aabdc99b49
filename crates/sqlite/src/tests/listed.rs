//! Lists while their indexes are behind the events: after appends, a crash, damage, and between two pages.

use std::fs;

use super::verifying::Told;
use super::*;
use crate::{listed::UNLISTED_EVENTS, verify::verify};

const SESSIONS: [&str; 4] = ["a", "b", "c", "d"];

/// Sessions that were created one after the other.
async fn filled() -> Fixture {
    let fixture = Fixture::new().await;
    for (session, now) in SESSIONS.iter().zip(1..) {
        fixture.clock.set(now);
        fixture.create("u", session).await;
    }
    fixture
}

/// Appends events at a time of the store's clock.
async fn append(fixture: &Fixture, session: &str, now: i64, ids: std::ops::Range<u64>) {
    fixture.clock.set(now);
    let events = ids.map(|id| event(&id.to_string(), &[]));
    fixture.store().append(&call(), batch(session, events)).await.unwrap();
}

fn shown(page: &SessionPage) -> Vec<&str> {
    page.sessions.iter().map(|(info, _)| info.key.session_id.as_str()).collect()
}

/// Lists in every way.
async fn assert_order(fixture: &Fixture, expected: [&str; 4]) {
    let mut backwards = expected;
    backwards.reverse();
    for (order, expected) in
        [(SessionOrder::LeastRecent, expected), (SessionOrder::MostRecent, backwards)]
    {
        for user in [None, Some("u")] {
            let page = fixture.store.list_sessions(list(user, order, 10)).await.unwrap();
            assert_eq!(shown(&page), expected, "{order:?} of {user:?}");
            let first = fixture.store.list_sessions(list(user, order, 3)).await.unwrap();
            let rest = SessionsQuery { after: first.rest, ..list(user, order, 3) };
            let second = fixture.store.list_sessions(rest).await.unwrap();
            assert_eq!(shown(&second), expected[3..], "{order:?} of {user:?}, second page");
        }
    }
}

/// Events that the indexes do not follow, and sessions that they have at an old time.
fn behind(fixture: &Fixture) -> (i64, i64) {
    let events = "SELECT (SELECT max(id) FROM event) - listed_through FROM meta";
    let sessions = "SELECT count(*) FROM session
        WHERE (listed_secs, listed_nanos) <> (last_event_secs, last_event_nanos)";
    (fixture.count(events), fixture.count(sessions))
}

/// The file as a crash would leave it now, open in another store.
async fn crashed(fixture: &Fixture) -> Fixture {
    let folder = TempDir::new().unwrap();
    for file in ["test.db", "test.db-wal"] {
        fs::copy(fixture.folder.path().join(file), folder.path().join(file)).unwrap();
    }
    let path = folder.path().join("test.db");
    let found = verify(&path, &mut Told::default()).unwrap();
    assert_eq!(found.findings, 0, "{found:?}");
    let options = SqliteOptions { path, ..fixture.options.clone() };
    let store = open(options.clone()).await.unwrap();
    Fixture { folder, store, options, clock: Arc::clone(&fixture.clock) }
}

#[tokio::test]
async fn an_append_is_listed_at_once_and_leaves_the_indexes_alone() {
    let mut fixture = filled().await;
    append(&fixture, "b", 10, 0..1).await;
    append(&fixture, "a", 11, 0..2).await;
    assert_order(&fixture, ["c", "d", "b", "a"]).await;
    append(&fixture, "b", 12, 1..2).await;
    assert_order(&fixture, ["c", "d", "a", "b"]).await;
    fixture.store().rewind_session(&call(), rewind("a", 1)).await.unwrap();
    fixture.clock.set(13);
    append(&fixture, "d", 14, 0..1).await;
    assert_eq!(behind(&fixture), (6, 3));
    let listed = fixture.store.list_sessions(list(None, SessionOrder::MostRecent, 10)).await;
    assert_eq!(shown(&listed.unwrap())[0], "d");
    fixture.reopen().await;
    assert_eq!(behind(&fixture), (0, 0));
}

#[tokio::test]
async fn the_indexes_follow_after_a_number_of_events_and_with_a_sweep() {
    let fixture = filled().await;
    append(&fixture, "a", 10, 0..2).await;
    append(&fixture, "c", 11, 2..UNLISTED_EVENTS).await;
    // The writer follows after its answer, and before the next one.
    append(&fixture, "b", 12, 0..1).await;
    assert_eq!(behind(&fixture), (1, 1));
    assert_order(&fixture, ["d", "a", "c", "b"]).await;
    fixture.sweep().await;
    assert_order(&fixture, ["d", "a", "c", "b"]).await;
    fixture.create("v", "last").await;
    assert_eq!(behind(&fixture), (0, 0));
}

#[tokio::test]
async fn after_a_crash_lists_are_whole_and_events_before_it_count() {
    let mut fixture = filled().await;
    let half = UNLISTED_EVENTS / 2;
    append(&fixture, "b", 10, 0..half).await;
    append(&fixture, "a", 11, 0..1).await;
    fixture = crashed(&fixture).await;
    assert_eq!(behind(&fixture).1, 2);
    assert_order(&fixture, ["c", "d", "b", "a"]).await;
    append(&fixture, "c", 12, 0..half).await;
    append(&fixture, "d", 13, 0..1).await;
    assert_eq!(behind(&fixture), (1, 1));
    assert_order(&fixture, ["b", "a", "c", "d"]).await;
}

/// The numbers of the last events are given out again when these have been removed.
#[tokio::test]
async fn events_that_take_the_numbers_of_removed_ones_are_followed() {
    let fixture = filled().await;
    append(&fixture, "a", 10, 0..3).await;
    append(&fixture, "b", 11, 0..100).await;
    fixture.sweep().await;
    assert!(fixture.delete("b").await);
    fixture.sweep().await;
    fixture.clock.set(12);
    fixture.create("u", "b").await;
    append(&fixture, "c", 13, 0..1).await;
    assert_eq!(behind(&fixture), (1, 1));
    assert_order(&fixture, ["d", "a", "b", "c"]).await;
    assert_order(&crashed(&fixture).await, ["d", "a", "b", "c"]).await;
}

#[tokio::test]
async fn events_that_cannot_be_read_leave_lists_complete() {
    let mut fixture = filled().await;
    append(&fixture, "a", 10, 0..1).await;
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'event'";
    let at = (usize::try_from(fixture.count(root)).unwrap() - 1) * 4096;
    fixture.store.close().await;
    let old = "UPDATE meta SET listed_through = 0; UPDATE session SET listed_secs = 1 WHERE session_id = 'd'";
    fixture.tables().execute_batch(old).unwrap();
    let mut bytes = fs::read(&fixture.options.path).unwrap();
    bytes[at..at + 4096].fill(0xA5);
    fs::write(&fixture.options.path, bytes).unwrap();
    fixture.store = open(fixture.options.clone()).await.unwrap();
    assert_order(&fixture, ["d", "b", "c", "a"]).await;
    // A write that the damage does not concern.
    fixture.create("v", "new").await;
    fixture.sweep().await;
    let old = "SELECT count(*) FROM session
        WHERE listed_secs <> last_event_secs";
    assert_eq!(fixture.count(old), 0, "the indexes follow also what cannot be read");
}

/// Pages of two, with appends to other sessions after each and the indexes following in between.
#[tokio::test]
async fn pages_neither_skip_nor_repeat_a_session_that_does_not_change() {
    for order in [SessionOrder::LeastRecent, SessionOrder::MostRecent] {
        let fixture = Fixture::new().await;
        for number in 0..20 {
            fixture.clock.set(number);
            fixture.create("u", &format!("{number:02}")).await;
        }
        // Half of them have moved, to times in an order of its own.
        for number in (0..20).step_by(2) {
            append(&fixture, &format!("{number:02}"), 30 + (number * 7) % 20, 0..1).await;
        }
        let (mut found, mut query, mut round) = (Vec::new(), list(None, order, 2), 1);
        loop {
            let page = fixture.store.list_sessions(query.clone()).await.unwrap();
            found.extend(shown(&page).into_iter().map(str::to_owned));
            let Some(rest) = page.rest else { break };
            query.after = Some(rest);
            // The oldest first, a list would never end if they went on.
            let changing = if round < 9 { &["02", "13", "16"][..] } else { &[] };
            for changing in changing {
                let ids = 1000 * round..1000 * round + 200;
                append(&fixture, changing, 100 + i64::try_from(round).unwrap(), ids).await;
            }
            round += 1;
        }
        assert!(round >= 9 && 8 * 600 > 4 * UNLISTED_EVENTS, "the indexes followed several times");
        for number in (0..20).filter(|number| ![2, 13, 16].contains(number)) {
            let times = found.iter().filter(|it| **it == format!("{number:02}")).count();
            assert_eq!(times, 1, "session {number} of {found:?}");
        }
    }
}
