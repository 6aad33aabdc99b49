//! Pages of a session's events. Events that a rewind hid are skipped, and no step reads more rows than it may.

use rusqlite::{OptionalExtension, Row};

use super::{
    row::{self, EventReader, Found},
    schema::NodeId,
    statements::Reads,
};
use crate::{
    domain::{
        Sequence,
        error::Error,
        event::Event,
        limits::PAGE_SCANNED,
        page::{EventPage, EventSelection, Rest, narrow},
        scope::SessionKey,
        time::Time,
        visible::Visible,
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
    /// From where the beginning of `recent` is still to be searched downwards, and how many events are missing.
    recent: Option<(Sequence, u64)>,
    /// Events that earlier steps have found for the page.
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

    /// Goes on reading. `None`: call again, best in another snapshot.
    pub(super) fn step(&mut self, reads: &mut Reads<'_>) -> Result<Option<EventPage>, Error> {
        let alive = reads.session_exists.query_row([self.session], |_| Ok(())).optional()?;
        if alive.is_none() {
            return Err(Error::not_found(&self.key));
        }
        let visible = reads.visible(self.session, self.limit)?;
        if let Some((from, missing)) = self.recent {
            match self.find_recent(reads, &visible, from, missing)? {
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
        self.page(reads, &visible)
    }

    /// The part of the log that the selection and the rewinds leave, as ranges `(after, up to]`, newest first.
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
        visible: &Visible,
        from: Sequence,
        mut missing: u64,
    ) -> Result<Result<Sequence, (Sequence, u64)>, Error> {
        let filter = &self.selection.filter;
        let all_pass = filter.author.is_none()
            && filter.invocation_id.is_none()
            && filter.after_time.is_none();
        if missing == 0 {
            return Ok(Ok(self.limit));
        }
        let mut scanned = 0;
        for (low, high) in self.ranges(visible) {
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
            let mut rows = reads.events_down.query(range(self.session, low, high))?;
            while let Some(row) = rows.next()? {
                let sequence = row::count(row, 0)?;
                if scanned == PAGE_SCANNED {
                    return Ok(Err((sequence, missing)));
                }
                scanned += 1;
                if row::passes(row, filter)? {
                    missing -= 1;
                    if missing == 0 {
                        return Ok(Ok(sequence - 1));
                    }
                }
            }
        }
        Ok(Ok(0))
    }

    /// Fills the page. `None`: as many rows were read as one step may, and the next one goes on.
    fn page(
        &mut self,
        reads: &mut Reads<'_>,
        visible: &Visible,
    ) -> Result<Option<EventPage>, Error> {
        let descending = self.selection.descending;
        let mut ranges = self.ranges(visible);
        if !descending {
            ranges.reverse();
        }
        let interval = Rest { after: self.selection.after, up_to: self.selection.up_to };
        let statement = if descending { &mut reads.events_down } else { &mut reads.events_up };
        let mut reader = EventReader::default();
        let (mut scanned, mut seen) = (0, None);
        for (low, high) in ranges {
            let mut rows = statement.query(range(self.session, low, high))?;
            while let Some(row) = rows.next()? {
                let full = scanned == PAGE_SCANNED;
                if full || !self.take(row, visible, &mut reader)? {
                    // Rows read since the last event on this page did not pass, and need not be read again.
                    let rest = seen.map(|seen| narrow(interval, descending, seen));
                    if full && let Some(Rest { after, up_to }) = rest {
                        (self.selection.after, self.selection.up_to) = (after, up_to);
                        return Ok(None);
                    }
                    return Ok(Some(EventPage { events: std::mem::take(&mut self.found), rest }));
                }
                scanned += 1;
                seen = Some(row::count(row, 0)?);
            }
        }
        Ok(Some(EventPage { events: std::mem::take(&mut self.found), rest: None }))
    }

    /// Puts an event on the page if it passes the filter. Returns false if it passes and does not fit.
    fn take(
        &mut self,
        row: &Row<'_>,
        visible: &Visible,
        reader: &mut EventReader,
    ) -> Result<bool, Error> {
        if !row::passes(row, &self.selection.filter)? {
            return Ok(true);
        }
        if self.found.len() == self.selection.max_items {
            return Ok(false);
        }
        let event = reader.event(row, !visible.contains(row::count(row, 0)?))?;
        let size = event.bytes();
        if !self.found.is_empty() && self.bytes + size > self.selection.max_bytes {
            return Ok(false);
        }
        self.bytes += size;
        self.found.push(event);
        Ok(true)
    }
}

fn range(session: NodeId, after: Sequence, up_to: Sequence) -> (NodeId, i64, i64) {
    (session, after.cast_signed(), up_to.cast_signed())
}

impl Reads<'_> {
    /// Reads a session, and its events unless that takes more than one step.
    pub(super) fn read_session(
        &mut self,
        query: SessionQuery,
        now: Time,
    ) -> Result<(SessionView, Option<Search>), Error> {
        let SessionQuery { session, as_of, with_state, events } = query;
        let mut found = self.live_session(&session, now)?;
        let last_sequence = found.info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > last_sequence) {
            return Err(Error::BeyondLastSequence { asked, last_sequence });
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
            found.info.last_event_time = match sequence {
                0 => found.info.create_time,
                _ => self.times(found.id(), sequence)?.0,
            };
            found.info.last_sequence = sequence;
        }
        Ok((SessionView { info: found.info, state, events: page }, search))
    }
}
