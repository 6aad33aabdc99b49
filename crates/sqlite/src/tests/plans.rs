//! No statement reads a whole table. Every statement that a test of this folder prepares is checked.

use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{LazyLock, Mutex},
};

use rusqlite::StatementStatus;

use super::{
    super::{connection::Tables, read::Snapshot},
    *,
};
use sessiond_core::read::{Read as _, finish};
use sessiond_store::SystemClock;

/// Statements that read a table or an index from one end, and why that is bounded.
const ALLOWED: [(&str, &str); 10] = [
    ("SELECT 'Events or changes", "counts the rows of a file that is not served"),
    ("SELECT coalesce(sum(", "adds up the logs of a file that is not served"),
    ("UPDATE meta", "has one row"),
    ("UPDATE session SET listed_secs", "follows damaged events"),
    ("SELECT id FROM tombstone", "passes over forks in progress only"),
    ("WITH RECURSIVE n(node)", "goes through a file that is not served, a step for each node"),
    ("SELECT 'Session ' ||", "goes through a file that is not served"),
    ("SELECT a.app, s.user_id", "goes through a file that is not served"),
    ("SELECT 'The next number", "goes through one row"),
    ("INSERT INTO snapshot", "reads what a query within it found"),
];

static CHECKED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

/// Panics if a statement reads a whole table, or sorts more than a page.
pub(in super::super) fn check(connection: &Connection, sql: &str) {
    if CHECKED.lock().unwrap().contains(sql) {
        return;
    }
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let parameters = vec![rusqlite::types::Null; plan.parameter_count()];
    let steps = plan
        .query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3))
        .unwrap();
    for step in steps.map(Result::unwrap) {
        let is_allowed = ALLOWED.iter().any(|(start, _)| sql.starts_with(start));
        // `meta` has one row, the numbers of sessions that have moved are few, a sweep looks at the first of `emptied` only, and a row of constants is no table.
        let is_short = ["SCAN json_each", "SCAN emptied", "SCAN CONSTANT ROW", "SCAN meta"];
        let is_short = is_short.iter().any(|scan| step.starts_with(scan));
        let scans = step.starts_with("SCAN") && !is_short;
        assert!(is_allowed || !scans, "{sql}\n{step}");
        // Sorting a page's ties, the sessions that have moved, or a piece of a fork is bounded; sorting a log is not.
        let sorts = step.contains("TEMP B-TREE FOR ORDER BY");
        assert!(!sorts || sql.contains("json_each"), "{sql}\n{step}");
    }
    CHECKED.lock().unwrap().insert(sql.to_owned());
}

#[tokio::test]
async fn a_statement_that_scans_a_table_is_seen() {
    let fixture = Fixture::new().await;
    for sql in ["SELECT * FROM event", "SELECT * FROM state WHERE node = 1 ORDER BY version"] {
        let tables = fixture.tables();
        let checked = catch_unwind(AssertUnwindSafe(|| check(&tables, sql)));
        assert!(checked.is_err(), "{sql}");
    }
    fixture.create("u", "s").await;
    assert!(CHECKED.lock().unwrap().len() > 5);
}

#[tokio::test]
async fn statements_stay_prepared() {
    let fixture = Fixture::new().await;
    fixture.create("u", "s").await;
    fixture.append("s", "1", &[("k", "1"), ("user:k", "1"), ("app:k", "1")]).await;
    let tables = Tables::reader(&fixture.options.path).unwrap();
    // Statements of other tests do not displace those of this one.
    tables.0.set_prepared_statement_cache_capacity(10_000);
    for _ in 0..3 {
        let query = SessionQuery { with_state: true, events: Some(selection(None)), ..query("s") };
        let rows = Snapshot { tables: &tables, now: at(1), clock: &SystemClock };
        finish(query.read(&rows)).unwrap();
    }
    let (mut used, checked) = (0, CHECKED.lock().unwrap().clone());
    for sql in &checked {
        let Ok(statement) = tables.prepare(sql) else { continue };
        used += usize::from(statement.get_status(StatementStatus::Run) > 1);
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0, "{sql}");
    }
    assert!(used > 5, "{used}");
}
