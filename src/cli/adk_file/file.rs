//! A session file as a whole: ids, state, and the events in the order of the log.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    edit::Object,
    entry::Entry,
    extra::{Extra, FORMAT, Note, Rewind},
};
use crate::{cli::compact::compact, domain::json::Json};

/// A session file. Borrows from the file's text.
#[derive(Debug)]
pub struct SessionFile<'a> {
    /// Ids are empty if the file has none.
    pub app_name: String,
    pub user_id: String,
    pub session_id: String,
    /// Merged state at the end of the session, without `temp:` keys.
    pub state: Option<Vec<(String, Json)>>,
    /// `None` in a file that ADK wrote.
    pub extra: Option<Extra<'a>>,
    /// In the order of the log.
    sources: Vec<Source<'a>>,
}

/// One step of a session's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Event(Entry),
    Rewind(Rewind),
    /// A fragment of a streamed answer, which is not stored.
    Fragment,
}

/// A step before it is read, so that a large file is not held twice.
#[derive(Debug)]
enum Source<'a> {
    Adk { position: usize, entry: &'a RawValue },
    Export { note: Note, entry: &'a RawValue },
    Rewind(Rewind),
}

impl<'a> SessionFile<'a> {
    pub fn read(text: &'a str) -> Result<Self, String> {
        // Some editors put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let object = Object::read(text)?;
        let id = |keys: &[&str]| {
            let Some(member) = object.value(keys) else { return Ok(String::new()) };
            member.string().ok_or_else(|| format!("{} must be a string", member.key))
        };
        let state = object.value(&["state", "context"]).map(|member| member.members());
        let mut state = state.transpose()?;
        if let Some(state) = &mut state {
            state.retain(|(key, _)| !key.starts_with("temp:"));
        }
        let events = object.get(&["events"]).map_or("null", |member| member.value);
        let events: Option<Vec<&'a RawValue>> =
            serde_json::from_str(events).map_err(|error| format!("events: {error}"))?;
        let extra = object.get(&["sessiond"]).map(|member| read_extra(member.value));
        let mut extra = extra.transpose().map_err(|error| format!("sessiond: {error}"))?;
        let sources = sources(events.unwrap_or_default(), extra.as_mut())?;
        Ok(Self {
            app_name: id(&["app_name", "appName"])?,
            user_id: id(&["user_id", "userId"])?,
            session_id: id(&["id", "sessionId", "session_id"])?,
            state,
            extra,
            sources,
        })
    }

    /// The steps in the order of the log.
    pub fn steps(&self) -> impl Iterator<Item = Result<Step, String>> {
        self.sources.iter().map(Source::step)
    }
}

impl Source<'_> {
    fn step(&self) -> Result<Step, String> {
        match self {
            Self::Adk { position, entry } => {
                let read = Entry::from_adk(entry.get());
                let Some(mut event) =
                    read.map_err(|error| format!("events[{position}]: {error}"))?
                else {
                    return Ok(Step::Fragment);
                };
                if event.event_id.is_empty() {
                    event.event_id = derived_id(*position, entry.get());
                }
                Ok(Step::Event(event))
            }
            Self::Export { note, entry } => {
                let read = Entry::from_export(entry.get(), note);
                read.map(Step::Event)
                    .map_err(|error| format!("the event with sequence {}: {error}", note.sequence))
            }
            Self::Rewind(rewind) => Ok(Step::Rewind(rewind.clone())),
        }
    }
}

/// The id of an event that has none. It depends on the file alone, so that a second import finds the event.
fn derived_id(position: usize, entry: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(compact(entry).as_bytes());
    format!("import-{position}-{hash:032x}")
}

fn read_extra(text: &str) -> Result<Extra<'_>, String> {
    #[derive(Deserialize)]
    struct Versioned {
        session: Format,
    }
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    // The format first: a later one may have members that are unknown here.
    let versioned: Versioned = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if versioned.session.format != FORMAT {
        return Err(format!(
            "the file has format {}, and this program reads format {FORMAT}",
            versioned.session.format
        ));
    }
    let extra: Extra<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let initial_state = Json::object(extra.initial_state.get().to_owned());
    initial_state.map_err(|fault| format!("initial_state {fault}"))?;
    Ok(extra)
}

/// The steps in the order of the log. Moves them out of `extra`.
fn sources<'a>(
    events: Vec<&'a RawValue>,
    extra: Option<&mut Extra<'a>>,
) -> Result<Vec<Source<'a>>, String> {
    let Some(extra) = extra else {
        let adk = |(position, entry)| Source::Adk { position, entry };
        return Ok(events.into_iter().enumerate().map(adk).collect());
    };
    if events.len() != extra.events.len() {
        return Err(format!(
            "`events` has {} entries and `sessiond.events` has {}. Remove the member `sessiond` to import the file as \
             one of ADK",
            events.len(),
            extra.events.len()
        ));
    }
    let export = |(note, entry): (Note, _)| (note.sequence, Source::Export { note, entry });
    let mut sources: Vec<_> = extra.events.drain(..).zip(events).map(export).collect();
    sources.extend(extra.hidden.drain(..).map(|hidden| export((hidden.note, hidden.entry))));
    let rewind = |rewind: Rewind| (rewind.sequence, Source::Rewind(rewind));
    sources.extend(extra.rewinds.drain(..).map(rewind));
    sources.sort_by_key(|(sequence, _)| *sequence);
    for ((sequence, _), expected) in sources.iter().zip(1..) {
        if *sequence != expected {
            return Err(format!("sessiond: event {expected} is missing or there twice"));
        }
    }
    Ok(sources.into_iter().map(|(_, source)| source).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(file: &SessionFile<'_>) -> Vec<Entry> {
        let event = |step| match step {
            Ok(Step::Event(entry)) => entry,
            other => panic!("{other:?}"),
        };
        file.steps().map(event).collect()
    }

    #[test]
    fn every_spelling_of_the_ids_is_read() {
        for text in [
            r#"{"id":"s","app_name":"a","user_id":"u","state":{},"events":[]}"#,
            r#"{"sessionId":"s","appName":"a","userId":"u","context":{}}"#,
            "\u{feff}{\"session_id\":\"s\",\"appName\":\"a\",\"userId\":\"u\",\"state\":{},\"events\":null}",
        ] {
            let file = SessionFile::read(text).unwrap();
            assert_eq!((file.app_name.as_str(), file.user_id.as_str()), ("a", "u"));
            assert_eq!(file.session_id, "s");
            assert_eq!(file.state.as_deref(), Some(&[][..]));
            assert_eq!(file.steps().count(), 0);
        }
        let bare = SessionFile::read(r#"{"id":null}"#).unwrap();
        assert_eq!((bare.session_id.as_str(), bare.state), ("", None));
    }

    #[test]
    fn temporary_keys_are_dropped_and_numbers_kept() {
        let file = SessionFile::read(r#"{"state":{"a":1.00,"temp:b":2,"app:c":[ ]}}"#).unwrap();
        let pair =
            |key: &str, value: &str| (key.to_owned(), Json::parse(value.to_owned()).unwrap());
        assert_eq!(file.state.unwrap(), [pair("a", "1.00"), pair("app:c", "[ ]")]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{", "EOF"),
            ("[]", "expected a JSON object"),
            (r#"{"id":7}"#, "id must be a string"),
            (r#"{"state":[]}"#, "state must be"),
            (r#"{"events":{}}"#, "events: "),
            (r#"{"events":[NaN]}"#, "expected"),
            (r#"{"sessiond":{"session":{"format":2},"later":1}}"#, "format 2"),
            (
                r#"{"sessiond":{"session":{"format":1},"initial_state":{},"events":[{"sequence":1}],"hidden":[],"rewinds":[]}}"#,
                "has 1.",
            ),
            (
                r#"{"events":[{}],"sessiond":{"session":{"format":1},"initial_state":{},"events":[{"sequence":2}],"hidden":[],"rewinds":[]}}"#,
                "event 1 is missing",
            ),
        ] {
            let error = SessionFile::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let file = SessionFile::read(r#"{"events":[{"id":"e"},{"id":1}]}"#).unwrap();
        let error = file.steps().find_map(Result::err).unwrap();
        assert_eq!(error, "events[1]: id must be a string");
    }

    #[test]
    fn an_event_without_an_id_gets_the_same_one_each_time() {
        let id = |text: &str| events(&SessionFile::read(text).unwrap())[1].event_id.clone();
        let made = id(r#"{"events":[{"id":"e"},{"author":"a"}]}"#);
        assert!(made.starts_with("import-1-") && made.len() <= 128, "{made}");
        assert_eq!(made, id(r#"{"state":{},"events":[{"id":"e"}, {"author" : "a"} ]}"#));
        assert_ne!(made, id(r#"{"events":[{"id":"e"},{"author":"b"}]}"#));
    }

    #[test]
    fn hidden_events_and_rewinds_take_their_places_in_the_log() {
        let text = r#"{"events":[{"id":"a"},{"id":"d"}],"sessiond":{"session":{"format":1},"initial_state":{},
            "events":[{"sequence":1},{"sequence":4}],
            "hidden":[{"note":{"sequence":2},"entry":{"id":"b","partial":true}}],
            "rewinds":[{"sequence":3,"to_sequence":1,"event_id":"c","author":"x"}]}}"#;
        let file = SessionFile::read(text).unwrap();
        let ids: Vec<_> = file
            .steps()
            .map(|step| match step.unwrap() {
                Step::Event(entry) => entry.event_id,
                Step::Rewind(rewind) => format!("{} to {}", rewind.event_id, rewind.to_sequence),
                Step::Fragment => "fragment".to_owned(),
            })
            .collect();
        assert_eq!(ids, ["a", "b", "c to 1", "d"]);
    }
}
