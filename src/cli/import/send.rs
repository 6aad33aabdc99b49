//! The steps of a file on their way into a session, in batches.

use std::collections::BTreeSet;

use prost::Message as _;

use super::{existing::Existing, retry::retry};
use crate::{
    cli::{
        args::JSON_FORM,
        connect::Server,
        failure::Failure,
        json,
        kit::{Entry, Rewind},
    },
    proto::v1::{
        AppendEventsRequest, Event, Precondition, RewindSessionRequest, SessionKey, StateDelta,
        event::BodyForm, state_delta::SetForm,
    },
};

/// What the server takes in one call.
const MAX_EVENTS: usize = 1000;
/// Likewise, in bytes; counted with the envelopes, so that the message fits as well.
const MAX_BYTES: usize = 3 << 20;

/// What became of the steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events and rewinds that were not there before.
    pub imported: u64,
    /// Those that were.
    pub already_there: u64,
    /// Fragments, which are not stored.
    pub skipped: u64,
}

/// Appends to one session.
pub struct Sender<'a> {
    server: &'a Server,
    key: SessionKey,
    /// What was there before the import.
    existing: &'a Existing,
    /// For an export, where each sequence must be what the file says: the sequence to come.
    next_sequence: Option<i64>,
    batch: Batch,
    /// Of the newest event of the session, as far as is known.
    last_sequence: i64,
    /// Id of the newest event of the session, as far as is known.
    pub newest: String,
    /// How it went so far.
    pub tally: Tally,
}

impl<'a> Sender<'a> {
    /// A sender into the session of `key`; `exactly` for a log that must come to be as in the file.
    pub fn new(server: &'a Server, key: SessionKey, existing: &'a Existing, exactly: bool) -> Self {
        Self {
            server,
            key,
            existing,
            next_sequence: exactly.then_some(1),
            batch: Batch::default(),
            last_sequence: existing.last_sequence,
            newest: existing.newest.clone(),
            tally: Tally::default(),
        }
    }

    /// Takes the next event, and sends those before it when the batch is full.
    ///
    /// # Errors
    ///
    /// When the session has another event in its place, or the server refuses.
    pub async fn event(&mut self, entry: Entry) -> Result<(), Failure> {
        if let Some(stored) = self.existing.get(&entry.event_id) {
            self.check_place(&entry.event_id, stored.sequence)?;
            if !stored.is(&entry) {
                return Err(Failure::Failed(format!(
                    "the session has an event `{}` that differs from the file's",
                    entry.event_id
                )));
            }
            return self.found();
        }
        self.check_end(&entry.event_id)?;
        self.newest.clone_from(&entry.event_id);
        let event = event_of(entry);
        if !self.batch.fits(&event) {
            self.flush().await?;
        }
        self.batch.push(event);
        Ok(())
    }

    /// Carries out a rewind.
    ///
    /// # Errors
    ///
    /// As [`Sender::event`].
    pub async fn rewind(&mut self, rewind: Rewind) -> Result<(), Failure> {
        if let Some(stored) = self.existing.get(&rewind.event_id) {
            self.check_place(&rewind.event_id, stored.sequence)?;
            if stored.rewind_to != Some(rewind.to_sequence) {
                return Err(Failure::Failed(format!(
                    "the session has an event `{}` that differs from the file's rewind",
                    rewind.event_id
                )));
            }
            return self.found();
        }
        self.check_end(&rewind.event_id)?;
        self.flush().await?;
        self.newest.clone_from(&rewind.event_id);
        let request = RewindSessionRequest {
            key: Some(self.key.clone()),
            to_sequence: Some(rewind.to_sequence),
            event_id: rewind.event_id,
            author: rewind.author,
            precondition: self.precondition(),
            json_form: JSON_FORM,
        };
        let answer =
            retry(async || Ok(self.server.sessions().rewind_session(request.clone()).await?))
                .await?;
        self.tally.imported += 1;
        self.last_sequence = answer.into_inner().event.unwrap_or_default().sequence;
        self.next_sequence = self.next_sequence.map(|_| self.last_sequence + 1);
        Ok(())
    }

    /// Sends what is still held back.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        if self.batch.events.is_empty() {
            return Ok(());
        }
        let events = std::mem::take(&mut self.batch).events;
        let sent = events.len();
        let request = AppendEventsRequest {
            key: Some(self.key.clone()),
            events,
            precondition: self.precondition(),
            return_state: false,
            json_form: JSON_FORM,
        };
        let answer =
            retry(async || Ok(self.server.events().append_events(request.clone()).await?)).await?;
        // Not `replayed`: a repeated call is answered with replays of what it wrote itself, and
        // a double in the file with the sequence of the first.
        let sequences = answer.into_inner().events.into_iter().map(|event| event.sequence);
        let fresh: BTreeSet<i64> =
            sequences.filter(|sequence| *sequence > self.last_sequence).collect();
        let imported = fresh.len().min(sent);
        self.tally.imported += imported as u64;
        self.tally.already_there += (sent - imported) as u64;
        self.last_sequence = fresh.last().copied().unwrap_or(self.last_sequence);
        self.next_sequence = self.next_sequence.map(|_| self.last_sequence + 1);
        Ok(())
    }

    fn found(&mut self) -> Result<(), Failure> {
        self.tally.already_there += 1;
        self.next_sequence = self.next_sequence.map(|next| next + 1);
        Ok(())
    }

    /// Of an export every event must stand where the file has it.
    fn check_place(&self, event_id: &str, sequence: i64) -> Result<(), Failure> {
        match self.next_sequence {
            Some(expected) if expected != sequence => Err(other_log(event_id, expected)),
            _ => Ok(()),
        }
    }

    /// Of an export nothing may be appended behind events that the file does not have.
    fn check_end(&self, event_id: &str) -> Result<(), Failure> {
        match self.next_sequence {
            Some(expected) if expected <= self.existing.last_sequence => {
                Err(other_log(event_id, expected))
            }
            _ => Ok(()),
        }
    }

    fn precondition(&self) -> Option<Precondition> {
        self.next_sequence
            .map(|next| Precondition { expected_sequence: Some(next - 1), keys: Vec::new() })
    }
}

fn other_log(event_id: &str, sequence: i64) -> Failure {
    Failure::Failed(format!(
        "a session of that id has another log: event {sequence} is not the file's `{event_id}`; delete the session first"
    ))
}

/// Events that go together.
#[derive(Default)]
struct Batch {
    events: Vec<Event>,
    bytes: usize,
}

impl Batch {
    fn fits(&self, event: &Event) -> bool {
        self.events.is_empty()
            || (self.events.len() < MAX_EVENTS && self.bytes + event.encoded_len() <= MAX_BYTES)
    }

    fn push(&mut self, event: Event) {
        self.bytes += event.encoded_len();
        self.events.push(event);
    }
}

fn event_of(entry: Entry) -> Event {
    let Entry { event_id, invocation_id, author, branch, event_time, set, remove, body } = entry;
    let set_json = (!set.is_empty()).then(|| {
        let set = set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        SetForm::SetJson(json::write_object(set))
    });
    let delta = StateDelta { set_form: set_json, remove, operations: Vec::new() };
    Event {
        event_id,
        invocation_id,
        author,
        branch,
        event_time,
        state_delta: (delta != StateDelta::default()).then_some(delta),
        body_form: body.map(BodyForm::BodyJson),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(bytes: usize) -> Event {
        event_of(Entry { body: Some("x".repeat(bytes)), ..Entry::default() })
    }

    #[test]
    fn a_batch_is_bounded_by_number_and_by_bytes() {
        let mut batch = Batch::default();
        assert!(batch.fits(&sized(MAX_BYTES * 2)), "a single one is the server's to judge");
        batch.push(sized(1 << 20));
        assert!(batch.fits(&sized(1 << 20)));
        assert!(!batch.fits(&sized(2 << 20)));
        let mut batch = Batch::default();
        for _ in 0..MAX_EVENTS {
            assert!(batch.fits(&sized(1)));
            batch.push(sized(1));
        }
        assert!(!batch.fits(&sized(1)));
    }

    #[test]
    fn an_entry_is_sent_as_it_is() {
        let event = event_of(Entry {
            event_id: "e".to_owned(),
            set: vec![("a".to_owned(), "1.0".to_owned()), ("app:b".to_owned(), "{ }".to_owned())],
            body: Some("{ \"x\": 1.00 }".to_owned()),
            ..Entry::default()
        });
        let delta = event.state_delta.unwrap();
        assert_eq!(delta.set_form, Some(SetForm::SetJson(r#"{"a":1.0,"app:b":{ }}"#.to_owned())));
        assert_eq!(event.body_form, Some(BodyForm::BodyJson("{ \"x\": 1.00 }".to_owned())));
        assert_eq!(event_of(Entry::default()).state_delta, None);
        assert_eq!(event_of(Entry::default()).body_form, None);
    }
}
