//! Damage: what `verify` finds in a file, and what reads and writes say of it.

use super::{
    verify::{Check, Finding, Observer, Part, Progress, Summary, verify},
    *,
};
use crate::domain::error::Damage;

/// Events of the session that is damaged: enough for snapshots and for the index of ids.
const EVENTS: u64 = 1100;

/// A closed store with two sessions, state in every scope, a rewind, a fork and a deletion.
async fn filled() -> Fixture {
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
        (Part::Sessions, Some(2 * summary.events)),
        (Part::ApplicationsAndUsers, Some(changes)),
        (Part::References, None),
    ]) {
        assert_eq!(*first, Progress { part, rows: 0, total });
        assert_eq!(*last, Progress { part, rows: total.unwrap_or(0), total });
    }
    assert_eq!(told.parts.len(), 4);
}

#[tokio::test]
async fn verify_finds_every_kind_of_damage_and_where_it_is() {
    let s = "(SELECT id FROM session WHERE session_id = 's')";
    let (app, user) =
        ("(SELECT id FROM scope WHERE user = '')", "(SELECT id FROM scope WHERE user = 'u')");
    let cases: [(&str, String, Check, Option<u64>); 20] = [
        (
            "a missing event",
            format!("DELETE FROM event WHERE session = {s} AND sequence = 500"),
            Check::Sequence,
            Some(500),
        ),
        (
            "an event that the index of logs lacks",
            format!("DELETE FROM log_index WHERE node = {s} AND version = 500"),
            Check::Sequence,
            Some(500),
        ),
        (
            "an event of no log",
            format!(
                "INSERT INTO event SELECT 999999, session, 5000, 'e', id_hash, invocation_id, author,
                 branch, event_secs, event_nanos, commit_secs, commit_nanos, app_version,
                 user_version, rewind_to, fingerprint, removed, set_json, body, trace_id
                 FROM event WHERE session = {s} AND sequence = 1"
            ),
            Check::Reference,
            None,
        ),
        (
            "missing last events",
            format!("DELETE FROM event WHERE session = {s} AND sequence > 1098"),
            Check::Sequence,
            Some(1099),
        ),
        (
            "too many events",
            format!("UPDATE state SET version = 1099 WHERE node = {s} AND name = 0"),
            Check::Sequence,
            Some(1099),
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
        (
            "a lost value",
            format!("DELETE FROM state WHERE node = {user} AND name >= ''"),
            Check::State,
            None,
        ),
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
            format!("UPDATE state SET state_bytes = 1 WHERE node = {s} AND name = 0"),
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
            "a wrong hash",
            format!("UPDATE event SET id_hash = 1 WHERE session = {s} AND sequence = 1050"),
            Check::Index,
            Some(1050),
        ),
        (
            "an id without index",
            format!("DELETE FROM event_key WHERE session = {s} AND sequence = 9"),
            Check::Index,
            Some(9),
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
            "a session without its head",
            format!("DELETE FROM state WHERE node = {s} AND name = 0"),
            Check::Reference,
            None,
        ),
        (
            "an incomplete head",
            format!("UPDATE state SET unindexed = NULL WHERE node = {user} AND name = 0"),
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
        // The rows of a node without a head belong to no log, which is found as well.
        let of_head = case.ends_with("head");
        let is_it = |it: &&Finding| {
            let is_head = it.message.starts_with("The head");
            it.check == check && it.position == position && is_head == of_head
        };
        let found = findings.iter().find(is_it).unwrap_or_else(|| panic!("{case}: {findings:?}"));
        assert!(found.message.ends_with('.'), "{}", found.message);
        let named = found.place.as_ref().map(|place| place.app_name.as_str());
        let is_named = check != Check::Reference || of_head;
        assert_eq!(named, is_named.then_some("a"), "{case}");
    }
}

/// Overwrites the pages of a table in the middle of the file, as a broken disk may.
fn break_pages(fixture: &Fixture, table: &str) {
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
async fn a_read_that_meets_damage_says_so_and_is_counted() {
    let mut fixture = filled().await;
    let id = "(SELECT id FROM session WHERE session_id = 's')";
    let sql = format!("DELETE FROM event WHERE session = {id} AND sequence = 500");
    assert_eq!(fixture.tables().execute(&sql, ()).unwrap(), 1);
    break_pages(&fixture, "scope_log");
    fixture.store = open(fixture.options.clone()).await.unwrap();
    let list = async |id: &str, after| {
        let selection = EventSelection { max_items: 2000, after, ..selection(None) };
        let query = SessionQuery { events: Some(selection), ..query(id) };
        let view = fixture.store.read_session(query).await;
        view.map(|view| view.events.unwrap())
            .map(|page| (page.events.len(), page.rest.map(|rest| rest.after)))
    };
    // A page ends before the damage, and the next one says so.
    assert_eq!(list("s", 0).await, Ok((499, Some(499))));
    assert_eq!(list("s", 499).await, Err(Error::damaged(Damage::Log, "any")));
    let past = SessionQuery { as_of: Some(510), with_state: true, ..query("s") };
    assert!(matches!(fixture.store.read_session(past).await, Err(Error::Damaged(..))));
    // What is not damaged can be read.
    assert_eq!(list("s", 500).await, Ok((600, None)));
    assert_eq!(list("t", 0).await, Ok((2, None)));
    let now = SessionQuery { with_state: true, ..query("s") };
    let now = fixture.store.read_session(now).await;
    assert!(matches!(now, Err(Error::Damaged(Damage::Pages, _)) | Ok(_)), "{now:?}");
    assert!(fixture.store.readers.damaged.load(std::sync::atomic::Ordering::Relaxed) >= 2);
}

#[tokio::test]
async fn a_write_that_meets_damage_costs_no_other_write() {
    let fixture = Fixture::new().await;
    for session in ["s", "t"] {
        fixture.create("u", session).await;
    }
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let broken = "UPDATE session SET labels = '{' WHERE session_id = 's'";
    assert_eq!(direct.connection.execute(broken, ()).unwrap(), 1);
    let mut writer = direct.writer();
    let append = |session| Request::Append(one(session, "2", &[("k", "2")]));
    let group = vec![append("t"), append("s"), append("t")];
    let answers = execute(&mut writer, group).0;
    assert_eq!(sequence(&answers[0]), Ok(1));
    assert_eq!(sequence(&answers[1]), Err(Error::damaged(Damage::Row, "any")));
    assert_eq!(sequence(&answers[2]), Ok(1), "a replay");
    // Found when the change is applied.
    let mended = "UPDATE session SET labels = NULL WHERE session_id = 's'";
    let broken = "UPDATE state SET unindexed = '{'
        WHERE node = (SELECT id FROM session WHERE session_id = 's') AND name = 0";
    for sql in [mended, broken] {
        assert_eq!(direct.connection.execute(sql, ()).unwrap(), 1);
    }
    let mut writer = direct.writer();
    let deletion = Request::Delete(address("s"));
    let append = |id| Request::Append(one("t", id, &[("k", "3")]));
    let answers = execute(&mut writer, vec![append("3"), deletion, append("4")]).0;
    assert_eq!(sequence(&answers[0]), Ok(2));
    assert_eq!(answers[1].clone().err(), Some(Error::damaged(Damage::Row, "any")));
    assert_eq!(sequence(&answers[2]), Ok(3));
}

#[tokio::test]
async fn a_hole_in_the_log_costs_a_snapshot_and_no_write() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let large = format!("\"{}\"", "x".repeat(5000));
    fixture.append("s", "0", &[("app:large", &large)]).await;
    let append = async |number: u64| {
        fixture.append("s", &number.to_string(), &[("app:k", "1")]).await.info.last_sequence
    };
    for number in 1..62 {
        append(number).await;
    }
    assert_eq!(fixture.tables().execute("DELETE FROM scope_log WHERE version = 30", ()), Ok(1));
    for number in 62..130 {
        assert_eq!(append(number).await, number + 1);
    }
    let of_application = "SELECT count(*) FROM snapshot WHERE node IN (SELECT id FROM scope)";
    assert_eq!(fixture.count(of_application), 0);
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
    assert_eq!(fixture.events("s").await.events.len() as u64, EVENTS);
}
