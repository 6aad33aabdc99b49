//! Pages of a session's events: what rewinds hid is stepped over, and no step looks at more rows than it may.

use rusqlite::OptionalExtension;

use super::{
    fault::Outcome,
    head::{LastRows, RowId, Walk},
    lookup::Found,
    row::{self, EventReader},
    schema::NodeId,
    statements::Reads,
};
use crate::{
    domain::{
        Sequence,
        error::Error,
        event::{Event, Fingerprint},
        limits::PAGE_SCANNED,
        page::{EventPage, EventSelection, Rest, narrow},
        scope::SessionKey,
        time::Time,
        visible::{Marker, Visible},
    },
    store::{SessionQuery, SessionView},
};

/// A read of events that may take several steps. All of them see the log up to the same event, which never changes.
#[derive(Debug)]
pub(super) struct Search {
    session: NodeId,
    key: SessionKey,
    /// The newest event that is looked at.
    limit: Sequence,
    selection: EventSelection,
    /// The last event of the first range that is still to be searched for the beginning of `recent`, and how many are missing.
    recent: Option<(Sequence, u64)>,
    /// What earlier steps have found for the page.
    found: Vec<Event>,
    bytes: usize,
}

impl Search {
    /// Begins a read. `as_of` has been checked.
    pub(super) fn new(found: &Found, as_of: Option<Sequence>, selection: EventSelection) -> Self {
        let limit = as_of.unwrap_or(found.info.last_sequence);
        let end = selection.up_to.map_or(limit, |up_to| up_to.min(limit));
        let recent = selection.recent.map(|recent| (end, recent));
        let (session, key) = (found.id(), found.info.key.clone());
        Self { session, key, limit, selection, recent, found: Vec::new(), bytes: 0 }
    }

    /// Goes on reading. `None`: the page is not there yet, call again, best in another snapshot.
    pub(super) fn step(&mut self, reads: &mut Reads<'_>) -> Outcome<Option<EventPage>> {
        let alive = reads.session_exists.query_row([self.session], |_| Ok(())).optional()?;
        if alive.is_none() {
            return Err(Error::not_found(&self.key).into());
        }
        let visible = reads.visible(self.session, self.limit)?;
        let last_rows = reads.last_rows(self.session)?;
        let ranges = self.ranges(&visible);
        if let Some((from, missing)) = self.recent {
            match self.find_recent(reads, &last_rows, &ranges, from, missing)? {
                Ok(after) => {
                    self.selection.after = self.selection.after.max(after);
                    self.recent = None;
                }
                Err(on) => {
                    self.recent = Some(on);
                    return Ok(None);
                }
            }
        }
        // The beginning has moved, and with it the ranges.
        let ranges = self.ranges(&visible);
        self.page(reads, &last_rows, &visible, &ranges)
    }

    /// What the selection and the rewinds leave of the log, as ranges `(after, up to]`, newest first.
    fn ranges(&self, visible: &Visible) -> Vec<(Sequence, Sequence)> {
        let after = self.selection.after;
        let end = self.selection.up_to.map_or(self.limit, |up_to| up_to.min(self.limit));
        let whole = [(0, self.limit)];
        let parts =
            if self.selection.filter.include_rewound { &whole[..] } else { visible.ranges() };
        parts
            .iter()
            .map(|&(low, high)| (low.max(after), high.min(end)))
            .filter(|(low, high)| low < high)
            .collect()
    }

    /// The sequence behind which the newest `missing` events up to `from` begin; `Err`: where to search on.
    fn find_recent(
        &self,
        reads: &mut Reads<'_>,
        last_rows: &LastRows,
        ranges: &[(Sequence, Sequence)],
        from: Sequence,
        mut missing: u64,
    ) -> Outcome<Result<Sequence, (Sequence, u64)>> {
        let filter = &self.selection.filter;
        let all_pass = filter.author.is_none()
            && filter.invocation_id.is_none()
            && filter.after_time.is_none();
        if missing == 0 {
            return Ok(Ok(self.limit));
        }
        let mut scanned = 0;
        for &(low, high) in ranges {
            let high = high.min(from);
            if low >= high {
                continue;
            }
            if all_pass {
                if high - low >= missing {
                    return Ok(Ok(high - missing));
                }
                missing -= high - low;
                continue;
            }
            let mut found = None;
            let walk =
                Walk { range: &mut reads.events_down, one: &mut reads.event, descending: true };
            walk.rows(self.session, last_rows, (low, high), |row| {
                let sequence = row::count(row, 0)?;
                if scanned == PAGE_SCANNED {
                    found = Some(Err((sequence, missing)));
                    return Ok(false);
                }
                scanned += 1;
                if row::passes(row, filter)? {
                    missing -= 1;
                    if missing == 0 {
                        found = Some(Ok(sequence - 1));
                        return Ok(false);
                    }
                }
                Ok(true)
            })?;
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Ok(Ok(0))
    }

    /// Fills the page. `None`: so many rows were looked at that the next step goes on.
    fn page(
        &mut self,
        reads: &mut Reads<'_>,
        last_rows: &LastRows,
        visible: &Visible,
        ranges: &[(Sequence, Sequence)],
    ) -> Outcome<Option<EventPage>> {
        let EventSelection { filter, after, up_to, descending, max_items, max_bytes, .. } =
            &self.selection;
        let interval = Rest { after: *after, up_to: *up_to };
        let (mut scanned, mut rest) = (0, None);
        let mut reader = EventReader::default();
        let ordered: Box<dyn Iterator<Item = &(Sequence, Sequence)>> =
            if *descending { Box::new(ranges.iter()) } else { Box::new(ranges.iter().rev()) };
        let mut looked_at = None;
        for &(low, high) in ordered {
            let range = if *descending { &mut reads.events_down } else { &mut reads.events_up };
            let walk = Walk { range, one: &mut reads.event, descending: *descending };
            let whole = walk.rows(self.session, last_rows, (low, high), |row| {
                if scanned == PAGE_SCANNED {
                    return Ok(false);
                }
                scanned += 1;
                let sequence = row::count(row, 0)?;
                if row::passes(row, filter)? {
                    if self.found.len() == *max_items {
                        return Ok(false);
                    }
                    let event = reader.event(row, !visible.contains(sequence))?;
                    let size = event.bytes();
                    if !self.found.is_empty() && self.bytes + size > *max_bytes {
                        return Ok(false);
                    }
                    self.bytes += size;
                    self.found.push(event);
                }
                looked_at = Some(sequence);
                Ok(true)
            })?;
            if !whole {
                // What was looked at since the last event on this page did not pass: it need not be looked at again.
                rest = looked_at.map(|last| narrow(interval, *descending, last));
                break;
            }
        }
        if let (PAGE_SCANNED, Some(Rest { after, up_to })) = (scanned, rest) {
            (self.selection.after, self.selection.up_to) = (after, up_to);
            return Ok(None);
        }
        Ok(Some(EventPage { events: std::mem::take(&mut self.found), rest }))
    }
}

impl Reads<'_> {
    /// Reads a session, and its events unless that takes more than one step.
    pub(super) fn read_session(
        &mut self,
        query: SessionQuery,
    ) -> Outcome<(SessionView, Option<Search>)> {
        let SessionQuery { session, as_of, with_state, events, now } = query;
        let mut found = self.live_session(&session, now)?;
        let last_sequence = found.info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > last_sequence) {
            return Err(Error::BeyondLastSequence { asked, last_sequence }.into());
        }
        let state = match (with_state, as_of) {
            (false, _) => None,
            (true, None) => Some(self.merged(found.nodes())?),
            (true, Some(sequence)) => Some(self.merged_as_of(&found, sequence)?),
        };
        let mut search = events.map(|selection| Search::new(&found, as_of, selection));
        let page = match &mut search {
            None => None,
            Some(search) => search.step(self)?,
        };
        if page.is_some() {
            search = None;
        }
        if let Some(sequence) = as_of {
            found.info.last_sequence = sequence;
            found.info.last_event_time = self.last_event_time(&found, sequence)?;
        }
        Ok((SessionView { info: found.info, state, events: page }, search))
    }

    /// When a session was last used, as of an event.
    fn last_event_time(&mut self, found: &Found, sequence: Sequence) -> rusqlite::Result<Time> {
        if sequence == 0 {
            return Ok(found.info.create_time);
        }
        let row = self.row_of(found.id(), sequence)?;
        Ok(self.event_times(row)?.0)
    }

    /// What rewinds leave visible as of an event.
    pub(super) fn visible(
        &mut self,
        session: NodeId,
        as_of: Sequence,
    ) -> rusqlite::Result<Visible> {
        let mut markers = Vec::new();
        let mut rows = self.markers.query((session, as_of.cast_signed()))?;
        while let Some(row) = rows.next()? {
            markers.push(Marker { sequence: row::count(row, 0)?, to: row::count(row, 1)? });
        }
        Ok(Visible::new(&markers, as_of))
    }

    /// The event of a row, with its fingerprint. `last` is the session's newest event.
    pub(super) fn event(
        &mut self,
        session: NodeId,
        sequence: Sequence,
        row: RowId,
        last: Sequence,
    ) -> rusqlite::Result<(Event, Fingerprint)> {
        let visible = self.visible(session, last)?;
        self.event.query_row([row], |row| {
            let event = EventReader::default().event(row, !visible.contains(sequence))?;
            Ok((event, row::fingerprint(row, 12)?))
        })
    }
}
