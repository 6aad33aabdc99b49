//! Where a log ends, and where its rows lie.
//!
//! The rows of all logs lie in the order of their commits. A log's `head` says where those of its newest versions are, and once a
//! step is complete `log_row` says it for the whole step, so that an append to one of many logs changes no page of its own.

use rusqlite::{OptionalExtension, Row, Statement};

use super::{
    fault::Outcome,
    log::size,
    row,
    schema::{INDEX_STEP, NodeId},
    statements::{Reads, Writes},
};
use crate::domain::Version;

/// Number of a row of a log.
pub(super) type RowId = i64;

/// Where the rows of a log's last step lie, be it complete or not. There is always one where there is a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LastRows {
    /// The newest version.
    version: Version,
    /// Those of the versions up to it, as many as there are here.
    rows: Vec<RowId>,
}

impl LastRows {
    /// Adds the row of the next version.
    pub(super) fn push(&mut self, row: RowId) {
        if self.version.is_multiple_of(INDEX_STEP) {
            self.rows.clear();
        }
        self.version += 1;
        self.rows.push(row);
    }

    /// The newest version; 0: there is none.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The version before the first one here.
    pub(super) fn before(&self) -> Version {
        self.version.saturating_sub(self.rows.len() as Version)
    }

    /// Where the row of a version lies, if it is one of the last.
    pub(super) fn row_of(&self, version: Version) -> Option<RowId> {
        let at = version.checked_sub(self.before() + 1)?;
        self.rows.get(usize::try_from(at).ok()?).copied()
    }

    /// Where the newest row lies.
    pub(super) fn newest(&self) -> Option<RowId> {
        self.rows.last().copied()
    }

    /// All that are here.
    pub(super) fn rows(&self) -> &[RowId] {
        &self.rows
    }

    /// The numbers' differences, seven bits a byte, the lowest first; the top bit says that more follow.
    pub(super) fn to_stored(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 * self.rows.len());
        let mut before = 0;
        for row in &self.rows {
            let mut rest = row.wrapping_sub(before).cast_unsigned();
            before = *row;
            while rest >= 0x80 {
                bytes.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            bytes.push((rest & 0x7f) as u8);
        }
        bytes
    }

    pub(super) fn from_stored(version: Version, bytes: &[u8]) -> Self {
        let mut rows = Vec::with_capacity(INDEX_STEP as usize);
        let (mut before, mut number, mut shift) = (0_i64, 0_u64, 0);
        for byte in bytes {
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 != 0 {
                shift += 7;
                continue;
            }
            before = before.wrapping_add(number.cast_signed());
            rows.push(before);
            (number, shift) = (0, 0);
        }
        Self { version, rows }
    }
}

/// The statements that go through a log: rows of the versions `(?2, ?3]` of the node `?1`, in order, and a row by its number, both with
/// the same columns.
pub(super) struct Walk<'s, 'c> {
    pub(super) range: &'s mut Statement<'c>,
    pub(super) one: &'s mut Statement<'c>,
    /// Whether the first one's order is newest first.
    pub(super) descending: bool,
}

impl Walk<'_, '_> {
    /// Shows the rows of the versions `(after, up_to]` of a log to `each`, until that says no. Whether it never did.
    pub(super) fn rows(
        self,
        node: NodeId,
        last: &LastRows,
        (after, up_to): (Version, Version),
        mut each: impl FnMut(&Row<'_>) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let Self { range, one, descending } = self;
        let up_to = up_to.min(last.version);
        let middle = last.before().clamp(after, after.max(up_to));
        let mut indexed = |each: &mut dyn FnMut(&Row<'_>) -> Outcome<bool>| {
            if after >= middle {
                return Ok(true);
            }
            let mut rows = range.query((node, after.cast_signed(), middle.cast_signed()))?;
            while let Some(row) = rows.next()? {
                if !each(row)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if !descending && !indexed(&mut each)? {
            return Ok(false);
        }
        for at in middle..up_to {
            let version = if descending { middle + up_to - at } else { at + 1 };
            let row = last.row_of(version).ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            let mut rows = one.query([row])?;
            let row = rows.next()?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
            if !each(row)? {
                return Ok(false);
            }
        }
        if descending { indexed(&mut each) } else { Ok(true) }
    }
}

impl Reads<'_> {
    /// Where the last rows of a node's log lie, and the size of its state after them; `None` where nothing was ever written.
    pub(super) fn head(&mut self, node: NodeId) -> rusqlite::Result<Option<(LastRows, usize)>> {
        let head = self.head.query_row([node], |row| {
            let rows = row.get_ref(1)?.as_blob()?;
            Ok((LastRows::from_stored(row::count(row, 0)?, rows), row::bytes(row, 2)?))
        });
        head.optional()
    }

    /// Where the last rows of a node's log lie; none where nothing was ever written.
    pub(super) fn last_rows(&mut self, node: NodeId) -> rusqlite::Result<LastRows> {
        Ok(self.head(node)?.unwrap_or_default().0)
    }

    /// Where the row of a version of a log lies.
    pub(super) fn row_of(&mut self, node: NodeId, version: Version) -> rusqlite::Result<RowId> {
        let row = self.log_row.query_row((node, version.cast_signed()), |row| row.get(0));
        match row.optional()? {
            Some(row) => Ok(row),
            None => {
                let row = self.last_rows(node)?.row_of(version);
                row.ok_or(rusqlite::Error::QueryReturnedNoRows)
            }
        }
    }
}

impl Writes<'_> {
    /// Writes where a log ends. `bytes` is the size of its scope now.
    pub(super) fn store_head(
        &mut self,
        node: NodeId,
        last: &LastRows,
        bytes: usize,
    ) -> rusqlite::Result<()> {
        let row = (node, last.version.cast_signed(), size(bytes), last.to_stored());
        self.put_head.execute(row).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_rows_are_those_of_the_last_step() {
        let mut last = LastRows::default();
        assert_eq!((last.version(), last.before(), last.newest()), (0, 0, None));
        for version in 1..=3 * INDEX_STEP {
            let row = (version * version).cast_signed();
            last.push(row);
            assert_eq!((last.version(), last.newest()), (version, Some(row)));
            assert_eq!(last.before(), (version - 1) / INDEX_STEP * INDEX_STEP);
            assert_eq!(last.row_of(last.before()), None);
            assert_eq!(last.row_of(version + 1), None);
            for version in last.before() + 1..=version {
                assert_eq!(last.row_of(version), Some((version * version).cast_signed()));
            }
        }
    }

    #[test]
    fn numbers_of_any_size_come_back() {
        let rows = vec![1, 2, 127, 128, 300, 16_383, 16_384, i64::MAX, 5, -1, i64::MIN];
        let last = LastRows { version: 11, rows };
        assert_eq!(LastRows::from_stored(11, &last.to_stored()), last);
        assert_eq!(LastRows::from_stored(0, &[]), LastRows::default());
    }
}
