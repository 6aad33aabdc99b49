//! The log that a session already has, so that a second import changes nothing.

use std::collections::HashMap;

use prost_types::Timestamp;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    cli::{
        adk_file::{Entry, state_text},
        connect::Server,
        failure::Failure,
        log::for_each_event,
    },
    domain::json::{Json, fingerprint},
    proto::v1::{Event, EventSelection, SessionKey},
};

/// The log of a session, as much of it as is needed to recognize an event.
#[derive(Debug, Default)]
pub struct Existing {
    /// By event id.
    events: HashMap<String, Stored>,
    /// Id of the newest event; empty if there is none.
    pub newest: String,
    /// Sequence of the newest event; 0 if there is none.
    pub last_sequence: i64,
}

#[derive(Debug)]
pub struct Stored {
    pub sequence: i64,
    /// Set on the marker of a rewind.
    pub rewind_to: Option<i64>,
    content: u128,
    event_time: Option<Timestamp>,
    remove: Vec<String>,
}

impl Existing {
    /// Reads the whole log, hidden events and markers included.
    pub async fn load(server: &Server, key: &SessionKey) -> Result<Self, Failure> {
        let mut existing = Self::default();
        let selection = EventSelection { include_rewound: true, ..Default::default() };
        for_each_event(server, key, selection, String::new(), |event| existing.add(event)).await?;
        Ok(existing)
    }

    fn add(&mut self, event: Event) -> Result<(), Failure> {
        let (sequence, rewind_to) = (event.sequence, event.rewind_to_sequence);
        let entry = Entry::from_event(event)?;
        let content = content(&entry);
        let Entry { event_id, event_time, remove, .. } = entry;
        self.newest.clone_from(&event_id);
        self.last_sequence = sequence;
        self.events.insert(event_id, Stored { sequence, rewind_to, content, event_time, remove });
        Ok(())
    }

    pub fn get(&self, event_id: &str) -> Option<&Stored> {
        self.events.get(event_id)
    }
}

impl Stored {
    /// Whether appending the entry made this event. The removal of a missing key leaves no trace, and an entry without
    /// a time has the server's.
    pub fn is(&self, entry: &Entry) -> bool {
        self.rewind_to.is_none()
            && self.content == content(entry)
            && (entry.event_time.is_none() || entry.event_time == self.event_time)
            && self.remove.iter().all(|key| entry.remove.contains(key))
    }
}

/// A hash of the entry without its time and removals, which does not depend on how its JSON is written.
fn content(entry: &Entry) -> u128 {
    let set = fingerprint(&Json::from_stored(state_text(&entry.set)));
    let body = entry.body.clone().map(|body| fingerprint(&Json::from_stored(body)));
    let text = format!("{:?}", (&entry.author, &entry.invocation_id, &entry.branch, set, body));
    xxh3_128(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{StateDelta, event::BodyForm, state_delta::SetForm};

    fn event(set: &str, body: &str) -> Event {
        Event {
            event_id: "e".to_owned(),
            sequence: 3,
            author: "a".to_owned(),
            event_time: Some(Timestamp { seconds: 1, nanos: 2 }),
            state_delta: Some(StateDelta {
                set_form: Some(SetForm::SetJson(set.to_owned())),
                remove: vec!["gone".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Default::default()
        }
    }

    fn stored() -> Existing {
        let mut existing = Existing::default();
        existing.add(event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#)).unwrap();
        existing
    }

    #[test]
    fn an_event_is_recognized_however_it_is_written() {
        let existing = stored();
        assert_eq!((existing.newest.as_str(), existing.last_sequence), ("e", 3));
        let stored = existing.get("e").unwrap();
        assert_eq!(stored.sequence, 3);
        let same = Entry::from_event(event(r#"{ "l":[ 2 ],"k":1}"#, r#"{ "x": 1.0 }"#)).unwrap();
        assert!(stored.is(&same));
        let untimed = Entry { event_time: None, ..same.clone() };
        assert!(stored.is(&untimed));
        let removes_more =
            Entry { remove: vec!["never there".to_owned(), "gone".to_owned()], ..same };
        assert!(stored.is(&removes_more));
        assert!(existing.get("f").is_none());
    }

    #[test]
    fn any_difference_is_seen() {
        let existing = stored();
        let stored = existing.get("e").unwrap();
        let same = Entry::from_event(event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#)).unwrap();
        assert!(stored.is(&same));
        let others = [
            Entry { author: "b".to_owned(), ..same.clone() },
            Entry { invocation_id: "b".to_owned(), ..same.clone() },
            Entry { branch: "b".to_owned(), ..same.clone() },
            Entry { event_time: Some(Timestamp { seconds: 1, nanos: 3 }), ..same.clone() },
            Entry { remove: Vec::new(), ..same.clone() },
            Entry { body: None, ..same.clone() },
            Entry { body: Some(r#"{"x":2}"#.to_owned()), ..same.clone() },
            Entry { set: Vec::new(), ..same },
        ];
        for other in others {
            assert!(!stored.is(&other), "{other:?}");
        }
    }

    #[test]
    fn a_marker_is_no_event_of_a_file() {
        let mut existing = Existing::default();
        let marker = Event { rewind_to_sequence: Some(1), ..event("{}", "{}") };
        let entry = Entry::from_event(marker.clone()).unwrap();
        existing.add(marker).unwrap();
        assert!(!existing.get("e").unwrap().is(&entry));
    }
}
