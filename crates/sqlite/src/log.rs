//! Where the rows of a log lie: the events of a session, or the changes of an application or a user.
//!
//! Rows of all logs lie in commit order. `log_index` finds those of a log: each of its rows is a *run*, the numbers of up to
//! [`LOG_STEP`] successive rows of a log, so that a commit to many logs does not change a page of the index for each of them. The rows that follow
//! are *unindexed*: their numbers stand in the row of the node.

use hashbrown::hash_map::Entry;

use super::{prelude::*, writer::Writer};

/// Rows of a log in one row of its index, at most. Until they are indexed, the row of the node grows by about seven bytes with each. To
/// change it is a change of the tables.
pub(super) const LOG_STEP: usize = 32;

/// Bytes in memory, about, of a log's unindexed rows.
const UNINDEXED_BYTES: usize = 8 * LOG_STEP + 64;

/// A log, whose changes add up to the state of a scope.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    pub(super) node: NodeId,
    pub(super) kind: ScopeKind,
}

impl Log {
    pub(super) fn of_session(session: Incarnation) -> Self {
        Self { node: session.0, kind: ScopeKind::Session }
    }

    /// The column of the version, where [`Tables::each_row`] reads.
    pub(super) fn version(self) -> &'static str {
        if self.kind == ScopeKind::Session { "t.sequence" } else { "t.version" }
    }

    /// The table of its rows, and their column of the node.
    fn of_rows(self) -> (&'static str, &'static str) {
        if self.kind == ScopeKind::Session { ("event", "session") } else { ("scope_log", "scope") }
    }

    /// The table of the node, and its column of the last version.
    fn of_node(self) -> (&'static str, &'static str) {
        match self.kind {
            ScopeKind::Session => ("session", "last_sequence"),
            ScopeKind::Application | ScopeKind::User => ("scope", "version"),
        }
    }

    /// Selects the runs that may hold versions behind `?2` and before `?3`, and last the unindexed rows.
    fn runs(self, order: &str) -> String {
        let (table, last) = self.of_node();
        format!(
            "SELECT version, rows FROM log_index WHERE node = ?1 AND version > ?2 AND version < ?3
             UNION ALL SELECT {last}, unindexed FROM {table} WHERE id = ?1
             ORDER BY version {order}"
        )
    }
}

impl Tables {
    /// The unindexed rows of a log, oldest first.
    pub(super) fn unindexed(&self, log: Log) -> Result<Vec<i64>> {
        let sql = format!("SELECT unindexed FROM {} WHERE id = ?1", log.of_node().0);
        Ok(self.one(&sql, [log.node], |row| row::parsed(row, 0))?.unwrap_or_default())
    }

    /// Goes through the rows of a log in `(after, up_to]` until `take` refuses one. Returns whether it took all. The first column is the
    /// version. A version that is missing is damage, which SQLite does not see.
    pub(super) fn each_row(
        &self,
        log: Log,
        columns: &str,
        (after, up_to): (Version, Version),
        descending: bool,
        mut take: impl FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let (table, last) = log.of_node();
        let last = self.value(&format!("SELECT {last} FROM {table} WHERE id = ?1"), [log.node])?;
        // Nothing was written to a log whose node has no row.
        let up_to = up_to.min(last.unwrap_or(0));
        let mut expected = Dense { after, up_to, descending };
        let mut take = |row: &Row<'_>| {
            let version = row.get(0)?;
            expected.next(version)?;
            take(row).map_err(|error| error.in_row(Damage::in_log(log.kind), version))
        };
        let runs = log.runs(if descending { "DESC" } else { "ASC" });
        // The version of a damaged node may be any number that SQLite has.
        let end = (up_to + LOG_STEP as u64).min(i64::MAX.cast_unsigned());
        let is_whole = self.each(&runs, (log.node, after, end), |run| {
            let (last, rows): (Version, Vec<i64>) = (run.get(0)?, row::parsed(run, 1)?);
            let before = last.saturating_sub(rows.len() as u64);
            // Of some runs a part may be meant, or nothing.
            let start = after.saturating_sub(before) as usize;
            let end = rows.len().saturating_sub(last.saturating_sub(up_to) as usize);
            let rows = rows.get(start..end).unwrap_or_default();
            self.each_of(log, columns, rows, descending, &mut take)
        })?;
        if is_whole {
            expected.end()?;
        }
        Ok(is_whole)
    }

    /// Goes through rows by their numbers, in the order of the list or from its end. Passes over those that are missing, or another log's: a
    /// damaged list may name any row.
    fn each_of(
        &self,
        log: Log,
        columns: &str,
        rows: &[i64],
        descending: bool,
        take: &mut dyn FnMut(&Row<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let (table, node) = log.of_rows();
        let sql = format!("SELECT {columns} FROM {table} t WHERE t.id = ?1 AND t.{node} = ?2");
        let mut statement = self.prepare(&sql).map_err(driver)?;
        for at in 0..rows.len() {
            let at = if descending { rows.len() - 1 - at } else { at };
            let mut found = statement.query((rows[at], log.node)).map_err(driver)?;
            if let Some(row) = found.next().map_err(driver)?
                && !take(&Row(row))?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes through every row of a log, whatever its node says of it, and however many are missing.
    pub(super) fn every_row(
        &self,
        log: Log,
        columns: &str,
        mut take: impl FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut take = |row: &Row<'_>| take(row).map(|()| true);
        self.each(&log.runs("ASC"), (log.node, 0, i64::MAX), |run| {
            self.each_of(log, columns, &row::parsed::<Vec<i64>>(run, 1)?, false, &mut take)
        })?;
        Ok(())
    }

    /// Puts successive rows of a log, the last of which has this version, into the index.
    pub(super) fn index_run(&self, node: NodeId, version: Version, rows: &[i64]) -> Result<()> {
        let insert = "INSERT INTO log_index VALUES (?1, ?2, ?3)";
        self.run(insert, (node, version, rows_text(rows))).map(drop)
    }
}

impl Writer {
    /// The unindexed rows of a log, whose node has a row or gets one.
    pub(super) fn unindexed_of(&mut self, log: Log) -> Result<&mut Vec<i64>> {
        match self.unindexed.entry(log.node) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                self.grown += UNINDEXED_BYTES;
                Ok(vacant.insert(self.tables.unindexed(log)?))
            }
        }
    }

    /// Notes the row that was just inserted into a log. The row of its node is written afterwards.
    pub(super) fn track_row(&mut self, log: Log, version: Version) -> Result<()> {
        let row = self.tables.0.last_insert_rowid();
        let unindexed = self.unindexed_of(log)?;
        unindexed.push(row);
        if unindexed.len() >= LOG_STEP { self.index_rows(log, version) } else { Ok(()) }
    }

    /// Puts the unindexed rows of a log of this version into the index.
    pub(super) fn index_rows(&mut self, log: Log, version: Version) -> Result<()> {
        match std::mem::take(self.unindexed_of(log)?).as_slice() {
            [] => Ok(()),
            rows => self.tables.index_run(log.node, version, rows),
        }
    }
}

/// Numbers of rows as they are stored.
pub(super) fn rows_text(rows: &[i64]) -> String {
    serde_json::to_string(rows).unwrap_or_default()
}

/// The versions that a read has still to find.
struct Dense {
    after: Version,
    up_to: Version,
    descending: bool,
}

impl Dense {
    /// The next row has this version.
    fn next(&mut self, version: Version) -> Result<()> {
        if self.after >= self.up_to || version != self.expected() {
            return Err(self.missing());
        }
        match self.descending {
            true => self.up_to -= 1,
            false => self.after += 1,
        }
        Ok(())
    }

    /// No row follows.
    fn end(&self) -> Result<()> {
        if self.after >= self.up_to { Ok(()) } else { Err(self.missing()) }
    }

    fn expected(&self) -> Version {
        if self.descending { self.up_to } else { self.after + 1 }
    }

    fn missing(&self) -> Error {
        Error::damaged(Damage::Log, format!("position {} is missing", self.expected()))
    }
}
