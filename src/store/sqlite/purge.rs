//! Removing the rows of a session, a user or an application that is gone, a piece at a time.

use super::{prelude::*, schema::PURGED, writer::Writer};
use crate::store::rows::EVENT_BYTES;

/// Rows, and bytes of events, that one piece of a sweep removes: a few milliseconds, for which writes wait.
pub(super) const PURGED_ROWS: usize = 128;
const PURGED_BYTES: usize = 256 << 10;

/// Tables with long rows of a node: with the columns of its number and of the version, and the bytes of a row.
const LONG_ROWS: [(&str, &str, &str, &str); 3] = [
    ("event", "session", "sequence", EVENT_BYTES),
    ("scope_log", "scope", "version", "coalesce(octet_length(set_json), 0)"),
    ("snapshot", "node", "version", "octet_length(state)"),
];

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
        for (table, node, version, bytes) in LONG_ROWS {
            let piece = format!(
                "SELECT {version}, {bytes} FROM {table} WHERE {node} = ?1
                 ORDER BY {version} LIMIT {PURGED_ROWS}"
            );
            if let Some(end) = tables.end_of_piece(&piece, [session.0], PURGED_BYTES)? {
                let delete = format!("DELETE FROM {table} WHERE {node} = ?1 AND {version} <= ?2");
                tables.run(&delete, (session.0, end))?;
                if table == "event" {
                    tables.lower_listed()?;
                }
                return tables.free_pages();
            }
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
}
