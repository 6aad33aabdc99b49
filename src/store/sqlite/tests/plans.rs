//! No statement reads a whole table.

use super::{
    statements::{Reads, Writes},
    *,
};

/// Statements that read a table or an index from one end, and why that is bounded.
const ALLOWED: [(&str, &str); 1] = [("UPDATE meta", "has one row")];

#[tokio::test]
async fn no_statement_scans_a_table() {
    let fixture = Fixture::new().await;
    let tables = fixture.tables();
    let statements = [Reads::texts(), Writes::texts()].concat();
    assert!(statements.len() > 50);
    for sql in statements {
        let mut plan = tables.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = vec![rusqlite::types::Null; plan.parameter_count()];
        let steps = plan
            .query_map(rusqlite::params_from_iter(parameters), |row| row.get::<_, String>(3))
            .unwrap();
        for step in steps.map(Result::unwrap) {
            let is_allowed = ALLOWED.iter().any(|(start, _)| sql.starts_with(start));
            assert!(is_allowed || !step.starts_with("SCAN"), "{sql}\n{step}");
            // Sorting a page's ties is bounded by the page; sorting a log is not.
            let sorts = step.contains("TEMP B-TREE FOR ORDER BY");
            assert!(!sorts || sql.contains("event_key"), "{sql}\n{step}");
        }
    }
}
