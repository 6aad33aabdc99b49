//! Writes a session as an ADK session file while its events arrive.

use std::io::{self, Write};

use clap::ValueEnum;
use serde_json::json;

use super::{
    entry,
    form::{self, Losses},
    format::{FORMAT, Metadata, Rewind},
};
use crate::{
    cli::{failure::Failure, output::table::is_internal, time},
    domain::json::Json,
    proto::v1::{self, session},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileForm {
    /// ADK's own form, for its tools. Omits what that form cannot hold.
    Adk,
    /// ADK's form with one more member, from which `import` restores an equal session.
    Sessiond,
}

/// Writes one file. The parts of its last member, `sessiond`, are collected as JSON texts until the end.
pub struct FileWriter<'a, W> {
    to: &'a mut W,
    form: FileForm,
    events: usize,
    /// In the file's `events`.
    entries: usize,
    losses: Losses,
    notes: Vec<String>,
    hidden: Vec<String>,
    rewinds: Vec<String>,
}

impl<'a, W: Write> FileWriter<'a, W> {
    /// From the session with its state as it is now.
    pub fn begin(to: &'a mut W, session: &v1::Session, form: FileForm) -> io::Result<Self> {
        let [app_name_key, user_id_key, time_key] = match form {
            FileForm::Adk => ["appName", "userId", "lastUpdateTime"],
            FileForm::Sessiond => ["app_name", "user_id", "last_update_time"],
        };
        let v1::SessionKey { app_name, user_id, session_id } =
            session.key.clone().unwrap_or_default();
        writeln!(to, "{{\n\"id\": {},", Json::string(&session_id))?;
        writeln!(to, "\"{app_name_key}\": {},", Json::string(&app_name))?;
        writeln!(to, "\"{user_id_key}\": {},", Json::string(&user_id))?;
        writeln!(to, "\"state\": {},", state_of(session))?;
        if let Some(time) = session.last_event_time {
            writeln!(to, "\"{time_key}\": {},", time::format_stamp(time))?;
        }
        write!(to, "\"events\": [")?;
        let (notes, hidden, rewinds) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { to, form, events: 0, entries: 0, losses: Losses::new(), notes, hidden, rewinds })
    }

    /// Adds the next event of the log.
    pub fn event(&mut self, event: &v1::Event) -> Result<(), Failure> {
        let sequence = event.sequence;
        self.events += 1;
        if self.form == FileForm::Adk {
            if event.rewound || event.rewind_to_sequence.is_some() {
                self.losses.insert("rewinds and what they hide".to_owned());
                return Ok(());
            }
            let entry = form::entry(event, &mut self.losses);
            return Ok(self.entry(entry.as_str())?);
        }
        if let Some(to_sequence) = event.rewind_to_sequence {
            let (event_id, author) = (event.event_id.clone(), event.author.clone());
            let trace_id = event.trace_id.clone();
            let rewind = Rewind { sequence, to_sequence, event_id, author, trace_id };
            self.rewinds.push(serde_json::to_string(&rewind)?);
            return Ok(());
        }
        let (text, note) = entry::write(event)
            .map_err(|error| Failure::Failed(format!("cannot write event {sequence}: {error}")))?;
        let note = serde_json::to_string(&note)?;
        if event.rewound {
            self.hidden.push(format!(r#"{{"note":{note},"entry":{text}}}"#));
            return Ok(());
        }
        self.notes.push(note);
        Ok(self.entry(&text)?)
    }

    fn entry(&mut self, text: &str) -> io::Result<()> {
        let separator = if self.entries == 0 { "" } else { "," };
        self.entries += 1;
        write!(self.to, "{separator}\n{text}")
    }

    /// Events so far, rewinds included.
    pub fn events(&self) -> usize {
        self.events
    }

    /// Returns what the file lacks.
    pub fn end(self, session: v1::Session, created: &v1::Session) -> Result<Losses, Failure> {
        let Self { to, form, events: _, entries: _, mut losses, notes, hidden, rewinds } = self;
        if form == FileForm::Adk {
            writeln!(to, "\n]\n}}")?;
            let lacking = [
                ("labels", session.labels.keys().any(|name| !is_internal(name))),
                ("the display name", !session.display_name.is_empty()),
                ("the expiration", session.expiration.is_some()),
                ("the origin of the fork", session.forked_from.is_some()),
            ];
            let lacking = lacking.into_iter().filter(|(_, has)| *has);
            losses.extend(lacking.map(|(what, _)| what.to_owned()));
            return Ok(losses);
        }
        let metadata = serde_json::to_string(&metadata_of(session))?;
        writeln!(to, "\n],\n\"sessiond\": {{\n\"session\": {metadata},")?;
        writeln!(to, "\"initial_state\": {},", state_of(created))?;
        writeln!(to, "\"events\": {},", list(&notes))?;
        writeln!(to, "\"hidden\": {},", list(&hidden))?;
        writeln!(to, "\"rewinds\": {}\n}}\n}}", list(&rewinds))?;
        Ok(losses)
    }
}

/// A JSON list with one item a line.
fn list(items: &[String]) -> String {
    if items.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", items.join(",\n")) }
}

fn metadata_of(session: v1::Session) -> Metadata {
    let expire_time = match session.expiration {
        Some(session::Expiration::ExpireTime(time)) => Some(time::format(time)),
        Some(session::Expiration::Ttl(_)) | None => None,
    };
    let forked_from = session.forked_from.map(|v1::ForkOrigin { key, sequence }| {
        let v1::SessionKey { app_name, user_id, session_id } = key.unwrap_or_default();
        json!({ "app_name": app_name, "user_id": user_id, "session_id": session_id, "sequence": sequence })
    });
    Metadata {
        format: FORMAT,
        display_name: session.display_name,
        labels: session.labels.into_iter().collect(),
        expire_time,
        create_time: session.create_time.map(time::format),
        forked_from,
    }
}

/// The merged state of a session that was asked for as text: one object.
pub fn state_of(session: &v1::Session) -> &str {
    match &session.state_form {
        Some(session::StateForm::StateJson(text)) => text,
        _ => "{}",
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::{
        cli::adk_file::{SessionFile, delta},
        proto::v1::event::BodyForm,
    };

    fn session() -> v1::Session {
        let time = |seconds| Some(Timestamp { seconds, nanos: 7 });
        v1::Session {
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
        }
    }

    fn event(sequence: i64, body: &str) -> v1::Event {
        let n = Json::parse(format!("{sequence}.0")).unwrap();
        v1::Event {
            event_id: format!("e{sequence}"),
            sequence,
            author: "me".to_owned(),
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
            event_time: Some(Timestamp { seconds: sequence, nanos: 123_456_789 }),
            state_delta: delta(&[("n".to_owned(), n)], vec!["gone".to_owned()]),
            body_form: Some(BodyForm::BodyJson(body.to_owned())),
            ..Default::default()
        }
    }

    fn write(events: &[v1::Event]) -> String {
        write_as(FileForm::Sessiond, events).0
    }

    fn write_as(form: FileForm, events: &[v1::Event]) -> (String, Losses) {
        let mut text = Vec::new();
        let mut writer = FileWriter::begin(&mut text, &session(), form).unwrap();
        for event in events {
            writer.event(event).unwrap();
        }
        assert_eq!(writer.events(), events.len());
        let form = Some(session::StateForm::StateJson("{\"n\":0}".to_owned()));
        let created = v1::Session { state_form: form, ..Default::default() };
        let losses = writer.end(session(), &created).unwrap();
        (String::from_utf8(text).unwrap(), losses)
    }

    #[test]
    fn the_form_of_adk_has_nothing_more_and_says_what_it_lacks() {
        let hidden = v1::Event { rewound: true, ..event(2, "{}") };
        let (text, losses) = write_as(FileForm::Adk, &[event(1, "{\"content\":{}}"), hidden]);
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> = file.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["appName", "events", "id", "lastUpdateTime", "state", "userId"]);
        assert_eq!(file["events"].as_array().unwrap().len(), 1);
        let losses: Vec<_> = losses.iter().map(String::as_str).collect();
        assert_eq!(
            losses,
            [
                "labels",
                "removals of keys",
                "rewinds and what they hide",
                "the display name",
                "the expiration",
                "the origin of the fork"
            ]
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let marker = v1::Event {
            sequence: 3,
            event_id: "e3".to_owned(),
            author: "me".to_owned(),
            rewind_to_sequence: Some(1),
            trace_id: event(3, "{}").trace_id,
            ..Default::default()
        };
        let events = [
            event(1, "{ \"x\":\n1.00 }"),
            event(2, "{\"partial\": true}"),
            marker,
            event(4, "{\"id\": 5, \"actions\": {} }"),
        ];
        let mut sent = events.clone();
        sent[1].rewound = true;
        sent[2] = v1::Event { rewound: true, ..event(3, "{}") };
        sent[2].rewind_to_sequence = Some(1);
        let file = SessionFile::read(&write(&sent)).unwrap();
        assert_eq!((file.key.app_name.as_str(), file.key.user_id.as_str()), ("a\"", "u/1"));
        assert_eq!(file.key.session_id, "s\n");
        let state = file.state.as_ref().unwrap();
        assert_eq!((state[0].0.as_str(), state[0].1.as_str()), ("n", "1.00"));
        assert_eq!(file.events, events);
        let exported = file.exported.unwrap();
        assert_eq!(Json::of_members(&exported.initial_state).as_str(), "{\"n\":0}");
        assert_eq!(exported.metadata.display_name, "Ü");
        assert_eq!(exported.metadata.labels["k"], "v");
        assert_eq!(
            exported.metadata.expire_time.as_deref(),
            Some("1970-01-01T00:00:09.000000007Z")
        );
        assert!(exported.metadata.forked_from.is_some());
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
        assert_eq!(SessionFile::read(&text).unwrap().events, []);
    }
}
