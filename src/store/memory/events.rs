//! Pages of a session's log.

use super::{room::Room, session::Session};
use crate::domain::{
    Sequence,
    event::Event,
    page::{EventFilter, EventPage, EventSelection, Rest, narrow},
};

impl Session {
    /// The selected events, as of one of them.
    pub(super) fn page(&self, as_of: Sequence, selection: &EventSelection) -> EventPage {
        let visible = self.visible(as_of);
        let all = [(0, as_of)];
        let ranges = match selection.filter.include_rewound {
            true => &all,
            false => visible.ranges(),
        };
        let up_to = selection.up_to.map_or(as_of, |up_to| up_to.min(as_of));
        let mut rest = Rest { after: selection.after, up_to: selection.up_to };
        let mut page = EventPage { events: Vec::new(), rest: None };
        if let Some(recent) = selection.recent {
            let Some(others) = recent.checked_sub(1) else {
                return page;
            };
            let newest = sequences(ranges, rest.after, up_to, true);
            let mut newest = newest.filter(|&sequence| self.passes(sequence, &selection.filter));
            if let Some(first) = newest.nth(usize::try_from(others).unwrap_or(usize::MAX)) {
                rest.after = first - 1;
            }
        }
        let mut room = Room::new(selection.max_items, selection.max_bytes);
        let mut seen = None;
        let sequences = sequences(ranges, rest.after, up_to, selection.descending);
        for sequence in sequences {
            let event = self.event(sequence);
            let event = event.filter(|_| self.passes(sequence, &selection.filter));
            let fits = event.is_none_or(|event| room.take(event.bytes()));
            if let Some(seen) = seen
                && !fits
            {
                page.rest = Some(narrow(rest, selection.descending, seen));
                break;
            }
            page.events.extend(event.map(|event| Event {
                rewound: !visible.contains(sequence),
                ..Event::clone(event)
            }));
            seen = Some(sequence);
        }
        page
    }

    fn passes(&self, sequence: Sequence, filter: &EventFilter) -> bool {
        let EventFilter {
            after_time,
            // Hidden events are not looked at in the first place.
            include_rewound: _,
            author,
            invocation_id,
        } = filter;
        self.event(sequence).is_some_and(|event| {
            after_time.is_none_or(|time| event.event_time >= time)
                && author.as_ref().is_none_or(|author| event.author == *author)
                && invocation_id.as_ref().is_none_or(|id| event.invocation_id.as_ref() == Some(id))
        })
    }
}

/// The sequences in `(after, up_to]` that lie in one of `ranges`, which are newest first.
fn sequences(
    ranges: &[(Sequence, Sequence)],
    after: Sequence,
    up_to: Sequence,
    descending: bool,
) -> impl Iterator<Item = Sequence> {
    (0..ranges.len()).flat_map(move |at| {
        let at = match descending {
            true => at,
            false => ranges.len() - 1 - at,
        };
        let (low, high) = ranges[at];
        let (low, high) = (low.max(after), high.min(up_to));
        (low..high).map(move |at| match descending {
            true => high - (at - low),
            false => at + 1,
        })
    })
}
