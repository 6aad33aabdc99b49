//! One session: its log, its own keys, and what it was at each event.

use std::{collections::HashMap, sync::Arc};

use super::keys::Keys;
use crate::domain::{
    Sequence, Version,
    error::Error,
    event::{Event, Fingerprint},
    id::{EventId, RequestId},
    scope::Scope,
    session::SessionInfo,
    visible::{Marker, Visible},
};

/// One life of a session.
pub(super) struct Session {
    pub(super) info: SessionInfo,
    pub(super) keys: Keys,
    /// That of sequence 1 first. `rewound` is worked out by those who read.
    pub(super) events: Vec<Arc<Event>>,
    pub(super) event_ids: HashMap<EventId, (Sequence, Fingerprint)>,
    pub(super) requests: HashMap<RequestId, Fingerprint>,
    pub(super) markers: Vec<Marker>,
}

impl Session {
    pub(super) fn new(info: SessionInfo) -> Self {
        Self {
            info,
            keys: Keys::default(),
            events: Vec::new(),
            event_ids: HashMap::new(),
            requests: HashMap::new(),
            markers: Vec::new(),
        }
    }

    pub(super) fn scope(&self) -> Scope {
        Scope::Session(self.info.key.clone())
    }

    /// Checks that an event is there to go back to; 0 always is. `None` means the newest.
    pub(super) fn past(&self, asked: Option<Sequence>) -> Result<Sequence, Error> {
        let last_sequence = self.info.last_sequence;
        match asked {
            Some(asked) if asked > last_sequence => {
                Err(Error::BeyondLastSequence { asked, last_sequence })
            }
            asked => Ok(asked.unwrap_or(last_sequence)),
        }
    }

    /// An event as it is kept.
    pub(super) fn event(&self, sequence: Sequence) -> Option<&Arc<Event>> {
        let at = usize::try_from(sequence.checked_sub(1)?).ok()?;
        self.events.get(at)
    }

    /// Which events show as of one of them.
    pub(super) fn visible(&self, as_of: Sequence) -> Visible {
        Visible::new(&self.markers, as_of)
    }

    /// The session as it was right after an event.
    pub(super) fn info_as_of(&self, sequence: Sequence) -> SessionInfo {
        let event = self.event(sequence);
        SessionInfo {
            last_sequence: sequence,
            last_event_time: event.map_or(self.info.create_time, |event| event.event_time),
            ..self.info.clone()
        }
    }

    /// The version of each scope right after an event, from wide to narrow.
    pub(super) fn versions_as_of(&self, sequence: Sequence) -> [Version; 3] {
        let event = self.event(sequence);
        let wide = event.map_or(self.info.created_versions, |event| event.versions);
        [wide.application, wide.user, sequence]
    }

    /// Puts an event behind the others.
    pub(super) fn push(&mut self, event: Event, fingerprint: Fingerprint) {
        let sequence = event.sequence;
        self.info.last_sequence = sequence;
        self.info.last_event_time = event.event_time;
        self.info.update_time = event.commit_time;
        if let Some(to) = event.rewind_to {
            self.markers.push(Marker { sequence, to });
        }
        let event_id = event.event_id.clone();
        self.event_ids.insert(event_id, (sequence, fingerprint));
        self.events.push(Arc::new(event));
    }

    /// The log up to an event, its own keys as they were then, and who knows which ids, under another name.
    pub(super) fn fork(&self, up_to: Sequence, info: SessionInfo) -> Self {
        let taken = |sequence: Sequence| sequence <= up_to;
        let ids = self.event_ids.iter();
        let ids = ids.filter(|&(_, &(sequence, _))| taken(sequence));
        let markers = self.markers.iter().copied();
        let events = self.events.iter().cloned();
        Self {
            info,
            keys: self.keys.up_to(up_to),
            events: events.take_while(|event| taken(event.sequence)).collect(),
            event_ids: ids.map(|(id, &known)| (id.clone(), known)).collect(),
            requests: HashMap::new(),
            markers: markers.filter(|marker| taken(marker.sequence)).collect(),
        }
    }
}
