//! Finds stored events by their ids: by hash in memory and in `event_key`. A hit is compared with the whole id.

use rusqlite::OptionalExtension;

use super::{
    known::{KnownIds, id_hash, indexed},
    row::{self, EventReader},
    schema::NodeId,
    writer::Writer,
};
use crate::{
    commit::StoredEvent,
    domain::{Sequence, error::Error, id::EventId, session::Incarnation},
};

impl Writer<'_> {
    /// Loads whether a session has an event of an id, and the event.
    pub(super) fn load_event(
        &mut self,
        incarnation: Incarnation,
        last_sequence: Sequence,
        id: &EventId,
    ) -> Result<(), Error> {
        let key = (incarnation, id.clone());
        if self.loaded.events.contains_key(&key) {
            return Ok(());
        }
        let node = incarnation.0.cast_signed();
        let hash = id_hash(id.as_str());
        let mut sequences = Vec::new();
        let known = self.known_ids(incarnation, last_sequence)?;
        sequences.extend(known.tail.range((hash, 0)..=(hash, Sequence::MAX)).map(|(_, it)| *it));
        if known.indexed > 0 {
            let mut rows = self.reads.event_keys.query((node, hash))?;
            while let Some(row) = rows.next()? {
                sequences.push(row::count(row, 0)?);
            }
        }
        let mut stored = None;
        for sequence in sequences {
            let found = self.stored_event(node, sequence)?;
            stored = stored.or(found.filter(|found| found.event.event_id == *id));
        }
        self.loaded.events.insert(key, stored);
        Ok(())
    }

    fn stored_event(
        &mut self,
        node: NodeId,
        sequence: Sequence,
    ) -> Result<Option<StoredEvent>, Error> {
        let event = self.reads.event.query_row((node, sequence.cast_signed()), |row| {
            Ok(StoredEvent {
                event: EventReader::default().event(row, false)?.into(),
                fingerprint: row::fingerprint(row, row::FINGERPRINT)?,
            })
        });
        Ok(event.optional()?)
    }

    /// The ids of a session, read when it is opened for writing.
    fn known_ids(
        &mut self,
        incarnation: Incarnation,
        last_sequence: Sequence,
    ) -> Result<&KnownIds, Error> {
        if !self.known.contains_key(&incarnation) {
            let mut known = KnownIds { indexed: indexed(last_sequence), ..KnownIds::default() };
            if known.indexed < last_sequence {
                let from = (incarnation.0.cast_signed(), known.indexed.cast_signed());
                let mut rows = self.reads.event_hashes.query(from)?;
                while let Some(row) = rows.next()? {
                    known.tail.insert((row.get(0)?, row::count(row, 1)?));
                }
            }
            self.grown += known.weight();
            self.known.insert(incarnation, known);
        }
        Ok(&self.known[&incarnation])
    }
}
