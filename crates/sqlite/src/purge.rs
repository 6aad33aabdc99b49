//! Removing the rows of sessions, users and applications that are gone, a piece at a time.

use super::{log::LOG_STEP, prelude::*, schema::PURGED, writer::Writer};
use sessiond_store::rows::EVENT_BYTES;

/// Rows, and bytes of events and snapshots, that one piece of a sweep removes: a few milliseconds, for which writes wait.
pub(super) const PURGED_ROWS: usize = 1024;
const PURGED_BYTES: usize = 1 << 20;

/// The rest of a piece.
struct Piece {
    rows: usize,
    bytes: usize,
}

impl Piece {
    fn is_spent(&self) -> bool {
        self.rows == 0 || self.bytes == 0
    }

    fn spend(&mut self, rows: usize, bytes: usize) {
        self.rows = self.rows.saturating_sub(rows);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Tables with short rows of a node: with the column of its number, and with all columns of their key. The tombstone is the last
/// to go.
const SHORT_ROWS: [(&str, &str, &str); 4] = [
    ("state", "node", "node, name"),
    ("removed", "node", "node, name"),
    ("request", "node", "node, request_id"),
    ("tombstone", "id", "id"),
];

impl Writer {
    /// Removes rows of sessions that are gone, as many as a piece has, and the tombstones of those that have no others left.
    pub(super) fn purge(&mut self, gone: &[Incarnation]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        self.leftovers.has_swept();
        let mut piece = Piece { rows: PURGED_ROWS, bytes: PURGED_BYTES };
        for session in gone {
            self.purge_node(session.0, &mut piece)?;
            if piece.is_spent() {
                // A fork cannot go on without these rows. It has none left, or this keeps it.
                let end = "UPDATE tombstone SET lease_until = ?2 WHERE id = ?1";
                self.tables.run(end, (session.0, PURGED))?;
                break;
            }
        }
        self.tables.lower_listed()?;
        self.tables.free_pages()
    }

    /// Removes the rows of a node, or as many as are left of a piece.
    fn purge_node(&self, node: NodeId, piece: &mut Piece) -> Result<()> {
        self.purge_log(node, piece)?;
        if !piece.is_spent() {
            self.purge_snapshots(node, piece)?;
        }
        for (table, column, key) in SHORT_ROWS {
            if piece.is_spent() {
                break;
            }
            let delete = format!(
                "DELETE FROM {table} WHERE ({key}) IN
                 (SELECT {key} FROM {table} WHERE {column} = ?1 LIMIT ?2)"
            );
            piece.spend(self.tables.run(&delete, (node, piece.rows))?, 0);
        }
        Ok(())
    }

    fn purge_snapshots(&self, node: NodeId, piece: &mut Piece) -> Result<()> {
        let snapshots = "SELECT version, octet_length(state) FROM snapshot WHERE node = ?1
            ORDER BY version LIMIT ?2";
        let mut end = None::<Version>;
        self.tables.each(snapshots, (node, piece.rows), |row| {
            end = Some(row.get(0)?);
            piece.spend(1, row.get(1)?);
            Ok(!piece.is_spent())
        })?;
        let delete = "DELETE FROM snapshot WHERE node = ?1 AND version <= ?2";
        end.map_or(Ok(()), |end| self.tables.run(delete, (node, end)).map(drop))
    }

    /// Removes rows of the log of a node that is gone.
    fn purge_log(&self, node: NodeId, piece: &mut Piece) -> Result<()> {
        let tables = &self.tables;
        let sql = "SELECT version, rows FROM log_index WHERE node = ?1 ORDER BY version LIMIT ?2";
        // What a run does not tell is left where it is, and found by `verify`.
        let run = |row: &Row<'_>| Ok((row.get(0)?, row::parsed(row, 1).unwrap_or_default()));
        let runs: Vec<(Version, Vec<i64>)> = tables.all(sql, (node, piece.rows), run)?;
        // Whatever a damaged run says, the rows of others stay.
        let size = format!("SELECT {EVENT_BYTES} FROM event WHERE id = ?1 AND session = ?2");
        for (version, rows) in &runs {
            // A run has no more rows; a damaged one may name any number.
            for row in rows.iter().take(LOG_STEP) {
                if piece.is_spent() {
                    return Ok(());
                }
                piece.spend(1, tables.value(&size, (row, node))?.unwrap_or(0));
                for delete in [
                    "DELETE FROM event WHERE id = ?1 AND session = ?2",
                    "DELETE FROM scope_log WHERE id = ?1 AND scope = ?2",
                ] {
                    tables.run(delete, (row, node))?;
                }
            }
            tables
                .run("DELETE FROM log_index WHERE node = ?1 AND version = ?2", (node, version))?;
            if rows.is_empty() {
                // A damaged run counts as well, so that the rest of the index is found again.
                piece.spend(1, 0);
            }
        }
        Ok(())
    }
}
