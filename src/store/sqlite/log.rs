//! Where the rows of a log lie: the events of a session, or the changes of an application or a user.
//!
//! Rows of all logs lie in commit order. `log_index` finds those of a log. It is written [`LOG_STEP`] rows of a log at a time, so that a
//! commit to many logs does not change a page of the index for each of them. The rows that follow are the log's *tail*: their numbers
//! stand in the row of the node.

use std::collections::hash_map::Entry;

use super::{
    connection::Tables,
    load::TAIL_BYTES,
    prelude::*,
    row,
    schema::{KEY_STEP, LOG_STEP},
    writer::Writer,
};

/// A log, whose changes add up to the state of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
}

/// The rows that `log_index` does not have yet, oldest first: their numbers, and the hashes of the ids of events.
pub(super) type Tail = Vec<(i64, Option<i64>)>;

/// The numbers of a tail as they are stored: the views read them as well.
pub(super) fn tail_text(tail: &Tail) -> String {
    let rows = tail.iter().map(|(row, _)| row.to_string());
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
    /// The version of a log, and the rows of its tail. A log that nothing was written to has version 0.
    pub(super) fn tail(&self, log: Log) -> Result<(Version, Vec<i64>)> {
        let sql = match log.kind {
            ScopeKind::Session => "SELECT last_sequence, tail FROM session WHERE id = ?1",
            ScopeKind::Application | ScopeKind::User => {
                "SELECT version, tail FROM scope WHERE id = ?1"
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
        let (last, tail) = self.tail(log)?;
        let indexed = last.saturating_sub(tail.len() as u64);
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
                let rows = &tail[(after - indexed) as usize..(up_to - indexed) as usize];
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

impl Writer {
    /// The tail of a log, whose node has a row or gets one.
    pub(super) fn tail_of(&mut self, log: Log) -> Result<&mut Tail> {
        match self.tails.entry(log.node) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                self.grown += TAIL_BYTES;
                let (_, rows) = self.tables.tail(log)?;
                let sql = "SELECT id_hash FROM event WHERE id = ?1";
                let hash = |row| match log.kind {
                    ScopeKind::Session => self.tables.value(sql, [row]),
                    ScopeKind::Application | ScopeKind::User => Ok(None),
                };
                let tail = rows.into_iter().map(|row| Ok((row, hash(row)?)));
                Ok(vacant.insert(tail.collect::<Result<_>>()?))
            }
        }
    }

    /// Notes the row that was just inserted into a log, and the hash of its event id.
    pub(super) fn note_row(&mut self, log: Log, version: Version, hash: Option<i64>) -> Result<()> {
        let row = self.tables.0.last_insert_rowid();
        let tail = self.tail_of(log)?;
        tail.push((row, hash));
        if tail.len() >= LOG_STEP || version.is_multiple_of(KEY_STEP) {
            self.index_tail(log, version)?;
        }
        Ok(())
    }

    /// Moves the tail of a log of this version into the index. The row of its node is written afterwards.
    pub(super) fn index_tail(&mut self, log: Log, version: Version) -> Result<()> {
        self.tail_of(log)?;
        let Some(tail) = self.tails.get_mut(&log.node) else { return Ok(()) };
        let first = version + 1 - tail.len() as u64;
        let insert = "INSERT INTO log_index VALUES (?1, ?2, ?3, ?4)";
        for (version, (row, hash)) in (first..).zip(tail.drain(..)) {
            self.tables.run(insert, (log.node, version, row, hash))?;
        }
        Ok(())
    }
}
