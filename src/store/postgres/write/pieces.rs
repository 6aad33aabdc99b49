//! Long work in bounded pieces: copying a session into a fork, and removing the rows of a session that is gone.

use super::super::{
    columns::Columns, connect::connection::Connection, node::Node, prelude::*, row::number,
    schema::PURGED,
};
use crate::{
    commit::ScopeKey,
    store::rows::{EVENT_BYTES, EVENT_COLUMNS},
};

/// Rows, and bytes of events, that one piece of a sweep removes: a few milliseconds of the lane's time.
const PURGED_ROWS: usize = 512;
const PURGED_BYTES: u64 = 1 << 20;

/// Snapshots of a removed application or user, likewise: each has a mebibyte at most.
const PURGED_SNAPSHOTS: usize = 8;

/// The rows of a session.
const OF_NODE: &str = "app_name = $1 AND user_id = $2 AND incarnation = $3";

/// Bytes of a snapshot, which need not be read for that.
const SNAPSHOT_BYTES: &str = "pg_column_size(key_names) + pg_column_size(key_values)";

/// Tables with short rows of a session, each with the rest of its key.
const SHORT_ROWS: [(&str, &str); 2] = [("state", "name"), ("request", "request_id")];

/// Copies the events in `(after, up_to]` of a session into a fork, with what belongs to them, and renews the fork's lease.
pub(super) async fn copy(
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
            "INSERT INTO {table} (app_name, user_id, incarnation, {columns})
             SELECT app_name, user_id, $4, {columns} FROM {table}
             WHERE {OF_NODE} AND {version} >= $5 AND {version} <= $6 ORDER BY {version}"
        );
        let copy = Columns::new(sql).node(from).number(to.incarnation.0).number(first);
        copy.number(up_to).all(connection).await?;
    }
    Ok(())
}

async fn set_lease(connection: &Connection, fork: &Node, lease_secs: i64) -> Result<()> {
    let sql = format!("UPDATE tombstone SET lease_secs = $4 WHERE {OF_NODE}");
    let set = Columns::new(sql).node(fork).value(Type::INT8, lease_secs);
    set.all(connection).await.map(drop)
}

/// Removes some rows of a session that is gone, and its tombstone when nothing else is left.
pub(super) async fn purge(connection: &Connection, session: &Node) -> Result<()> {
    // A fork cannot go on without these rows.
    set_lease(connection, session, PURGED).await?;
    let tables = [
        ("event", "sequence", EVENT_BYTES, &["event", "marker"][..]),
        ("snapshot", "version", SNAPSHOT_BYTES, &["snapshot"][..]),
    ];
    for (table, version, bytes, with) in tables {
        if let Some(end) = end_of_piece(connection, session, table, version, bytes).await? {
            for table in with {
                let sql = format!("DELETE FROM {table} WHERE {OF_NODE} AND {version} <= $4");
                Columns::new(sql).node(session).number(end).all(connection).await?;
            }
            return Ok(());
        }
    }
    for (table, key) in SHORT_ROWS {
        let sql = format!(
            "DELETE FROM {table} WHERE {OF_NODE} AND {key} <= (SELECT max({key}) FROM
             (SELECT {key} FROM {table} WHERE {OF_NODE} ORDER BY {key} LIMIT {PURGED_ROWS}) piece)
             RETURNING 1"
        );
        if Columns::new(sql).node(session).all(connection).await?.len() == PURGED_ROWS {
            return Ok(());
        }
    }
    let sql = format!("DELETE FROM tombstone WHERE {OF_NODE}");
    Columns::new(sql).node(session).all(connection).await.map(drop)
}

/// Removes some rows of an application or a user that was removed at a version, and then what names it here.
pub(super) async fn purge_scope(
    connection: &Connection,
    scope: &Node,
    through: Version,
) -> Result<()> {
    // Snapshots first: a log without its beginning is read only behind one.
    let tables = [
        ("snapshot", "version", "incarnation = $3 AND version <= $4", PURGED_SNAPSHOTS),
        ("scope_log", "version", "$3::bigint = 0 AND version <= $4", PURGED_ROWS),
        ("state", "name", "incarnation = $3 AND value IS NULL AND version <= $4", PURGED_ROWS),
    ];
    for (table, key, condition, limit) in tables {
        let sql = format!(
            "DELETE FROM {table} WHERE app_name = $1 AND user_id = $2 AND {condition}
             AND {key} <= (SELECT max({key}) FROM
                 (SELECT {key} FROM {table} WHERE app_name = $1 AND user_id = $2 AND {condition}
                  ORDER BY {key} LIMIT {limit}) piece)
             RETURNING 1"
        );
        let delete = Columns::new(sql).node(scope).number(through);
        if !delete.all(connection).await?.is_empty() {
            return Ok(());
        }
    }
    let sql = "DELETE FROM ended_scope
        WHERE app_name = $1 AND user_id = $2 AND $3::bigint = 0 AND through = $4";
    Columns::new(sql).node(scope).number(through).all(connection).await.map(drop)
}

/// Removes the name of a user from some of the changes of its application, and some of the scope's requests.
pub(super) async fn remove_name(connection: &Connection, scope: &ScopeKey) -> Result<()> {
    let Some(node) = Node::wide(scope) else { return Ok(()) };
    let update = format!(
        "UPDATE scope_log SET author = '', source = NULL, source_user = NULL,
             source_session = NULL, source_sequence = NULL
         WHERE app_name = $1 AND user_id = '' AND $3::bigint = 0 AND version IN
             (SELECT version FROM scope_log
              WHERE app_name = $1 AND user_id = '' AND source_user = $2 LIMIT {PURGED_ROWS})"
    );
    Columns::new(update).node(&node).all(connection).await?;
    let delete = format!(
        "DELETE FROM request WHERE {OF_NODE} AND request_id IN
             (SELECT request_id FROM request WHERE {OF_NODE} LIMIT {PURGED_ROWS})"
    );
    Columns::new(delete).node(&node).all(connection).await.map(drop)
}

/// The last version of the rows that fit into a piece; `None`: there are no rows.
async fn end_of_piece(
    connection: &Connection,
    session: &Node,
    table: &str,
    version: &str,
    bytes: &str,
) -> Result<Option<u64>> {
    let sql = format!(
        "SELECT {version}, ({bytes})::bigint FROM {table} WHERE {OF_NODE}
         ORDER BY {version} LIMIT {PURGED_ROWS}"
    );
    let (mut end, mut sum) = (None, 0);
    for row in Columns::new(sql).node(session).all(connection).await? {
        end = Some(number(&row, 0)?);
        sum += number(&row, 1)?;
        if sum >= PURGED_BYTES {
            break;
        }
    }
    Ok(end)
}
