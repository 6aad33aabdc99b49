//! Partitions by place: the statements of writes and reads touch those of their user, their application and their session's id.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    reads::{read_events, read_state},
    *,
};
use crate::{connect::connection::Connection, read::rows::Reader};
use sessiond_store::place::{PLACES, place_of};

const PARTITIONS: i16 = 16;

/// Scans and changed rows of each partition. A part of a plan that is never executed is no scan.
const TOUCHES: &str = "
SELECT relname::text, coalesce(seq_scan + idx_scan, 0) + n_tup_ins + n_tup_upd + n_tup_del
FROM pg_stat_user_tables WHERE schemaname = current_schema() AND relname ~ '_[0-9]+$'";

/// The touches of a connection and of others before.
async fn touches(connection: &Connection) -> BTreeMap<String, i64> {
    connection.batch("SELECT pg_stat_force_next_flush()").await.unwrap();
    let rows = connection.all(TOUCHES, &[], &[]).await.unwrap();
    rows.iter().map(|row| (row.try_get(0).unwrap(), row.try_get(1).unwrap())).collect()
}

/// The partitions that have more touches than before, by their tables.
async fn touched(connection: &Connection, before: &BTreeMap<String, i64>) -> Touched {
    let mut touched = Touched::new();
    for (name, _) in touches(connection).await.iter().filter(|(name, it)| before[*name] != **it) {
        let (table, number) = name.rsplit_once('_').unwrap();
        touched.entry(table.to_owned()).or_default().insert(number.parse().unwrap());
    }
    touched
}

type Touched = BTreeMap<String, BTreeSet<i16>>;

/// Asserts that partitions are those of the user, the application and these sessions.
fn assert_placed(touched: &Touched, ids: &[&str]) {
    let of = |names: &[&[&str]]| -> BTreeSet<i16> {
        let partition = |name: &&[&str]| place_of(name) / (PLACES.cast_signed() / PARTITIONS);
        names.iter().map(partition).collect()
    };
    let ids: Vec<[&str; 1]> = ids.iter().map(|id| [*id]).collect();
    let ids = of(&ids.iter().map(|id| &id[..]).collect::<Vec<_>>());
    let nodes = of(&[&["a", "u"], &["a", ""]]);
    for (table, partitions) in touched {
        let placed = if table == "session_name" { &ids } else { &nodes };
        assert!(partitions.is_subset(placed), "{table}: {partitions:?} beside {placed:?}");
    }
    assert_eq!(touched["session_name"], ids);
    assert_eq!(touched["scope"], nodes);
    assert_eq!(touched["event"], of(&[&["a", "u"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_touch_the_partitions_of_their_places() {
    let Some(fixture) = Fixture::of_partitions(&PARTITIONS.to_string()).await else { return };
    let writer = &mut fixture.writer();
    live(&fixture, writer).await;
    let before = touches(writer.connection().as_ref().unwrap()).await;
    let set = [("k", "5"), ("app:a", "6"), ("user:u", "7")];
    let requests = vec![
        Request::Create(creation("new")),
        Request::Append(one("s", "more", &set)),
        Request::Rewind(rewind("t", 2)),
        Request::UpdateState(of_user(&[("user:u", "8")])),
        Request::Delete(address("fork").into()),
    ];
    for answer in commit(&fixture, writer, requests).await {
        answer.unwrap();
    }
    fork(&fixture, writer).await;
    // To the next snapshots.
    for at in 0..70 {
        let append = one("s", &format!("more{at}"), &set);
        commit_one(&fixture, writer, Request::Append(append)).await.unwrap();
    }
    let touched = touched(writer.connection().as_ref().unwrap(), &before).await;
    assert_placed(&touched, &["new", "fork"]);
    let tables: Vec<&str> = touched.keys().map(String::as_str).collect();
    let expected = ["emptied", "event", "marker", "scope", "scope_log", "session", "session_name"];
    assert_eq!(tables[..7], expected);
    assert_eq!(tables[7..], ["snapshot", "state", "tombstone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_touch_the_partitions_of_their_places() {
    let Some(fixture) = Fixture::of_partitions(&PARTITIONS.to_string()).await else { return };
    let mut writer = fixture.writer();
    live(&fixture, &mut writer).await;
    // Its own touches are counted by then.
    touches(writer.connection().as_ref().unwrap()).await;
    let connection = fixture.shared.connect().await.unwrap();
    let before = touches(&connection).await;
    let reader = Reader::at(&connection, at(1));
    read_events(&reader).await;
    read_state(&reader).await;
    assert_placed(&touched(&connection, &before).await, &["s"]);
}
