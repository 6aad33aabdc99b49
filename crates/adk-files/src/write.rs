//! Writes a session as an ADK session file while its events arrive.

use std::io::{self, Write};

use prost_types::Timestamp;

use super::{
    entry,
    event::Event,
    form::{self, Losses},
    session::{Address, FORMAT, Metadata, is_internal},
    time,
};
use sessiond_core::domain::json::Json;

/// Writes one file.
pub struct FileWriter<'a, W> {
    to: &'a mut W,
    exact: bool,
    events: usize,
    /// In the file's `events`.
    entries: usize,
    losses: Losses,
    /// Exact forms of hidden events.
    hidden: Vec<Json>,
}

impl<'a, W: Write> FileWriter<'a, W> {
    /// Of a session with its merged state after the last event, if that is known. `exact`: with what ADK's form cannot hold.
    pub fn begin(
        to: &'a mut W,
        (address, state): (&Address, Option<&Json>),
        last_event_time: Option<Timestamp>,
        exact: bool,
    ) -> io::Result<Self> {
        writeln!(to, "{{\n\"id\": {},", Json::string(&address.session_id))?;
        writeln!(to, "\"appName\": {},", Json::string(&address.app_name))?;
        writeln!(to, "\"userId\": {},", Json::string(&address.user_id))?;
        if let Some(state) = state {
            writeln!(to, "\"state\": {state},")?;
        }
        if let Some(time) = last_event_time {
            writeln!(to, "\"lastUpdateTime\": {},", time::format_stamp(time))?;
        }
        write!(to, "\"events\": [")?;
        Ok(Self { to, exact, events: 0, entries: 0, losses: Losses::new(), hidden: Vec::new() })
    }

    /// Adds the next event of the log.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.events += 1;
        let is_hidden = event.rewound || event.rewind_to.is_some();
        let entry = match (is_hidden, self.exact) {
            (true, true) => {
                self.hidden.push(event.to_exact(String::new())?);
                return Ok(());
            }
            (true, false) => {
                self.losses.insert("rewinds and what they hide".to_owned());
                return Ok(());
            }
            (false, true) => entry::write(event)?,
            (false, false) => form::entry(event, &mut self.losses),
        };
        let separator = if self.entries == 0 { "" } else { "," };
        self.entries += 1;
        write!(self.to, "{separator}\n{entry}")
    }

    /// Events so far, rewinds included.
    pub fn events(&self) -> usize {
        self.events
    }

    /// `initial_state` is the merged state at the creation. Returns what the file lacks.
    pub fn end(self, metadata: &Metadata, initial_state: &Json) -> io::Result<Losses> {
        let Self { to, exact, events: _, entries: _, mut losses, hidden } = self;
        if exact {
            let metadata = serde_json::to_string(&Metadata { format: FORMAT, ..metadata.clone() })?;
            let hidden = hidden.join(",\n");
            writeln!(to, "\n],\n\"sessiond\": {{\n\"session\": {metadata},")?;
            writeln!(to, "\"initial_state\": {initial_state},\n\"hidden\": [{hidden}]\n}}\n}}")?;
            return Ok(losses);
        }
        writeln!(to, "\n]\n}}")?;
        let lacking = [
            ("labels", metadata.labels.keys().any(|name| !is_internal(name))),
            ("the display name", !metadata.display_name.is_empty()),
            ("the expiration", metadata.expire_time.is_some()),
            ("the origin of the fork", metadata.forked_from.is_some()),
        ];
        let lacking = lacking.into_iter().filter(|(_, has)| *has);
        losses.extend(lacking.map(|(what, _)| what.to_owned()));
        Ok(losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFile;

    fn address() -> Address {
        Address {
            app_name: "a\"".to_owned(),
            user_id: "u/1".to_owned(),
            session_id: "s\n".to_owned(),
        }
    }

    fn metadata() -> Metadata {
        Metadata {
            display_name: "Ü".to_owned(),
            labels: [("k".to_owned(), "v".to_owned())].into(),
            expire_time: Some("1970-01-01T00:00:09.000000007Z".to_owned()),
            create_time: Some("1970-01-01T00:00:04.000000007Z".to_owned()),
            forked_from: Some(serde_json::json!({"sequence": 1})),
            ..Metadata::default()
        }
    }

    fn event(sequence: i64, body: &str) -> Event {
        Event {
            event_id: format!("e{sequence}"),
            sequence,
            author: "me".to_owned(),
            trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
            event_time: Some(Timestamp { seconds: sequence, nanos: 123_456_789 }),
            set: vec![("n".to_owned(), Json::parse(format!("{sequence}.0")).unwrap())],
            remove: vec!["gone".to_owned()],
            body: Some(Json::object(body.to_owned()).unwrap()),
            ..Event::default()
        }
    }

    fn write(exact: bool, events: &[Event]) -> (String, Losses) {
        let mut text = Vec::new();
        let state = Json::parse("{ \"n\": 1.00, \"app:x\": [] }".to_owned()).unwrap();
        let last = Some(Timestamp { seconds: 5, nanos: 7 });
        let mut writer =
            FileWriter::begin(&mut text, (&address(), Some(&state)), last, exact).unwrap();
        for event in events {
            writer.event(event).unwrap();
        }
        assert_eq!(writer.events(), events.len());
        let created = Json::parse("{\"n\":0}".to_owned()).unwrap();
        let losses = writer.end(&metadata(), &created).unwrap();
        (String::from_utf8(text).unwrap(), losses)
    }

    #[test]
    fn the_form_of_adk_has_nothing_more_and_says_what_it_lacks() {
        let hidden = Event { rewound: true, ..event(2, "{}") };
        let (text, losses) = write(false, &[event(1, "{\"content\":{}}"), hidden]);
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        let names: Vec<_> = file.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, ["appName", "events", "id", "lastUpdateTime", "state", "userId"]);
        assert_eq!(file["events"].as_array().unwrap().len(), 1);
        assert_eq!(
            losses.iter().collect::<Vec<_>>(),
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
        let marker = Event { rewind_to: Some(1), ..event(3, "{}") };
        let events = [
            event(1, "{ \"x\":\n1.00 }"),
            event(2, "{\"partial\": true}"),
            marker,
            event(4, "{\"id\": 5, \"actions\": {} }"),
        ];
        let mut sent = events.clone();
        sent[1].rewound = true;
        sent[2].rewound = true;
        let (text, losses) = write(true, &sent);
        assert!(losses.is_empty());
        let file = SessionFile::read(&text).unwrap();
        assert_eq!(file.address, address());
        let state = file.state.as_ref().unwrap();
        assert_eq!((state[0].0.as_str(), state[0].1.as_str()), ("n", "1.00"));
        let author = "me".to_owned();
        let (sequence, trace_id) = (3, event(3, "{}").trace_id);
        let (event_id, rewind_to) = ("e3".to_owned(), Some(1));
        let marker = Event { event_id, sequence, author, trace_id, rewind_to, ..Event::default() };
        assert_eq!(file.events[2], marker, "the server makes the rest of it");
        assert_eq!((&file.events[..2], &file.events[3]), (&events[..2], &events[3]));
        let exported = file.exported.unwrap();
        assert_eq!(Json::of_members(&exported.initial_state).as_str(), "{\"n\":0}");
        assert_eq!(exported.metadata.display_name, "Ü");
        assert_eq!(exported.metadata.labels["k"], "v");
        assert_eq!(exported.metadata.expire_time, metadata().expire_time);
        assert!(exported.metadata.forked_from.is_some());
    }

    #[test]
    fn adk_sees_its_own_members_and_visible_events() {
        let hidden = Event { rewound: true, ..event(2, "{}") };
        let text = write(true, &[event(1, "{\"content\":{}}"), hidden]).0;
        let file: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&file["id"], &file["lastUpdateTime"]), (&"s\n".into(), &5.000_000_007.into()));
        assert_eq!(file["events"].as_array().unwrap().len(), 1);
        let entry = &file["events"][0];
        assert_eq!((&entry["id"], &entry["author"]), (&"e1".into(), &"me".into()));
        assert_eq!(entry["actions"]["stateDelta"]["n"], 1.0);
    }

    #[test]
    fn a_session_without_events_is_a_file_too() {
        assert_eq!(SessionFile::read(&write(true, &[]).0).unwrap().events, []);
    }
}
