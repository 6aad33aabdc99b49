//! Sends the events of a file into a session, in batches.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;
use serde::Serialize;

use super::{log::Log, same::is_same, shared::Shared};
use crate::{
    cli::{
        adk_file::to_send,
        args::JSON_FORM,
        calls::{in_trace, retry},
        connect::Server,
        failure::Failure,
        progress::Progress,
    },
    domain::limits::{BATCH_BYTES, BATCH_EVENTS},
    proto::v1,
};

/// How often a batch is sent again because others write the same shared keys.
const ATTEMPTS: u32 = 5;

/// Events by their outcome.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// New events and rewinds.
    pub events_imported: u64,
    pub events_already_there: u64,
    /// Fragments of streamed answers.
    pub fragments_skipped: u64,
}

/// Appends to one session.
pub struct Sender<'a, 'w> {
    server: &'a Server,
    key: v1::SessionKey,
    existing: HashMap<String, v1::Event>,
    batch: Batch,
    last_sequence: i64,
    /// Id of the session's newest event; empty if it has no events.
    pub newest: String,
    pub counts: Counts,
    pub shared: Shared<'a, 'w>,
    /// The file is an export, whose events ADK has not rewritten: [`is_same`] allows for nothing that ADK changes.
    exact: bool,
    progress: Progress,
    /// The event at which sending failed, as far as it is known.
    pub failed_at: String,
}

impl<'a, 'w> Sender<'a, 'w> {
    /// Into a session with this log, so that a second import changes nothing.
    pub fn new(
        server: &'a Server,
        key: v1::SessionKey,
        log: Log,
        shared: Shared<'a, 'w>,
        (exact, progress): (bool, Progress),
    ) -> Self {
        let Log { events, newest, last_sequence } = log;
        Self {
            server,
            key,
            existing: events,
            batch: Batch::default(),
            last_sequence,
            newest,
            counts: Counts::default(),
            shared,
            exact,
            progress,
            failed_at: String::new(),
        }
    }

    /// Sends an event or rewind, unless the session has it. Events of an export have a sequence, and must have it in the
    /// session, too.
    pub async fn send(&mut self, event: v1::Event) -> Result<(), Failure> {
        self.progress.step();
        self.failed_at.clone_from(&event.event_id);
        let (event_id, sequence) = (&event.event_id, event.sequence);
        let existing = self.existing.get(event_id);
        let expected = (sequence <= self.existing.len() as i64).then_some(sequence);
        if sequence > 0 && existing.map(|existing| existing.sequence) != expected {
            return Err(Failure::Failed(format!(
                "the session has another log: its event {sequence} is not `{event_id}` as in the file. Delete the session first"
            )));
        }
        if let Some(existing) = existing {
            if !is_same(existing, &event, self.exact) {
                return Err(Failure::Failed(format!(
                    "the session has another event with the id `{event_id}`. Import the file into another session"
                )));
            }
            self.counts.events_already_there += 1;
            return Ok(());
        }
        self.newest.clone_from(event_id);
        if event.rewind_to_sequence.is_some() {
            self.flush().await?;
            return self.rewind(event).await;
        }
        if !self.batch.takes(&event) {
            self.flush().await?;
        }
        self.batch.push(event);
        Ok(())
    }

    async fn rewind(&mut self, marker: v1::Event) -> Result<(), Failure> {
        let request = v1::RewindSessionRequest {
            key: Some(self.key.clone()),
            to_sequence: marker.rewind_to_sequence,
            precondition: exact(&marker).map(|expected| v1::Precondition {
                expected_sequence: Some(expected),
                keys: Vec::new(),
                ..Default::default()
            }),
            event_id: marker.event_id,
            author: marker.author,
            json_form: JSON_FORM,
        };
        let sessions = self.server.sessions();
        let traced = || in_trace(request.clone(), &marker.trace_id);
        let call = async || sessions.clone().rewind_session(traced()).await;
        self.last_sequence = retry(call).await?.event.unwrap_or_default().sequence;
        self.counts.events_imported += 1;
        Ok(())
    }

    /// Sends the batch.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        let events = std::mem::take(&mut self.batch).events;
        let Some(first) = events.first() else { return Ok(()) };
        let (sent, expected_sequence) = (events.len(), exact(first));
        let trace_id = first.trace_id.clone();
        let mut attempts = 0;
        let answer = loop {
            attempts += 1;
            let mut events = events.clone();
            events.iter_mut().for_each(|event| self.shared.strip(event));
            let keys = self.shared.first_writes(&events);
            let checks = self.shared.checks(&keys);
            for event in &mut events {
                event.state_delta = event.state_delta.take().map(to_send);
            }
            let precondition =
                v1::Precondition { expected_sequence, keys: checks, ..Default::default() };
            let request = v1::AppendEventsRequest {
                key: Some(self.key.clone()),
                precondition: (precondition != v1::Precondition::default()).then_some(precondition),
                events,
                return_state: false,
                json_form: JSON_FORM,
                include_versions: false,
            };
            let traced = || in_trace(request.clone(), &trace_id);
            let call = async || self.server.events().append_events(traced()).await;
            match retry(call).await {
                Ok(answer) => {
                    let sequences = answer.events.iter().map(|event| event.sequence).collect();
                    self.shared.own(keys, &sequences);
                    break answer;
                }
                // Somebody has just given one of the keys a value, which stays.
                Err(failure) if failure.has_reason("KEY_CONFLICT") && attempts < ATTEMPTS => {
                    self.shared.refresh().await?;
                }
                Err(failure) => {
                    self.failed_at = blamed(&failure, &request.events);
                    return Err(failure);
                }
            }
        };
        // Not `replayed`: the answer to a repeated call consists of replays of its own writes, and a duplicate in the
        // file has the sequence of the first.
        let sequences = answer.events.into_iter().map(|event| event.sequence);
        let new: BTreeSet<_> = sequences.filter(|it| *it > self.last_sequence).collect();
        let imported = new.len().min(sent);
        self.counts.events_imported += imported as u64;
        self.counts.events_already_there += (sent - imported) as u64;
        self.last_sequence = new.last().copied().unwrap_or(self.last_sequence);
        Ok(())
    }
}

/// The id of the event of a batch that the server refuses, or those of the first and the last one.
fn blamed(failure: &Failure, events: &[v1::Event]) -> String {
    let id = |event: Option<&v1::Event>| event.map(|it| it.event_id.clone()).unwrap_or_default();
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
fn exact(event: &v1::Event) -> Option<i64> {
    (event.sequence > 0).then_some(event.sequence - 1)
}

/// Events of one call.
#[derive(Default)]
struct Batch {
    events: Vec<v1::Event>,
    /// With the envelopes, so that the message fits as well.
    bytes: usize,
}

impl Batch {
    /// A single event of any size is left to the server to judge.
    fn takes(&self, event: &v1::Event) -> bool {
        // A call has one trace.
        self.events.first().is_none_or(|first| {
            self.events.len() < BATCH_EVENTS
                && self.bytes + event.encoded_len() <= BATCH_BYTES
                && first.trace_id == event.trace_id
        })
    }

    fn push(&mut self, event: v1::Event) {
        self.bytes += event.encoded_len();
        self.events.push(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::event::BodyForm;

    fn sized(bytes: usize) -> v1::Event {
        let body_form = Some(BodyForm::BodyJson("x".repeat(bytes)));
        v1::Event { body_form, ..Default::default() }
    }

    #[test]
    fn a_batch_is_bounded_by_number_and_by_bytes() {
        let mut batch = Batch::default();
        assert!(batch.takes(&sized(BATCH_BYTES * 2)), "a single one is the server's to judge");
        batch.push(sized(1 << 20));
        assert!(batch.takes(&sized(1 << 20)));
        assert!(!batch.takes(&sized(2 << 20)));
        let mut batch = Batch::default();
        for _ in 0..BATCH_EVENTS {
            assert!(batch.takes(&sized(1)));
            batch.push(sized(1));
        }
        assert!(!batch.takes(&sized(1)));
        let mut batch = Batch::default();
        batch.push(sized(1));
        assert!(
            !batch.takes(&v1::Event { trace_id: "t".to_owned(), ..sized(1) }),
            "a call has one trace"
        );
    }
}
