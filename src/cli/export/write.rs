//! Writes a session as an ADK session file while its events arrive.

use std::io::{self, Write};

use prost_types::Timestamp;

use crate::{
    cli::{
        adk_file::{Entry, FORMAT, ForkNote, Hidden, Metadata, Rewind, state_of, write_stamp},
        failure::Failure,
        time,
    },
    domain::json::Json,
    proto::v1::{self, session},
};

/// Everything about a session but its events.
#[derive(Debug)]
pub struct Overview {
    key: v1::SessionKey,
    /// Merged state: one object.
    state: String,
    initial_state: String,
    last_event_time: Option<Timestamp>,
    metadata: Metadata,
}

impl Overview {
    /// From the session as it is now and as it was created.
    pub fn new(session: v1::Session, created: &v1::Session) -> Result<Self, Failure> {
        let expire_time = match session.expiration {
            Some(session::Expiration::ExpireTime(time)) => Some(time::format(time)),
            Some(session::Expiration::Ttl(_)) | None => None,
        };
        Ok(Self {
            state: state_of(&session)?,
            initial_state: state_of(created)?,
            key: session.key.unwrap_or_default(),
            last_event_time: session.last_event_time,
            metadata: Metadata {
                format: FORMAT,
                display_name: session.display_name,
                labels: session.labels.into_iter().collect(),
                expire_time,
                create_time: session.create_time.map(time::format),
                forked_from: session.forked_from.map(fork_note),
            },
        })
    }
}

fn fork_note(origin: v1::ForkOrigin) -> ForkNote {
    let v1::ForkOrigin { key, sequence } = origin;
    let v1::SessionKey { app_name, user_id, session_id } = key.unwrap_or_default();
    ForkNote { app_name, user_id, session_id, sequence }
}

/// Writes one file. The parts of its last member, `sessiond`, are collected until the end.
pub struct FileWriter<W: Write> {
    to: W,
    /// Events so far, rewinds included.
    pub events: u64,
    notes: List,
    hidden: List,
    rewinds: List,
    separator: &'static str,
}

impl<W: Write> FileWriter<W> {
    pub fn begin(mut to: W, overview: &Overview) -> io::Result<Self> {
        let v1::SessionKey { app_name, user_id, session_id } = &overview.key;
        writeln!(to, "{{\n\"id\": {},", Json::string(session_id))?;
        writeln!(to, "\"app_name\": {},", Json::string(app_name))?;
        writeln!(to, "\"user_id\": {},", Json::string(user_id))?;
        writeln!(to, "\"state\": {},", overview.state)?;
        if let Some(time) = overview.last_event_time {
            writeln!(to, "\"last_update_time\": {},", write_stamp(time))?;
        }
        write!(to, "\"events\": [")?;
        let list = List::default;
        Ok(Self { to, events: 0, notes: list(), hidden: list(), rewinds: list(), separator: "" })
    }

    /// Adds the next event of the log.
    pub fn event(&mut self, event: v1::Event) -> Result<(), Failure> {
        self.events += 1;
        let (sequence, hidden) = (event.sequence, event.rewound);
        if let Some(to_sequence) = event.rewind_to_sequence {
            let v1::Event { event_id, author, .. } = event;
            return self.rewinds.push(&Rewind { sequence, to_sequence, event_id, author });
        }
        let (text, note) = Entry::from_event(event)?
            .write(sequence)
            .map_err(|error| Failure::Failed(format!("cannot write event {sequence}: {error}")))?;
        if hidden {
            let entry = serde_json::from_str(&text).map_err(io::Error::from)?;
            return self.hidden.push(&Hidden { note, entry });
        }
        write!(self.to, "{}\n{text}", self.separator)?;
        self.separator = ",";
        self.notes.push(&note)
    }

    /// Ends the file and returns its target.
    pub fn end(mut self, overview: &Overview) -> Result<W, Failure> {
        let metadata = serde_json::to_string(&overview.metadata).map_err(io::Error::from)?;
        let mut to = self.to;
        writeln!(to, "\n],\n\"sessiond\": {{\n\"session\": {metadata},")?;
        writeln!(to, "\"initial_state\": {},", overview.initial_state)?;
        writeln!(to, "\"events\": {},", self.notes.close())?;
        writeln!(to, "\"hidden\": {},", self.hidden.close())?;
        writeln!(to, "\"rewinds\": {}\n}}\n}}", self.rewinds.close())?;
        Ok(to)
    }
}

/// The text of a JSON list that grows.
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
        cli::adk_file::{SessionFile, Step},
        proto::v1::{StateDelta, event::BodyForm, state_delta::SetForm},
    };

    fn overview() -> Overview {
        let time = |seconds| Some(Timestamp { seconds, nanos: 7 });
        let session = v1::Session {
            key: Some(v1::SessionKey {
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
            forked_from: Some(v1::ForkOrigin::default()),
            ..Default::default()
        };
        let form = Some(session::StateForm::StateJson("{\"n\":0}".to_owned()));
        Overview::new(session, &v1::Session { state_form: form, ..Default::default() }).unwrap()
    }

    fn event(sequence: i64, body: &str) -> v1::Event {
        v1::Event {
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
            ..Default::default()
        }
    }

    fn write(events: &[v1::Event]) -> String {
        let overview = overview();
        let mut writer = FileWriter::begin(Vec::new(), &overview).unwrap();
        for event in events {
            writer.event(event.clone()).unwrap();
        }
        String::from_utf8(writer.end(&overview).unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let hidden = v1::Event { rewound: true, ..event(2, "{\"partial\": true}") };
        let marker = v1::Event { rewound: true, rewind_to_sequence: Some(1), ..event(3, "{}") };
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
        assert_eq!((state[0].0.as_str(), state[0].1.as_str()), ("n", "1.00"));
        let steps: Vec<_> = file.steps().map(Result::unwrap).collect();
        let entry = |event: &v1::Event| Step::Event(Entry::from_event(event.clone()).unwrap());
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
    fn adk_sees_its_own_members_and_visible_events() {
        let hidden = v1::Event { rewound: true, ..event(2, "{}") };
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
