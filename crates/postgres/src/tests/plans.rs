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
        // The events of a session are not gone through for an id.
        let has_id = |line: &String| line.contains("Index Cond:") && line.contains("event_id =");
        assert!(!sql.contains("k_event") || plan.iter().any(has_id), "{}", plan.join("\n"));
    }
}

/// It is updated under the lock of the application.
#[tokio::test(flavor = "multi_thread")]
async fn the_changes_that_name_a_removed_user_are_found_by_their_index() {
    let Some(fixture) = Fixture::new().await else { return };
    let mut writer = fixture.writer();
    let state = vec![(key("user:u"), json("0"))];
    let removal = Delta { remove: vec![key("user:u")], ..Delta::default() };
    let requests = [
        Request::Create(CreateSession { state, ..creation("s") }),
        Request::Append(one("s", "1", &[("app:a", "1")])),
        Request::UpdateState(change(user_scope("u"), removal)),
        Request::Delete(address("s").into()),
    ];
    for request in requests {
        commit_one(&fixture, &mut writer, request).await.unwrap();
    }
    sweep(&fixture, &mut writer).await;
    let plans = writer.connection().take().unwrap().plans().await;
    let update = plans.iter().find(|(sql, _)| sql.starts_with("UPDATE scope_log"));
    let (_, plan) = update.expect("the user was not removed");
    // A piece is a range of the index, and not filtered from the changes of the application or the user.
    let in_range = |line: &String| line.contains("Index Cond:") && line.contains("version <=");
    assert!(plan.iter().any(in_range), "{}", plan.join("\n"));
    assert!(!plan.iter().any(|line| line.contains("scope_log_pkey")), "{}", plan.join("\n"));
}

/// Indexes of the rows of nodes. A condition without the incarnation is that of all sessions of a user.
const OF_NODES: [&str; 5] =
    ["event_pkey", "marker_pkey", "state_pkey", "snapshot_pkey", "request_pkey"];

/// The step of a plan that goes through a whole table or index, or through that of all sessions of a user.
pub(super) fn scan_of(plan: &[String]) -> Option<&str> {
    let is_step = |line: &str| line.contains("->") || !line.starts_with(' ');
    plan.iter().enumerate().map(|(at, line)| (at, line.as_str())).find_map(|(at, line)| {
        let details = || plan[at + 1..].iter().take_while(|line| !is_step(line));
        let is_of_node = OF_NODES.iter().any(|index| line.contains(index));
        let named = if is_of_node { "incarnation =" } else { "" };
        let is_condition = |line: &String| line.contains("Index Cond:") && line.contains(named);
        let has_condition = || details().any(is_condition);
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
