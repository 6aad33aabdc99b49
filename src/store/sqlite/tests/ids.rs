//! Events are found by their ids, wherever those are: in memory, in the index of logs, or in the index of ids.

use super::{schema::KEY_STEP, *};
use crate::domain::session::Incarnation;

/// Ids and keys across a step of the index, in batches that end before it, on it and behind it.
#[tokio::test]
async fn ids_are_found_on_both_sides_of_a_step() {
    for cache_bytes in [0, 64 << 20] {
        let with = |options| SqliteOptions { cache_bytes, ..options };
        let mut fixture = Fixture::with(with).await;
        fixture.create("u", "s").await;
        let events = |from: u64, to: u64| {
            (from..=to).map(|number| event(&format!("{number:05}"), &[("k", &number.to_string())]))
        };
        let (first, second) = (KEY_STEP, 2 * KEY_STEP);
        let ends = [
            first - 100,
            first - 1,
            first,
            first + 1,
            first + 31,
            first + 32,
            first + 100,
            first + 1000,
            first + 1023,
            first + 1024,
            second - 124,
            second + 3,
            second + 500,
        ];
        let mut last = 0;
        for end in ends {
            let batch = batch("s", events(last + 1, end));
            fixture.store().append(&call(), batch).await.unwrap();
            last = end;
            let indexed = (1..=end).filter(|number| {
                let id = EventId::new(format!("{number:05}")).unwrap();
                let part = keys::id_hash(&id).cast_unsigned() >> 59;
                end >= number.next_multiple_of(KEY_STEP) + 32 * (part + 1)
            });
            let found = fixture
                .tables()
                .prepare("SELECT sequence FROM event_key ORDER BY sequence")
                .unwrap()
                .query_map((), |row| row.get::<_, u64>(0))
                .unwrap()
                .map(Result::unwrap)
                .collect::<Vec<_>>();
            assert!(found == indexed.collect::<Vec<_>>(), "as of {end}: {}", found.len());
        }
        for _ in 0..2 {
            let all =
                fixture.store().append(&call(), batch("s", events(1, second + 500))).await.unwrap();
            assert!(all.events.iter().all(|event| event.replayed));
            let numbers = [
                1,
                first - 100,
                first - 1,
                first,
                first + 1,
                first + 33,
                second,
                second + 1,
                last - 33,
                last,
            ];
            for number in numbers {
                let replay = fixture.append("s", &format!("{number:05}"), &[]).await;
                assert!(replay.events[0].replayed, "{number}");
                assert_eq!(replay.events[0].event.sequence, number);
                assert_eq!(
                    fixture.state("s", Some(number)).await,
                    [format!("k={number}@{number}")]
                );
            }
            assert_eq!(fixture.append("s", "new", &[]).await.info.last_sequence, last + 1);
            fixture.reopen().await;
        }
    }
}

/// A caller can choose ids with equal hashes. The events that have the hash of an id and not the id have bodies that cannot be read.
#[tokio::test]
async fn of_events_with_equal_hashes_only_the_ids_are_read() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let last = KEY_STEP + 1025;
    let events = (1..=last).map(|at| event(&format!("id-{at}"), &[]));
    fixture.store().append(&call(), batch("s", events)).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM event_key"), i64::try_from(KEY_STEP).unwrap());
    // One event of a hash is in `event_key`, the other is not yet.
    let [known, fresh] = ["id-8", "new"].map(|id| keys::id_hash(&EventId::new(id).unwrap()));
    let alike = |hash: i64, sequence: u64| {
        format!(
            "UPDATE event SET id_hash = {hash}, body = CAST(x'ff' AS TEXT) WHERE sequence = {sequence};
             UPDATE event_key SET id_hash = {hash} WHERE sequence = {sequence};"
        )
    };
    let changes = [alike(known, 5), alike(fresh, 6), alike(known, last)].concat();
    fixture.tables().execute_batch(&changes).unwrap();
    fixture.reopen().await;
    let replay = fixture.append("s", "id-8", &[]).await;
    assert!(replay.events[0].replayed);
    assert_eq!(replay.events[0].event.sequence, 8);
    assert!(!fixture.append("s", "new", &[]).await.events[0].replayed);
    // The bodies would have been noticed.
    for sequence in [5, last] {
        let unreadable = fixture.store.readers.read(move |tables| {
            let session = tables.value("SELECT id FROM session", ())?.map(Incarnation);
            tables.event(session.unwrap(), sequence)
        });
        assert!(unreadable.await.is_err(), "{sequence}");
    }
}

/// Versions before 8 put the ids of 1,024 events into `event_key` at once.
#[tokio::test]
async fn a_migrated_file_has_more_ids_in_the_index() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let events = |from: u64, to: u64| (from..=to).map(|at| event(&format!("id-{at}"), &[]));
    let before = KEY_STEP + 500;
    fixture.store().append(&call(), batch("s", events(1, before))).await.unwrap();
    fixture.store.close().await;
    let migrated = format!(
        "INSERT OR IGNORE INTO event_key SELECT session, id_hash, sequence FROM event
         WHERE sequence <= {KEY_STEP}"
    );
    assert!(fixture.tables().execute(&migrated, ()).unwrap() > 0);
    for (last, end) in [(before, KEY_STEP + 1100), (KEY_STEP + 1100, KEY_STEP + 1200)] {
        fixture.store = open(fixture.options.clone()).await.unwrap();
        for number in [1, 1024, KEY_STEP - 1, KEY_STEP, KEY_STEP + 1, last] {
            assert!(fixture.append("s", &format!("id-{number}"), &[]).await.events[0].replayed);
        }
        let batch = batch("s", events(last + 1, end));
        let appended = fixture.store().append(&call(), batch).await.unwrap();
        assert_eq!(appended.info.last_sequence, end);
        fixture.store.close().await;
        assert_eq!(verifying::verified(&fixture).0, []);
    }
}

/// An event of an unfinished run is lost. The hashes of the others stay with their events.
#[tokio::test]
async fn a_lost_event_does_not_move_the_ids_of_others() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let events = |from: u64, to: u64| (from..=to).map(|at| event(&format!("id-{at}"), &[]));
    fixture.store().append(&call(), batch("s", events(1, 20))).await.unwrap();
    let lost = "DELETE FROM event WHERE sequence = 10";
    assert_eq!(fixture.tables().execute(lost, ()).unwrap(), 1);
    fixture.reopen().await;
    fixture.store().append(&call(), batch("s", events(21, 40))).await.unwrap();
    fixture.reopen().await;
    for number in [9, 11, 32, 33] {
        let replay = fixture.append("s", &format!("id-{number}"), &[]).await;
        assert!(replay.events[0].replayed, "{number}");
        assert_eq!(replay.events[0].event.sequence, number);
    }
}

/// Where a run has lost a part of its hashes, nobody can tell which ids the session has.
#[tokio::test]
async fn an_append_that_reads_a_cut_run_is_refused() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let events = (1..=40).map(|at| event(&format!("id-{at}"), &[]));
    fixture.store().append(&call(), batch("s", events)).await.unwrap();
    let cut = "UPDATE log_index SET hashes = substr(hashes, 2)";
    assert_eq!(fixture.tables().execute(cut, ()).unwrap(), 1);
    fixture.reopen().await;
    let refused = fixture.store().append(&call(), one("s", "id-7", &[])).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged(..)), "{refused:?}");
    let read = fixture.store.read_session(query("s")).await.unwrap();
    assert_eq!(read.info.last_sequence, 40);
}
