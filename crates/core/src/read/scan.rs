//! What a read looks at until its page ends.

use std::time::Duration;

use super::Rows;
use crate::domain::prelude::*;

/// The rows that a read may still look at.
pub struct Scan<'r, R> {
    rows: &'r R,
    left: usize,
    began: Time,
    /// Whether a row was not taken.
    has_missed: bool,
}

impl<'r, R: Rows> Scan<'r, R> {
    pub fn new(rows: &'r R) -> Self {
        Self { rows, left: PAGE_SCANNED, began: rows.time(), has_missed: false }
    }

    pub fn left(&self) -> usize {
        self.left
    }

    /// Counts rows that were looked at, of which the page took some.
    pub fn look(&mut self, looked_at: usize, taken: usize) {
        self.left = self.left.saturating_sub(looked_at);
        self.has_missed |= taken < looked_at;
    }

    /// Whether the page ends here. It never does before anything was looked at.
    pub fn is_over(&self) -> bool {
        let time = || self.began.until(self.rows.time());
        self.left == 0 || (self.has_missed && time() >= Duration::from_millis(PAGE_MILLIS))
    }
}
