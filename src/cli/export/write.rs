//! A session as a file of the kits, written while its events come.

use std::io::{self, Write};

use prost_types::Timestamp;

use crate::{
    cli::{
        failure::Failure,
        import::entry_of,
        json,
        kit::{FORMAT, ForkNote, Head, Hidden, Rewind, put_together, write_stamp},
        time,
    },
    proto::v1::{Event, ForkOrigin, Session, SessionKey, session},
};

/// What a file says about a session beside its events.
#[derive(Debug)]
pub struct Overview {
    /// Whose session it is.
    pub key: SessionKey,
    /// Merged state that it ends with: one object.
    pub state: String,
    /// Merged state at creation: one object.
    pub initial_state: String,
    last_event_time: Option<Timestamp>,
    head: Head,
}

impl Overview {
    /// Takes over what an answer says, with both states as text.
    pub fn new(session: Session, initial_state: String) -> Self {
        let state = state_text(session.state_form);
        let expire_time = match session.expiration {
            Some(session::Expiration::ExpireTime(time)) => Some(time::format(time)),
            // Never in an answer.
            Some(session::Expiration::Ttl(_)) | None => None,
        };
        Self {
            key: session.key.unwrap_or_default(),
            state,
            initial_state,
            last_event_time: session.last_event_time,
            head: Head {
                format: FORMAT,
                display_name: session.display_name,
                labels: session.labels.into_iter().collect(),
                expire_time,
                create_time: session.create_time.map(time::format),
                forked_from: session.forked_from.map(fork_note),
            },
        }
    }
}

/// The text of a state that was asked for as text.
pub fn state_text(state: Option<session::StateForm>) -> String {
    match state {
        Some(session::StateForm::StateJson(text)) => text,
        Some(session::StateForm::State(_)) | None => "{}".to_owned(),
    }
}

fn fork_note(origin: ForkOrigin) -> ForkNote {
    let ForkOrigin { key, sequence } = origin;
    let SessionKey { app_name, user_id, session_id } = key.unwrap_or_default();
    ForkNote { app_name, user_id, session_id, sequence }
}

/// Writes one file. What kits do not read is held back until their part is complete.
pub struct FileWriter<W: Write> {
    to: W,
    /// Events written or held back so far, rewinds included.
    pub events: u64,
    notes: List,
    hidden: List,
    rewinds: List,
    visible: bool,
}

impl<W: Write> FileWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn begin(mut to: W, overview: &Overview) -> io::Result<Self> {
        let SessionKey { app_name, user_id, session_id } = &overview.key;
        writeln!(to, "{{\n\"id\": {},", json::quote(session_id))?;
        writeln!(to, "\"app_name\": {},", json::quote(app_name))?;
        writeln!(to, "\"user_id\": {},", json::quote(user_id))?;
        writeln!(to, "\"state\": {},", overview.state)?;
        if let Some(time) = overview.last_event_time {
            writeln!(to, "\"last_update_time\": {},", write_stamp(time))?;
        }
        write!(to, "\"events\": [")?;
        Ok(Self {
            to,
            events: 0,
            notes: List::default(),
            hidden: List::default(),
            rewinds: List::default(),
            visible: false,
        })
    }

    /// Adds the next event of the log.
    ///
    /// # Errors
    ///
    /// When it cannot be written, or is not what a server stores.
    pub fn event(&mut self, event: Event) -> Result<(), Failure> {
        self.events += 1;
        let sequence = event.sequence;
        if let Some(to_sequence) = event.rewind_to_sequence {
            return self.rewinds.push(&Rewind {
                sequence,
                to_sequence,
                event_id: event.event_id,
                author: event.author,
            });
        }
        let hidden = event.rewound;
        let (text, note) = put_together(&entry_of(event)?, sequence).map_err(|error| {
            Failure::Failed(format!("event {sequence} cannot be written down: {error}"))
        })?;
        if hidden {
            let entry = serde_json::from_str(&text).map_err(io::Error::from)?;
            return self.hidden.push(&Hidden { note, entry });
        }
        write!(self.to, "{}\n{text}", if self.visible { "," } else { "" })?;
        self.visible = true;
        self.notes.push(&note)
    }

    /// Ends the file, and hands back what it was written to.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn end(mut self, overview: &Overview) -> Result<W, Failure> {
        let head = serde_json::to_string(&overview.head).map_err(io::Error::from)?;
        let mut to = self.to;
        writeln!(to, "\n],\n\"sessiond\": {{\n\"session\": {head},")?;
        writeln!(to, "\"initial_state\": {},", overview.initial_state)?;
        writeln!(to, "\"events\": {},", self.notes.close())?;
        writeln!(to, "\"hidden\": {},", self.hidden.close())?;
        writeln!(to, "\"rewinds\": {}\n}}\n}}", self.rewinds.close())?;
        Ok(to)
    }
}

/// A JSON list that grows.
#[derive(Default)]
struct List(String);

impl List {
    fn push(&mut self, item: &impl serde::Serialize) -> Result<(), Failure> {
        self.0.push_str(if self.0.is_empty() { "[\n" } else { ",\n" });
        self.0.push_str(&serde_json::to_string(item).map_err(io::Error::from)?);
        Ok(())
    }

    fn close(&mut self) -> &str {
        self.0.push_str(if self.0.is_empty() { "[]" } else { "\n]" });
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cli::kit::{SessionFile, Step},
        proto::v1::{StateDelta, event::BodyForm, state_delta::SetForm},
    };

    fn overview() -> Overview {
        let time = |seconds| Some(Timestamp { seconds, nanos: 7 });
        let session = Session {
            key: Some(SessionKey {
                app_name: "a\"".to_owned(),
                user_id: "u/1".to_owned(),
                session_id: "s\n".to_owned(),
            }),
            state_form: Some(session::StateForm::StateJson(
                "{ \"n\": 1.00, \"app:x\": [] }".to_owned(),
            )),
            last_event_time: time(5),
            create_time: time(4),
            expiration: time(9).map(session::Expiration::ExpireTime),
            display_name: "Ü".to_owned(),
            labels: [("k".to_owned(), "v".to_owned())].into(),
            forked_from: Some(ForkOrigin::default()),
            ..Session::default()
        };
        Overview::new(session, "{\"n\":0}".to_owned())
    }

    fn event(sequence: i64, body: &str) -> Event {
        Event {
            event_id: format!("e{sequence}"),
            sequence,
            author: "me".to_owned(),
            event_time: Some(Timestamp { seconds: sequence, nanos: 123_456_789 }),
            state_delta: Some(StateDelta {
                set_form: Some(SetForm::SetJson(format!("{{\"n\":{sequence}.0}}"))),
                remove: vec!["gone".to_owned()],
                operations: Vec::new(),
            }),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Event::default()
        }
    }

    fn write(events: &[Event]) -> String {
        let overview = overview();
        let mut writer = FileWriter::begin(Vec::new(), &overview).unwrap();
        for event in events {
            writer.event(event.clone()).unwrap();
        }
        String::from_utf8(writer.end(&overview).unwrap()).unwrap()
    }

    #[test]
    fn a_file_says_everything_again_when_it_is_read() {
        let hidden = Event { rewound: true, ..event(2, "{\"partial\": true}") };
        let marker = Event { rewound: true, rewind_to_sequence: Some(1), ..event(3, "{}") };
        let events = [
            event(1, "{ \"x\":\n1.00 }"),
            hidden,
            marker,
            event(4, "{\"id\": 5, \"actions\": {} }"),
        ];
        let text = write(&events);
        let file = SessionFile::read(&text).unwrap();
        assert_eq!((file.app_name.as_str(), file.user_id.as_str()), ("a\"", "u/1"));
        assert_eq!(file.session_id, "s\n");
        let state = file.state.as_ref().unwrap();
        assert_eq!(state[0], ("n".to_owned(), "1.00".to_owned()));
        let steps: Vec<_> = file.steps().map(Result::unwrap).collect();
        let entry = |event: &Event| Step::Event(entry_of(event.clone()).unwrap());
        let rewind = Rewind {
            sequence: 3,
            to_sequence: 1,
            event_id: "e3".to_owned(),
            author: "me".to_owned(),
        };
        let expected =
            [entry(&events[0]), entry(&events[1]), Step::Rewind(rewind), entry(&events[3])];
        assert_eq!(steps, expected);
        let extra = file.extra.unwrap();
        assert_eq!(extra.initial_state.get(), "{\"n\":0}");
        assert_eq!(extra.session.display_name, "Ü");
        assert_eq!(extra.session.labels["k"], "v");
        assert_eq!(extra.session.expire_time.as_deref(), Some("1970-01-01T00:00:09.000000007Z"));
        assert!(extra.session.forked_from.is_some());
    }

    #[test]
    fn a_kit_sees_its_own_members_and_what_is_visible() {
        let hidden = Event { rewound: true, ..event(2, "{}") };
        let file: serde_json::Value =
            serde_json::from_str(&write(&[event(1, "{\"content\":{}}"), hidden])).unwrap();
        assert_eq!(file["id"], "s\n");
        assert_eq!(file["last_update_time"], 5.000_000_007);
        assert_eq!(file["events"].as_array().unwrap().len(), 1);
        let entry = &file["events"][0];
        assert_eq!((&entry["id"], &entry["author"]), (&"e1".into(), &"me".into()));
        assert_eq!(entry["actions"]["state_delta"]["n"], 1.0);
    }

    #[test]
    fn a_session_without_events_is_a_file_too() {
        let text = write(&[]);
        assert_eq!(SessionFile::read(&text).unwrap().steps().count(), 0);
    }
}
