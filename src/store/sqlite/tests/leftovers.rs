//! Rows that are removed, and events that are copied, a piece at a time.

use super::*;

/// Tables in which a session has rows, with the column of its number.
const TABLES: [(&str, &str); 9] = [
    ("session", "id"),
    ("event", "session"),
    ("log_index", "node"),
    ("event_key", "session"),
    ("state", "node"),
    ("removed", "node"),
    ("snapshot", "node"),
    ("request", "node"),
    ("tombstone", "id"),
];

/// Rows that are left in these tables once every session is gone; those of wider scopes stay.
fn rows_left(connection: &Connection) -> Vec<(&'static str, i64)> {
    let count = |table: &str, column: &str| {
        let sql =
            format!("SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM scope)");
        connection.query_row(&sql, (), |row| row.get(0)).unwrap()
    };
    let counts = TABLES.iter().map(|(table, column)| (*table, count(table, column)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Events and keys for several pieces, two snapshots and more, removed keys, a marker, a request.
async fn fill(fixture: &Fixture, session: &str) {
    let state = vec![(key("initial"), json("0"))];
    let create = CreateSession { state, ..creation("u", session) };
    fixture.store().create_session(&call(), create).await.unwrap();
    for part in 0..3 {
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
    assert_eq!(tables, TABLES[..8].iter().map(|(table, _)| *table).collect::<Vec<_>>());
    assert!(fixture.delete("s").await);
    // The address is free at once.
    fixture.create("u", "s").await;
    assert!(fixture.sweep().await > 4);
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap().info.last_sequence, 0);
    assert!(fixture.delete("s").await);
    fixture.sweep().await;
    fixture.store.close().await;
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
    fixture.sweep().await;
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
    let group = vec![Request::Append(batch("s", events)), Request::Delete(delete)];
    let answers = execute(&mut writer, group).0;
    assert_eq!(sequence(&answers[0]), Ok(40));
    assert!(matches!(answers[1], Ok(Answer::Deleted(Some(_)))));
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

#[tokio::test]
async fn a_sweep_never_takes_rows_of_a_later_session() {
    for pieces in 0..2 {
        let fixture = Fixture::new().await;
        fixture.create("u", "r").await;
        fixture.create("u", "s").await;
        // A whole step of the index.
        let step = (0..schema::KEY_STEP).map(|at| event(&format!("{at:04}"), &[]));
        let mut step: Vec<_> = step.collect();
        for half in [step.split_off(512), step] {
            fixture.store().append(&call(), batch("s", half)).await.unwrap();
        }
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

#[tokio::test]
async fn a_fork_takes_over_what_its_own_group_appended() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    {
        let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
        let mut writer = direct.writer();
        let group = vec![
            Request::Append(one("s", "2", &[("k", "2")])),
            Request::Fork(fork_of("s", "t", None)),
        ];
        let fork = fork_begun(execute(&mut writer, group).0.remove(1));
        assert_eq!(fork.up_to, 2);
        copy_all(&mut writer, &fork);
        // Another append of the last group is not the fork's.
        let group = vec![Request::Append(one("s", "3", &[("k", "3")])), Request::FinishFork(fork)];
        let (info, state) = forked(execute(&mut writer, group).0.remove(1)).unwrap();
        assert_eq!(info.last_sequence, 2);
        assert_eq!(shown(&state), ["k=2@2"]);
    }
    fixture.reopen().await;
    assert_eq!(fixture.state("t", Some(1)).await, ["k=1@1"]);
    assert_eq!(fixture.state("t", None).await, ["k=2@2"]);
}

#[tokio::test]
async fn a_fork_of_a_long_log_is_its_equal() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    let (info, _) = fixture.store().fork_session(&call(), fork_of("s", "t", None)).await.unwrap();
    assert_eq!(info.last_sequence, 1201);
    for _ in 0..2 {
        for sequence in [0, 1, 63, 64, 255, 256, 257, 700, 1023, 1024, 1184, 1185, 1200, 1201] {
            let of_s = fixture.state("s", Some(sequence)).await;
            let of_t = fixture.state("t", Some(sequence)).await;
            assert_eq!(of_s, of_t, "as of {sequence}");
        }
        assert_eq!(fixture.state("s", None).await, fixture.state("t", None).await);
        let (of_s, of_t) = (fixture.events("s").await, fixture.events("t").await);
        assert_eq!(of_s.events.len(), 700);
        assert_eq!(of_s, of_t);
        fixture.reopen().await;
    }
    for id in ["00000", "00600", "01023", "01024", "01190"] {
        let replay = fixture.append("t", id, &[]).await;
        assert!(replay.events[0].replayed, "{id}");
    }
    assert_eq!(fixture.append("t", "z", &[]).await.info.last_sequence, 1202);
}

#[tokio::test]
async fn a_fork_whose_source_goes_meanwhile_is_refused_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let fork = begin(&mut writer, "s", "t");
    let after = copy(&mut writer, &fork, 0).unwrap();
    // The sweep spares what is being copied.
    assert!(matches!(execute_one(&mut writer, Request::Sweep), Ok(Answer::Swept(false))));
    let delete = Request::Delete(address("s"));
    assert!(matches!(execute_one(&mut writer, delete), Ok(Answer::Deleted(Some(_)))));
    assert_eq!(copy(&mut writer, &fork, after), Err(Error::not_found(&address("s"))));
    let finish = Request::FinishFork(fork);
    let refused = forked(execute_one(&mut writer, finish));
    assert_eq!(refused.unwrap_err(), Error::not_found(&address("s")));
    fixture.clock.set(5000);
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

#[tokio::test]
async fn a_fork_that_a_crash_cut_off_is_swept_after_its_lease() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    fixture.clock.set(100);
    {
        let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
        let mut writer = direct.writer();
        let fork = begin(&mut writer, "s", "t");
        assert_eq!(copy(&mut writer, &fork, 0), Ok(256));
    }
    let copied = "SELECT count(*) FROM event WHERE session IN (SELECT id FROM tombstone)";
    assert_eq!(fixture.count(copied), 256);
    fixture.reopen().await;
    assert!(fixture.store.read_session(query("t")).await.is_err());
    fixture.clock.set(159);
    assert!(!fixture.store().sweep().await.unwrap());
    assert_eq!(fixture.count(copied), 256);
    fixture.clock.set(160);
    fixture.sweep().await;
    assert_eq!(fixture.count("SELECT count(*) FROM tombstone"), 0);
    fixture.delete("s").await;
    fixture.sweep().await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture.tables()), []);
}

/// Between two pieces the process may have been suspended for longer than the lease.
#[tokio::test]
async fn a_fork_that_the_sweep_has_touched_is_refused() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let lost = Err(Error::StoreUnavailable(Cause::new("any")));
    for is_swept_whole in [false, true] {
        let fork = begin(&mut writer, "s", "t");
        let after = copy(&mut writer, &fork, 0).unwrap();
        fixture.clock.set(fixture.clock.now().secs() + 61);
        execute_one(&mut writer, Request::Sweep).unwrap();
        if is_swept_whole {
            sweep(&mut writer);
        }
        assert_eq!(copy(&mut writer, &fork, after), lost);
        let finish = Request::FinishFork(fork);
        let refused = forked(execute_one(&mut writer, finish));
        assert_eq!(refused.map(|_| 0), lost.clone().map(|_: u64| 0));
    }
    // One that paused for longer is refused also where no sweep has come yet, and with the sweep in its group.
    let fork = begin(&mut writer, "s", "t");
    copy_all(&mut writer, &fork);
    fixture.clock.set(fixture.clock.now().secs() + 61);
    let group = vec![Request::FinishFork(fork), Request::Sweep];
    let refused = forked(execute(&mut writer, group).0.remove(0));
    assert_eq!(refused.map(|_| 0), lost.map(|_: u64| 0));
    sweep(&mut writer);
    let of_t = "SELECT count(*) FROM event WHERE session NOT IN (SELECT id FROM session)";
    let events: i64 = direct.connection.query_row(of_t, (), |row| row.get(0)).unwrap();
    assert_eq!(events, 0);
}

#[tokio::test]
async fn a_fork_that_is_deleted_by_the_group_that_finishes_it_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    let direct = DirectWriter::open(fixture.folder.path(), &fixture.clock);
    let mut writer = direct.writer();
    let fork = begin(&mut writer, "s", "t");
    copy_all(&mut writer, &fork);
    let delete = |session| Request::Delete(address(session));
    let group = vec![Request::FinishFork(fork), delete("t"), delete("s")];
    let answers = execute(&mut writer, group).0;
    assert!(matches!(answers[1], Ok(Answer::Deleted(Some(_)))), "{:?}", answers[1]);
    sweep(&mut writer);
    assert_eq!(rows_left(&direct.connection), []);
}

fn begin(writer: &mut Writer, source: &str, target: &str) -> Fork {
    fork_begun(execute_one(writer, Request::Fork(fork_of(source, target, None))))
}

fn fork_begun(answer: Result<Answer, Error>) -> Fork {
    match answer {
        Ok(Answer::ForkBegun(fork)) => fork,
        other => panic!("{other:?}"),
    }
}

/// Copies one piece. The last event that is copied then.
fn copy(writer: &mut Writer, fork: &Fork, after: u64) -> Result<u64, Error> {
    match execute_one(writer, Request::CopyEvents(fork.clone(), after))? {
        Answer::Copied(up_to) => Ok(up_to),
        other => panic!("{other:?}"),
    }
}

fn copy_all(writer: &mut Writer, fork: &Fork) {
    let mut after = 0;
    while after < fork.up_to {
        after = copy(writer, fork, after).unwrap();
    }
}

fn forked(answer: Result<Answer, Error>) -> Result<(SessionInfo, State), Error> {
    match answer? {
        Answer::Forked(forked) => Ok(forked),
        other => panic!("{other:?}"),
    }
}

fn sweep(writer: &mut Writer) {
    for _ in 0..200 {
        if let Answer::Swept(false) = execute_one(writer, Request::Sweep).unwrap() {
            return;
        }
    }
    panic!("the sweep does not end");
}
