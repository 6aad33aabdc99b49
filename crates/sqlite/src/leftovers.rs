//! What a sweep leaves behind it: pages that nothing uses, and old text in the WAL.

use tracing::warn;

use super::{checkpoint::Checkpoints, prelude::*};

/// Pages that stay in the file for the next writes where no session was removed: 2 MiB.
const SPARE_PAGES: u64 = 512;

/// Seconds between two times that the WAL is emptied. Commits are slower until it has its length again.
const EMPTY_SECS: u64 = 60;

#[derive(Default)]
pub(super) struct Leftovers {
    /// Rows were removed that the WAL still has.
    swept: bool,
    /// When the WAL was last emptied, in seconds.
    emptied: Option<i64>,
}

impl Leftovers {
    /// A piece of a deleted session was removed.
    pub(super) fn has_swept(&mut self) {
        self.swept = true;
    }

    /// Gives free pages back. When no deleted session has rows left, empties the WAL. What fails, or has to wait, is done after
    /// another sweep.
    pub(super) fn after_sweep(&mut self, tables: &Tables, wal: &mut Checkpoints, now: Time) {
        if let Err(error) = self.clean(tables, wal, now)
            && error != Error::DiskFull
        {
            warn!(%error, "cleaning up after a sweep failed, retrying later");
        }
    }

    fn clean(&mut self, tables: &Tables, wal: &mut Checkpoints, now: Time) -> Result<()> {
        let count = "PRAGMA freelist_count";
        let free = tables.value::<u64>(count, ())?.unwrap_or(0);
        let spare = if self.swept { 0 } else { SPARE_PAGES };
        if free > spare {
            tables.free_pages()?;
        }
        let waits = self.emptied.is_some_and(|at| now.secs().abs_diff(at) < EMPTY_SECS);
        if !self.swept || waits || tables.value::<u64>(count, ())? != Some(0) {
            return Ok(());
        }
        let left = "SELECT id FROM tombstone WHERE lease_until <= ?1 ORDER BY id LIMIT 1";
        if tables.value::<u64>(left, [now.secs()])?.is_none() && wal.empty(tables) {
            (self.swept, self.emptied) = (false, Some(now.secs()));
        }
        Ok(())
    }
}
