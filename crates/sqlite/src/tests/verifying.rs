//! What `verify` finds in a file.

use super::{
    verify::{Check, Finding, Observer, Part, Progress, Summary, verify},
    *,
};
use sessiond_store::rows::EVENT_COLUMNS;

/// Events of the session that is damaged: enough for many snapshots.
pub(super) const EVENTS: u64 = 5000;

/// A closed store with two sessions, state in every scope, a rewind, a fork and a deletion.
pub(super) async fn filled() -> Fixture {
    let fixture = Fixture::new().await;
    for session in ["s", "t", "gone"] {
        fixture.create("u", session).await;
    }
    let event = |number: u64| {
        let (value, name) = (number.to_string(), format!("k{}", number % 5));
        let mut delta = delta(&[(&name, &value), ("user:n", &value), ("app:n", &value)]);
        if number == 50 {
            delta.remove.push(key("k1"));
        }
        event_of(&format!("event-{number:04}"), delta)
    };
    for first in (1..=EVENTS).step_by(100) {
        let events = (first..first + 100).map(event);
        fixture.store().append(&call(), batch("s", events)).await.unwrap();
    }
    for number in 1..=5 {
        let set = [("k", "1"), ("app:t", "1"), ("says \"hi\"\t", "1")];
        fixture.append("t", &format!("t-{number}"), &set).await;
    }
    fixture.store().rewind_session(&call(), rewind("t", 2)).await.unwrap();
    fixture.store().fork_session(&call(), fork_of("s", "f", Some(700))).await.unwrap();
    assert!(fixture.delete("gone").await);
    fixture.store.close().await;
    fixture
}

/// What a run told, with the first and the last progress of each part.
#[derive(Default)]
pub(super) struct Told {
    findings: Vec<Finding>,
    parts: Vec<(Progress, Progress)>,
}

impl Observer for Told {
    fn found(&mut self, finding: &Finding) {
        self.findings.push(finding.clone());
    }

    fn progress(&mut self, progress: Progress) {
        match self.parts.last_mut() {
            Some((first, last)) if first.part == progress.part => {
                assert_eq!((progress.rows, progress.total), (last.rows + 1, first.total));
                *last = progress;
            }
            _ => self.parts.push((progress, progress)),
        }
    }
}

pub(super) fn verified(fixture: &Fixture) -> (Vec<Finding>, Summary) {
    let mut told = Told::default();
    let summary = verify(&fixture.options.path, &mut told).unwrap();
    assert_eq!(summary.findings, told.findings.len() as u64);
    (told.findings, summary)
}

#[tokio::test]
async fn verify_finds_nothing_in_a_whole_file() {
    let fixture = filled().await;
    let (findings, summary) = verified(&fixture);
    assert_eq!(findings, []);
    let expected =
        Summary { sessions: 3, applications_and_users: 2, events: EVENTS + 6 + 700, findings: 0 };
    assert_eq!(summary, expected);
    // It has not changed, and can be opened.
    assert_eq!(open(fixture.options.clone()).await.unwrap().close().await, ());
}

#[tokio::test]
async fn verify_tells_how_far_it_is() {
    let fixture = filled().await;
    let mut told = Told::default();
    let summary = verify(&fixture.options.path, &mut told).unwrap();
    // Those of both sessions in the log of the application, and those of "s" in the user's.
    let changes = (EVENTS + 5) + EVENTS;
    for ((first, last), (part, total)) in told.parts.iter().zip([
        (Part::Structure, None),
        (Part::Sessions, Some(summary.events)),
        (Part::ApplicationsAndUsers, Some(changes)),
        (Part::References, None),
    ]) {
        assert_eq!(*first, Progress { part, rows: 0, total });
        assert_eq!(*last, Progress { part, rows: total.unwrap_or(0), total });
    }
    assert_eq!(told.parts.len(), 4);
}

#[allow(clippy::too_many_lines, reason = "most of it is a table")]
#[tokio::test]
async fn verify_finds_every_kind_of_damage_and_where_it_is() {
    let s = "(SELECT id FROM session WHERE session_id = 's')";
    let (app, user) =
        ("(SELECT id FROM scope WHERE user = '')", "(SELECT id FROM scope WHERE user = 'u')");
    let cases: [(&str, String, Check, Option<u64>); 18] = [
        (
            "a missing event",
            format!("DELETE FROM event WHERE session = {s} AND sequence = 500"),
            Check::Sequence,
            Some(500),
        ),
        (
            "events that the index of logs lacks",
            format!("DELETE FROM log_index WHERE node = {s} AND version = 512"),
            Check::Sequence,
            Some(481),
        ),
        (
            "missing last events",
            format!("DELETE FROM event WHERE session = {s} AND sequence > 4998"),
            Check::Sequence,
            Some(4999),
        ),
        (
            "too many events",
            format!("UPDATE session SET last_sequence = 4999 WHERE id = {s}"),
            Check::Sequence,
            Some(4999),
        ),
        (
            "a missing change",
            format!("DELETE FROM scope_log WHERE scope = {app} AND version = 7"),
            Check::Sequence,
            Some(7),
        ),
        (
            "another value",
            format!("UPDATE state SET value = '0' WHERE node = {s} AND name = 'k2'"),
            Check::State,
            None,
        ),
        ("a lost value", format!("DELETE FROM state WHERE node = {user}"), Check::State, None),
        (
            "another version",
            format!("UPDATE state SET version = 3 WHERE node = {app} AND name = 'n'"),
            Check::State,
            None,
        ),
        (
            "a value too many",
            format!("INSERT INTO state (node, name, value, version) VALUES ({s}, 'new', '1', 1)"),
            Check::State,
            None,
        ),
        (
            "a wrong size",
            format!("UPDATE session SET state_bytes = 1 WHERE id = {s}"),
            Check::State,
            None,
        ),
        (
            "a wrong snapshot",
            format!("UPDATE snapshot SET state = '{{}}' WHERE node = {s} AND version = 500"),
            Check::State,
            Some(500),
        ),
        (
            "a body that is no JSON",
            format!("UPDATE event SET body = '{{' WHERE session = {s} AND sequence = 9"),
            Check::Json,
            Some(9),
        ),
        (
            "changes that are no JSON",
            format!("UPDATE event SET set_json = '{{' WHERE session = {s} AND sequence = 9"),
            Check::Json,
            Some(9),
        ),
        (
            "another version in the index of logs",
            format!("UPDATE log_index SET version = 65 WHERE node = {s} AND version = 64"),
            Check::Index,
            Some(65),
        ),
        (
            "an old place in lists",
            format!("UPDATE session SET listed_secs = 0 WHERE id = {s}"),
            Check::Index,
            None,
        ),
        (
            "rows of nothing",
            "INSERT INTO state (node, name, value, version) VALUES (999, 'k', '1', 1)".into(),
            Check::Reference,
            None,
        ),
        (
            "an event of no log",
            format!(
                "INSERT INTO event (session, {EVENT_COLUMNS}) SELECT 999, {EVENT_COLUMNS}
                 FROM event WHERE session = {s} AND sequence = 1"
            ),
            Check::Reference,
            None,
        ),
        (
            "a session of no user",
            format!("UPDATE session SET user_scope = {app} WHERE id = {s}"),
            Check::Reference,
            None,
        ),
    ];
    let whole = filled().await;
    for (case, sql, check, position) in cases {
        let fixture = Fixture::new().await;
        fixture.store.close().await;
        std::fs::copy(&whole.options.path, &fixture.options.path).unwrap();
        assert!(fixture.tables().execute(&sql, ()).unwrap() > 0, "{case}");
        let (findings, _) = verified(&fixture);
        let is_it = |it: &&Finding| it.check == check && it.position == position;
        let found = findings.iter().find(is_it).unwrap_or_else(|| panic!("{case}: {findings:?}"));
        assert!(found.message.ends_with('.'), "{}", found.message);
        let named = found.place.as_ref().map(|place| place.app_name.as_str());
        let is_named = check != Check::Reference;
        assert_eq!(named, is_named.then_some("a"), "{case}");
    }
}

/// Overwrites the pages of a table in the middle of the file, as a broken disk may.
pub(super) fn break_pages(fixture: &Fixture, table: &str) {
    let tables = fixture.tables();
    let root: u64 = tables
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .unwrap();
    tables.close().unwrap();
    let mut bytes = std::fs::read(&fixture.options.path).unwrap();
    let at = (root as usize - 1) * 4096;
    bytes[at..at + 4096].fill(0xA5);
    std::fs::write(&fixture.options.path, bytes).unwrap();
}

#[tokio::test]
async fn verify_goes_on_behind_pages_that_cannot_be_read() {
    let fixture = filled().await;
    break_pages(&fixture, "scope_log");
    let (findings, summary) = verified(&fixture);
    assert_eq!(summary.sessions, 3, "{findings:?}");
    assert!(findings.iter().any(|it| it.check == Check::Structure));
    let unreadable = findings.iter().filter(|it| it.check == Check::Unreadable);
    assert!(unreadable.filter(|it| it.place.is_some()).count() == 2, "{findings:?}");
}

#[tokio::test]
async fn a_file_in_use_is_neither_verified_nor_compacted() {
    let fixture = Fixture::new().await;
    let path = &fixture.options.path;
    assert!(matches!(verify(path, &mut Told::default()), Err(OpenError::InUse { .. })));
    assert!(matches!(compact(path), Err(OpenError::InUse { .. })));
    let missing = fixture.folder.path().join("missing.db");
    assert!(verify(&missing, &mut Told::default()).is_err() && compact(&missing).is_err());
    assert!(!missing.exists());
}

#[tokio::test]
async fn compact_makes_the_file_small_and_loses_nothing() {
    let mut fixture = filled().await;
    let junk = "CREATE TABLE junk (x); INSERT INTO junk VALUES (zeroblob(3000000));
        INSERT INTO junk VALUES ('the text of a deleted row'); DROP TABLE junk";
    fixture.tables().execute_batch(junk).unwrap();
    let (before, after) = compact(&fixture.options.path).unwrap();
    assert!(before > after + 2_900_000, "{before} {after}");
    assert_eq!(verified(&fixture).0, []);
    let bytes = std::fs::read(&fixture.options.path).unwrap();
    assert!(memchr::memmem::find(&bytes, b"the text of a deleted row").is_none());
    assert_eq!(fixture.count("PRAGMA auto_vacuum"), 2);
    fixture.store = open(fixture.options.clone()).await.unwrap();
    assert_eq!(fixture.store.id(), NEW_ID);
    // A page, and all.
    assert_eq!(fixture.events("s").await.events.len(), 2000);
    let events = "SELECT count(*) FROM event_view WHERE session_id = 's'";
    assert_eq!(fixture.count(events).cast_unsigned(), EVENTS);
}

/// Text that is no JSON any more, or JSON of another type, wherever a row holds some.
#[tokio::test]
async fn verify_finds_every_text_that_is_not_what_was_written() {
    let s = "(SELECT id FROM session WHERE session_id = 's')";
    let event = format!("event SET # WHERE session = {s} AND sequence = 9");
    let app = "(SELECT id FROM scope WHERE user = '')";
    let cases = [
        (&*event, "body", Check::Json, Some(9)),
        (&event, "set_json", Check::Json, Some(9)),
        (&event, "removed", Check::Json, Some(9)),
        (
            &format!("scope_log SET # WHERE scope = {app} AND version = 7"),
            "set_json",
            Check::Json,
            Some(7),
        ),
        (
            &format!("scope_log SET # WHERE scope = {app} AND version = 7"),
            "removed",
            Check::Json,
            Some(7),
        ),
        (&format!("state SET # WHERE node = {s} AND name = 'k2'"), "value", Check::State, None),
        (&format!("state SET # WHERE node = {app}"), "value", Check::State, None),
        (&format!("session SET # WHERE id = {s}"), "labels", Check::Unreadable, None),
        (&format!("session SET # WHERE id = {s}"), "unindexed", Check::Unreadable, None),
        (
            &format!("snapshot SET # WHERE node = {s} AND version = 500"),
            "state",
            Check::Unreadable,
            None,
        ),
    ];
    let whole = filled().await;
    for (row, column, check, position) in cases {
        for text in ["{\"a\":", "null", "\"\"", "5"] {
            // These are values, and `null` and 5 are read as none of the rest is.
            if column == "value" && text != "{\"a\":" {
                continue;
            }
            let fixture = Fixture::new().await;
            fixture.store.close().await;
            std::fs::copy(&whole.options.path, &fixture.options.path).unwrap();
            let sql = format!("UPDATE {}", row.replace('#', &format!("{column} = '{text}'")));
            assert!(fixture.tables().execute(&sql, ()).unwrap() > 0, "{sql}");
            let (findings, _) = verified(&fixture);
            let is_it = |it: &Finding| it.check == check && it.position == position;
            assert!(findings.iter().any(is_it), "{sql}: {findings:?}");
        }
    }
}
