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
    for partitions in ["1", "4"] {
        let Some(fixture) = Fixture::of_partitions(partitions).await else { return };
        let mut writer = fixture.writer();
        live(&fixture, &mut writer).await;
        let plans = writer.connection().take().unwrap().plans().await;
        assert!(plans.len() > 30, "{}", plans.len());
        for (sql, plan) in plans {
            let is_allowed = |scan: &&str| ALLOWED.iter().any(|(it, _)| scan.contains(it));
            let scan = scan_of(&plan).filter(|scan| !is_allowed(scan));
            assert_eq!(scan, None, "{sql}\n{}", plan.join("\n"));
            assert_eq!(unplaced_in(&sql, &plan), None, "{sql}\n{}", plan.join("\n"));
            // The events of a session are not gone through for an id.
            let has_id =
                |line: &String| line.contains("Index Cond:") && line.contains("event_id =");
            assert!(!sql.contains("k_event") || plan.iter().any(has_id), "{}", plan.join("\n"));
        }
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

/// Tables of the rows of nodes. A condition without the incarnation is that of all sessions of a user.
const OF_NODES: [&str; 5] = ["event", "marker", "state", "snapshot", "request"];

/// Texts of statements that look for what has no known place: those of sweeps, and of lists of names.
const WITHOUT_PLACE: [&str; 6] = [
    "WHERE (expire_secs, expire_nanos) <=",
    "WHERE lease_secs <=",
    "FROM emptied LIMIT",
    "FROM ended_scope",
    "k_app_place",
    "user_id) <= ($",
];

/// Whether the key of a table, or of the table of a partition, begins with a place.
fn is_placed(table: &str) -> bool {
    let table = table.trim_end_matches(|it: char| it.is_ascii_digit() || it == '_');
    !["session_list", "meta", "writer"].contains(&table)
}

/// The step of a plan that reads a table, or its partitions, by no place although its statement knows it.
pub(super) fn unplaced_in<'p>(sql: &str, plan: &'p [String]) -> Option<&'p str> {
    if WITHOUT_PLACE.iter().any(|text| sql.contains(text)) {
        return None;
    }
    plan.iter().enumerate().map(|(at, line)| (at, line.as_str())).find_map(|(at, line)| {
        let reads = [" Scan using ", " Scan Backward using ", "Seq Scan on", "Heap Scan on"];
        let (_, table) =
            reads.iter().find(|it| line.contains(**it)).and(line.split_once(" on "))?;
        let details = plan[at + 1..].iter().take_while(|line| !line.contains("->"));
        let mut conditions = details.filter(|line| line.contains("Cond:"));
        let has_place = conditions.any(|line| line.contains("place = "));
        (is_placed(table.split(' ').next()?) && !has_place).then_some(line)
    })
}

/// The step of a plan that goes through a whole table or index, or through that of all sessions of a user.
pub(super) fn scan_of(plan: &[String]) -> Option<&str> {
    let is_step = |line: &str| line.contains("->") || !line.starts_with(' ');
    plan.iter().enumerate().map(|(at, line)| (at, line.as_str())).find_map(|(at, line)| {
        let details = || plan[at + 1..].iter().take_while(|line| !is_step(line));
        // The index of a partition has the number of that.
        let words: String = line.chars().filter(|it| !it.is_ascii_digit()).collect();
        let is_of_node = OF_NODES.iter().any(|table| {
            words.contains(&format!("{table}_pkey")) || words.contains(&format!("{table}__pkey"))
        });
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
    assert!(
        unplaced_in("", &plan(&["  ->  Index Scan using a on b_1 x", "  Index Cond: (c = d)"]))
            .is_some()
    );
    assert_eq!(
        unplaced_in("", &plan(&["Index Scan using a on b_1", "  Index Cond: (place = k.place)"])),
        None
    );
}
