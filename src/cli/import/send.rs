//! Sends the events of a file into a session, in batches.

use std::collections::{BTreeSet, HashMap};

use prost::Message as _;
use serde::Serialize;

use crate::{
    cli::{
        adk_file::{body_of, set_of},
        args::JSON_FORM,
        connect::{Server, for_each_event, get_request, retry},
        failure::Failure,
    },
    domain::{
        json::{Json, same_value},
        limits::{BATCH_BYTES, BATCH_EVENTS},
    },
    proto::v1,
};

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
    /// Id of the session's newest event; empty if there is none.
    pub newest: String,
    pub counts: Counts,
}

impl<'a> Sender<'a> {
    /// Reads the log of a session that is not `new`, so that a second import changes nothing.
    pub async fn new(
        server: &'a Server,
        key: &'a v1::SessionKey,
        new: bool,
    ) -> Result<Self, Failure> {
        let mut sender = Self {
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
        let (event_id, sequence) = (&event.event_id, event.sequence);
        let existing = self.existing.get(event_id);
        let expected = (sequence <= self.existing.len() as i64).then_some(sequence);
        if sequence > 0 && existing.map(|existing| existing.sequence) != expected {
            return Err(Failure::Failed(format!(
                "the session has another log: its event {sequence} is not the file's `{event_id}`. Delete the session first"
            )));
        }
        if let Some(existing) = existing {
            if !is_same(existing, &event) {
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
            precondition: exact(&marker),
            event_id: marker.event_id,
            author: marker.author,
            json_form: JSON_FORM,
        };
        let call = async || self.server.sessions().rewind_session(request.clone()).await;
        self.last_sequence = retry(call).await?.event.unwrap_or_default().sequence;
        self.counts.events_imported += 1;
        Ok(())
    }

    /// Sends the batch.
    pub async fn flush(&mut self) -> Result<(), Failure> {
        let events = std::mem::take(&mut self.batch).events;
        let Some(first) = events.first() else { return Ok(()) };
        let sent = events.len();
        let request = v1::AppendEventsRequest {
            key: Some(self.key.clone()),
            precondition: exact(first),
            events,
            return_state: false,
            json_form: JSON_FORM,
        };
        let call = async || self.server.events().append_events(request.clone()).await;
        // Not `replayed`: the answer to a repeated call consists of replays of its own writes, and a duplicate in the
        // file has the sequence of the first.
        let sequences = retry(call).await?.events.into_iter().map(|event| event.sequence);
        let new: BTreeSet<_> = sequences.filter(|it| *it > self.last_sequence).collect();
        let imported = new.len().min(sent);
        self.counts.events_imported += imported as u64;
        self.counts.events_already_there += (sent - imported) as u64;
        self.last_sequence = new.last().copied().unwrap_or(self.last_sequence);
        Ok(())
    }
}

/// An event of an export goes to its sequence or nowhere.
fn exact(event: &v1::Event) -> Option<v1::Precondition> {
    let expected_sequence = (event.sequence > 0).then_some(event.sequence - 1);
    let precondition = v1::Precondition { expected_sequence, keys: Vec::new() };
    expected_sequence.is_some().then_some(precondition)
}

/// Whether appending `event` made the `existing` one, however its JSON is written. The removal of a missing key leaves no
/// trace, and an event without a time has the server's.
fn is_same(existing: &v1::Event, event: &v1::Event) -> bool {
    if existing.rewind_to_sequence.is_some() || event.rewind_to_sequence.is_some() {
        return existing.rewind_to_sequence == event.rewind_to_sequence;
    }
    let json = |text: &str| Json::from_stored(text.to_owned());
    let same_json = |one: Option<&str>, other: Option<&str>| match (one, other) {
        (Some(one), Some(other)) => same_value(&json(one), &json(other)),
        (one, other) => one == other,
    };
    let removed = |event: &v1::Event| event.state_delta.clone().unwrap_or_default().remove;
    existing.author == event.author
        && existing.invocation_id == event.invocation_id
        && existing.branch == event.branch
        && same_json(set_of(existing), set_of(event))
        && same_json(body_of(existing), body_of(event))
        && (event.event_time.is_none() || event.event_time == existing.event_time)
        && removed(existing).iter().all(|key| removed(event).contains(key))
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

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::proto::v1::{event::BodyForm, state_delta::SetForm};

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
    }

    fn event(set: &str, body: &str) -> v1::Event {
        v1::Event {
            event_id: "e".to_owned(),
            sequence: 3,
            author: "a".to_owned(),
            event_time: Some(Timestamp { seconds: 1, nanos: 2 }),
            state_delta: Some(v1::StateDelta {
                set_form: Some(SetForm::SetJson(set.to_owned())),
                remove: vec!["gone".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Default::default()
        }
    }

    #[test]
    fn an_event_is_recognized_however_it_is_written() {
        let existing = event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#);
        let same = event(r#"{ "l":[ 2 ],"k":1}"#, r#"{ "x": 1.0 }"#);
        assert!(is_same(&existing, &same));
        assert!(is_same(&existing, &v1::Event { event_time: None, ..same.clone() }));
        let mut removes_more = same;
        let delta = removes_more.state_delta.as_mut().unwrap();
        delta.remove = vec!["never there".to_owned(), "gone".to_owned()];
        assert!(is_same(&existing, &removes_more));
    }

    #[test]
    fn any_difference_is_seen() {
        let set = r#"{"k":1,"l":[2]}"#;
        let same = event(set, r#"{"x":1.0}"#);
        assert!(is_same(&same, &same));
        let mut removes_less = same.clone();
        removes_less.state_delta.as_mut().unwrap().remove.clear();
        let others = [
            v1::Event { author: "b".to_owned(), ..same.clone() },
            v1::Event { invocation_id: "b".to_owned(), ..same.clone() },
            v1::Event { branch: "b".to_owned(), ..same.clone() },
            v1::Event { event_time: Some(Timestamp { seconds: 1, nanos: 3 }), ..same.clone() },
            removes_less,
            v1::Event { body_form: None, ..same.clone() },
            event(set, r#"{"x":2}"#),
            event("{}", r#"{"x":1.0}"#),
        ];
        for other in others {
            assert!(!is_same(&same, &other), "{other:?}");
        }
    }

    #[test]
    fn a_marker_is_no_event_of_a_file() {
        let event = event("{}", "{}");
        let marker = v1::Event { rewind_to_sequence: Some(1), ..event.clone() };
        assert!(!is_same(&marker, &event));
    }
}
