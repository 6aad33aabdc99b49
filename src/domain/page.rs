//! Which part of a log a read wants.

use super::{
    Sequence,
    event::Event,
    id::{Author, InvocationId},
    time::Time,
};

/// Which events pass; the parts add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFilter {
    /// With an event time at or after this.
    pub after_time: Option<Time>,
    /// Also those that a rewind has hidden, and the markers of rewinds.
    pub include_rewound: bool,
    /// Only this author's.
    pub author: Option<Author>,
    /// Only this invocation's.
    pub invocation_id: Option<InvocationId>,
}

/// Which events a read returns, and where it goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct EventSelection {
    /// Which events pass.
    pub filter: EventFilter,
    /// Only those with a greater sequence.
    pub after: Sequence,
    /// Only those up to this sequence; `None`: the newest there is. In a read of the past never beyond it.
    pub up_to: Option<Sequence>,
    /// Of those that pass all of the above, the newest so many; `None`: all.
    pub recent: Option<u64>,
    /// Newest first.
    pub descending: bool,
    /// Items at most, at least 1.
    pub max_items: usize,
    /// Stop before the events' [`bytes`](Event::bytes) exceed this; the first event always comes.
    pub max_bytes: usize,
}

/// Events of one page and where the next one begins.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// In the order asked for.
    pub events: Vec<Event>,
    /// What is left, as the same selection with its `after`, `up_to` and `recent` moved on; `None`: nothing is. A page may be
    /// short, even empty, and still have more behind it.
    pub rest: Option<Rest>,
}

/// The interval `(after, up_to]` in which the rest of a selection lies. `recent` has been turned into `after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Sequences greater than this.
    pub after: Sequence,
    /// Sequences up to this; `None`: the newest there is, then.
    pub up_to: Option<Sequence>,
}

/// What is left of an interval after the event `last` was answered.
pub fn narrow(rest: Rest, descending: bool, last: Sequence) -> Rest {
    if descending {
        Rest { after: rest.after, up_to: Some(last.saturating_sub(1)) }
    } else {
        Rest { after: last, up_to: rest.up_to }
    }
}
