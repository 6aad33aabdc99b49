//! Sends the steps of a file into a session, events in batches.

use std::collections::BTreeSet;

use prost::Message as _;
use serde::Serialize;

use super::existing::{Existing, Stored};
use crate::{
    cli::{
        adk_file::{Entry, Rewind, state_text},
        args::JSON_FORM,
        connect::Server,
        failure::Failure,
        retry::retry,
    },
    domain::limits::{BATCH_BYTES, BATCH_EVENTS},
    proto::v1::{self, event::BodyForm, state_delta::SetForm},
};

/// Steps by their outcome.
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
    key: v1::SessionKey,
    existing: &'a Existing,
    /// The sequence of the next step. Set for an export, whose log must become that of the session.
    next_sequence: Option<i64>,
    batch: Batch,
    last_sequence: i64,
    /// Id of the session's newest event.
    pub newest: String,
    pub counts: Counts,
}

impl<'a> Sender<'a> {
    /// `existing` is the session's log before the import. With `exact` the log must become the file's.
    pub fn new(
        server: &'a Server,
        key: v1::SessionKey,
        existing: &'a Existing,
        exact: bool,
    ) -> Self {
        Self {
            server,
            key,
            existing,
            next_sequence: exact.then_some(1),
            batch: Batch::default(),
            last_sequence: existing.last_sequence,
            newest: existing.newest.clone(),
            counts: Counts::default(),
        }
    }

    pub async fn event(&mut self, entry: Entry) -> Result<(), Failure> {
        let event_id = &entry.event_id;
        if let Some(stored) = self.lookup(event_id)? {
            return self.found(event_id, stored.is(&entry));
        }
        self.newest.clone_from(event_id);
        let event = event_of(entry);
        if !self.batch.takes(&event) {
            self.flush().await?;
        }
        self.batch.push(event);
        Ok(())
    }

    pub async fn rewind(&mut self, rewind: Rewind) -> Result<(), Failure> {
        let Rewind { event_id, to_sequence, author, .. } = rewind;
        if let Some(stored) = self.lookup(&event_id)? {
            return self.found(&event_id, stored.rewind_to == Some(to_sequence));
        }
        self.flush().await?;
        self.newest.clone_from(&event_id);
        let request = v1::RewindSessionRequest {
            key: Some(self.key.clone()),
            to_sequence: Some(to_sequence),
            event_id,
            author,
            precondition: self.precondition(),
            json_form: JSON_FORM,
        };
        let server = self.server;
        let answer =
            retry(async || server.sessions().rewind_session(request.clone()).await).await?;
        self.counts.events_imported += 1;
        self.advance_to(answer.event.unwrap_or_default().sequence);
        Ok(())
    }

    /// Sends the batch.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        if self.batch.events.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.batch).events;
        let sent = events.len();
        let request = v1::AppendEventsRequest {
            key: Some(self.key.clone()),
            events,
            precondition: self.precondition(),
            return_state: false,
            json_form: JSON_FORM,
        };
        let server = self.server;
        let answer = retry(async || server.events().append_events(request.clone()).await).await?;
        // Not `replayed`: the answer to a repeated call consists of replays of its own writes, and a duplicate in the
        // file has the sequence of the first.
        let sequences = answer.events.into_iter().map(|event| event.sequence);
        let new: BTreeSet<i64> =
            sequences.filter(|sequence| *sequence > self.last_sequence).collect();
        let imported = new.len().min(sent);
        self.counts.events_imported += imported as u64;
        self.counts.events_already_there += (sent - imported) as u64;
        self.advance_to(new.last().copied().unwrap_or(self.last_sequence));
        Ok(())
    }

    fn advance_to(&mut self, last_sequence: i64) {
        self.last_sequence = last_sequence;
        self.next_sequence = self.next_sequence.map(|_| last_sequence + 1);
    }

    /// The event of that id, if the session has it. In an export it must stand in the same place of both logs.
    fn lookup(&self, event_id: &str) -> Result<Option<&'a Stored>, Failure> {
        let stored = self.existing.get(event_id);
        if let Some(next) = self.next_sequence {
            let expected = (next <= self.existing.last_sequence).then_some(next);
            if stored.map(|stored| stored.sequence) != expected {
                return Err(Failure::Failed(format!(
                    "the session has another log: its event {next} is not the file's `{event_id}`. Delete the session first"
                )));
            }
        }
        Ok(stored)
    }

    /// Counts a step whose event the session has.
    fn found(&mut self, event_id: &str, same: bool) -> Result<(), Failure> {
        if !same {
            return Err(Failure::Failed(format!(
                "the session has another event with the id `{event_id}`. Import the file into another session"
            )));
        }
        self.counts.events_already_there += 1;
        self.next_sequence = self.next_sequence.map(|next| next + 1);
        Ok(())
    }

    fn precondition(&self) -> Option<v1::Precondition> {
        let expected_sequence = Some(self.next_sequence? - 1);
        Some(v1::Precondition { expected_sequence, keys: Vec::new() })
    }
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
        self.events.is_empty()
            || (self.events.len() < BATCH_EVENTS && self.bytes + event.encoded_len() <= BATCH_BYTES)
    }

    fn push(&mut self, event: v1::Event) {
        self.bytes += event.encoded_len();
        self.events.push(event);
    }
}

fn event_of(entry: Entry) -> v1::Event {
    let Entry { event_id, invocation_id, author, branch, event_time, set, remove, body } = entry;
    let set_form = (!set.is_empty()).then(|| SetForm::SetJson(state_text(&set)));
    let delta = v1::StateDelta { set_form, remove, operations: Vec::new() };
    v1::Event {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        state_delta: (delta != v1::StateDelta::default()).then_some(delta),
        body_form: body.map(BodyForm::BodyJson),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Json;

    fn sized(bytes: usize) -> v1::Event {
        event_of(Entry { body: Some("x".repeat(bytes)), ..Default::default() })
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
    }

    #[test]
    fn an_entry_is_sent_as_it_is() {
        let json = |text: &str| Json::parse(text.to_owned()).unwrap();
        let event = event_of(Entry {
            event_id: "e".to_owned(),
            set: vec![("a".to_owned(), json("1.0")), ("app:b".to_owned(), json("{ }"))],
            body: Some("{ \"x\": 1.00 }".to_owned()),
            ..Default::default()
        });
        let delta = event.state_delta.unwrap();
        assert_eq!(delta.set_form, Some(SetForm::SetJson(r#"{"a":1.0,"app:b":{ }}"#.to_owned())));
        assert_eq!(event.body_form, Some(BodyForm::BodyJson("{ \"x\": 1.00 }".to_owned())));
        assert_eq!(event_of(Entry::default()).state_delta, None);
        assert_eq!(event_of(Entry::default()).body_form, None);
    }
}
