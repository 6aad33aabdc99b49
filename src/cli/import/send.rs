//! Sends the events of a file into a session, in batches.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message as _;
use prost_types::Timestamp;
use serde::Serialize;

use super::{plan::is_shared, shared::Shared};
use crate::{
    cli::{
        adk_file::{Losses, adk_entry, body_of, set_of, to_send},
        args::JSON_FORM,
        calls::{for_each_event, get_request, in_trace, retry},
        connect::Server,
        failure::Failure,
        progress::Progress,
    },
    domain::{
        json::{Json, same_value},
        limits::{BATCH_BYTES, BATCH_EVENTS},
    },
    proto::v1,
};

/// How often a batch is sent again because others write the same shared keys.
const ATTEMPTS: u32 = 5;
/// Seconds of our time as a double are exact to a quarter of a microsecond.
const DOUBLE_NANOS: i128 = 1000;

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
    /// The file is an export: an event is the session's only if every byte of it is.
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
            let precondition = v1::Precondition { expected_sequence, keys: keys.clone() };
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

/// Whether appending `event` made the `existing` one, however its JSON is written. The removal of a missing key leaves no
/// trace, an event without a time has the server's, and shared keys may have stayed as they were.
///
/// Unless the comparison is `exact`, what ADK would write of both has to be equal: it adds empty members, and its times
/// are doubles.
fn is_same(existing: &v1::Event, event: &v1::Event, exact: bool) -> bool {
    if existing.rewind_to_sequence.is_some() || event.rewind_to_sequence.is_some() {
        return existing.rewind_to_sequence == event.rewind_to_sequence;
    }
    let json = |text: &str| Json::from_stored(text.to_owned());
    let same_json = |one: Option<&str>, other: Option<&str>| match (one, other) {
        (Some(one), Some(other)) => same_value(&json(one), &json(other)),
        (one, other) => one == other,
    };
    let removed = |event: &v1::Event| event.state_delta.clone().unwrap_or_default().remove;
    let removed_here = removed(event);
    let set = |event: &v1::Event| {
        let set = json(set_of(event).unwrap_or("{}")).members();
        set.into_iter().collect::<BTreeMap<_, _>>()
    };
    let (existing_set, mut event_set) = (set(existing), set(event));
    // ADK has no removals. Its objects have null for them.
    event_set
        .retain(|key, value| exact || value.as_str() != "null" || !removed(existing).contains(key));
    let is_set = |(key, value): (&String, &Json)| {
        event_set.get(key).is_some_and(|other| same_value(value, other))
    };
    let may_lack = |key: &String| existing_set.contains_key(key) || is_shared(key);
    existing.author == event.author
        && existing.invocation_id == event.invocation_id
        && existing.branch == event.branch
        && existing_set.iter().all(is_set)
        && event_set.keys().all(may_lack)
        && match exact {
            true => same_json(body_of(existing), body_of(event)),
            false => same_value(&adk_body(existing), &adk_body(event)),
        }
        && same_time(existing.event_time, event.event_time, exact)
        && (!exact || removed(existing).iter().all(|key| removed_here.contains(key)))
}

fn same_time(existing: Option<Timestamp>, event: Option<Timestamp>, exact: bool) -> bool {
    let (Some(a), Some(b)) = (existing, event) else { return event.is_none() };
    let nanos = |time: Timestamp| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let difference = (nanos(a) - nanos(b)).abs();
    difference == 0 || (!exact && difference <= DOUBLE_NANOS)
}

/// The event as ADK would write it, without its envelope and its delta.
fn adk_body(event: &v1::Event) -> Json {
    let body = v1::Event { body_form: event.body_form.clone(), ..Default::default() };
    adk_entry(&body, &mut Losses::new())
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
        let mut batch = Batch::default();
        batch.push(sized(1));
        assert!(
            !batch.takes(&v1::Event { trace_id: "t".to_owned(), ..sized(1) }),
            "a call has one trace"
        );
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
        assert!(is_same(&existing, &same, true));
        assert!(is_same(&existing, &v1::Event { event_time: None, ..same.clone() }, true));
        let mut removes_more = same;
        let delta = removes_more.state_delta.as_mut().unwrap();
        delta.remove = vec!["never there".to_owned(), "gone".to_owned()];
        assert!(is_same(&existing, &removes_more, true));
    }

    #[test]
    fn what_adk_adds_to_an_event_is_no_difference() {
        let existing =
            event(r#"{"k":1}"#, r#"{"content":{"parts":[{"function_call":{"name":"f"}}]}}"#);
        let mut saved = event(
            r#"{"k":1,"gone":null}"#,
            r#"{"id":"e","author":"a","timestamp":1.0,"content":{"parts":[{"functionCall":{"name":"f"}}]},
            "actions":{"artifactDelta":{},"requestedAuthConfigs":{}}}"#,
        );
        saved.state_delta.as_mut().unwrap().remove.clear();
        saved.event_time = Some(Timestamp { seconds: 1, nanos: 300 });
        assert!(is_same(&existing, &saved, false));
        assert!(!is_same(&existing, &saved, true));
        let more = [
            event(r#"{"k":1}"#, r#"{"content":{"parts":[{"functionCall":{"name":"g"}}]}}"#),
            event(r#"{"k":2}"#, body_of(&saved).unwrap()),
            event(r#"{"k":1,"l":1}"#, body_of(&saved).unwrap()),
            v1::Event { event_time: Some(Timestamp { seconds: 2, nanos: 0 }), ..saved.clone() },
        ];
        for other in more {
            assert!(!is_same(&existing, &other, false), "{other:?}");
        }
    }

    #[test]
    fn shared_keys_that_stayed_are_no_difference() {
        let existing = event(r#"{"k":1}"#, "{}");
        let file = event(r#"{"k":1,"app:theme":"dark"}"#, "{}");
        assert!(is_same(&existing, &file, true));
        assert!(!is_same(&file, &existing, true), "the session has more than the file");
    }

    #[test]
    fn any_difference_is_seen() {
        let set = r#"{"k":1,"l":[2]}"#;
        let same = event(set, r#"{"x":1.0}"#);
        assert!(is_same(&same, &same, true));
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
            assert!(!is_same(&same, &other, true), "{other:?}");
        }
    }

    #[test]
    fn a_marker_is_no_event_of_a_file() {
        let event = event("{}", "{}");
        let marker = v1::Event { rewind_to_sequence: Some(1), ..event.clone() };
        assert!(!is_same(&marker, &event, true));
    }
}
