//! No statement reads a whole table, also where the database knows nothing yet of how large tables are.

use super::*;

/// Indexes that are read from one end, and why that is bounded.
const ALLOWED: [(&str, &str); 3] = [
    ("on writer", "has a row for each connection that writes, and is swept now and then"),
    ("on emptied", "a sweep looks at the first rows only"),
    ("on ended_scope", "a sweep takes the first row only"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_statement_of_a_writer_scans_a_table() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    live(&fixture, &mut writer).await;
    let plans = writer.connection().take().unwrap().plans().await;
    assert!(plans.len() > 30, "{}", plans.len());
    for (sql, plan) in plans {
        let scan = scan_of(&plan).filter(|scan| !ALLOWED.iter().any(|(it, _)| scan.contains(it)));
        assert_eq!(scan, None, "{sql}\n{}", plan.join("\n"));
    }
}

/// The step of a plan that goes through a whole table or index.
pub(super) fn scan_of(plan: &[String]) -> Option<&str> {
    let is_step = |line: &str| line.contains("->") || !line.starts_with(' ');
    plan.iter().enumerate().map(|(at, line)| (at, line.as_str())).find_map(|(at, line)| {
        let details = || plan[at + 1..].iter().take_while(|line| !is_step(line));
        let has_condition = || details().any(|line| line.contains("Index Cond:"));
        let reads = line.contains("Seq Scan")
            || line.contains("Index") && line.contains("Scan") && !has_condition();
        (is_step(line) && reads).then_some(line)
    })
}

#[test]
fn a_scan_is_seen() {
    let plan = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let good =
        ["Nested Loop  (cost=1)", "  ->  Index Scan using a on b", "        Index Cond: (c = d)"];
    assert_eq!(scan_of(&plan(&good)), None);
    assert!(scan_of(&plan(&good[..2])).is_some());
    assert!(scan_of(&plan(&["Seq Scan on b"])).is_some());
}
