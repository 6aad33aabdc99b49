//! The ids of a session's events: by their hashes in memory, and in `event_key`.
//!
//! `event_key` is in the order of the hashes, so the ids of successive events lie in pages that have nothing to do with each other. To
//! change a page for more than one of them, it follows a *step* of [`KEY_STEP`] events at a time; to keep the commits short that do so, the
//! ids of a step are inserted in [`PARTS`] parts by hash, one with every [`PART_EVENTS`]th event after the step. What is in it at least
//! follows from the session's last sequence. A file of a version before 8 was migrated with more.

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    prelude::*,
    schema::{KEY_STEP, LOG_STEP},
};

/// Parts of a step, by the highest [`PART_BITS`] bits of the hash. To change them is a change of the tables.
const PARTS: Sequence = 1 << PART_BITS;
const PART_BITS: u32 = 5;

/// Events after which the next part is inserted. Fewer than these are unindexed, so `log_index` has the whole step when its first part
/// is.
const PART_EVENTS: Sequence = LOG_STEP as Sequence;

const _: () =
    assert!(PARTS * PART_EVENTS < KEY_STEP, "the parts of a step are in before the next step ends");

/// Bytes in memory, about, of an event id.
pub(super) const ID_BYTES: usize = 16;

/// The hash of an event id, as it is stored.
pub(super) fn id_hash(id: &EventId) -> i64 {
    xxh3_64(id.as_str().as_bytes()).cast_signed()
}

/// The part of its step to which a hash belongs.
pub(super) fn part_of(hash: i64) -> u64 {
    hash.cast_unsigned() >> (u64::BITS - PART_BITS)
}

/// Whether `event_key` certainly has the id of an event, of a session with `last` events.
pub(super) fn is_indexed(sequence: Sequence, hash: i64, last: Sequence) -> bool {
    sequence.next_multiple_of(KEY_STEP) + PART_EVENTS * (part_of(hash) + 1) <= last
}

/// The last sequence up to which `event_key` has all ids, of a session with `last` events.
fn indexed(last: Sequence) -> Sequence {
    last.saturating_sub(PARTS * PART_EVENTS) / KEY_STEP * KEY_STEP
}

/// The parts that are inserted with the events in `(after, up_to]`: the last sequence of their step, and their number.
pub(super) fn parts_due(after: Sequence, up_to: Sequence) -> impl Iterator<Item = (Sequence, u64)> {
    (after / PART_EVENTS + 1..=up_to / PART_EVENTS).filter_map(|at| {
        let since = at % (KEY_STEP / PART_EVENTS);
        let step = (at - since) * PART_EVENTS;
        (step > 0 && (1..=PARTS).contains(&since)).then(|| (step, since - 1))
    })
}

/// The ids of a session's newest events, by half of their hashes: more would take more memory, and they differ.
#[derive(Debug)]
pub(super) struct KnownIds {
    /// Every event after this one is in here, unless `event_key` had it when the session was opened.
    pub(super) after: Sequence,
    /// Halves of hashes, and sequences from `after` on. The cache is emptied long before a session has as many events as fit.
    ids: HashTable<(u32, u32)>,
    /// Whether `event_key` had any when the session was opened.
    pub(super) has_indexed: bool,
}

impl KnownIds {
    pub(super) fn new(last: Sequence) -> Self {
        let has_indexed = last >= KEY_STEP + PART_EVENTS;
        Self { after: indexed(last), ids: HashTable::new(), has_indexed }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn insert(&mut self, hash: i64, sequence: Sequence) {
        let half = half(hash);
        let since = u32::try_from(sequence.saturating_sub(self.after)).unwrap_or(u32::MAX);
        self.ids.insert_unique(spread(half), (half, since), |it| spread(it.0));
    }

    /// The events whose ids may have a hash.
    pub(super) fn with_hash(&self, hash: i64) -> impl Iterator<Item = Sequence> {
        let half = half(hash);
        let ids = self.ids.iter_hash(spread(half)).filter(move |it| it.0 == half);
        ids.map(|it| self.after + u64::from(it.1))
    }
}

fn half(hash: i64) -> u32 {
    hash as u32
}

/// A table takes the lowest bits of a hash for the place, and the highest ones to tell entries apart. The halves are uniform already.
fn spread(half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(half)
}
