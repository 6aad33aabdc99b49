//! What a session already has, so that importing twice changes nothing.

use std::collections::HashMap;

use prost_types::Timestamp;

use super::retry::retry;
use crate::{
    cli::{
        args::JSON_FORM,
        connect::Server,
        failure::Failure,
        json,
        kit::{Entry, pairs},
    },
    proto::v1::{
        Event, EventSelection, ListEventsRequest, SessionKey, event::BodyForm, state_delta::SetForm,
    },
};

/// The log of a session, as much of it as is needed to know an event again.
#[derive(Debug, Default)]
pub struct Existing {
    /// By event id.
    events: HashMap<String, Stored>,
    /// Id of the newest event; empty where there is none.
    pub newest: String,
    /// Its sequence; 0 where there is none.
    pub last_sequence: i64,
}

/// An event that is there.
#[derive(Debug)]
pub struct Stored {
    /// Its place in the log.
    pub sequence: i64,
    /// Set on the marker of a rewind.
    pub rewind_to: Option<i64>,
    content: u128,
    event_time: Option<Timestamp>,
    remove: Vec<String>,
}

impl Existing {
    /// Reads the whole log, hidden events and markers included.
    ///
    /// # Errors
    ///
    /// When the server is away for long, or refuses.
    pub async fn load(server: &Server, key: &SessionKey) -> Result<Self, Failure> {
        let mut existing = Self::default();
        let mut page_token = String::new();
        loop {
            let request = ListEventsRequest {
                key: Some(key.clone()),
                page_size: 1000,
                page_token,
                selection: Some(EventSelection {
                    include_rewound: true,
                    ..EventSelection::default()
                }),
                json_form: JSON_FORM,
                ..ListEventsRequest::default()
            };
            let page = retry(async || {
                let answer = server.events().list_events(request.clone()).await?;
                Ok(answer.into_inner())
            });
            let page = page.await?;
            for event in page.events {
                existing.add(event)?;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return Ok(existing);
            }
        }
    }

    fn add(&mut self, event: Event) -> Result<(), Failure> {
        let (sequence, rewind_to) = (event.sequence, event.rewind_to_sequence);
        let entry = entry_of(event)?;
        let stored = Stored {
            sequence,
            rewind_to,
            content: content(&entry),
            event_time: entry.event_time,
            remove: entry.remove,
        };
        self.newest.clone_from(&entry.event_id);
        self.last_sequence = sequence;
        self.events.insert(entry.event_id, stored);
        Ok(())
    }

    /// The event of that id.
    pub fn get(&self, event_id: &str) -> Option<&Stored> {
        self.events.get(event_id)
    }
}

impl Stored {
    /// Whether this is what appending the entry made: a removal of what was not there leaves no
    /// trace, and an entry without a time got the server's.
    pub fn is(&self, entry: &Entry) -> bool {
        self.rewind_to.is_none()
            && self.content == content(entry)
            && (entry.event_time.is_none() || entry.event_time == self.event_time)
            && self.remove.iter().all(|key| entry.remove.contains(key))
    }
}

/// An event of an answer, as files have it.
///
/// # Errors
///
/// When the server answered with structs, which lose digits, or with text that is no JSON.
pub fn entry_of(event: Event) -> Result<Entry, Failure> {
    let inexact =
        || Failure::Failed("the server did not answer with text, as it was asked to".to_owned());
    let delta = event.state_delta.unwrap_or_default();
    let set = match delta.set_form {
        Some(SetForm::SetJson(text)) => text,
        Some(SetForm::Set(_)) => return Err(inexact()),
        None => "{}".to_owned(),
    };
    let set = json::Object::read(&set).map_err(|_| inexact())?;
    Ok(Entry {
        event_id: event.event_id,
        invocation_id: event.invocation_id,
        author: event.author,
        branch: event.branch,
        event_time: event.event_time,
        set: pairs(&set),
        remove: delta.remove,
        body: match event.body_form {
            Some(BodyForm::BodyJson(text)) => Some(text),
            Some(BodyForm::Body(_)) => return Err(inexact()),
            None => None,
        },
    })
}

/// A fingerprint of what the entry says, however it is written, but for its time and removals.
fn content(entry: &Entry) -> u128 {
    let mut set: Vec<_> =
        entry.set.iter().map(|(key, value)| (key, json::canonical(value))).collect();
    set.sort_unstable();
    let body = entry.body.as_deref().map(json::canonical);
    let text = serde_json::json!([entry.author, entry.invocation_id, entry.branch, set, body]);
    xxhash_rust::xxh3::xxh3_128(text.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::StateDelta;

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
            ..Event::default()
        }
    }

    fn stored() -> Existing {
        let mut existing = Existing::default();
        existing.add(event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#)).unwrap();
        existing
    }

    #[test]
    fn an_event_is_known_again_however_it_is_written() {
        let existing = stored();
        assert_eq!((existing.newest.as_str(), existing.last_sequence), ("e", 3));
        let stored = existing.get("e").unwrap();
        assert_eq!(stored.sequence, 3);
        let same = entry_of(event(r#"{ "l":[ 2 ],"k":1}"#, r#"{ "x": 1.0 }"#)).unwrap();
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
        let same = entry_of(event(r#"{"k":1,"l":[2]}"#, r#"{"x":1.0}"#)).unwrap();
        assert!(stored.is(&same));
        let others = [
            Entry { author: "b".to_owned(), ..same.clone() },
            Entry { invocation_id: "b".to_owned(), ..same.clone() },
            Entry { branch: "b".to_owned(), ..same.clone() },
            Entry { event_time: Some(Timestamp { seconds: 1, nanos: 3 }), ..same.clone() },
            Entry { remove: Vec::new(), ..same.clone() },
            Entry { body: None, ..same.clone() },
            Entry { body: Some(r#"{"x":1}"#.to_owned()), ..same.clone() },
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
        let entry = entry_of(marker.clone()).unwrap();
        existing.add(marker).unwrap();
        assert!(!existing.get("e").unwrap().is(&entry));
    }
}
