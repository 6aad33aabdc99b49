//! Sends the events of a file into a session, in batches.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;
use serde::Serialize;

use super::{same::is_same, shared::Shared};
use crate::{
    cli::{
        adk_file::to_send,
        args::JSON_FORM,
        calls::{for_each_event, get_request, in_trace, retry},
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
pub struct Sender<'a> {
    server: &'a Server,
    key: &'a v1::SessionKey,
    /// The session's log before the import, by event id.
    existing: HashMap<String, v1::Event>,
    batch: Batch,
    last_sequence: i64,
    /// Id of the session's newest event; empty if it has no events.
    pub newest: String,
    pub counts: Counts,
    pub shared: Shared<'a>,
    /// The file is an export, whose events ADK has not rewritten: [`is_same`] allows for nothing that ADK changes.
    exact: bool,
    progress: Progress,
}

impl<'a> Sender<'a> {
    /// Reads the log of a session that is not `new`, so that a second import changes nothing.
    pub async fn new(
        server: &'a Server,
        key: &'a v1::SessionKey,
        new: bool,
        shared: Shared<'a>,
        (exact, progress): (bool, Progress),
    ) -> Result<Self, Failure> {
        let mut sender = Self {
            shared,
            exact,
            progress,
            server,
            key,
            existing: HashMap::new(),
            batch: Batch::default(),
            last_sequence: 0,
            newest: String::new(),
            counts: Counts::default(),
        };
        if !new {
            let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
            let request = v1::GetSessionRequest { events, without_state: true, ..get_request(key) };
            let first = retry(async || server.sessions().get_session(request.clone()).await);
            for_each_event(server, first.await?, events, |event| {
                sender.newest.clone_from(&event.event_id);
                sender.last_sequence = event.sequence;
                sender.existing.insert(event.event_id.clone(), event);
                Ok(())
            })
            .await?;
        }
        Ok(sender)
    }

    /// Sends an event or rewind, unless the session has it. Events of an export have a sequence, and must have it in the
    /// session, too.
    pub async fn send(&mut self, event: v1::Event) -> Result<(), Failure> {
        self.progress.step();
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
            for event in &mut events {
                event.state_delta = event.state_delta.take().map(to_send);
            }
            let precondition =
                v1::Precondition { expected_sequence, keys: keys.clone(), ..Default::default() };
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
                    self.shared.own(keys);
                    break answer;
                }
                // Somebody has just given one of the keys a value, which stays.
                Err(failure) if failure.has_reason("KEY_CONFLICT") && attempts < ATTEMPTS => {
                    self.shared.refresh().await?;
                }
                Err(failure) => return Err(failure),
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
