//! Selecting events of a log, page by page.

use super::{
    Sequence,
    event::Event,
    id::{Author, EventId, InvocationId},
    limits::MESSAGE_BYTES,
    time::Time,
};

/// Names an event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventRef {
    Id(EventId),
    Sequence(Sequence),
}

/// A filter of events; all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFilter {
    /// Only with an event time at or after this.
    pub after_time: Option<Time>,
    /// Also those that a rewind hid, and rewind markers.
    pub include_rewound: bool,
    pub author: Option<Author>,
    pub invocation_id: Option<InvocationId>,
}

/// The events that a read returns.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSelection {
    pub filter: EventFilter,
    /// Only those with a greater sequence.
    pub after: Sequence,
    /// Only those up to this sequence; `None`: no bound.
    pub up_to: Option<Sequence>,
    /// The number of newest events, out of those that pass all of the above; `None`: all.
    pub recent: Option<u64>,
    /// Those behind this event have been counted for `recent`; `None`: none.
    pub counted_to: Option<Sequence>,
    pub descending: bool,
    /// At least 1.
    pub max_items: usize,
    /// Stop before the events' [`bytes`](Event::bytes) exceed this; the first event is always returned.
    pub max_bytes: usize,
}

impl Default for EventSelection {
    /// All that are visible, oldest first, as far as they fit into a message.
    fn default() -> Self {
        Self {
            filter: EventFilter::default(),
            after: 0,
            up_to: None,
            recent: None,
            counted_to: None,
            descending: false,
            max_items: usize::MAX,
            max_bytes: MESSAGE_BYTES,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    /// In the requested order.
    pub events: Vec<Event>,
    /// The rest of the selection; `None`: nothing. A short or even empty page may have a rest.
    pub rest: Option<Rest>,
    /// The newest events are not counted yet. The page is empty, and its rest has none but the bounds that were asked for.
    pub uncounted: Option<Uncounted>,
}

/// What is left of counting the newest events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncounted {
    /// How many are still to be found.
    pub recent: u64,
    /// Those behind this event have been counted.
    pub counted_to: Sequence,
}

/// The interval `(after, up_to]` in which the rest of a selection lies. `recent` has been turned into `after`, unless it is [`Uncounted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    pub after: Sequence,
    /// `None`: no bound.
    pub up_to: Option<Sequence>,
}

/// The rest of an interval after the event `last` was returned.
pub fn narrow(rest: Rest, descending: bool, last: Sequence) -> Rest {
    if descending {
        Rest { after: rest.after, up_to: Some(last.saturating_sub(1)) }
    } else {
        Rest { after: last, up_to: rest.up_to }
    }
}
