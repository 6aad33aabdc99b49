//! Where the rows of a log lie: the events of a session, or the changes of an application or a user.
//!
//! Rows of all logs lie in commit order. `log_index` finds those of a log. It is written [`LOG_STEP`](super::schema::LOG_STEP) rows of a log at a time, so that a
//! commit to many logs does not change a page of the index for each of them. The rows that follow are *unindexed*: their numbers stand in
//! the row of the node.

use super::{connection::Tables, prelude::*, row};

/// A log, whose changes add up to the state of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
}

/// The rows that `log_index` does not have yet, oldest first: their numbers, and the hashes of the ids of events.
pub(super) type Unindexed = Vec<(i64, Option<i64>)>;

/// Their numbers as they are stored: the views read them as well.
pub(super) fn rows_text(unindexed: &Unindexed) -> String {
    let rows = unindexed.iter().map(|(row, _)| row.to_string());
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}

impl Log {
    pub(super) fn of_session(session: Incarnation) -> Self {
        Self { node: session.0, kind: ScopeKind::Session }
    }

    /// The column of the version, where [`Tables::each_row`] reads.
    pub(super) fn version(self) -> &'static str {
        match self.kind {
            ScopeKind::Session => "t.sequence",
            ScopeKind::Application | ScopeKind::User => "t.version",
        }
    }

    fn table(self) -> &'static str {
        match self.kind {
            ScopeKind::Session => "event",
            ScopeKind::Application | ScopeKind::User => "scope_log",
        }
    }
}

impl Tables {
    /// The version of a log, and its unindexed rows. A log that nothing was written to has version 0.
    pub(super) fn unindexed(&self, log: Log) -> Result<(Version, Vec<i64>)> {
        let sql = match log.kind {
            ScopeKind::Session => "SELECT last_sequence, unindexed FROM session WHERE id = ?1",
            ScopeKind::Application | ScopeKind::User => {
                "SELECT version, unindexed FROM scope WHERE id = ?1"
            }
        };
        let found = self.one(sql, [log.node], |row| Ok((row.get(0)?, row::parsed(row, 1)?)))?;
        Ok(found.unwrap_or_default())
    }

    /// Goes through the rows of a log in `(after, up_to]` until `take` refuses one. Returns whether it took all.
    pub(super) fn each_row<E: From<rusqlite::Error>>(
        &self,
        log: Log,
        columns: &str,
        (after, up_to): (Version, Version),
        descending: bool,
        mut take: impl FnMut(&Row<'_>) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let (last, unindexed) = self.unindexed(log)?;
        let indexed = last.saturating_sub(unindexed.len() as u64);
        let table = log.table();
        for in_tail in [descending, !descending] {
            let (after, up_to) = match in_tail {
                true => (after.max(indexed), up_to.min(last)),
                false => (after, up_to.min(indexed)),
            };
            if after >= up_to {
                continue;
            }
            let is_whole = if in_tail {
                let mut statement =
                    self.prepare(&format!("SELECT {columns} FROM {table} t WHERE t.id = ?1"))?;
                let rows = &unindexed[(after - indexed) as usize..(up_to - indexed) as usize];
                let mut each = |row: &i64| {
                    let mut found = statement.query([row])?;
                    take(found.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?)
                };
                match descending {
                    true => {
                        rows.iter().rev().try_fold(true, |on, row| Ok::<_, E>(on && each(row)?))
                    }
                    false => rows.iter().try_fold(true, |on, row| Ok(on && each(row)?)),
                }?
            } else {
                let order = if descending { "DESC" } else { "ASC" };
                let sql = format!(
                    "SELECT {columns} FROM log_index i JOIN {table} t ON t.id = i.row
                     WHERE i.node = ?1 AND i.version > ?2 AND i.version <= ?3
                     ORDER BY i.version {order}"
                );
                self.each(&sql, (log.node, after, up_to), &mut take)?
            };
            if !is_whole {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
