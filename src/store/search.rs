//! Reads of a session's events that may take several steps: what is still to be looked at, and what was found. A store reads the rows.
//!
//! First the newest events are counted, if only some of them are wanted; then the page is filled. Events that a rewind hid are skipped,
//! and no step looks at more rows than it may.

use super::Budget;
use crate::domain::{page::narrow, prelude::*};

/// A read of events. All of its steps see the log up to the same event, which never changes.
pub(crate) struct Search {
    pub(crate) key: SessionKey,
    pub(crate) incarnation: Incarnation,
    /// The newest event that is looked at.
    pub(crate) limit: Sequence,
    /// Its interval becomes narrower with each row.
    selection: EventSelection,
    /// From where the beginning of `selection.recent` is still to be searched downwards.
    from: Sequence,
    /// Events that were found for the page.
    found: Vec<Event>,
    budget: Budget,
    is_full: bool,
    /// Rows that this step may still look at.
    rows_left: usize,
}

impl Search {
    /// Begins a read of a session, as of its last sequence in `info`.
    pub(crate) fn new(info: &SessionInfo, selection: EventSelection) -> Self {
        Self {
            key: info.key.clone(),
            incarnation: info.incarnation,
            limit: info.last_sequence,
            from: info.last_sequence,
            found: Vec::new(),
            budget: Budget::new(selection.max_items, selection.max_bytes),
            is_full: false,
            rows_left: 0,
            selection,
        }
    }

    pub(crate) fn filter(&self) -> &EventFilter {
        &self.selection.filter
    }

    pub(crate) fn descending(&self) -> bool {
        self.selection.descending
    }

    /// The items and bytes that the page may still take.
    pub(crate) fn left(&self) -> (usize, usize) {
        self.budget.left()
    }

    /// Whether no row has to be read to know that its event passes.
    pub(crate) fn all_pass(&self) -> bool {
        let include_rewound = self.selection.filter.include_rewound;
        self.selection.filter == EventFilter { include_rewound, ..EventFilter::default() }
    }

    /// Begins a step.
    pub(crate) fn begin(&mut self, visible: &Visible) {
        self.rows_left = PAGE_SCANNED;
        let known = |missing: &u64| *missing == 0 || self.all_pass();
        let Some(mut missing) = self.selection.recent.filter(known) else { return };
        let mut after = self.limit;
        for (low, high) in self.ranges(visible, self.from) {
            if missing == 0 {
                break;
            }
            after = high - missing.min(high - low);
            missing -= high - after;
        }
        if missing == 0 {
            self.selection.after = self.selection.after.max(after);
        }
        self.selection.recent = None;
    }

    /// The ranges `(after, up_to]` of events that are still to be counted, newest first.
    pub(crate) fn uncounted(&self, visible: &Visible) -> Vec<(Sequence, Sequence)> {
        match self.selection.recent {
            Some(_) => self.ranges(visible, self.from),
            None => Vec::new(),
        }
    }

    /// Counts a row. Returns whether the step goes on counting.
    pub(crate) fn count(&mut self, sequence: Sequence, passes: bool) -> bool {
        self.rows_left -= 1;
        self.from = sequence - 1;
        let missing = self.selection.recent.unwrap_or(0).saturating_sub(u64::from(passes));
        self.selection.recent = (missing > 0).then_some(missing);
        if missing == 0 {
            self.selection.after = self.selection.after.max(self.from);
        }
        missing > 0 && self.rows_left > 0
    }

    /// Ends counting. Returns false if that takes another step.
    pub(crate) fn end_count(&mut self) -> bool {
        if self.selection.recent.is_some() && self.rows_left == 0 {
            return false;
        }
        self.selection.recent = None;
        self.rows_left = PAGE_SCANNED;
        true
    }

    /// The ranges `(after, up_to]` of events that are still to be read, in the order of the page.
    pub(crate) fn unread(&self, visible: &Visible) -> Vec<(Sequence, Sequence)> {
        let mut ranges = self.ranges(visible, self.limit);
        if !self.selection.descending {
            ranges.reverse();
        }
        ranges
    }

    /// Takes a row, with its event if that passes. Returns whether the step goes on reading.
    pub(crate) fn take(&mut self, sequence: Sequence, event: Option<Event>) -> bool {
        if let Some(event) = event {
            self.is_full = !self.budget.take(event.bytes());
            if self.is_full {
                return false;
            }
            self.found.push(event);
        }
        let EventSelection { after, up_to, descending, .. } = &mut self.selection;
        let rest = narrow(Rest { after: *after, up_to: *up_to }, *descending, sequence);
        (*after, *up_to) = (rest.after, rest.up_to);
        self.rows_left -= 1;
        self.rows_left > 0
    }

    /// Ends a step that read everything, or as much as it took. `None`: the page takes another step.
    pub(crate) fn end(&mut self, read: Result<bool, Error>) -> Result<Option<EventPage>, Error> {
        let is_whole = match read {
            // What lies before the damage is a page. The next one begins with the damage.
            Err(Error::Damaged(..)) if !self.found.is_empty() => false,
            Ok(false) if !self.is_full => return Ok(None),
            read => read?,
        };
        let EventSelection { after, up_to, .. } = self.selection;
        let rest = (!is_whole).then_some(Rest { after, up_to });
        Ok(Some(EventPage { events: std::mem::take(&mut self.found), rest }))
    }

    /// The part of the log up to an event that the selection and the rewinds leave, newest first.
    fn ranges(&self, visible: &Visible, end: Sequence) -> Vec<(Sequence, Sequence)> {
        let EventSelection { filter, after, up_to, .. } = &self.selection;
        let end = up_to.map_or(end, |up_to| up_to.min(end));
        let whole = [(0, self.limit)];
        let parts = if filter.include_rewound { &whole[..] } else { visible.ranges() };
        let parts = parts.iter().map(|&(low, high)| (low.max(*after), high.min(end)));
        parts.filter(|(low, high)| low < high).collect()
    }
}
