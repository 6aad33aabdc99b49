//! Checks of whole tables: structure, references between rows, and the order of lists.

use super::{
    super::prelude::*,
    report::{Check, Location, Part, Report},
};

/// Findings of SQLite's own check: beyond these the file is better restored than read.
const STRUCTURE_FINDINGS: usize = 100;

/// Adds the messages that a query answers.
fn add_all(tables: &Tables, report: &mut Report<'_>, check: Check, sql: &str) -> Result<()> {
    let add = |row: &Row<'_>| {
        let message: String = row.get(0)?;
        if message != "ok" {
            report.add(check, None, None, message);
        }
        Ok(true)
    };
    tables.each(sql, (), add).map(drop)
}

/// SQLite's own check: pages, indexes against their tables, unique columns and types.
pub(super) fn structure(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    report.begin(Part::Structure, None);
    let check = format!("PRAGMA integrity_check({STRUCTURE_FINDINGS})");
    add_all(tables, report, Check::Structure, &check)
}

/// Tables with rows of nodes, with the column of the node, and whether an application or a user may be one.
const OF_NODES: [(&str, &str, bool); 6] = [
    ("log_index", "node", true),
    ("state", "node", true),
    ("removed", "node", true),
    ("snapshot", "node", true),
    ("request", "node", true),
    ("session", "id", false),
];

/// Rows of nodes that are not there, rows of no log, and numbers that were not given out.
pub(super) fn references(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    report.begin(Part::References, None);
    for (table, node, shared) in OF_NODES {
        // The nodes of a table come from its index or its key, one step each.
        let scopes = if shared { "UNION ALL SELECT 1 FROM scope WHERE id = n.node" } else { "" };
        let lost = format!(
            "WITH RECURSIVE n(node) AS (
                 SELECT min({node}) FROM {table}
                 UNION ALL SELECT (SELECT min({node}) FROM {table} WHERE {node} > n.node) FROM n
                 WHERE n.node IS NOT NULL)
             SELECT 'Rows of table {table} belong to ' || node || ', which does not exist.'
             FROM n WHERE node IS NOT NULL AND NOT EXISTS (
                 SELECT 1 FROM session WHERE id = n.node
                 UNION ALL SELECT 1 FROM tombstone WHERE id = n.node {scopes})"
        );
        add_all(tables, report, Check::Reference, &lost)?;
    }
    for lost in [
        "SELECT 'Events or changes belong to no log.'
            WHERE (SELECT count(*) FROM event) + (SELECT count(*) FROM scope_log)
                > (SELECT coalesce(sum(json_array_length(rows)), 0) FROM (
                    SELECT rows FROM log_index UNION ALL SELECT unindexed FROM session
                    UNION ALL SELECT unindexed FROM scope) WHERE json_valid(rows))",
        "SELECT 'Session ' || s.id || ' has no application or user.' FROM session s WHERE
            NOT EXISTS (SELECT 1 FROM scope WHERE id = s.app_scope AND user = '')
            OR NOT EXISTS (SELECT 1 FROM scope WHERE id = s.user_scope AND user = s.user_id)",
        "SELECT 'The next number was given out already.' WHERE NOT coalesce((SELECT next_id > max(
            (SELECT coalesce(max(id), 0) FROM session), (SELECT coalesce(max(id), 0) FROM scope),
            (SELECT coalesce(max(id), 0) FROM tombstone)) FROM meta), 0)",
    ] {
        add_all(tables, report, Check::Reference, lost)?;
    }
    Ok(())
}

/// Sessions that lists have at an old time, although they have followed the last events.
pub(super) fn lists(tables: &Tables, report: &mut Report<'_>) -> Result<()> {
    let beyond = "SELECT 'Lists have followed events that are not there.' FROM meta
        WHERE listed_through > (SELECT coalesce(max(id), 0) FROM event)
            OR named_through > (SELECT coalesce(max(id), 0) FROM scope_log)";
    add_all(tables, report, Check::Index, beyond)?;
    let old =
        "SELECT a.app, s.user_id, s.session_id FROM session s JOIN scope a ON a.id = s.app_scope
        WHERE (s.listed_secs, s.listed_nanos) <> (s.last_event_secs, s.last_event_nanos)
        AND s.id NOT IN (SELECT value FROM json_each(?1))";
    tables.each(old, [tables.moved()?], |row| {
        let (app_name, user_id, session_id) = row.all()?;
        let place = Location { app_name, user_id: Some(user_id), session_id: Some(session_id) };
        report.add(Check::Index, Some(&place), None, "Lists have an old time of the session.");
        Ok(true)
    })?;
    Ok(())
}
