//! Reading a session with a page of its events, now or as of an event.
//!
//! First the newest events are counted, if only some of them are wanted; then the page is filled. Events that a rewind hid are skipped.

use std::collections::VecDeque;

use futures_util::future::{OptionFuture, try_join};

use super::{
    Budget, EventHead, Node, PIECE_ROWS, Read, Rows, SessionQuery, SessionView,
    bare::only,
    first_of, log,
    scan::Scan,
    session::{live, merged, merged_as_of},
};
use crate::domain::prelude::*;

impl Read for SessionQuery {
    type Answer = SessionView;

    async fn read<R: Rows>(&self, rows: &R) -> Result<SessionView, Error> {
        let Self { session, as_of, with_state, events } = self;
        let mut info = match session {
            SessionRef::Full(key) => live(rows, key).await?,
            SessionRef::Bare(id, visible) => only(rows, id, visible).await?,
        };
        let newest = info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > newest) {
            return Err(Error::BeyondLastSequence { asked, last_sequence: newest });
        }
        let nodes = Node::visible(&Scope::Session(info.key.clone()), Some(info.incarnation));
        let node = &nodes[ScopeKind::Session as usize];
        let mut versions = info.created_versions;
        if let Some(at) = *as_of {
            (info.last_sequence, info.last_event_time) = (at, info.create_time);
            if at > 0 {
                for head in log::event_heads(rows, node, &[at]).await? {
                    (info.last_event_time, versions) = (head.event_time, head.versions);
                }
            }
        }
        let state = async {
            Ok::<_, Error>(match (*with_state, *as_of) {
                (false, _) => None,
                (true, None) => Some(merged(rows, &nodes).await?),
                (true, Some(at)) => Some(merged_as_of(rows, &nodes, (at, newest), versions).await?),
            })
        };
        let page = |wanted: &EventSelection| {
            Search::new(rows, node, info.last_sequence, wanted.clone()).page()
        };
        let events = OptionFuture::from(events.as_ref().map(page));
        let (state, events) = try_join(state, async { events.await.transpose() }).await?;
        Ok(SessionView { info, state, events })
    }
}

/// What is still to be looked at, and what was found.
struct Search<'r, R> {
    rows: &'r R,
    node: &'r Node,
    /// The newest event that is looked at.
    limit: Sequence,
    visible: Visible,
    /// Its interval becomes narrower with each row.
    selection: EventSelection,
    /// Events that were found for the page.
    found: Vec<Event>,
    budget: Budget,
    scan: Scan<'r, R>,
}

impl<'r, R: Rows> Search<'r, R> {
    fn new(rows: &'r R, node: &'r Node, limit: Sequence, selection: EventSelection) -> Self {
        let budget = Budget::new(selection.max_items, selection.max_bytes);
        let (visible, scan) = (Visible::as_of(limit), Scan::new(rows));
        Self { rows, node, limit, visible, selection, found: Vec::new(), budget, scan }
    }

    async fn page(mut self) -> Result<EventPage, Error> {
        let uncounted = self.count().await?;
        let is_whole = match uncounted {
            Some(_) => false,
            None => match self.fill().await {
                // What lies before the damage is a page. The next one begins with the damage.
                Err(Error::Damaged(..)) if !self.found.is_empty() => false,
                is_whole => is_whole?,
            },
        };
        let EventSelection { after, up_to, filter, .. } = &self.selection;
        let rest = (!is_whole).then_some(Rest { after: *after, up_to: *up_to });
        if filter.include_rewound {
            let events = self.found.iter_mut().collect();
            let visible = &mut self.visible;
            log::mark_rewound(self.rows, self.node, visible, self.limit, events).await?;
        }
        Ok(EventPage { events: self.found, rest, uncounted })
    }

    /// Turns `recent` into the event behind which the selection begins, or returns what is left to count.
    async fn count(&mut self) -> Result<Option<Uncounted>, Error> {
        let Some(mut missing) = self.selection.recent else { return Ok(None) };
        let mut from = self.selection.counted_to.unwrap_or(self.limit).min(self.limit);
        if self.all_pass() {
            for (low, high) in self.ranges(from, true, missing).await? {
                if missing == 0 {
                    break;
                }
                from = high - missing.min(high - low);
                missing -= high - from;
            }
        }
        // Few at first, so that the net of time holds.
        let mut piece = PIECE_ROWS;
        while missing > 0 && !self.all_pass() {
            let wanted = self.wanted(from, true, piece).await?;
            if wanted.is_empty() {
                break;
            }
            if self.scan.is_over() {
                return Ok(Some(Uncounted { recent: missing, counted_to: from }));
            }
            piece *= 2;
            let heads = log::event_heads(self.rows, self.node, &wanted).await?;
            let before = missing;
            for head in &heads {
                from = head.sequence - 1;
                missing -= u64::from(passes(head, &self.selection.filter));
                if missing == 0 {
                    break;
                }
            }
            let counted = usize::try_from(before - missing).unwrap_or(usize::MAX);
            self.scan.look(heads.len(), counted);
        }
        if missing == 0 {
            self.selection.after = self.selection.after.max(from);
        }
        Ok(None)
    }

    /// Fills the page. Returns whether nothing is left.
    async fn fill(&mut self) -> Result<bool, Error> {
        let descending = self.selection.descending;
        let mut max_rows = match self.all_pass() {
            true => self.budget.left().0.saturating_add(1).clamp(PIECE_ROWS, PAGE_SCANNED),
            false => PIECE_ROWS,
        };
        // Events that pass and are not on the page yet, and the last row that was looked at for them.
        let (mut passing, mut looked_at) = (VecDeque::new(), 0);
        loop {
            if passing.is_empty() {
                let wanted = self.wanted(self.limit, descending, max_rows).await?;
                if wanted.is_empty() {
                    return Ok(true);
                }
                if self.scan.is_over() {
                    return Ok(false);
                }
                max_rows *= 2;
                (passing, looked_at) = self.passing(wanted).await?;
            }
            let (items_left, bytes_left) = self.budget.left();
            let at_once = PIECE_ROWS.min(items_left.saturating_add(1));
            let piece: Vec<Sequence> = passing.iter().copied().take(at_once).collect();
            for event in log::events(self.rows, self.node, &piece, bytes_left).await? {
                if !self.budget.take(event.bytes()) {
                    return Ok(false);
                }
                self.advance(event.sequence);
                passing.pop_front();
                self.found.push(event);
            }
            if passing.is_empty() {
                self.advance(looked_at);
            }
        }
    }

    /// Those of some rows that pass, and the last row that was looked at.
    async fn passing(
        &mut self,
        mut wanted: Vec<Sequence>,
    ) -> Result<(VecDeque<Sequence>, Sequence), Error> {
        let mut last = wanted.last().copied().unwrap_or_default();
        let mut looked_at = wanted.len();
        if !self.all_pass() {
            let heads = log::event_heads(self.rows, self.node, &wanted).await?;
            (last, looked_at) = (heads.last().map_or(last, |head| head.sequence), heads.len());
            let heads = heads.iter().filter(|head| passes(head, &self.selection.filter));
            wanted = heads.map(|head| head.sequence).collect();
        }
        self.scan.look(looked_at, wanted.len());
        Ok((wanted.into(), last))
    }

    /// Notes that an event has been looked at.
    fn advance(&mut self, sequence: Sequence) {
        let EventSelection { after, up_to, descending, .. } = &mut self.selection;
        let rest = narrow(Rest { after: *after, up_to: *up_to }, *descending, sequence);
        (*after, *up_to) = (rest.after, rest.up_to);
    }

    /// Whether no row has to be read to know that its event passes.
    fn all_pass(&self) -> bool {
        let include_rewound = self.selection.filter.include_rewound;
        self.selection.filter == EventFilter { include_rewound, ..EventFilter::default() }
    }

    /// The next rows to look at up to an event. No more than the page may look at, but one is named if any is left.
    async fn wanted(
        &mut self,
        end: Sequence,
        descending: bool,
        max_rows: usize,
    ) -> Result<Vec<Sequence>, Error> {
        let max_rows = max_rows.min(self.scan.left().max(1));
        let ranges = self.ranges(end, descending, max_rows as u64).await?;
        Ok(first_of(&ranges, descending, max_rows))
    }

    /// The part of the log up to an event that the selection and the rewinds leave, in the order of the read: `wanted` events, or all.
    async fn ranges(
        &mut self,
        end: Sequence,
        descending: bool,
        wanted: u64,
    ) -> Result<Vec<(Sequence, Sequence)>, Error> {
        let EventSelection { filter, after, up_to, .. } = &self.selection;
        let part = (*after, up_to.map_or(end, |up_to| up_to.min(end)));
        if filter.include_rewound {
            return Ok(if part.0 < part.1 { vec![part] } else { Vec::new() });
        }
        // The oldest ones are known when all newer ones are.
        let wanted = if descending { wanted } else { u64::MAX };
        log::find_visible(self.rows, self.node, &mut self.visible, part, wanted).await?;
        let mut ranges: Vec<_> = self.visible.within(part).collect();
        if !descending {
            ranges.reverse();
        }
        Ok(ranges)
    }
}

/// Whether an event passes a filter, rewinds aside.
fn passes(head: &EventHead, filter: &EventFilter) -> bool {
    let EventFilter { after_time, include_rewound: _, author, invocation_id } = filter;
    author.as_ref().is_none_or(|author| head.author == *author)
        && invocation_id.as_ref().is_none_or(|id| head.invocation_id.as_ref() == Some(id))
        && after_time.is_none_or(|after| head.event_time >= after)
}
