//! Removing the rows of a session, a user or an application that is gone, a piece at a time.

use super::{log::LOG_STEP, prelude::*, schema::PURGED, writer::Writer};
use sessiond_store::rows::EVENT_BYTES;

/// Rows, and bytes of events, that one piece of a sweep removes: a few milliseconds, for which writes wait.
pub(super) const PURGED_ROWS: usize = 128;
const PURGED_BYTES: usize = 256 << 10;

/// Tables with short rows of a node: with the column of its number, and with all columns of their key. The tombstone is the last
/// to go.
const SHORT_ROWS: [(&str, &str, &str); 4] = [
    ("state", "node", "node, name"),
    ("removed", "node", "node, name"),
    ("request", "node", "node, request_id"),
    ("tombstone", "id", "id"),
];

impl Writer {
    /// Removes some rows of a session that is gone, and its tombstone when nothing else is left.
    pub(super) fn purge(&mut self, session: Incarnation) -> Result<()> {
        self.leftovers.has_swept();
        // A fork cannot go on without these rows.
        self.put_tombstone(session, PURGED)?;
        let tables = &self.tables;
        if self.purge_log(session.0)? {
            tables.lower_listed()?;
            return tables.free_pages();
        }
        let snapshots = format!(
            "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1
             ORDER BY version LIMIT {PURGED_ROWS}"
        );
        let (mut end, mut bytes) = (None::<Version>, 0);
        tables.each(&snapshots, [session.0], |row| {
            end = Some(row.get(0)?);
            bytes += row.get::<usize>(1)?;
            Ok(bytes < PURGED_BYTES)
        })?;
        if let Some(end) = end {
            let delete = "DELETE FROM snapshot WHERE node = ?1 AND version <= ?2";
            tables.run(delete, (session.0, end))?;
            return tables.free_pages();
        }
        for (table, node, key) in SHORT_ROWS {
            let delete = format!(
                "DELETE FROM {table} WHERE ({key}) IN
                 (SELECT {key} FROM {table} WHERE {node} = ?1 LIMIT {PURGED_ROWS})"
            );
            if tables.run(&delete, [session.0])? == PURGED_ROWS {
                break;
            }
        }
        self.tables.free_pages()
    }

    /// Removes some rows of the log of a node that is gone. Returns whether it had any.
    fn purge_log(&self, node: NodeId) -> Result<bool> {
        let tables = &self.tables;
        let sql = format!(
            "SELECT version, rows FROM log_index WHERE node = ?1 ORDER BY version LIMIT {PURGED_ROWS}"
        );
        // What a run does not tell is left where it is, and found by `verify`.
        let run = |row: &Row<'_>| Ok((row.get(0)?, row::parsed(row, 1).unwrap_or_default()));
        let runs: Vec<(Version, Vec<i64>)> = tables.all(&sql, [node], run)?;
        // Whatever a damaged run says, the rows of others stay.
        let size = format!("SELECT {EVENT_BYTES} FROM event WHERE id = ?1 AND session = ?2");
        let (mut removed, mut bytes) = (0, 0);
        for (version, rows) in &runs {
            // A run has no more rows; a damaged one may name any number.
            for row in rows.iter().take(LOG_STEP) {
                if removed >= PURGED_ROWS || bytes >= PURGED_BYTES {
                    return Ok(true);
                }
                removed += 1;
                bytes += tables.value(&size, (row, node))?.unwrap_or(0);
                for delete in [
                    "DELETE FROM event WHERE id = ?1 AND session = ?2",
                    "DELETE FROM scope_log WHERE id = ?1 AND scope = ?2",
                ] {
                    tables.run(delete, (row, node))?;
                }
            }
            tables
                .run("DELETE FROM log_index WHERE node = ?1 AND version = ?2", (node, version))?;
        }
        Ok(!runs.is_empty())
    }
}
