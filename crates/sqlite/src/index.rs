//! Keeping the index of logs.

use hashbrown::hash_map::Entry;

use super::{log::LOG_STEP, log::Log, prelude::*, writer::Writer};

/// Bytes in memory, about, of a log's unindexed rows.
const UNINDEXED_BYTES: usize = 8 * LOG_STEP + 64;

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
