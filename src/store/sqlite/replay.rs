//! Telling what was done before from what is new: events by their ids, changes of state by those of their requests.

use std::collections::HashMap;

use rusqlite::OptionalExtension;

use super::{cache::Live, fault::Outcome, row, schema::NodeId, statements::Reads, writer::Writer};
use crate::{
    domain::{
        error::Error,
        event::{Event, Fingerprint, NewEvent},
    },
    store::Request,
};

/// What is known of an event before anything is worked out.
pub(super) enum Slot {
    New,
    /// It is stored already.
    Replay(Box<Event>),
    /// It is the same as an earlier one of its batch.
    Twin(usize),
    /// Another event has its id.
    Reused,
}

/// Looks for every event among those that are stored, and among those before it.
pub(super) fn slots(live: &Live, reads: &mut Reads<'_>, events: &[NewEvent]) -> Outcome<Vec<Slot>> {
    let mut slots = Vec::with_capacity(events.len());
    let mut earlier: HashMap<&str, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        let id = event.event_id.as_str();
        let slot = if let Some((stored, fingerprint)) = live.stored(reads, id)? {
            if fingerprint == event.fingerprint {
                Slot::Replay(Box::new(stored))
            } else {
                Slot::Reused
            }
        } else if let Some(&twin) = earlier.get(id) {
            if events[twin].fingerprint == event.fingerprint {
                Slot::Twin(twin)
            } else {
                Slot::Reused
            }
        } else {
            Slot::New
        };
        if events.len() > 1 {
            earlier.entry(id).or_insert(at);
        }
        slots.push(slot);
    }
    Ok(slots)
}

impl Live {
    /// The event of an id, if the session has one.
    pub(super) fn stored(
        &self,
        reads: &mut Reads<'_>,
        event_id: &str,
    ) -> rusqlite::Result<Option<(Event, Fingerprint)>> {
        if self.is_beyond(event_id) {
            return Ok(None);
        }
        let sequence = match self.in_tail(event_id) {
            Some(sequence) => Some(sequence),
            None => {
                let parameters = (self.own.id, event_id);
                reads.event_sequence.query_row(parameters, |row| row::count(row, 0)).optional()?
            }
        };
        let Some(sequence) = sequence else {
            return Ok(None);
        };
        let row = match self.own.last_rows.row_of(sequence) {
            Some(row) => row,
            None => reads.row_of(self.own.id, sequence)?,
        };
        reads.event(self.own.id, sequence, row, self.own.version).map(Some)
    }
}

impl Writer<'_> {
    /// Whether a scope has seen a request; refused where it asked for something else.
    pub(super) fn seen(&mut self, node: NodeId, request: &Request) -> Outcome<bool> {
        let stored = self
            .reads
            .request
            .query_row((node, request.id.as_str()), |row| row::fingerprint(row, 0));
        match stored.optional()? {
            None => Ok(false),
            Some(fingerprint) if fingerprint == request.fingerprint => Ok(true),
            Some(_) => Err(Error::RequestIdReused(request.id.clone()).into()),
        }
    }

    pub(super) fn remember(&mut self, node: NodeId, request: &Request) -> Outcome<()> {
        let fingerprint = request.fingerprint.0.to_le_bytes();
        self.writes.insert_request.execute((node, request.id.as_str(), fingerprint))?;
        Ok(())
    }
}
