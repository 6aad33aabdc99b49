//! One session: its metadata, its log, and its own state.

use std::{collections::HashMap, sync::Arc};

use super::scope::ScopeRecord;
use crate::{
    commit::{CopiedEvents, EventRow, StoredEvent},
    domain::{
        Sequence, Version,
        error::Error,
        event::{Event, Fingerprint},
        id::EventId,
        scope::ScopeKind,
        session::SessionInfo,
        visible::{Marker, Visible},
    },
};

/// One life of a session.
pub(super) struct Session {
    pub(super) info: SessionInfo,
    pub(super) log: Log,
}

/// Events and what they made of the session's own state.
#[derive(Default)]
pub(super) struct Log {
    /// That of sequence 1 first. `rewound` is set by readers.
    pub(super) events: Vec<Arc<Event>>,
    /// The place of each event, and what a repetition of it has to match.
    ids: HashMap<EventId, (Sequence, Fingerprint)>,
    pub(super) markers: Vec<Marker>,
    pub(super) own: ScopeRecord,
}

impl Log {
    pub(super) fn event(&self, sequence: Sequence) -> Option<&Arc<Event>> {
        self.events.get(usize::try_from(sequence.checked_sub(1)?).ok()?)
    }

    /// The event of an id.
    pub(super) fn stored(&self, id: &EventId) -> Option<StoredEvent> {
        let (sequence, fingerprint) = *self.ids.get(id)?;
        Some(StoredEvent { event: Arc::clone(self.event(sequence)?), fingerprint })
    }

    /// Appends an event and what it changes in the session's own state.
    pub(super) fn push(&mut self, row: &EventRow) {
        self.own.put_changes(&row.event.changes, ScopeKind::Session, row.event.sequence);
        self.push_event(&row.event, row.fingerprint);
    }

    fn push_event(&mut self, event: &Arc<Event>, fingerprint: Fingerprint) {
        let sequence = event.sequence;
        if let Some(to) = event.rewind_to {
            self.markers.push(Marker { sequence, to });
        }
        self.ids.insert(event.event_id.clone(), (sequence, fingerprint));
        self.events.push(Arc::clone(event));
    }

    /// Takes over a piece of another log, with the ids of its events. With the first piece comes the state at creation, which has
    /// version 0.
    pub(super) fn copy(&mut self, source: &Self, piece: &CopiedEvents) {
        let CopiedEvents { from: _, to: _, after, up_to } = *piece;
        for sequence in after + 1..=up_to {
            if let Some(event) = source.event(sequence)
                && let Some((_, fingerprint)) = source.ids.get(&event.event_id)
            {
                self.push_event(event, *fingerprint);
            }
        }
        self.own.copy_changes(&source.own, |version| {
            version <= up_to && (version > after || after == 0)
        });
    }

    /// The events that a read shows as of one of them.
    pub(super) fn visible(&self, as_of: Sequence) -> Visible {
        Visible::new(&self.markers, as_of)
    }
}

impl Session {
    /// The sequence to read as of; `None`: the newest. Errors: [`Error::BeyondLastSequence`].
    pub(super) fn as_of(&self, asked: Option<Sequence>) -> Result<Sequence, Error> {
        let last_sequence = self.info.last_sequence;
        match asked {
            Some(asked) if asked > last_sequence => {
                Err(Error::BeyondLastSequence { asked, last_sequence })
            }
            asked => Ok(asked.unwrap_or(last_sequence)),
        }
    }

    /// The session as it was right after an event.
    pub(super) fn info_as_of(&self, sequence: Sequence) -> SessionInfo {
        let event = self.log.event(sequence);
        SessionInfo {
            last_sequence: sequence,
            last_event_time: event.map_or(self.info.create_time, |event| event.event_time),
            ..self.info.clone()
        }
    }

    /// The version of each scope right after an event, from wide to narrow.
    pub(super) fn versions_as_of(&self, sequence: Sequence) -> [Version; 3] {
        let event = self.log.event(sequence);
        let wide = event.map_or(self.info.created_versions, |event| event.versions);
        [wide.application, wide.user, sequence]
    }
}
