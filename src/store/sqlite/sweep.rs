//! Removing what is no longer there for anybody, a piece at a time.

use std::collections::HashSet;

use super::{fault::Outcome, head::RowId, row, schema::NodeId, writer::Writer};
use crate::domain::time::Time;

/// Sessions that one piece takes away.
const PIECE_SESSIONS: i64 = 64;

/// Rows and, for events, bytes that one piece removes: a millisecond or two of the writer's time.
const PIECE_ROWS: usize = 512;
const PIECE_BYTES: usize = 1 << 20;

/// Tables with rows of a session: its number's column, and the columns that order its rows.
const TABLES: [(&str, &str, &str); 6] = [
    ("event_id", "session", "event_id"),
    ("key_change", "node", "name, version"),
    ("state", "node", "name"),
    ("request", "node", "request_id"),
    ("marker", "session", "sequence"),
    ("initial", "session", "session"),
];

impl Writer<'_> {
    /// Takes sessions away that have expired, and removes rows of one that is gone. Whether more is left.
    pub(super) fn sweep(&mut self, now: Time) -> Outcome<bool> {
        let buried = self.bury_expired(now)?;
        let making: HashSet<NodeId> = self.forks.iter().map(super::fork::Fork::id).collect();
        let mut garbage = self.connection.prepare_cached("SELECT id FROM garbage ORDER BY id")?;
        let mut rows = garbage.query(())?;
        let mut next = || -> rusqlite::Result<Option<NodeId>> {
            while let Some(row) = rows.next()? {
                let id = row.get(0)?;
                if !making.contains(&id) {
                    return Ok(Some(id));
                }
            }
            Ok(None)
        };
        let Some(id) = next()? else {
            return Ok(buried);
        };
        let others = next()?.is_some();
        drop(rows);
        drop(garbage);
        let more = self.remove_piece(id)?;
        if !more {
            self.writes.delete_garbage.execute([id])?;
        }
        Ok(more || others || buried)
    }

    /// Whether there may be more of them.
    fn bury_expired(&mut self, now: Time) -> Outcome<bool> {
        let mut expired = self.connection.prepare_cached(
            "SELECT id FROM session
             WHERE expire_secs IS NOT NULL AND (expire_secs, expire_nanos) <= (?1, ?2)
             ORDER BY expire_secs, expire_nanos LIMIT ?3",
        )?;
        let ids = expired.query_map((now.secs(), now.nanos(), PIECE_SESSIONS), |row| row.get(0))?;
        let ids: Vec<NodeId> = ids.collect::<Result<_, _>>()?;
        for &id in &ids {
            if let Some(found) = self.reads.session_of(id)? {
                self.bury(&found)?;
            }
        }
        Ok(!ids.is_empty())
    }

    /// Removes some rows of a session that is gone. Whether there are more.
    fn remove_piece(&mut self, id: NodeId) -> Outcome<bool> {
        if self.remove_events(id)? {
            return Ok(true);
        }
        for (table, node, order) in TABLES {
            let bound = format!(
                "SELECT {order} FROM {table} WHERE {node} = ?1 ORDER BY {order} LIMIT 1 OFFSET {PIECE_ROWS}"
            );
            let more = self.connection.prepare_cached(&bound)?.exists([id])?;
            let delete = if more {
                format!("DELETE FROM {table} WHERE {node} = ?1 AND ({order}) < ({bound})")
            } else {
                format!("DELETE FROM {table} WHERE {node} = ?1")
            };
            let removed = self.connection.prepare_cached(&delete)?.execute([id])?;
            if more || removed > PIECE_ROWS / 2 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes some events of a session that is gone. Whether there may be more.
    fn remove_events(&mut self, id: NodeId) -> Outcome<bool> {
        let last_rows = self.reads.last_rows(id)?;
        if last_rows.version() > 0 {
            // One place says where a row lies, and goes with it: a number whose row is gone may become another session's.
            for (version, row) in (last_rows.before() + 1..).zip(last_rows.rows()) {
                self.writes.keep_log_row.execute((id, version.cast_signed(), row))?;
            }
            self.writes.delete_head.execute([id])?;
        }
        let mut piece: Vec<RowId> = Vec::new();
        let (mut bytes, mut last) = (0, 0);
        let mut rows = self.reads.events_index.query((id, 0, i64::MAX))?;
        while let Some(row) = rows.next()?
            && piece.len() < PIECE_ROWS
            && bytes < PIECE_BYTES
        {
            last = row::count(row, 1)?;
            piece.push(row.get(0)?);
            bytes += row::bytes(row, 5)?;
        }
        drop(rows);
        if piece.is_empty() {
            return Ok(false);
        }
        for row in piece {
            self.writes.delete_event.execute([row])?;
        }
        self.writes.delete_log_rows.execute((id, last.cast_signed()))?;
        Ok(true)
    }
}
