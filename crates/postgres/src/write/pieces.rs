//! Long work in bounded pieces: copying a session into a fork, and removing the rows of a session that is gone.

use super::{
    super::{prelude::*, row::asked, schema::PURGED},
    changed::Changed,
    stored::Stored,
};
use sessiond_core::commit::{ChangeSet, CopiedEvents, FORK_LEASE_SECS, ScopeKey};
use sessiond_store::rows::{EVENT_BYTES, EVENT_COLUMNS};

/// Rows, and bytes of events and snapshots, that one piece of a sweep removes: a few milliseconds of the lane's time.
const PURGED_ROWS: usize = 512;

/// Users whose names one piece removes, each from as many rows.
const NAMED_USERS: usize = 4;
const PURGED_BYTES: u64 = 1 << 20;

/// Rows of a session that is removed together with others: a few turns of a conversation.
const SHORT_ROWS: usize = 64;

/// The rows of a node.
const OF_NODE: &str = "place = $1 AND app_name = $2 AND user_id = $3 AND incarnation = $4";

/// The rows of an application or a user, and of its sessions.
const OF_SCOPE: &str = "place = $1 AND app_name = $2 AND user_id = $3";

/// Those of an application or a user, in a table without an incarnation.
const OF_LOG: &str = "place = $1 AND app_name = $2 AND user_id = $3 AND $4::bigint = 0";

/// Bytes of a snapshot, which need not be read for that.
const SNAPSHOT_BYTES: &str = "pg_column_size(key_names) + pg_column_size(key_values)";

/// A table with rows of a node that is gone: its name, the rest of its key, which rows, and their bytes.
type Rows = (&'static str, &'static str, &'static str, &'static str);

/// Of a session.
const OF_SESSION: [Rows; 5] = [
    ("event", "sequence", "incarnation = $4", EVENT_BYTES),
    ("marker", "sequence", "incarnation = $4", "0"),
    ("snapshot", "version", "incarnation = $4", SNAPSHOT_BYTES),
    ("state", "name", "incarnation = $4", "0"),
    ("request", "request_id", "incarnation = $4", "0"),
];

/// Of an application or a user, up to a version. Snapshots come first: a log without its beginning is read only behind one.
const OF_SHARED: [Rows; 3] = [
    ("snapshot", "version", "version <= $5 AND incarnation = $4", SNAPSHOT_BYTES),
    ("scope_log", "version", "version <= $5 AND $4::bigint = 0", "0"),
    ("state", "name", "version <= $5 AND incarnation = $4 AND value IS NULL", "0"),
];

/// Writes the pieces of a change set.
pub(super) async fn apply(
    connection: &Connection,
    changes: &ChangeSet,
    changed: &Changed<'_>,
    stored: &Stored,
    now: Time,
) -> Result<()> {
    let lease_secs = now.secs().saturating_add(FORK_LEASE_SECS);
    for CopiedEvents { from, to, after, up_to } in &changes.copied {
        let from = changed.session(*from)?;
        let to = Node { incarnation: *to, ..from.clone() };
        copy(connection, from, &to, (*after, *up_to), lease_secs).await?;
    }
    match (changes.purged.as_slice(), stored.tombstones.as_slice(), &stored.ended) {
        ([_, ..], [first, others @ ..], _) => {
            purge(connection, first).await?;
            purge_short(connection, others).await?;
        }
        ([_, ..], [], Some((scope, through))) => purge_scope(connection, scope, *through).await?,
        _ => {}
    }
    // A later sweep finds the others.
    for user in changes.unnamed.iter().take(NAMED_USERS) {
        remove_name(connection, user).await?;
    }
    Ok(())
}

/// Copies the events in `(after, up_to]` of a session into a fork, with what belongs to them, and renews the fork's lease.
async fn copy(
    connection: &Connection,
    from: &Node,
    to: &Node,
    (after, up_to): (Sequence, Sequence),
    lease_secs: i64,
) -> Result<()> {
    set_lease(connection, to, lease_secs).await?;
    // The first piece also copies the state at creation, which is the snapshot of version 0.
    let first_snapshot = if after == 0 { 0 } else { after + 1 };
    let snapshot_columns = "version, key_names, key_values, key_versions";
    let tables = [
        ("event", "sequence", EVENT_COLUMNS, after + 1),
        ("marker", "sequence", "sequence, rewind_to", after + 1),
        ("snapshot", "version", snapshot_columns, first_snapshot),
    ];
    for (table, version, columns, first) in tables {
        let sql = format!(
            "INSERT INTO {table} (place, app_name, user_id, incarnation, {columns})
             SELECT place, app_name, user_id, $5, {columns} FROM {table}
             WHERE {OF_NODE} AND {version} >= $6 AND {version} <= $7 ORDER BY {version}"
        );
        let copy = Columns::new(sql).node(from).number(to.incarnation.0).number(first);
        copy.number(up_to).all(connection).await?;
    }
    Ok(())
}

async fn set_lease(connection: &Connection, fork: &Node, lease_secs: i64) -> Result<()> {
    let sql = format!("UPDATE tombstone SET lease_secs = $5 WHERE {OF_NODE}");
    let set = Columns::new(sql).node(fork).value(Type::INT8, lease_secs);
    set.all(connection).await.map(drop)
}

/// Removes some rows of a session that is gone, and its tombstone when nothing else is left.
async fn purge(connection: &Connection, session: &Node) -> Result<()> {
    // A fork cannot go on without these rows.
    set_lease(connection, session, PURGED).await?;
    for rows in &OF_SESSION {
        if purge_rows(connection, session, None, rows).await? {
            return Ok(());
        }
    }
    let sql = format!("DELETE FROM tombstone WHERE {OF_NODE}");
    Columns::new(sql).node(session).all(connection).await.map(drop)
}

/// Removes the rows of sessions that are gone and have few, and their tombstones: the first of them that are a piece together. A session
/// with more rows waits for its own.
async fn purge_short(connection: &Connection, sessions: &[Node]) -> Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let of_k = "place = k_place AND app_name = k_app AND user_id = k_user
        AND incarnation = k_incarnation";
    let rows = |(table, ..): &Rows| {
        format!(
            "(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {of_k} LIMIT {SHORT_ROWS} + 1) t)"
        )
    };
    let rows = OF_SESSION.iter().map(rows).collect::<Vec<_>>().join(" + ");
    let sql = format!(
        "WITH k AS MATERIALIZED (
             SELECT k_at, {rows} AS rows, (
                 SELECT coalesce(sum({EVENT_BYTES}), 0) FROM (
                     SELECT body, set_json FROM event WHERE {of_k} LIMIT {SHORT_ROWS}) t) AS bytes
             FROM unnest($1, $2, $3, $4) WITH ORDINALITY
                 AS k (k_place, k_app, k_user, k_incarnation, k_at))
         SELECT k_at FROM (
             SELECT k_at, sum(rows) OVER (ORDER BY k_at) AS rows,
                 sum(bytes) OVER (ORDER BY k_at) AS bytes
             FROM k WHERE rows <= {SHORT_ROWS}) t
         WHERE rows <= {PURGED_ROWS} AND bytes <= {PURGED_BYTES}"
    );
    let short = Columns::new(sql).nodes(sessions.iter()).all(connection).await?;
    let short = short.iter().map(|row| Ok(&sessions[asked(row, sessions.len())?]));
    let short = short.collect::<Result<Vec<&Node>>>()?;
    let tables = OF_SESSION.iter().map(|(table, ..)| *table).chain(["tombstone"]);
    for table in tables {
        let delete = Columns::delete(table, "place, app_name, user_id, incarnation");
        delete.nodes(short.iter().copied()).all(connection).await?;
    }
    Ok(())
}

/// Removes some rows of an application or a user that was removed at a version, and then what names it here.
async fn purge_scope(connection: &Connection, scope: &Node, through: Version) -> Result<()> {
    for rows in &OF_SHARED {
        if purge_rows(connection, scope, Some(through), rows).await? {
            return Ok(());
        }
    }
    let sql = format!("DELETE FROM ended_scope WHERE {OF_LOG} AND through = $5");
    Columns::new(sql).node(scope).number(through).all(connection).await.map(drop)
}

/// Removes the first rows of a node, up to a version if one is told. Returns whether there was one.
async fn purge_rows(
    connection: &Connection,
    node: &Node,
    through: Option<Version>,
    (table, key, condition, bytes): &Rows,
) -> Result<bool> {
    let sql = format!(
        "DELETE FROM {table} WHERE {OF_SCOPE} AND {condition} AND {key} <= (
             SELECT max({key}) FROM (
                 SELECT {key}, sum({bytes}) OVER (ORDER BY {key}) - ({bytes}) AS bytes_before
                 FROM (SELECT * FROM {table} WHERE {OF_SCOPE} AND {condition}
                       ORDER BY {key} LIMIT {PURGED_ROWS}) t
             ) piece WHERE bytes_before < {PURGED_BYTES})
         RETURNING 1"
    );
    let mut delete = Columns::new(sql).node(node);
    if let Some(through) = through {
        delete = delete.number(through);
    }
    Ok(!delete.all(connection).await?.is_empty())
}

/// Removes the name of a user from some of the changes of its application, and some of the scope's requests. A planner without statistics
/// would join each row of the application's log with each that is found, so there is no join: a piece is a range of the index.
async fn remove_name(connection: &Connection, scope: &ScopeKey) -> Result<()> {
    let Some(node) = Node::shared(scope) else { return Ok(()) };
    let named = "place = $1 AND app_name = $2 AND source_user = $3";
    let update = format!(
        "UPDATE scope_log SET author = '', source = NULL, source_user = NULL,
             source_session = NULL, source_sequence = NULL
         WHERE {named} AND version <= (
             SELECT max(version) FROM (
                 SELECT version FROM scope_log WHERE {named}
                 ORDER BY version LIMIT {PURGED_ROWS}) piece)"
    );
    let update = Columns::new(update).place([node.app_name.as_str(), ""]);
    update.text(&node.app_name).text(&node.user_id).all(connection).await?;
    let delete = format!(
        "DELETE FROM request WHERE {OF_NODE} AND request_id = ANY(ARRAY(
             SELECT request_id FROM request WHERE {OF_NODE} LIMIT {PURGED_ROWS}))"
    );
    Columns::new(delete).node(&node).all(connection).await.map(drop)
}
