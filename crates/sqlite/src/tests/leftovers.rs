//! Rows that are removed, a piece at a time.

use super::*;
use crate::purge::PURGED_ROWS;

/// Tables in which a session has rows, with the column of its number.
const TABLES: [(&str, &str); 8] = [
    ("session", "id"),
    ("event", "session"),
    ("log_index", "node"),
    ("state", "node"),
    ("removed", "node"),
    ("snapshot", "node"),
    ("request", "node"),
    ("tombstone", "id"),
];

/// Rows that are left in these tables once every session is gone; those of shared scopes stay.
pub(super) fn rows_left(connection: &Connection) -> Vec<(&'static str, i64)> {
    let count = |table: &str, column: &str| {
        let sql =
            format!("SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM scope)");
        connection.query_row(&sql, (), |row| row.get(0)).unwrap()
    };
    let counts = TABLES.iter().map(|(table, column)| (*table, count(table, column)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Events and keys for several pieces, two snapshots and more, removed keys, a marker, a request.
pub(super) async fn fill(fixture: &Fixture, session: &str) {
    let state = vec![(key("initial"), json("0"))];
    let create = CreateSession { state, ..creation("u", session) };
    fixture.store().create_session(&call(), create).await.unwrap();
    for part in 0..13 {
        let events = (0..400).map(|at| {
            let number = part * 400 + at;
            let mut delta = delta(&[(&format!("key-{number}"), "1"), ("app:k", "1")]);
            if number % 10 == 9 {
                delta.remove.push(key(&format!("key-{}", number - 5)));
            }
            event_of(&format!("{number:05}"), delta)
        });
        let id = RequestId::new(part.to_string()).unwrap();
        let request = Some(RequestKey { id, fingerprint: Fingerprint(1) });
        let append = Append { request, ..batch(session, events) };
        fixture.store().append(&call(), append).await.unwrap();
    }
    fixture.clock.set(2);
    fixture.store().rewind_session(&call(), rewind(session, 700)).await.unwrap();
}

#[tokio::test]
async fn a_long_session_goes_in_pieces_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    let tables: Vec<_> = rows_left(&fixture.tables()).iter().map(|(table, _)| *table).collect();
    assert_eq!(tables, TABLES[..7].iter().map(|(table, _)| *table).collect::<Vec<_>>());
    assert!(fixture.delete("s").await);
    // The address is free at once.
    fixture.create("u", "s").await;
    assert!(fixture.store().sweep().await.unwrap());
    assert_eq!(fixture.count("SELECT count(*) FROM event"), 5201 - PURGED_ROWS as i64);
    assert!(fixture.sweep().await > 4);
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap().info.last_sequence, 0);
    assert!(fixture.delete("s").await);
    fixture.sweep().await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture.tables()), []);
}

#[tokio::test]
async fn a_piece_takes_many_short_sessions() {
    let fixture = Fixture::new().await;
    for at in 0..1_000 {
        let expiration = Some(Expiration::After { secs: 1, nanos: 0 });
        let create = CreateSession { expiration, ..creation("u", &at.to_string()) };
        fixture.store().create_session(&call(), create).await.unwrap();
    }
    for id in ["1", "2"] {
        fixture.append(id, "1", &[("k", "1")]).await;
    }
    fixture.clock.set(100);
    // Four that end 256 each, the first three of which are also removed by the next one, and one each for the user and the application.
    let pieces = fixture.sweep().await;
    assert!(pieces <= 8, "{pieces}");
    assert_eq!(rows_left(&fixture.tables()), []);
}

#[tokio::test]
async fn the_file_shrinks_when_a_large_session_is_swept() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.count("PRAGMA auto_vacuum"), 2);
    fixture.create("u", "s").await;
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    for part in 0..5 {
        let events = (0..20).map(|at| {
            let body = Some(json(&body));
            NewEvent { body, ..event(&format!("{part}-{at}"), &[]) }
        });
        fixture.store().append(&call(), batch("s", events)).await.unwrap();
    }
    let before = fixture.count("PRAGMA page_count");
    fixture.delete("s").await;
    // A piece ends after a number of bytes as well.
    assert!(fixture.sweep().await > 100 / 12);
    let after = fixture.count("PRAGMA page_count");
    assert!(before > 2400 && after < 100, "{before} pages became {after}");
    fixture.store.close().await;
    let bytes = std::fs::metadata(&fixture.options.path).unwrap().len();
    assert!(bytes < 500_000, "{bytes}");
}

#[tokio::test]
async fn events_of_the_group_that_deletes_their_session_are_swept_as_well() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let events = (0..40).map(|at| event(&at.to_string(), &[("k", "1")]));
    let delete = address("s");
    let group = vec![Request::Append(batch("s", events)), Request::Delete(delete.into())];
    let answers = execute(&mut writer, group).0;
    assert_eq!(sequence(&answers[0]), Ok(40));
    assert!(matches!(answers[1], Ok(Answer::Deleted(Some(_)))));
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

#[tokio::test]
async fn a_sweep_spares_the_rows_of_others_that_a_damaged_run_names() {
    let fixture = Fixture::new().await;
    fixture.create("u", "r").await;
    fixture.create("u", "s").await;
    fixture.append("r", "1", &[]).await;
    let events = (0..40).map(|at| event(&at.to_string(), &[]));
    fixture.store().append(&call(), batch("s", events)).await.unwrap();
    let of_r = "SELECT json_group_array(id) FROM event WHERE event_id = '1' AND sequence = 1";
    let damage = format!("UPDATE log_index SET rows = ({of_r})");
    assert_eq!(fixture.tables().execute(&damage, ()).unwrap(), 1);
    assert!(fixture.delete("s").await);
    fixture.sweep().await;
    assert_eq!(fixture.events("r").await.events.len(), 1);
}

/// It names many rows that are gone, or cannot be read.
#[tokio::test]
async fn a_damaged_run_does_not_stop_the_sweep() {
    let gone: Vec<usize> = (1000..1000 + 2 * PURGED_ROWS).collect();
    for rows in [format!("{gone:?}"), "[".to_owned()] {
        let fixture = Fixture::new().await;
        for session in ["r", "s"] {
            fixture.create("u", session).await;
            let events = (0..40).map(|at| event(&at.to_string(), &[]));
            fixture.store().append(&call(), batch(session, events)).await.unwrap();
        }
        let damage = "UPDATE log_index SET rows = ?1 WHERE version = 32 AND node =
            (SELECT id FROM session WHERE session_id = 'r')";
        assert_eq!(fixture.tables().execute(damage, [&rows]).unwrap(), 1);
        assert!(fixture.delete("r").await && fixture.delete("s").await);
        fixture.sweep().await;
        assert_eq!(rows_left(&fixture.tables()), [("event", 32)], "{rows}");
    }
}

#[tokio::test]
async fn a_sweep_never_takes_rows_of_a_later_session() {
    for pieces in 0..2 {
        let fixture = Fixture::new().await;
        fixture.create("u", "r").await;
        fixture.create("u", "s").await;
        let events = (0..1000).map(|at| event(&format!("{at:04}"), &[]));
        fixture.store().append(&call(), batch("s", events)).await.unwrap();
        assert!(fixture.delete("s").await);
        for piece in 0..pieces {
            assert!(fixture.store().sweep().await.unwrap(), "piece {piece}");
        }
        // Rows at the end of the table that are gone by now leave their row numbers to these.
        for number in 0..50 {
            fixture.append("r", &format!("{number:02}"), &[("k", "1")]).await;
        }
        fixture.sweep().await;
        let events = fixture.events("r").await.events;
        let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str().to_owned()).collect();
        let expected: Vec<_> = (0..50).map(|number| format!("{number:02}")).collect();
        assert_eq!(ids, expected, "after {pieces} pieces");
    }
}

/// How often a text stands in the database, and in its WAL.
fn occurrences(fixture: &Fixture, text: &str) -> [usize; 2] {
    ["test.db", "test.db-wal"].map(|name| {
        let bytes = std::fs::read(fixture.folder.path().join(name)).unwrap();
        memchr::memmem::find_iter(&bytes, text).count()
    })
}

#[tokio::test]
async fn what_the_sweep_removed_is_in_neither_the_file_nor_its_wal() {
    let fixture = Fixture::new().await;
    // Values of every size: within a page, most of a page, and on pages of their own; and beside them those of a session that stays.
    for session in ["gone", "stays"] {
        fixture.create("u", session).await;
    }
    for number in 0..300_usize {
        for session in ["gone", "stays"] {
            let value = |marker: &str| {
                format!("\"{session}-{marker} {}\"", "x".repeat((number * 53) % 9000))
            };
            let (name, first, second) = (format!("k{}", number % 7), value("text"), value("text"));
            let keys = [(&*name, &*first), ("large", &*second)];
            fixture.append(session, &format!("{session}-event-{number}"), &keys).await;
        }
    }
    let before = std::fs::metadata(&fixture.options.path).unwrap().len();
    assert!(occurrences(&fixture, "gone-text").iter().sum::<usize>() > 300);
    assert!(fixture.delete("gone").await);
    fixture.sweep().await;
    for text in ["gone-text", "gone-event"] {
        assert_eq!(occurrences(&fixture, text), [0, 0], "{text}");
    }
    assert!(occurrences(&fixture, "stays-text")[0] > 300);
    assert_eq!(fixture.count("PRAGMA freelist_count"), 0);
    let after = std::fs::metadata(&fixture.options.path).unwrap().len();
    assert!(after < before.max(3 << 20), "the file gave its pages back: {before}, {after}");
    assert_eq!(fixture.events("stays").await.events.len(), 300);
}

#[tokio::test]
async fn the_wal_is_emptied_once_a_minute_and_not_while_it_is_read() {
    let fixture = Fixture::new().await;
    let wal = || std::fs::metadata(fixture.folder.path().join("test.db-wal")).unwrap().len();
    let delete_one = async |id: &str| {
        fixture.create("u", id).await;
        fixture.append(id, "e", &[("k", "\"text\"")]).await;
        assert!(fixture.delete(id).await);
        fixture.sweep().await;
    };
    delete_one("a").await;
    assert_eq!(wal(), 0);
    delete_one("b").await;
    assert!(wal() > 0, "commits are slower on an empty WAL");
    fixture.clock.set(70);
    let reader = fixture.tables();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session;").unwrap();
    fixture.sweep().await;
    assert!(wal() > 0, "a reader needs it");
    reader.execute_batch("COMMIT").unwrap();
    fixture.sweep().await;
    assert_eq!(wal(), 0);
}

pub(super) fn sweep(writer: &mut Writer) {
    for _ in 0..200 {
        if let Answer::Swept(false) = execute_one(writer, Request::Sweep).unwrap() {
            return;
        }
    }
    panic!("the sweep does not end");
}
