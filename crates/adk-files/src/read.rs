//! A session file as a whole: ids, state, and the events in the order of the log.

use std::borrow::Cow;

use indexmap::IndexSet;
use serde_json::value::RawValue;

use super::{
    entry,
    event::Event,
    halves::{is_mended, mend},
    object::{Object, members},
    session::{Address, Extra, FORMAT, Metadata, SHARED_STATE},
};
use sessiond_core::domain::{
    json::{Json, minified},
    scope::TEMP,
};

#[derive(Debug, Default)]
pub struct SessionFile {
    pub address: Address,
    /// Merged state at the end of the session, without `temp:` keys.
    pub state: Option<Vec<(String, Json)>>,
    /// In the order of the log. Those of an export have their sequence, and markers of rewinds are among them.
    pub events: Vec<Event>,
    /// Fragments of streamed answers, which are not stored.
    pub fragments: u64,
    /// Ids of exported events that were edited: their exact form is ignored.
    pub edited: Vec<String>,
    /// `None` in a file that ADK wrote.
    pub exported: Option<Exported>,
    /// The file holds the state of an application or user, and no session.
    pub shared_only: bool,
    /// Members that are not read.
    pub unknown: Vec<String>,
    /// Keys and events in whose texts U+FFFD stands for half of a surrogate pair.
    pub mended: IndexSet<String>,
}

/// What an export tells about the session beside its events.
#[derive(Debug)]
pub struct Exported {
    pub metadata: Metadata,
    /// Merged state at creation.
    pub initial_state: Vec<(String, Json)>,
}

const APP: [&str; 2] = ["app_name", "appName"];
const USER: [&str; 2] = ["user_id", "userId"];
const SESSION: [&str; 3] = ["id", "sessionId", "session_id"];
/// Without one of these a file says nothing that an import understands.
const CONTENT: [&str; 4] = ["state", "context", "events", "sessiond"];
/// Members that are known and not imported, or read elsewhere.
const IGNORED: [&str; 3] = ["last_update_time", "lastUpdateTime", SHARED_STATE];

impl SessionFile {
    pub fn read(text: &str) -> Result<Self, String> {
        // Some editors put a byte order mark in front.
        let mended = mend(text.strip_prefix('\u{feff}').unwrap_or(text));
        let object = Object::read(&mended)?;
        let unknown = unknown_members(&object)?;
        let state = object.value(&["state", "context"]);
        let state = state.map(|(name, value)| members(name, value)).transpose()?;
        let state = state.map(|mut state| {
            state.retain(|(key, _)| !key.starts_with(TEMP));
            state
        });
        let mut file = Self { address: address(&object)?, state, unknown, ..Default::default() };
        let entries = object.value(&["events"]).map_or("[]", |(_, entries)| entries);
        let entries: Vec<&RawValue> =
            serde_json::from_str(entries).map_err(|error| format!("events: {error}"))?;
        if let Some((_, version)) = object.get(&[SHARED_STATE]) {
            file.shared_only = true;
            if version != FORMAT.to_string() || file.state.is_none() {
                return Err(format!("{SHARED_STATE} must be {FORMAT}, beside a `state`"));
            }
        } else if let Some((_, extra)) = object.get(&["sessiond"]) {
            file.restore(&entries, extra)?;
        } else {
            file.adopt(&entries)?;
        }
        if let Cow::Owned(_) = mended {
            file.note_halves()?;
        }
        Ok(file)
    }

    /// The ids of a text that may be no session file, as far as they can be read.
    pub fn ids(text: &str) -> Address {
        Object::read(text).ok().and_then(|object| address(&object).ok()).unwrap_or_default()
    }

    /// Reads the entries of ADK.
    fn adopt(&mut self, entries: &[&RawValue]) -> Result<(), String> {
        for (position, entry) in entries.iter().map(|entry| entry.get()).enumerate() {
            match entry::from_adk(entry).map_err(|error| format!("events[{position}]: {error}"))? {
                Some(event) => self.events.push(with_id(event, position, entry)),
                None => self.fragments += 1,
            }
        }
        Ok(())
    }

    /// Reads the entries of an export and the hidden events of its member `sessiond`, which know their places in the log.
    fn restore(&mut self, entries: &[&RawValue], extra: &str) -> Result<(), String> {
        let fault = |error: String| format!("sessiond: {error}");
        let extra = read_extra(extra).map_err(fault)?;
        let hidden = extra.hidden.iter().map(|event| Ok(Event::from_exact(event.get())?.0));
        let mut hidden: Vec<_> = hidden.collect::<Result<_, String>>().map_err(fault)?;
        hidden.sort_by_key(|event| event.sequence);
        let last = (entries.len() + hidden.len()) as i64;
        let (mut hidden, mut entries) = (hidden.into_iter().peekable(), entries.iter().enumerate());
        for sequence in 1..=last {
            if let Some(event) = hidden.next_if(|event| event.sequence == sequence) {
                self.events.push(event);
                continue;
            }
            let Some((position, entry)) = entries.next() else {
                return Err(fault(format!("event {sequence} is missing or duplicated")));
            };
            let (event, is_edited) = entry::from_export(entry.get())
                .map_err(|error| format!("events[{position}]: {error}"))?;
            let event = Event { sequence, ..with_id(event, position, entry.get()) };
            self.edited.extend(is_edited.then(|| event.event_id.clone()));
            self.events.push(event);
        }
        let initial_state = members("initial_state", extra.initial_state.get()).map_err(fault)?;
        self.exported = Some(Exported { metadata: extra.session, initial_state });
        Ok(())
    }

    /// Names the texts in which a half of a surrogate pair became U+FFFD. In a key or an id it is an error.
    fn note_halves(&mut self) -> Result<(), String> {
        let Address { app_name, user_id, session_id } = &self.address;
        let mut ids: Vec<&String> = vec![app_name, user_id, session_id];
        let initial = self.exported.iter().flat_map(|exported| &exported.initial_state);
        let keys = self.state.iter().flatten().chain(initial.clone());
        ids.extend(keys.clone().map(|(key, _)| key));
        let is_mended_value = |(_, value): &&(String, Json)| is_mended(value.as_str());
        let mended = keys.clone().filter(is_mended_value).map(|(key, _)| format!("key `{key}`"));
        self.mended.extend(mended);
        for event in &self.events {
            let Event { event_id, invocation_id, author, branch, set, remove, body, .. } = event;
            ids.extend([event_id, invocation_id, author, branch].into_iter().chain(remove));
            ids.extend(set.iter().map(|(key, _)| key));
            let texts = set.iter().map(|(_, value)| value).chain(body);
            if texts.into_iter().any(|text| is_mended(text.as_str())) {
                self.mended.insert(format!("event `{event_id}`"));
            }
        }
        match ids.into_iter().find(|id| is_mended(id)) {
            Some(id) => Err(format!("`{id}` has half of a surrogate pair. Correct it in the file")),
            None => Ok(()),
        }
    }
}

fn address(object: &Object<'_>) -> Result<Address, String> {
    Ok(Address {
        app_name: object.text(&APP)?,
        user_id: object.text(&USER)?,
        session_id: object.text(&SESSION)?,
    })
}

/// Members that no import reads. An error, if there is nothing else.
fn unknown_members(object: &Object<'_>) -> Result<Vec<String>, String> {
    let known = [&APP[..], &USER, &SESSION, &CONTENT, &IGNORED].concat();
    let unknown = object.0.keys().filter(|name| !known.contains(&name.as_str()));
    let unknown: Vec<_> = unknown.cloned().collect();
    if object.get(&CONTENT).is_some() {
        return Ok(unknown);
    }
    let found = match unknown.as_slice() {
        [] => "The file has no members but ids".to_owned(),
        unknown => format!("Unknown members: {}", unknown.join(", ")),
    };
    Err(format!("neither `state` nor `events`, so this is not a session file. {found}"))
}

/// An event that has no id gets one that depends on the file alone, so that a second import finds the event.
fn with_id(event: Event, position: usize, entry: &str) -> Event {
    if !event.event_id.is_empty() {
        return event;
    }
    let hash = xxhash_rust::xxh3::xxh3_128(minified(entry).as_str().as_bytes());
    Event { event_id: format!("import-{position}-{hash:032x}"), ..event }
}

fn read_extra(text: &str) -> Result<Extra<'_>, String> {
    // The format first: a later one may have members that are unknown here.
    let extra = Object::read(text)?;
    let session = extra.get(&["session"]).map(|(_, session)| Object::read(session)).transpose()?;
    match session.as_ref().and_then(|session| session.get(&["format"])) {
        Some((_, format)) if format != FORMAT.to_string() => {
            Err(format!("the file has format {format}, and this program reads format {FORMAT}"))
        }
        _ => serde_json::from_str(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_ids_is_read() {
        for text in [
            r#"{"id":"s","app_name":"a","user_id":"u","state":{},"events":[]}"#,
            r#"{"sessionId":"s","appName":"a","userId":"u","context":{}}"#,
            "\u{feff}{\"session_id\":\"s\",\"appName\":\"a\",\"userId\":\"u\",\"state\":{},\"events\":null}",
        ] {
            let file = SessionFile::read(text).unwrap();
            assert_eq!((file.address.app_name.as_str(), file.address.user_id.as_str()), ("a", "u"));
            assert_eq!(file.address.session_id, "s");
            assert_eq!(file.state.as_deref(), Some(&[][..]));
            assert_eq!(file.events, []);
        }
        let bare = SessionFile::read(r#"{"id":null,"events":[]}"#).unwrap();
        assert_eq!((bare.address.session_id.as_str(), bare.state), ("", None));
    }

    #[test]
    fn a_file_that_says_nothing_is_refused_with_the_members_it_has() {
        let error = SessionFile::read(r#"{"id":"x","messages":[{"role":"user"}],"model":"m"}"#);
        let error = error.unwrap_err();
        assert!(error.ends_with("Unknown members: messages, model"), "{error}");
        let file = SessionFile::read(r#"{"id":"x","events":[],"messages":[]}"#).unwrap();
        assert_eq!(file.unknown, ["messages"]);
    }

    #[test]
    fn temporary_keys_are_dropped_and_numbers_kept() {
        let file = SessionFile::read(r#"{"state":{"a":1.00,"temp:b":2,"app:c":[ ]}}"#).unwrap();
        let pair =
            |key: &str, value: &str| (key.to_owned(), Json::parse(value.to_owned()).unwrap());
        assert_eq!(file.state.unwrap(), [pair("a", "1.00"), pair("app:c", "[ ]")]);
    }

    #[test]
    fn half_an_emoji_is_mended_in_values_and_bodies_and_refused_in_keys_and_ids() {
        let file = SessionFile::read(
            r#"{"state":{"a":"x\ud83d","ok":"\ud83d\ude00"},"events":[{"id":"e","content":"\ud83d","actions":{"state_delta":{"a":"x\ud83d"}}},{"id":"f","text":"fine"},{"text":"\ude00"}]}"#,
        );
        let file = file.unwrap();
        let mended: Vec<_> = file.mended.iter().collect();
        let derived = format!("event `{}`", file.events[2].event_id);
        assert_eq!(mended, ["key `a`", "event `e`", &derived]);
        assert_eq!(file.state.unwrap()[0].1.as_str(), r#""x\ufffd""#);
        assert_eq!(file.events[0].set[0].1.as_str(), r#""x\ufffd""#);
        assert_eq!(
            file.events[0].body.as_ref().unwrap().as_str(),
            r#"{"id":"e","content":"\ufffd","actions":{}}"#
        );
        let exported = r#"{"state":{},"events":[{"id":"e","t":"\ud83d"}],"sessiond":{"session":{"format":1},
            "initial_state":{"k":"\ud83d"},"hidden":[]}}"#;
        let mended: Vec<_> = SessionFile::read(exported).unwrap().mended.into_iter().collect();
        assert_eq!(mended, ["key `k`", "event `e`"]);
        for text in [
            r#"{"id":"s\ud83d","state":{}}"#,
            r#"{"appName":"\ude00","state":{}}"#,
            r#"{"state":{"k\ud83d":1}}"#,
            r#"{"state":{"user:\ud83d":1}}"#,
            r#"{"events":[{"id":"\ud83d"}]}"#,
            r#"{"events":[{"author":"\ud83d"}]}"#,
            r#"{"events":[{"invocationId":"\ud83d"}]}"#,
            r#"{"events":[{"actions":{"stateDelta":{"\ud83d":1}}}]}"#,
            r#"{"state":{},"events":[{"id":"\ud83d"}],"sessiond":{"session":{"format":1},"initial_state":{},"hidden":[]}}"#,
            r#"{"state":{},"events":[],"sessiond":{"session":{"format":1},"initial_state":{"\ud83d":1},"hidden":[]}}"#,
        ] {
            let error = SessionFile::read(text).unwrap_err();
            assert!(error.contains("half of a surrogate pair"), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, part) in [
            ("{", "EOF"),
            ("[]", "expected a JSON object"),
            (r#"{"id":7,"state":{}}"#, "id must be a string"),
            (r#"{"id":"x"}"#, "neither `state` nor `events`"),
            (r#"{"sessiond_state":2,"state":{}}"#, "sessiond_state must be 1"),
            (r#"{"state":[]}"#, "state must be"),
            (r#"{"events":{}}"#, "events: "),
            (r#"{"events":[NaN]}"#, "expected"),
            (r#"{"sessiond":{"session":{"format":2},"later":1}}"#, "format 2"),
            (
                r#"{"sessiond":{"session":{"format":1},"initial_state":{},"hidden":[],"later":1}}"#,
                "unknown field",
            ),
            (
                r#"{"events":[{}],"sessiond":{"session":{"format":1},"initial_state":{},"hidden":[{"sequence":3}]}}"#,
                "event 2 is missing",
            ),
        ] {
            let error = SessionFile::read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = SessionFile::read(r#"{"events":[{"id":"e"},{"id":1}]}"#).unwrap_err();
        assert_eq!(error, "events[1]: id must be a string");
        let error = SessionFile::read(r#"{"events":[{"id":"a"},{"timestamp":"x"}]}"#).unwrap_err();
        assert!(error.starts_with("events[1]: "));
    }

    #[test]
    fn an_event_without_an_id_gets_the_same_one_each_time() {
        let id = |text: &str| SessionFile::read(text).unwrap().events[1].event_id.clone();
        let made = id(r#"{"events":[{"id":"e"},{"author":"a"}]}"#);
        assert!(made.starts_with("import-1-") && made.len() <= 128, "{made}");
        assert_eq!(made, id(r#"{"state":{},"events":[{"id":"e"}, {"author" : "a"} ]}"#));
        assert_ne!(made, id(r#"{"events":[{"id":"e"},{"author":"b"}]}"#));
    }

    #[test]
    fn events_that_were_edited_are_named() {
        let entry = |id: &str| {
            let (event_id, remove) = (id.to_owned(), vec!["k".to_owned()]);
            entry::write(&Event { event_id, remove, ..Event::default() }).unwrap().into_string()
        };
        let text = format!(
            r#"{{"events":[{},{}],"sessiond":{{"session":{{"format":1}},"initial_state":{{}},"hidden":[]}}}}"#,
            entry("a"),
            entry("b").replacen(r#""author":"""#, r#""author":"x""#, 1)
        );
        let file = SessionFile::read(&text).unwrap();
        assert_eq!(file.edited, ["b"]);
        assert_eq!((file.events[0].remove.len(), file.events[1].remove.len()), (1, 0));
    }

    #[test]
    fn hidden_events_and_rewinds_take_their_places_in_the_log() {
        let text = r#"{"events":[{"id":"a"},{"id":"d"}],"sessiond":{"session":{"format":1},"initial_state":{},"hidden":[
            {"sequence":3,"rewind_to_sequence":1,"event_id":"c","author":"x"},
            {"sequence":2,"event_id":"b","body":{"partial":true}}]}}"#;
        let file = SessionFile::read(text).unwrap();
        let id = |event: Event| match event.rewind_to {
            Some(to_sequence) => format!("{} to {to_sequence}", event.event_id),
            None => event.event_id,
        };
        let ids: Vec<_> = file.events.into_iter().map(id).collect();
        assert_eq!(ids, ["a", "b", "c to 1", "d"]);
    }
}
