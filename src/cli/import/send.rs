//! Sends the events of a file into a session, in batches.

use std::{
    collections::{BTreeSet, HashMap},
    mem,
};

use prost::Message as _;
use serde::Serialize;

use super::shared::Shared;
use crate::{
    cli::{
        adk_file::{Event, is_same},
        args::JSON_FORM,
        calls::{for_each_event, get_request, in_trace, retry},
        connect::Server,
        convert::{file_event, new_event},
        failure::Failure,
    },
    domain::limits::{BATCH_BYTES, BATCH_EVENTS},
    proto::v1,
};

/// How often a batch is sent again because others write the same shared keys.
const ATTEMPTS: u32 = 5;

/// A session's log before the import.
#[derive(Default)]
pub struct Log {
    /// By id.
    pub events: HashMap<String, Event>,
    /// Id of the newest event; empty if there are no events.
    pub newest: String,
    pub last_sequence: i64,
}

impl Log {
    /// `None`: there is no such session.
    pub async fn read(server: &Server, key: &v1::SessionKey) -> Result<Option<Self>, Failure> {
        let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
        let request = v1::GetSessionRequest { events, without_state: true, ..get_request(key) };
        let first = retry(async || server.sessions().get_session(request.clone()).await).await;
        let first = match first {
            Err(failure) if failure.has_reason("SESSION_NOT_FOUND") => return Ok(None),
            first => first?,
        };
        let mut log = Self::default();
        for_each_event(server, first, events, |event| {
            log.newest.clone_from(&event.event_id);
            log.last_sequence = event.sequence;
            log.events.insert(event.event_id.clone(), file_event(event));
            Ok(())
        })
        .await?;
        Ok(Some(log))
    }
}

/// Events by their outcome.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// New events and rewinds.
    pub events_imported: u64,
    pub events_already_there: u64,
    /// Fragments of streamed answers.
    pub fragments_skipped: u64,
}

/// Appends to one session, so that a second import changes nothing.
pub struct Sender<'a> {
    pub server: &'a Server,
    pub key: v1::SessionKey,
    pub log: Log,
    pub shared: Shared<'a>,
    /// The file is an export, whose events ADK has not rewritten: [`is_same`] allows for nothing that ADK changes.
    pub exact: bool,
    pub progress: indicatif::ProgressBar,
    pub counts: Counts,
    pub batch: Batch,
    /// The event at which sending failed, as far as it is known.
    pub failed_at: String,
}

impl Sender<'_> {
    /// Sends events and rewinds, but for those that the session has.
    pub async fn send_all(&mut self, events: Vec<Event>) -> Result<(), Failure> {
        for event in events {
            self.progress.inc(1);
            self.failed_at.clone_from(&event.event_id);
            if self.has(&event)? {
                self.counts.events_already_there += 1;
                continue;
            }
            self.log.newest.clone_from(&event.event_id);
            if event.rewind_to.is_some() {
                self.flush().await?;
                self.rewind(event).await?;
                continue;
            }
            let bytes = new_event(event.clone()).encoded_len();
            if !self.batch.takes(&event, bytes) {
                self.flush().await?;
            }
            self.batch.push(event, bytes);
        }
        self.flush().await
    }

    /// Whether this is the session's newest event, of those that the file has as well.
    pub fn is_newest(&self, event_id: &str) -> bool {
        self.log.newest == event_id
    }

    /// Whether the session has the event. Events of an export have a sequence, and must have it in the session, too.
    fn has(&self, event: &Event) -> Result<bool, Failure> {
        let Event { event_id, sequence, .. } = event;
        let existing = self.log.events.get(event_id);
        let expected = (*sequence <= self.log.events.len() as i64).then_some(*sequence);
        if *sequence > 0 && existing.map(|existing| existing.sequence) != expected {
            return Err(Failure::Failed(format!(
                "the session has another log: its event {sequence} is not `{event_id}` as in the file. Delete the session first"
            )));
        }
        match existing {
            Some(existing) if !is_same(existing, event, self.exact) => {
                Err(Failure::Failed(format!(
                    "the session has another event with the id `{event_id}`. Import the file into another session"
                )))
            }
            existing => Ok(existing.is_some()),
        }
    }

    async fn rewind(&mut self, marker: Event) -> Result<(), Failure> {
        let expected_sequence = exact(&marker);
        let request = v1::RewindSessionRequest {
            key: Some(self.key.clone()),
            to_sequence: marker.rewind_to,
            precondition: Some(v1::Precondition { expected_sequence, ..Default::default() }),
            event_id: marker.event_id,
            author: marker.author,
            json_form: JSON_FORM,
        };
        let traced = || in_trace(request.clone(), &marker.trace_id);
        let call = async || self.server.sessions().rewind_session(traced()).await;
        self.log.last_sequence = retry(call).await?.event.unwrap_or_default().sequence;
        self.counts.events_imported += 1;
        Ok(())
    }

    /// Sends the batch.
    async fn flush(&mut self) -> Result<(), Failure> {
        let batch = mem::take(&mut self.batch).events;
        let Some(first) = batch.first() else { return Ok(()) };
        let (trace_id, expected_sequence) = (first.trace_id.clone(), exact(first));
        let mut attempts = 0;
        let (keys, answer) = loop {
            attempts += 1;
            let mut events = batch.clone();
            events.iter_mut().for_each(|event| self.shared.strip(event));
            let (keys, checks) = self.shared.first_writes(&events);
            let precondition =
                v1::Precondition { expected_sequence, keys: checks, ..Default::default() };
            let request = v1::AppendEventsRequest {
                key: Some(self.key.clone()),
                precondition: (precondition != v1::Precondition::default()).then_some(precondition),
                events: events.into_iter().map(new_event).collect(),
                json_form: JSON_FORM,
                ..Default::default()
            };
            let traced = || in_trace(request.clone(), &trace_id);
            match retry(async || self.server.events().append_events(traced()).await).await {
                Ok(answer) => break (keys, answer),
                // Somebody has just given one of the keys a value, which stays.
                Err(failure) if failure.has_reason("KEY_CONFLICT") && attempts < ATTEMPTS => {
                    self.shared.refresh().await?;
                }
                Err(failure) => {
                    self.failed_at = blamed(&failure, &batch);
                    return Err(failure);
                }
            }
        };
        // Not `replayed`: the answer to a repeated call consists of replays of its own writes, and a duplicate in the
        // file has the sequence of the first.
        let sequences: BTreeSet<_> = answer.events.iter().map(|event| event.sequence).collect();
        let new = sequences.iter().filter(|sequence| **sequence > self.log.last_sequence).count();
        self.counts.events_imported += new as u64;
        self.counts.events_already_there += (batch.len() - new) as u64;
        self.log.last_sequence =
            sequences.last().copied().unwrap_or_default().max(self.log.last_sequence);
        self.shared.own(keys, &sequences);
        Ok(())
    }
}

/// The id of the event of a batch that the server refuses, or those of the first and the last one.
fn blamed(failure: &Failure, events: &[Event]) -> String {
    let id = |event: Option<&Event>| event.map(|it| it.event_id.clone()).unwrap_or_default();
    if let Some(event_id) = failure.metadata("event_id") {
        return event_id;
    }
    match failure.event_index().and_then(|index| events.get(index)) {
        Some(event) => event.event_id.clone(),
        None if events.len() > 1 => format!("{}` to `{}", id(events.first()), id(events.last())),
        None => id(events.first()),
    }
}

/// An event of an export goes to its sequence or nowhere.
fn exact(event: &Event) -> Option<i64> {
    (event.sequence > 0).then_some(event.sequence - 1)
}

/// Events of one call.
#[derive(Default)]
pub struct Batch {
    events: Vec<Event>,
    /// With the envelopes, so that the message fits as well.
    bytes: usize,
}

impl Batch {
    /// A single event of any size is left to the server to judge.
    fn takes(&self, event: &Event, bytes: usize) -> bool {
        // A call has one trace.
        self.events.first().is_none_or(|first| {
            self.events.len() < BATCH_EVENTS
                && self.bytes + bytes <= BATCH_BYTES
                && first.trace_id == event.trace_id
        })
    }

    fn push(&mut self, event: Event, bytes: usize) {
        self.bytes += bytes;
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_bounded_by_number_and_by_bytes() {
        let event = Event::default();
        let mut batch = Batch::default();
        assert!(batch.takes(&event, BATCH_BYTES * 2), "a single one is the server's to judge");
        batch.push(event.clone(), 1 << 20);
        assert!(batch.takes(&event, 1 << 20));
        assert!(!batch.takes(&event, 2 << 20 | 1));
        let mut batch = Batch::default();
        for _ in 0..BATCH_EVENTS {
            assert!(batch.takes(&event, 1));
            batch.push(event.clone(), 1);
        }
        assert!(!batch.takes(&event, 1));
        let mut batch = Batch::default();
        batch.push(event.clone(), 1);
        let traced = Event { trace_id: "t".to_owned(), ..event };
        assert!(!batch.takes(&traced, 1), "a call has one trace");
    }
}
