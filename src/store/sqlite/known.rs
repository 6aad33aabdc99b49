//! Event ids of a session in memory, by hash: those of its newest events. `event_key` has the others.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use super::schema::KEY_STEP;
use crate::domain::Sequence;

/// The hash of an event id, as it is stored.
pub(super) fn id_hash(id: &str) -> i64 {
    xxh3_64(id.as_bytes()).cast_signed()
}

/// The last sequence whose id is in `event_key`, of a session with `last_sequence` events.
pub(super) fn indexed(last_sequence: Sequence) -> Sequence {
    last_sequence - last_sequence % KEY_STEP
}

/// Bytes in memory of one known id, about.
pub(super) const ENTRY_BYTES: usize = 24;

/// The ids of a session's events behind the indexed ones.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    pub(super) tail: BTreeSet<(i64, Sequence)>,
    pub(super) indexed: Sequence,
}

impl KnownIds {
    /// Adds an event behind the others.
    pub(super) fn add(&mut self, hash: i64, sequence: Sequence) {
        if indexed(sequence) == sequence {
            self.tail.clear();
            self.indexed = sequence;
        } else {
            self.tail.insert((hash, sequence));
        }
    }

    /// Bytes in memory, about.
    pub(super) fn weight(&self) -> usize {
        size_of::<Self>() + self.tail.len() * ENTRY_BYTES
    }
}
