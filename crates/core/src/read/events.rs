//! Reading a session with a page of its events, now or as of an event.
//!
//! First the newest events are counted, if only some of them are wanted; then the page is filled. Events that a rewind hid are skipped,
//! and no step looks at more rows than it may.

use std::collections::VecDeque;

use futures_util::future::{OptionFuture, try_join};

use super::{
    Budget, EventHead, Node, PIECE_ROWS, Read, Rows, SessionQuery, SessionView,
    bare::only,
    first_of, log,
    session::{live, merged, merged_as_of},
};
use crate::domain::prelude::*;

/// The most rows that a filter looks at in one read: it reads short columns only.
const FILTERED_ROWS: usize = 2000;

/// A read of a session. All of its steps see the log up to the same event, which never changes.
pub struct SessionRead {
    query: SessionQuery,
    /// Of the first step, without events.
    view: Option<SessionView>,
    search: Option<Search>,
}

impl From<SessionQuery> for SessionRead {
    fn from(query: SessionQuery) -> Self {
        Self { query, view: None, search: None }
    }
}

impl Read for SessionRead {
    type Answer = SessionView;

    /// Errors: [`Error::SessionNotFound`] also if the session has gone since the first step.
    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<SessionView>, Error> {
        match (&self.view, &mut self.search) {
            (Some(SessionView { info, .. }), Some(search)) => {
                let found = rows.session(&info.key).await?;
                if found.is_none_or(|it| it.info.incarnation != info.incarnation) {
                    return Err(Error::not_found(&info.key));
                }
                let events = search.step(rows).await?;
                Ok(self.answer(events))
            }
            _ => self.begin(rows).await,
        }
    }
}

impl SessionRead {
    async fn begin<R: Rows>(&mut self, rows: &R) -> Result<Option<SessionView>, Error> {
        let SessionQuery { session, as_of, with_state, events } = &self.query;
        let mut info = match session {
            SessionRef::Full(key) => live(rows, key).await?,
            SessionRef::Bare(id, visible) => only(rows, id, visible).await?,
        };
        let newest = info.last_sequence;
        if let Some(asked) = as_of.filter(|&asked| asked > newest) {
            return Err(Error::BeyondLastSequence { asked, last_sequence: newest });
        }
        let nodes = Node::visible(&Scope::Session(info.key.clone()), Some(info.incarnation));
        let node = nodes[ScopeKind::Session as usize].clone();
        let mut versions = info.created_versions;
        if let Some(at) = *as_of {
            (info.last_sequence, info.last_event_time) = (at, info.create_time);
            if at > 0 {
                for head in log::event_heads(rows, &node, &[at]).await? {
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
        let search = events.clone().map(|wanted| Search::new(node, info.last_sequence, wanted));
        self.search = search;
        let events = OptionFuture::from(self.search.as_mut().map(|search| search.step(rows)));
        let (state, events) = try_join(state, async { events.await.transpose() }).await?;
        self.view = Some(SessionView { info, state, events: None });
        Ok(self.answer(events.flatten()))
    }

    /// The answer, if the page is complete or none was asked for.
    fn answer(&mut self, events: Option<EventPage>) -> Option<SessionView> {
        let is_complete = events.is_some() || self.search.is_none();
        let view = if is_complete { self.view.take() } else { None };
        view.map(|view| SessionView { events, ..view })
    }
}

/// What is still to be looked at, and what was found.
struct Search {
    node: Node,
    /// The newest event that is looked at.
    limit: Sequence,
    /// Its interval becomes narrower with each row.
    selection: EventSelection,
    /// From where the beginning of `selection.recent` is still to be searched downwards.
    from: Sequence,
    /// Events that were found for the page.
    found: Vec<Event>,
    budget: Budget,
}

/// What ended a step.
enum End {
    /// Nothing is left.
    Whole,
    Full,
    /// It has looked at as many rows as it may.
    Scanned,
}

impl Search {
    fn new(node: Node, limit: Sequence, selection: EventSelection) -> Self {
        let budget = Budget::new(selection.max_items, selection.max_bytes);
        Self { node, limit, from: limit, found: Vec::new(), budget, selection }
    }

    /// `None`: the page takes another step.
    async fn step<R: Rows>(&mut self, rows: &R) -> Result<Option<EventPage>, Error> {
        let visible = log::visible(rows, &self.node, self.limit).await?;
        if !self.count(rows, &visible).await? {
            return Ok(None);
        }
        let is_whole = match self.fill(rows, &visible).await {
            // What lies before the damage is a page. The next one begins with the damage.
            Err(Error::Damaged(..)) if !self.found.is_empty() => false,
            end => match end? {
                End::Whole => true,
                End::Full => false,
                End::Scanned => return Ok(None),
            },
        };
        let EventSelection { after, up_to, .. } = self.selection;
        let rest = (!is_whole).then_some(Rest { after, up_to });
        log::mark_rewound(&mut self.found, &visible);
        Ok(Some(EventPage { events: std::mem::take(&mut self.found), rest }))
    }

    /// Turns `recent` into the event behind which the selection begins. Returns whether that is known now.
    async fn count<R: Rows>(&mut self, rows: &R, visible: &Visible) -> Result<bool, Error> {
        let Some(mut missing) = self.selection.recent else { return Ok(true) };
        let mut rows_left = PAGE_SCANNED;
        let mut piece = first_piece(usize::try_from(missing).unwrap_or(usize::MAX));
        if self.all_pass() {
            for (low, high) in self.ranges(visible, self.from) {
                if missing == 0 {
                    break;
                }
                self.from = high - missing.min(high - low);
                missing -= high - self.from;
            }
        }
        while missing > 0 {
            if rows_left == 0 {
                return Ok(false);
            }
            let wanted = first_of(&self.ranges(visible, self.from), true, piece.min(rows_left));
            piece = (piece * 2).min(FILTERED_ROWS);
            if wanted.is_empty() || self.all_pass() {
                self.selection.recent = None;
                return Ok(true);
            }
            for head in log::event_heads(rows, &self.node, &wanted).await? {
                self.from = head.sequence - 1;
                rows_left -= 1;
                missing -= u64::from(passes(&head, &self.selection.filter));
                if missing == 0 {
                    break;
                }
            }
            self.selection.recent = Some(missing);
        }
        self.selection.after = self.selection.after.max(self.from);
        self.selection.recent = None;
        Ok(true)
    }

    async fn fill<R: Rows>(&mut self, rows: &R, visible: &Visible) -> Result<End, Error> {
        let descending = self.selection.descending;
        let mut rows_left = PAGE_SCANNED;
        let mut max_rows = first_piece(self.budget.left().0.saturating_add(1));
        // Events that pass and are not on the page yet, and the last row that was looked at for them.
        let (mut passing, mut looked_at) = (VecDeque::new(), 0);
        loop {
            if passing.is_empty() {
                let mut ranges = self.ranges(visible, self.limit);
                if !descending {
                    ranges.reverse();
                }
                let wanted = first_of(&ranges, descending, max_rows);
                if wanted.is_empty() {
                    return Ok(End::Whole);
                }
                if rows_left == 0 {
                    return Ok(End::Scanned);
                }
                rows_left = rows_left.saturating_sub(wanted.len());
                max_rows = (max_rows * 2).min(FILTERED_ROWS);
                (passing, looked_at) = self.passing(rows, wanted).await?;
            }
            let (items_left, bytes_left) = self.budget.left();
            let at_once = PIECE_ROWS.min(items_left.saturating_add(1));
            let piece: Vec<Sequence> = passing.iter().copied().take(at_once).collect();
            for event in log::events(rows, &self.node, &piece, bytes_left).await? {
                if !self.budget.take(event.bytes()) {
                    return Ok(End::Full);
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
    async fn passing<R: Rows>(
        &self,
        rows: &R,
        mut wanted: Vec<Sequence>,
    ) -> Result<(VecDeque<Sequence>, Sequence), Error> {
        let mut last = wanted.last().copied().unwrap_or_default();
        if !self.all_pass() {
            let heads = log::event_heads(rows, &self.node, &wanted).await?;
            last = heads.last().map_or(last, |head| head.sequence);
            let heads = heads.iter().filter(|head| passes(head, &self.selection.filter));
            wanted = heads.map(|head| head.sequence).collect();
        }
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

/// Rows to look at first, for some events.
fn first_piece(events: usize) -> usize {
    events.clamp(PIECE_ROWS, FILTERED_ROWS)
}

/// Whether an event passes a filter, rewinds aside.
fn passes(head: &EventHead, filter: &EventFilter) -> bool {
    let EventFilter { after_time, include_rewound: _, author, invocation_id } = filter;
    author.as_ref().is_none_or(|author| head.author == *author)
        && invocation_id.as_ref().is_none_or(|id| head.invocation_id.as_ref() == Some(id))
        && after_time.is_none_or(|after| head.event_time >= after)
}
