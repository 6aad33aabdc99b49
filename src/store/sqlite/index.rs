//! Keeping the index of logs.

use hashbrown::hash_map::Entry;

use super::{
    log::{Log, Unindexed},
    prelude::*,
    schema::{KEY_STEP, LOG_STEP},
    writer::Writer,
};

/// Bytes in memory, about, of a log's unindexed rows.
const UNINDEXED_BYTES: usize = 1024;

impl Writer {
    /// The unindexed rows of a log, whose node has a head or gets one.
    pub(super) fn unindexed_of(&mut self, log: Log) -> Result<&mut Unindexed> {
        match self.unindexed.entry(log.node) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(vacant) => {
                self.grown += UNINDEXED_BYTES;
                let (_, rows) = self.tables.unindexed(log)?;
                let sql = "SELECT id_hash FROM event WHERE id = ?1";
                let hash = |row| match log.kind {
                    ScopeKind::Session => self.tables.value(sql, [row]),
                    ScopeKind::Application | ScopeKind::User => Ok(None),
                };
                let mut unindexed = Unindexed::default();
                for row in rows {
                    unindexed.push(row, hash(row)?);
                }
                Ok(vacant.insert(unindexed))
            }
        }
    }

    /// Notes the row that was just inserted into a log, and the hash of its event id.
    pub(super) fn note_row(&mut self, log: Log, version: Version, hash: Option<i64>) -> Result<()> {
        let row = self.tables.0.last_insert_rowid();
        let unindexed = self.unindexed_of(log)?;
        unindexed.push(row, hash);
        if unindexed.len() >= LOG_STEP || version.is_multiple_of(KEY_STEP) {
            self.index_rows(log, version)?;
        }
        Ok(())
    }

    /// Puts the unindexed rows of a log of this version into the index. The head of its node is written afterwards.
    pub(super) fn index_rows(&mut self, log: Log, version: Version) -> Result<()> {
        self.unindexed_of(log)?;
        let Some(unindexed) = self.unindexed.get_mut(&log.node) else { return Ok(()) };
        let first = version + 1 - unindexed.len() as u64;
        let mut insert = self.tables.prepare("INSERT INTO log_index VALUES (?1, ?2, ?3, ?4)")?;
        for (version, (row, hash)) in (first..).zip(unindexed.drain()) {
            insert.execute((log.node, version, row, hash))?;
        }
        Ok(())
    }
}
