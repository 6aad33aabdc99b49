//! Removing the rows of a session, a user or an application that is gone, a piece at a time.

use super::{prelude::*, row, schema::PURGED, writer::Writer};
use crate::store::rows::EVENT_BYTES;

/// Rows, and bytes of events, that one piece of a sweep removes: a few milliseconds, for which writes wait.
pub(super) const PURGED_ROWS: usize = 128;
const PURGED_BYTES: usize = 256 << 10;

/// Tables with short rows of a session: with the column of its number, and with all columns of their key. The tombstone is the last
/// to go.
const SHORT_ROWS: [(&str, &str, &str); 5] = [
    ("event_key", "session", "session, id_hash, sequence"),
    ("state", "node", "node, name"),
    ("removed", "node", "node, name"),
    ("request", "node", "node, request_id"),
    ("tombstone", "id", "id"),
];

impl Writer {
    /// Removes some rows of a session that is gone, and its tombstone when nothing else is left.
    pub(super) fn purge(&mut self, session: Incarnation) -> Result<(), Error> {
        self.leftovers.has_swept();
        // A fork cannot go on without these rows.
        self.put_tombstone(session, PURGED)?;
        let tables = &self.tables;
        if self.purge_events(session)? {
            tables.lower_listed()?;
            return tables.free_pages();
        }
        let snapshots = format!(
            "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1
             ORDER BY version LIMIT {PURGED_ROWS}"
        );
        if let Some(end) = tables.end_of_piece(&snapshots, [session.0], PURGED_BYTES)? {
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

    /// Removes some events of a session that is gone. Returns whether it had any.
    fn purge_events(&self, session: Incarnation) -> Result<bool, Error> {
        let tables = &self.tables;
        let sql = format!(
            "SELECT version, rows, hashes IS NULL FROM log_index WHERE node = ?1
             ORDER BY version LIMIT {PURGED_ROWS}"
        );
        // What a run does not tell is left where it is, and found by `verify`.
        let run =
            |row: &Row<'_>| Ok((row.get(0)?, row::parsed(row, 1).unwrap_or_default(), row.get(2)?));
        let runs: Vec<(i64, Vec<i64>, bool)> = tables.all(&sql, [session.0], run)?;
        // Whatever a damaged run says, the rows of others stay.
        let of_event = format!("SELECT {EVENT_BYTES} FROM event t WHERE id = ?1 AND session = ?2");
        let of_change = "SELECT coalesce(octet_length(set_json), 0) FROM scope_log WHERE id = ?1 AND scope = ?2";
        let delete_event = "DELETE FROM event WHERE id = ?1 AND session = ?2";
        let delete_change = "DELETE FROM scope_log WHERE id = ?1 AND scope = ?2";
        let (mut events, mut bytes) = (0, 0);
        for (version, rows, is_shared) in &runs {
            let (size, delete) = match is_shared {
                true => (of_change, delete_change),
                false => (&*of_event, delete_event),
            };
            for row in rows {
                if events >= PURGED_ROWS || bytes >= PURGED_BYTES {
                    return Ok(true);
                }
                events += 1;
                bytes += tables.value(size, (row, session.0))?.unwrap_or(0);
                tables.run(delete, (row, session.0))?;
            }
            let delete = "DELETE FROM log_index WHERE node = ?1 AND version = ?2";
            tables.run(delete, (session.0, version))?;
        }
        Ok(!runs.is_empty())
    }
}
