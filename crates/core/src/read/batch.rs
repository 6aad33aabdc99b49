//! Reading events by their ids and sequences.

use std::collections::HashMap;

use super::{Budget, EventsQuery, EventsView, Node, PIECE_ROWS, Read, Rows, log, session::live};
use crate::domain::prelude::*;

/// Events that are read at once, in the order of the log. They are answered in that of the refs, so that as many may be read in vain at
/// the end of a page.
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
                for sequence in at_once {
                    let Some(sequence) = *sequence else {
                        found.push(None);
                        continue;
                    };
                    if !events.contains_key(&sequence) {
                        // Others took the bytes, or are damaged.
                        match log::events(rows, &node, &[sequence], budget.left().1).await {
                            Err(Error::Damaged(..)) if !found.is_empty() => break 'page,
                            alone => events.extend(alone?.into_iter().map(|it| (it.sequence, it))),
                        }
                    }
                    match events.get(&sequence) {
                        Some(event) if budget.take(event.bytes()) => {
                            found.push(Some(event.clone()));
                        }
                        _ => break 'page,
                    }
                }
            }
        }
        let newest = info.last_sequence;
        let events = found.iter_mut().flatten().collect();
        log::mark_rewound(rows, &node, &mut Visible::as_of(newest), newest, events).await?;
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
