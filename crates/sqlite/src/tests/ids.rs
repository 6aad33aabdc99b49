//! Events are found by their ids, also by a writer that remembers nothing.

use super::*;

#[tokio::test]
async fn an_event_is_found_by_its_id_wherever_it_is() {
    for cache_bytes in [0, 64 << 20] {
        let with = |options| SqliteOptions { cache_bytes, ..options };
        let mut fixture = Fixture::with(with).await;
        fixture.create("u", "s").await;
        fixture.create("u", "t").await;
        let events =
            |from: u64, to: u64| (from..=to).map(|number| event(&format!("{number:05}"), &[]));
        let last = 3000;
        for first in (1..last).step_by(600) {
            let batch = batch("s", events(first, first + 599));
            fixture.store().append(&call(), batch).await.unwrap();
        }
        for _ in 0..2 {
            let all = fixture.store().append(&call(), batch("s", events(1, last))).await.unwrap();
            assert!(all.events.iter().all(|event| event.replayed));
            for number in [1, 600, 601, last] {
                let replay = fixture.append("s", &format!("{number:05}"), &[]).await;
                assert!(replay.events[0].replayed, "{number}");
                assert_eq!(replay.events[0].event.sequence, number);
            }
            fixture.reopen().await;
        }
        // An id is a session's.
        assert!(!fixture.append("t", "00001", &[]).await.events[0].replayed);
        assert_eq!(fixture.append("s", "new", &[]).await.info.last_sequence, last + 1);
    }
}

/// A lost event leaves its id free, and those of others where they are.
#[tokio::test]
async fn a_damaged_event_costs_appends_of_other_ids_nothing() {
    let mut fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    let events = |from: u64, to: u64| (from..=to).map(|at| event(&format!("id-{at}"), &[]));
    fixture.store().append(&call(), batch("s", events(1, 20))).await.unwrap();
    let damage = "DELETE FROM event WHERE sequence = 10;
        UPDATE event SET body = CAST(x'ff' AS TEXT) WHERE sequence = 5";
    fixture.tables().execute_batch(damage).unwrap();
    fixture.reopen().await;
    fixture.store().append(&call(), batch("s", events(21, 40))).await.unwrap();
    for number in [4, 6, 9, 11, 20, 40] {
        let replay = fixture.append("s", &format!("id-{number}"), &[]).await;
        assert_eq!((replay.events[0].replayed, replay.events[0].event.sequence), (true, number));
    }
    let refused = fixture.store().append(&call(), one("s", "id-5", &[])).await.unwrap_err();
    assert!(matches!(refused, Error::Damaged(..)), "{refused:?}");
}
