//! A session file as a whole: who it is about, its state, its events in the order of the log.

use serde_json::value::RawValue;

use super::{
    entry::{Entry, pairs},
    extra::{Extra, FORMAT, Note, Rewind},
};
use crate::cli::json;

/// A session file, read but not yet taken apart. Borrows from the file's text.
#[derive(Debug)]
pub struct SessionFile<'a> {
    /// Empty where the file does not say.
    pub app_name: String,
    /// Empty where the file does not say.
    pub user_id: String,
    /// Empty where the file does not say.
    pub session_id: String,
    /// Merged state that the session ends with, without `temp:` keys; none where the file has none.
    pub state: Option<Vec<(String, String)>>,
    /// What kits cannot say; none in a file of a kit.
    pub extra: Option<Extra<'a>>,
    /// What happened, in the order of the log.
    sources: Vec<Source<'a>>,
}

/// One step of a session's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An event is appended.
    Event(Entry),
    /// A rewind is carried out.
    Rewind(Rewind),
    /// A fragment of a streamed answer, which is not stored.
    Fragment,
}

/// Where a step stands in the file. Entries are taken apart when their turn comes, so that a
/// large file is not held twice.
#[derive(Debug)]
enum Source<'a> {
    Kit { position: usize, entry: &'a RawValue },
    Export { note: Note, entry: &'a RawValue },
    Rewind(Rewind),
}

impl<'a> SessionFile<'a> {
    /// Reads a file's text.
    ///
    /// # Errors
    ///
    /// What is wrong and where, for people.
    pub fn read(text: &'a str) -> Result<Self, String> {
        // Some editors put a byte order mark in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let object = json::Object::read(text)?;
        let id = |keys: &[&str]| match object.any(keys) {
            None => Ok(String::new()),
            Some(member) if member.value == "null" => Ok(String::new()),
            Some(member) => member.string().ok_or_else(|| {
                format!("{} is {}, not a string", member.key, json::type_of(member.value))
            }),
        };
        let state = object.any(&["state", "context"]).filter(|member| member.value != "null");
        let state = state.map(|member| {
            let state =
                json::Object::read(member.value).map_err(|e| format!("{}: {e}", member.key))?;
            let mut pairs = pairs(&state);
            pairs.retain(|(key, _)| !key.starts_with("temp:"));
            Ok::<_, String>(pairs)
        });
        let events = object.get("events").map_or("null", |member| member.value);
        let events: Option<Vec<&'a RawValue>> =
            serde_json::from_str(events).map_err(|error| format!("events: {error}"))?;
        let extra = object.get("sessiond").map(|member| read_extra(member.value)).transpose()?;
        let mut file = Self {
            app_name: id(&["app_name", "appName"])?,
            user_id: id(&["user_id", "userId"])?,
            session_id: id(&["id", "sessionId", "session_id"])?,
            state: state.transpose()?,
            extra,
            sources: Vec::new(),
        };
        file.sources = sources(events.unwrap_or_default(), file.extra.as_mut())?;
        Ok(file)
    }

    /// The steps in the order of the log.
    pub fn steps(&self) -> impl Iterator<Item = Result<Step, String>> {
        self.sources.iter().map(Source::step)
    }
}

impl Source<'_> {
    fn step(&self) -> Result<Step, String> {
        match self {
            Self::Kit { position, entry } => {
                let entry = entry.get();
                match Entry::of_kit(entry)
                    .map_err(|error| format!("events[{position}]: {error}"))?
                {
                    None => Ok(Step::Fragment),
                    Some(mut event) => {
                        if event.event_id.is_empty() {
                            event.event_id = made_up_id(*position, entry);
                        }
                        Ok(Step::Event(event))
                    }
                }
            }
            Self::Export { note, entry } => {
                let wrong = |error| format!("the event of sequence {}: {error}", note.sequence);
                Ok(Step::Event(Entry::of_export(entry.get(), note).map_err(wrong)?))
            }
            Self::Rewind(rewind) => Ok(Step::Rewind(rewind.clone())),
        }
    }
}

/// An id for an event that has none: the same for the same file, so that a second import finds it.
fn made_up_id(position: usize, entry: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(json::compact(entry).as_bytes());
    format!("import-{position}-{hash:032x}")
}

fn read_extra(text: &str) -> Result<Extra<'_>, String> {
    #[derive(serde::Deserialize)]
    struct Form {
        session: Format,
    }
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    // The form first: a later one may have members that this program does not know.
    let form: Form = serde_json::from_str(text).map_err(|error| format!("sessiond: {error}"))?;
    if form.session.format != FORMAT {
        return Err(format!(
            "sessiond: the file is of format {}, this program reads {FORMAT}",
            form.session.format
        ));
    }
    let extra: Extra<'_> =
        serde_json::from_str(text).map_err(|error| format!("sessiond: {error}"))?;
    json::object(extra.initial_state.get()).map_err(|e| format!("sessiond.initial_state: {e}"))?;
    Ok(extra)
}

/// The steps in the order of the log. Moves them out of the extra member.
fn sources<'a>(
    events: Vec<&'a RawValue>,
    extra: Option<&mut Extra<'a>>,
) -> Result<Vec<Source<'a>>, String> {
    let Some(extra) = extra else {
        let kit = |(position, entry)| Source::Kit { position, entry };
        return Ok(events.into_iter().enumerate().map(kit).collect());
    };
    if events.len() != extra.events.len() {
        return Err(format!(
            "`events` has {} entries, but `sessiond.events` speaks of {}: without its member `sessiond` the file is \
             read as one of a kit",
            events.len(),
            extra.events.len()
        ));
    }
    let mut sources: Vec<(i64, Source<'a>)> = Vec::new();
    for (note, entry) in extra.events.drain(..).zip(events) {
        sources.push((note.sequence, Source::Export { note, entry }));
    }
    for hidden in extra.hidden.drain(..) {
        let (note, entry) = (hidden.note, hidden.entry);
        sources.push((note.sequence, Source::Export { note, entry }));
    }
    for rewind in extra.rewinds.drain(..) {
        sources.push((rewind.sequence, Source::Rewind(rewind)));
    }
    sources.sort_by_key(|(sequence, _)| *sequence);
    for ((sequence, _), expected) in sources.iter().zip(1..) {
        if *sequence != expected {
            return Err(format!(
                "sessiond: there is no event of sequence {expected}, or more than one"
            ));
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
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(file.state.unwrap(), [pair("a", "1.00"), pair("app:c", "[ ]")]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{", "EOF"),
            ("[]", "expected a JSON object"),
            (r#"{"id":7}"#, "id is a number"),
            (r#"{"state":[]}"#, "state: "),
            (r#"{"events":{}}"#, "events: "),
            (r#"{"events":[NaN]}"#, "expected"),
            (r#"{"sessiond":{"session":{"format":2},"later":1}}"#, "format 2"),
            (
                r#"{"sessiond":{"session":{"format":1},"initial_state":{},"events":[{"sequence":1}],"hidden":[],"rewinds":[]}}"#,
                "speaks of 1",
            ),
            (
                r#"{"events":[{}],"sessiond":{"session":{"format":1},"initial_state":{},"events":[{"sequence":2}],"hidden":[],"rewinds":[]}}"#,
                "no event of sequence 1",
            ),
        ] {
            let error = SessionFile::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let file = SessionFile::read(r#"{"events":[{"id":"e"},{"id":1}]}"#).unwrap();
        let error = file.steps().find_map(Result::err).unwrap();
        assert_eq!(error, "events[1]: id is a number, not a string");
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
