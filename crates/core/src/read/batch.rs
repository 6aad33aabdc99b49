//! Reading events by their ids and sequences.

use std::collections::HashMap;

use super::{Budget, EventsQuery, EventsView, Node, PIECE_ROWS, Read, Rows, log, session::live};
use crate::domain::prelude::*;

/// Events that are read at once. They are read in the order of the log and answered in that of the refs, so that as many may be read in
/// vain at the end of a page.
const AT_ONCE: usize = 16;

impl Read for EventsQuery {
    type Answer = EventsView;

    async fn read<R: Rows>(&self, rows: &R) -> Result<EventsView, Error> {
        let info = live(rows, &self.key).await?;
        let node = Node::session(&info.key, info.incarnation);
        let (mut found, mut budget) = (Vec::new(), Budget::new(usize::MAX, self.max_bytes));
        'page: for piece in self.refs.chunks(PIECE_ROWS) {
            let sequences = sequences(rows, &node, &info, piece).await?;
            for at_once in sequences.chunks(AT_ONCE) {
                let mut events = events(rows, &node, at_once, budget.left().1).await?;
                if let (true, Some(&Some(first))) = (found.is_empty(), at_once.first())
                    && !events.contains_key(&first)
                {
                    // Others took the bytes, or are damaged. The first one is read in any case.
                    let alone = log::events(rows, &node, &[first], self.max_bytes).await?;
                    events.extend(alone.into_iter().map(|event| (event.sequence, event)));
                }
                for sequence in at_once {
                    match sequence.map(|sequence| events.get(&sequence)) {
                        None => found.push(None),
                        Some(Some(event)) if budget.take(event.bytes()) => {
                            found.push(Some(event.clone()));
                        }
                        Some(_) => break 'page,
                    }
                }
            }
        }
        mark(rows, &node, &info, &mut found).await?;
        Ok(EventsView { incarnation: info.incarnation, found })
    }
}

/// The sequences that refs name. `None`: no event of the session.
async fn sequences<R: Rows>(
    rows: &R,
    node: &Node,
    info: &SessionInfo,
    refs: &[EventRef],
) -> Result<Vec<Option<Sequence>>, Error> {
    let id = |named: &EventRef| match named {
        EventRef::Id(id) => Some(id.clone()),
        EventRef::Sequence(_) => None,
    };
    let ids: Vec<EventId> = refs.iter().filter_map(id).collect();
    let of_ids = match ids.is_empty() {
        true => HashMap::new(),
        false => rows.sequences(node, &ids).await?,
    };
    let sequence = |named: &EventRef| match named {
        EventRef::Id(id) => of_ids.get(id).copied(),
        EventRef::Sequence(sequence) => Some(*sequence),
    };
    let is_there = |sequence: &Sequence| (1..=info.last_sequence).contains(sequence);
    Ok(refs.iter().map(|named| sequence(named).filter(is_there)).collect())
}

/// The events with some sequences, as many as have the bytes, and up to one that is damaged.
async fn events<R: Rows>(
    rows: &R,
    node: &Node,
    sequences: &[Option<Sequence>],
    max_bytes: usize,
) -> Result<HashMap<Sequence, Event>, Error> {
    let mut wanted: Vec<Sequence> = sequences.iter().copied().flatten().collect();
    wanted.sort_unstable();
    wanted.dedup();
    let (mut found, mut left, mut bytes) = (HashMap::new(), wanted.as_slice(), 0);
    while !left.is_empty() && bytes <= max_bytes {
        let events = match log::events(rows, node, left, max_bytes - bytes).await {
            Err(Error::Damaged(..)) => break,
            events => events?,
        };
        left = &left[events.len()..];
        bytes += events.iter().map(Event::bytes).sum::<usize>();
        found.extend(events.into_iter().map(|event| (event.sequence, event)));
    }
    Ok(found)
}

/// Marks the events that rewinds hid.
async fn mark<R: Rows>(
    rows: &R,
    node: &Node,
    info: &SessionInfo,
    found: &mut [Option<Event>],
) -> Result<(), Error> {
    let oldest = found.iter().flatten().map(|event| event.sequence).min();
    let Some(oldest) = oldest else { return Ok(()) };
    let mut visible = Visible::as_of(info.last_sequence);
    let range = (oldest - 1, info.last_sequence);
    log::find_visible(rows, node, &mut visible, range, u64::MAX).await?;
    for event in found.iter_mut().flatten() {
        event.rewound = !visible.contains(event.sequence);
    }
    Ok(())
}
