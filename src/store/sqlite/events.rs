//! Pages of a session's events. Events that a rewind hid are skipped, and no step reads more rows than it may.

use super::{
    connection::Tables,
    log::Log,
    prelude::*,
    row::{self, EVENT_COLUMNS},
};
use crate::{domain::page::narrow, store::Budget};

/// A read of events that may take several steps. All of them see the log up to the same event, which never changes.
pub(super) struct Search {
    log: Log,
    key: SessionKey,
    /// The newest event that is looked at.
    limit: Sequence,
    selection: EventSelection,
    /// From where the beginning of `selection.recent` is still to be searched downwards.
    from: Sequence,
    /// Events that earlier steps have found for the page.
    found: Vec<Event>,
    budget: Budget,
}

impl Search {
    /// Begins a read of a session, as of its last sequence in `info`.
    pub(super) fn new(info: &SessionInfo, selection: EventSelection) -> Self {
        Self {
            log: Log::of_session(info.incarnation),
            key: info.key.clone(),
            limit: info.last_sequence,
            from: info.last_sequence,
            found: Vec::new(),
            budget: Budget::new(selection.max_items, selection.max_bytes),
            selection,
        }
    }

    /// Goes on reading, in a snapshot in which the session may be gone. `None`: call again.
    pub(super) fn resume(&mut self, tables: &Tables) -> Result<Option<EventPage>, Error> {
        let exists: Option<u8> =
            tables.value("SELECT 1 FROM session WHERE id = ?1", [self.log.node])?;
        match exists {
            Some(_) => self.step(tables),
            None => Err(Error::not_found(&self.key)),
        }
    }

    /// Begins to read, in a snapshot that has the session. `None`: [`Self::resume`] goes on.
    pub(super) fn step(&mut self, tables: &Tables) -> Result<Option<EventPage>, Error> {
        let visible = tables.visible(self.log.node, self.limit)?;
        match self.find_recent(tables, &visible)? {
            true => self.fill(tables, &visible),
            false => Ok(None),
        }
    }

    /// The part of the log up to an event that the selection and the rewinds leave, as ranges `(after, up_to]`, newest first.
    fn ranges(&self, visible: &Visible, end: Sequence) -> Vec<(Sequence, Sequence)> {
        let EventSelection { filter, after, up_to, .. } = &self.selection;
        let end = up_to.map_or(end, |up_to| up_to.min(end));
        let whole = [(0, self.limit)];
        let parts = if filter.include_rewound { &whole[..] } else { visible.ranges() };
        let parts = parts.iter().map(|&(low, high)| (low.max(*after), high.min(end)));
        parts.filter(|(low, high)| low < high).collect()
    }

    /// Turns `recent` into `after`. Returns false if that takes another step.
    fn find_recent(&mut self, tables: &Tables, visible: &Visible) -> Result<bool, Error> {
        let Some(mut missing) = self.selection.recent else { return Ok(true) };
        let filter = &self.selection.filter;
        let include_rewound = filter.include_rewound;
        let all_pass = *filter == EventFilter { include_rewound, ..EventFilter::default() };
        let (mut after, mut scanned) = (self.limit, 0);
        for (low, high) in self.ranges(visible, self.from) {
            if missing == 0 || scanned == PAGE_SCANNED {
                break;
            }
            if all_pass {
                after = high - missing.min(high - low);
                missing -= high - after;
                continue;
            }
            tables.each_row(self.log, EVENT_COLUMNS, (low, high), true, |row| {
                scanned += 1;
                after = row.get::<_, Sequence>(0)? - 1;
                missing -= u64::from(row::passes(row, filter)?);
                Ok::<_, Error>(missing > 0 && scanned < PAGE_SCANNED)
            })?;
        }
        if missing > 0 && scanned == PAGE_SCANNED {
            (self.from, self.selection.recent) = (after, Some(missing));
            return Ok(false);
        }
        if missing == 0 {
            self.selection.after = self.selection.after.max(after);
        }
        self.selection.recent = None;
        Ok(true)
    }

    /// Fills the page. `None`: as many rows were read as one step may, and the next one goes on.
    fn fill(&mut self, tables: &Tables, visible: &Visible) -> Result<Option<EventPage>, Error> {
        let mut ranges = self.ranges(visible, self.limit);
        let EventSelection { filter, after, up_to, descending, .. } = &mut self.selection;
        let interval = Rest { after: *after, up_to: *up_to };
        if !*descending {
            ranges.reverse();
        }
        let (mut scanned, mut seen) = (0, None);
        for (low, high) in ranges {
            let read = tables.each_row(self.log, EVENT_COLUMNS, (low, high), *descending, |row| {
                if scanned == PAGE_SCANNED {
                    return Ok(false);
                }
                let sequence = row.get(0)?;
                if row::passes(row, filter)? {
                    let event = row::event(row, !visible.contains(sequence))?;
                    if !self.budget.take(event.bytes()) {
                        return Ok(false);
                    }
                    self.found.push(event);
                }
                scanned += 1;
                seen = Some(sequence);
                Ok(true)
            });
            let is_whole = match read {
                // What lies before the damage is a page. The next one begins with the damage.
                Err(Error::Damaged(..)) if !self.found.is_empty() => false,
                read => read?,
            };
            if !is_whole {
                // Rows read since the last event on this page did not pass, and need not be read again.
                let rest = seen.map_or(interval, |seen| narrow(interval, *descending, seen));
                if scanned == PAGE_SCANNED {
                    (*after, *up_to) = (rest.after, rest.up_to);
                    return Ok(None);
                }
                return Ok(Some(self.page(Some(rest))));
            }
        }
        Ok(Some(self.page(None)))
    }

    fn page(&mut self, rest: Option<Rest>) -> EventPage {
        EventPage { events: std::mem::take(&mut self.found), rest }
    }
}
