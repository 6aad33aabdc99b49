//! Rows of a log: the events of a session, or the changes of an application or a user. Versions are dense, so that a read names every row
//! that it wants, and sees when one is missing.

use super::{EventHead, Node, Rows};
use crate::{
    commit::{ScopeLogRow, Source},
    domain::{error::Damage, prelude::*},
};

/// Rows of a log that are read at once.
pub const PIECE_ROWS: usize = 256;

/// Bytes of their long columns: a piece ends with the row that reaches them.
pub const PIECE_BYTES: usize = 1 << 20;

/// Markers that are read at first: most reads need the newest one alone.
const FIRST_MARKERS: usize = 16;

/// Markers that are read at once: a millisecond.
const PIECE_MARKERS: usize = 4096;

/// The first versions of ranges `(after, up_to]`, which are in the order of the read.
pub fn first_of(ranges: &[(Version, Version)], descending: bool, max_rows: usize) -> Vec<Version> {
    let versions = ranges.iter().flat_map(|&(after, up_to)| {
        let count = usize::try_from(up_to.saturating_sub(after)).unwrap_or(usize::MAX);
        let version = move |at: usize| match descending {
            true => up_to - at as u64,
            false => after + 1 + at as u64,
        };
        (0..count).map(version)
    });
    versions.take(max_rows).collect()
}

/// Versions as ranges `(after, up_to]`, in their order, and whether they descend.
pub fn runs(wanted: &[Version]) -> (impl Iterator<Item = (Version, Version)>, bool) {
    let descending = wanted.first() > wanted.last();
    let runs = wanted.chunk_by(move |a, b| if descending { b + 1 == *a } else { a + 1 == *b });
    let range = |run: &[Version]| {
        let (first, last) = (run[0], run[run.len() - 1]);
        (first.min(last) - 1, first.max(last))
    };
    (runs.map(range), descending)
}

/// What lies before damage. The next read begins with it.
pub fn until_damage<T>(rows: impl IntoIterator<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut read = Vec::new();
    for row in rows {
        match row {
            Err(Error::Damaged(..)) if !read.is_empty() => break,
            row => read.push(row?),
        }
    }
    Ok(read)
}

/// Rows up to the first that is not there. One at least has to be: the others may have been too many bytes.
pub fn until_missing<T>(
    mut rows: Vec<T>,
    wanted: &[Version],
    version: impl Fn(&T) -> Version,
) -> Result<Vec<T>, Error> {
    let found =
        rows.iter().zip(wanted).take_while(|(row, wanted)| version(row) == **wanted).count();
    if let (0, Some(missing)) = (found, wanted.first()) {
        return Err(Error::damaged(Damage::Log, format!("position {missing} is missing")));
    }
    rows.truncate(found);
    Ok(rows)
}

/// Whether a session made a change.
pub fn is_of(session: Option<Incarnation>, source: Option<&Source>) -> bool {
    source.is_some_and(|source| Some(source.incarnation) == session)
}

/// Events, as if none were rewound.
pub async fn events<R: Rows>(
    rows: &R,
    session: &Node,
    wanted: &[Sequence],
    max_bytes: usize,
) -> Result<Vec<Event>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let found = rows.events(session, wanted, max_bytes.clamp(1, PIECE_BYTES)).await?;
    until_missing(found, wanted, |event| event.sequence)
}

pub async fn event_heads<R: Rows>(
    rows: &R,
    session: &Node,
    wanted: &[Sequence],
) -> Result<Vec<EventHead>, Error> {
    until_missing(rows.event_heads(session, wanted).await?, wanted, |head| head.sequence)
}

/// A piece of the changes in `(after, up_to]`, without those of the session `except`.
pub async fn changes<R: Rows>(
    rows: &R,
    node: &Node,
    (after, up_to): (Version, Version),
    except: Option<Incarnation>,
    descending: bool,
) -> Result<Vec<ScopeLogRow>, Error> {
    let wanted = first_of(&[(after, up_to)], descending, PIECE_ROWS);
    let found = rows.changes(node, &wanted, except, PIECE_BYTES).await?;
    until_missing(found, &wanted, |row| row.version)
}

/// Marks those events that rewinds up to an event hid.
pub async fn mark_rewound<R: Rows>(
    rows: &R,
    session: &Node,
    visible: &mut Visible,
    up_to: Sequence,
    events: Vec<&mut Event>,
) -> Result<(), Error> {
    let Some(oldest) = events.iter().map(|event| event.sequence).min() else { return Ok(()) };
    find_visible(rows, session, visible, (oldest - 1, up_to), u64::MAX).await?;
    for event in events {
        event.rewound = !visible.contains(event.sequence);
    }
    Ok(())
}

/// Learns which events of an interval rewinds leave visible: the newest `wanted` of them, or all. It reads the markers from the newest
/// down, and those that a rewind hid only as far as they lie in a piece.
pub async fn find_visible<R: Rows>(
    rows: &R,
    session: &Node,
    visible: &mut Visible,
    (after, up_to): (Sequence, Sequence),
    wanted: u64,
) -> Result<(), Error> {
    let mut max_rows = FIRST_MARKERS;
    let known = |visible: &Visible| -> u64 {
        visible.within((after, up_to)).map(|(low, high)| high - low).sum()
    };
    while visible.end() > after && known(visible) < wanted {
        let markers = rows.markers(session, (after, visible.end()), max_rows).await?;
        visible.follow(&markers);
        if markers.len() < max_rows {
            visible.reach(after);
        }
        max_rows = (max_rows * 4).min(PIECE_MARKERS);
    }
    Ok(())
}
