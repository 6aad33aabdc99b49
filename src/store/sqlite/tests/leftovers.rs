//! What is removed a piece at a time, and what is copied a piece at a time.

use super::{
    writer::{GroupEnd, Writer},
    *,
};

/// Tables in which a session has rows.
const TABLES: [&str; 12] = [
    "session",
    "moved",
    "initial",
    "event",
    "head",
    "log_row",
    "event_id",
    "marker",
    "key_change",
    "state",
    "request",
    "garbage",
];

/// Rows that are left in these tables once every session is gone; those of wider scopes stay.
fn rows_left(fixture: &Fixture) -> Vec<(&'static str, i64)> {
    let tables = fixture.tables();
    let count = |table: &&str| {
        let column = match *table {
            "head" | "log_row" | "key_change" | "state" | "request" => {
                " WHERE node NOT IN (SELECT id FROM scope)"
            }
            _ => "",
        };
        let sql = format!("SELECT count(*) FROM {table}{column}");
        tables.query_row(&sql, (), |row| row.get(0)).unwrap()
    };
    TABLES.iter().map(|table| (*table, count(table))).filter(|(_, count)| *count > 0).collect()
}

/// Events and keys for several pieces.
async fn fill(fixture: &Fixture, session: &str) {
    fixture.create("u", session, 1).await;
    for part in 0..3 {
        let events = (0..400).map(|at| {
            let number = part * 400 + at;
            let name = format!("key-{number}");
            event(&format!("{number:05}"), &[(&name, "1"), ("app:k", "1")])
        });
        fixture.store.append(batch(session, events)).await.unwrap();
    }
    let rewind = RewindSession {
        key: address(session),
        to: 700,
        event_id: EventId::new("marker").unwrap(),
        author: Author::new("a").unwrap(),
        fingerprint: Fingerprint(3),
        precondition: Precondition::default(),
        now: at(2),
    };
    fixture.store.rewind_session(rewind).await.unwrap();
}

async fn sweep(fixture: &Fixture) -> usize {
    let mut pieces = 1;
    while fixture.store.sweep(at(5000)).await.unwrap() {
        pieces += 1;
        assert!(pieces < 100, "the sweep does not end");
    }
    pieces
}

#[tokio::test]
async fn a_long_session_goes_in_pieces_and_leaves_nothing() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    assert!(fixture.store.delete_session(address("s"), at(3)).await.unwrap());
    // The address is free at once.
    fixture.create("u", "s", 4).await;
    assert!(sweep(&fixture).await > 4);
    assert_eq!(fixture.store.read_session(query("s")).await.unwrap().info.last_sequence, 0);
    assert!(fixture.store.delete_session(address("s"), at(5)).await.unwrap());
    sweep(&fixture).await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture), []);
}

#[tokio::test]
async fn events_of_the_group_that_deletes_their_session_are_swept_as_well() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s", 1).await;
    fixture.store.close().await;
    {
        let mut bench = Bench::open(fixture.folder.path());
        let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
        let (reply, mut appended): (_, Answer<Appended>) = oneshot::channel();
        let (late, mut deleted): (_, Answer<bool>) = oneshot::channel();
        let events = (0..40).map(|at| event(&at.to_string(), &[("k", "1")]));
        let mut group = vec![
            Command::Append(batch("s", events), reply),
            Command::Delete(address("s"), at(2), late),
        ];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        assert_eq!(appended.try_recv().unwrap().unwrap().events.len(), 40);
        assert_eq!(deleted.try_recv().unwrap(), Ok(true));
    }
    fixture.reopen().await;
    sweep(&fixture).await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture), []);
}

#[tokio::test]
async fn a_sweep_never_takes_rows_of_those_who_came_after() {
    for pieces in 0..2 {
        let fixture = Fixture::new().await;
        fixture.create("u", "r", 1).await;
        fixture.create("u", "s", 1).await;
        // A whole step: the head and the index both know where it lies.
        let step = (0..schema::INDEX_STEP).map(|at| event(&format!("{at:02}"), &[]));
        fixture.store.append(batch("s", step)).await.unwrap();
        assert!(fixture.store.delete_session(address("s"), at(3)).await.unwrap());
        for piece in 0..pieces {
            assert!(fixture.store.sweep(at(5000)).await.unwrap(), "piece {piece}");
        }
        // Where rows at the end of the table are gone by now, these take their numbers.
        for number in 0..50 {
            fixture.append("r", &format!("{number:02}"), &[("k", "1")]).await;
        }
        sweep(&fixture).await;
        let query = EventQuery {
            key: address("r"),
            as_of: None,
            selection: selection(None),
            now: at(1000),
        };
        let events = fixture.store.list_events(query).await.unwrap().1.events;
        let ids: Vec<_> = events.iter().map(|event| event.event_id.as_str().to_owned()).collect();
        let expected: Vec<_> = (0..50).map(|number| format!("{number:02}")).collect();
        assert_eq!(ids, expected, "after {pieces} pieces");
    }
}

#[tokio::test]
async fn a_fork_takes_over_what_its_own_group_appended() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s", 1).await;
    fixture.append("s", "1", &[("k", "1")]).await;
    fixture.store.close().await;
    {
        let mut bench = Bench::open(fixture.folder.path());
        let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
        let (reply, _appended): (_, Answer<Appended>) = oneshot::channel();
        let (forking, mut forked): (_, Answer<SessionView>) = oneshot::channel();
        let mut group = vec![
            Command::Append(one("s", "2", &[("k", "2")]), reply),
            Command::Fork(fork_of("s", "t", None), forking),
        ];
        assert_eq!(writer.group(&mut group, &mut bench.shared), GroupEnd::Committed);
        let view = forked.try_recv().unwrap().unwrap();
        assert_eq!(view.info.last_sequence, 2);
        assert_eq!(shown(&view.state.unwrap()), ["k=2@2"]);
    }
    fixture.reopen().await;
    assert_eq!(fixture.state("t", Some(1)).await, ["k=1@1"]);
}

#[tokio::test]
async fn a_fork_of_a_long_log_is_its_equal() {
    let fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    let view = fixture.store.fork_session(fork_of("s", "t", None)).await.unwrap();
    assert_eq!(view.info.last_sequence, 1201);
    for sequence in [0, 1, 255, 256, 257, 700, 1184, 1185, 1200, 1201] {
        let (of_s, of_t) =
            (fixture.state("s", Some(sequence)).await, fixture.state("t", Some(sequence)).await);
        assert_eq!(of_s, of_t, "as of {sequence}");
    }
    for id in ["00000", "00600", "01190"] {
        let replay = fixture.append("t", id, &[]).await;
        assert!(replay.events[0].replayed, "{id}");
    }
    let events = |session: &'static str| {
        let selection = EventSelection { max_items: 2000, ..selection(None) };
        let query = EventQuery { key: address(session), as_of: None, selection, now: at(1000) };
        fixture.store.list_events(query)
    };
    let (of_s, of_t) = (events("s").await.unwrap().1, events("t").await.unwrap().1);
    assert_eq!(of_s.events.len(), 700);
    assert_eq!(of_s, of_t);
    assert_eq!(fixture.append("t", "z", &[]).await.info.last_sequence, 1202);
}

#[tokio::test]
async fn a_fork_whose_source_goes_meanwhile_is_refused_and_leaves_nothing() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    {
        let mut bench = Bench::open(fixture.folder.path());
        let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
        let mut group = |commands: Vec<Command>| {
            let mut commands = commands;
            assert_eq!(writer.group(&mut commands, &mut bench.shared), GroupEnd::Committed);
            writer.forks.len()
        };
        let (reply, mut forked): (_, Answer<SessionView>) = oneshot::channel();
        assert_eq!(group(vec![Command::Fork(fork_of("s", "t", None), reply)]), 1);
        // The sweep spares what is being copied, and the other fork finds its address free.
        let (reply, mut swept): (_, Answer<bool>) = oneshot::channel();
        assert_eq!(group(vec![Command::Sweep(at(5000), reply)]), 1);
        assert_eq!(swept.try_recv().unwrap(), Ok(false));
        assert!(forked.try_recv().is_err());
        let (reply, mut deleted): (_, Answer<bool>) = oneshot::channel();
        assert_eq!(group(vec![Command::Delete(address("s"), at(3), reply)]), 0);
        assert_eq!(deleted.try_recv().unwrap(), Ok(true));
        let forked = forked.try_recv().unwrap();
        assert_eq!(forked.map(|view| view.info), Err(Error::not_found(&address("s"))));
    }
    fixture.reopen().await;
    sweep(&fixture).await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture), []);
}

#[tokio::test]
async fn a_fork_that_a_crash_cut_off_is_swept() {
    let mut fixture = Fixture::new().await;
    fill(&fixture, "s").await;
    fixture.store.close().await;
    {
        let mut bench = Bench::open(fixture.folder.path());
        let mut writer = Writer::new(&bench.connection, &bench.shared).unwrap();
        let (reply, mut forked): (_, Answer<SessionView>) = oneshot::channel();
        let mut first_piece = vec![Command::Fork(fork_of("s", "t", None), reply)];
        assert_eq!(writer.group(&mut first_piece, &mut bench.shared), GroupEnd::Committed);
        assert!(forked.try_recv().is_err());
    }
    let copied = "SELECT count(*) FROM event WHERE session IN (SELECT id FROM garbage)";
    let copied: i64 = fixture.tables().query_row(copied, (), |row| row.get(0)).unwrap();
    assert_eq!(copied, 512, "a group begins with a piece and ends with one");
    fixture.reopen().await;
    assert!(fixture.store.read_session(query("t")).await.is_err());
    fixture.store.delete_session(address("s"), at(3)).await.unwrap();
    sweep(&fixture).await;
    fixture.store.close().await;
    assert_eq!(rows_left(&fixture), []);
}
