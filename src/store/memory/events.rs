//! Pages of a session's log.

use std::sync::Arc;

use super::session::Log;
use crate::{
    domain::{
        Sequence,
        event::Event,
        page::{EventFilter, EventPage, EventSelection, Rest, narrow},
    },
    store::budget::Budget,
};

impl Log {
    /// The selected events, as of one of them.
    pub(super) fn page(&self, as_of: Sequence, selection: &EventSelection) -> EventPage {
        let EventSelection { filter, after, up_to, recent, descending, max_items, max_bytes } =
            selection;
        let visible = self.visible(as_of);
        let newest = up_to.map_or(as_of, |up_to| up_to.min(as_of));
        let selected = |after| {
            let events = self.between(after, newest).iter();
            events.filter(|event| passes(event, filter, visible.contains(event.sequence)))
        };
        // The rest keeps the bounds of the request, so that events appended later belong to it.
        let mut rest = Rest { after: *after, up_to: *up_to };
        let mut page = EventPage { events: Vec::new(), rest: None };
        if let Some(recent) = recent {
            let Some(others) = recent.checked_sub(1) else {
                return page;
            };
            let others = usize::try_from(others).unwrap_or(usize::MAX);
            if let Some(first) = selected(rest.after).rev().nth(others) {
                rest.after = first.sequence - 1;
            }
        }
        let events: Box<dyn Iterator<Item = &Arc<Event>>> = match descending {
            true => Box::new(selected(rest.after).rev()),
            false => Box::new(selected(rest.after)),
        };
        let mut budget = Budget::new(*max_items, *max_bytes);
        for event in events {
            if !budget.take(event.bytes()) {
                let last = page.events.last();
                page.rest = last.map(|last| narrow(rest, *descending, last.sequence));
                break;
            }
            let rewound = !visible.contains(event.sequence);
            page.events.push(Event { rewound, ..Event::clone(event) });
        }
        page
    }

    /// The events in `(after, up_to]`.
    fn between(&self, after: Sequence, up_to: Sequence) -> &[Arc<Event>] {
        let place = |sequence| usize::try_from(sequence).unwrap_or(usize::MAX);
        self.events.get(place(after)..place(up_to)).unwrap_or_default()
    }
}

fn passes(event: &Event, filter: &EventFilter, is_visible: bool) -> bool {
    let EventFilter { after_time, include_rewound, author, invocation_id } = filter;
    (is_visible || *include_rewound)
        && after_time.is_none_or(|time| event.event_time >= time)
        && author.as_ref().is_none_or(|author| event.author == *author)
        && invocation_id.as_ref().is_none_or(|id| event.invocation_id.as_ref() == Some(id))
}
