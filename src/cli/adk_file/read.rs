//! A session file as a whole: ids, state, and the events in the order of the log.

use std::borrow::Cow;

use indexmap::IndexSet;
use serde_json::value::RawValue;

use super::{
    edit::{Object, members},
    entry,
    format::{Extra, FORMAT, Metadata},
    halves::{has_half, mend},
};
use crate::{
    domain::{
        json::{Json, minified},
        scope::TEMP,
    },
    proto::v1,
};

#[derive(Debug, Default)]
pub struct SessionFile {
    /// Its parts are empty if the file has none.
    pub key: v1::SessionKey,
    /// Merged state at the end of the session, without `temp:` keys.
    pub state: Option<Vec<(String, Json)>>,
    /// In the order of the log. Those of an export have their sequence, and markers of rewinds are among them.
    pub events: Vec<v1::Event>,
    /// Fragments of streamed answers, which are not stored.
    pub fragments: u64,
    /// `None` in a file that ADK wrote.
    pub exported: Option<Exported>,
    /// The file holds the state of an application or user, and no session.
    pub shared_only: bool,
    /// Members that are not read.
    pub unknown: Vec<String>,
    /// Keys and events in whose texts U+FFFD stands for half of a surrogate pair.
    pub mended: IndexSet<String>,
}

/// Without one of these a file says nothing that an import understands.
const CONTENT: [&str; 4] = ["state", "context", "events", "sessiond"];
/// The others that are read, or that ADK writes and nobody needs.
const KNOWN: [&str; 10] = [
    "id",
    "sessionId",
    "session_id",
    "app_name",
    "appName",
    "user_id",
    "userId",
    "last_update_time",
    "lastUpdateTime",
    SHARED_STATE,
];
/// The member that marks a file with the state of an application or user.
pub const SHARED_STATE: &str = "sessiond_state";

/// What an export tells about the session beside its events.
#[derive(Debug)]
pub struct Exported {
    pub metadata: Metadata,
    /// Merged state at creation.
    pub initial_state: Vec<(String, Json)>,
}

impl SessionFile {
    pub fn read(text: &str) -> Result<Self, String> {
        // Some editors put a byte order mark in front.
        let object = Object::read(text.strip_prefix('\u{feff}').unwrap_or(text))?;
        let unknown = unknown_members(&object)?;
        let mut mended = IndexSet::new();
        let state = object.value(&["state", "context"]);
        let state = state.map(|state| state_members(&state.key, state.value, &mut mended));
        let mut state = state.transpose()?;
        if let Some(state) = &mut state {
            state.retain(|(key, _)| !key.starts_with(TEMP));
        }
        let entries = object.value(&["events"]).map_or("[]", |member| member.value);
        let entries: Vec<&RawValue> =
            serde_json::from_str(entries).map_err(|error| format!("events: {error}"))?;
        let key = v1::SessionKey {
            app_name: object.text(&["app_name", "appName"])?,
            user_id: object.text(&["user_id", "userId"])?,
            session_id: object.text(&["id", "sessionId", "session_id"])?,
        };
        let mut file = Self { key, state, unknown, mended, ..Default::default() };
        if let Some(version) = object.get(&[SHARED_STATE]) {
            file.shared_only = true;
            return match version.value == FORMAT.to_string() && file.state.is_some() {
                true => Ok(file),
                false => Err(format!("{SHARED_STATE} must be {FORMAT}, beside a `state`")),
            };
        }
        match object.get(&["sessiond"]) {
            Some(member) => file.restore(&entries, member.value)?,
            None => file.adopt(&entries)?,
        }
        Ok(file)
    }

    /// The ids of a text that may be no session file, as far as they can be read.
    pub fn ids(text: &str) -> v1::SessionKey {
        let Ok(object) = Object::read(text) else { return v1::SessionKey::default() };
        let text = |names: &[&str]| object.text(names).unwrap_or_default();
        v1::SessionKey {
            app_name: text(&["app_name", "appName"]),
            user_id: text(&["user_id", "userId"]),
            session_id: text(&["id", "sessionId", "session_id"]),
        }
    }

    /// Reads the entries of ADK.
    fn adopt(&mut self, entries: &[&RawValue]) -> Result<(), String> {
        for (position, entry) in entries.iter().map(|entry| entry.get()).enumerate() {
            let named = |error| format!("events[{position}]: {error}");
            let mended = entry::mended(entry).map_err(named)?;
            let Some(mut event) = entry::from_adk(&mended).map_err(named)? else {
                self.fragments += 1;
                continue;
            };
            if event.event_id.is_empty() {
                event.event_id = derived_id(position, &mended);
            }
            if let Cow::Owned(_) = mended {
                self.mended.insert(format!("event `{}`", event.event_id));
            }
            self.events.push(event);
        }
        Ok(())
    }

    /// Reads the entries of an export with its member `sessiond`.
    fn restore(&mut self, entries: &[&RawValue], extra: &str) -> Result<(), String> {
        let extra = read_extra(extra).map_err(|error| format!("sessiond: {error}"))?;
        let (count, noted) = (entries.len(), extra.events.len());
        if count != noted {
            return Err(format!(
                "`events` has {count} entries and `sessiond.events` has {noted}. Remove the member `sessiond` to \
                 import the file as one of ADK"
            ));
        }
        let visible = extra.events.iter().zip(entries.iter().copied());
        let hidden = extra.hidden.iter().map(|hidden| (&hidden.note, hidden.entry));
        for (note, entry) in visible.chain(hidden) {
            let named = |error| format!("the event with sequence {}: {error}", note.sequence);
            let mended = entry::mended(entry.get()).map_err(named)?;
            let event = entry::from_export(&mended, note).map_err(named)?;
            if let Cow::Owned(_) = mended {
                self.mended.insert(format!("event `{}`", event.event_id));
            }
            self.events.push(event);
        }
        self.events.extend(extra.rewinds.into_iter().map(v1::Event::from));
        self.events.sort_by_key(|event| event.sequence);
        for (event, expected) in self.events.iter().zip(1..) {
            if event.sequence != expected {
                return Err(format!("sessiond: event {expected} is missing or duplicated"));
            }
        }
        let initial_state = extra.initial_state.get();
        let initial_state = state_members("initial_state", initial_state, &mut self.mended)
            .map_err(|fault| format!("sessiond: {fault}"))?;
        self.exported = Some(Exported { metadata: extra.session, initial_state });
        Ok(())
    }
}

/// The keys and values of state.
fn state_members(
    name: &str,
    written: &str,
    mended: &mut IndexSet<String>,
) -> Result<Vec<(String, Json)>, String> {
    let text = mend(written);
    if let Cow::Owned(_) = text {
        let object = Object::read(written).map_err(|fault| format!("{name}: {fault}"))?;
        object.refuse_halves_in_keys(name)?;
        let halves = object.members.iter().filter(|member| has_half(member.value));
        mended.extend(halves.map(|member| format!("key `{}`", member.key)));
    }
    members(name, &text)
}

/// Members that no import reads. An error, if there is nothing else.
fn unknown_members(object: &Object<'_>) -> Result<Vec<String>, String> {
    let names = object.members.iter().map(|member| member.key.as_str());
    let unknown = names.filter(|name| !CONTENT.contains(name) && !KNOWN.contains(name));
    let unknown: Vec<_> = unknown.map(str::to_owned).collect();
    if object.get(&CONTENT).is_some() {
        return Ok(unknown);
    }
    let found = match unknown.as_slice() {
        [] => "The file has no members but ids".to_owned(),
        unknown => format!("Unknown members: {}", unknown.join(", ")),
    };
    Err(format!("neither `state` nor `events`, so this is not a session file. {found}"))
}

/// The id of an event that has none. It depends on the file alone, so that a second import finds the event.
fn derived_id(position: usize, entry: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(minified(entry).as_str().as_bytes());
    format!("import-{position}-{hash:032x}")
}

fn read_extra(text: &str) -> Result<Extra<'_>, String> {
    // The format first: a later one may have members that are unknown here.
    let extra = Object::read(text)?;
    let session = extra.get(&["session"]).map(|member| Object::read(member.value)).transpose()?;
    match session.as_ref().and_then(|session| session.get(&["format"])) {
        Some(format) if format.value != FORMAT.to_string() => Err(format!(
            "the file has format {}, and this program reads format {FORMAT}",
            format.value
        )),
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
            assert_eq!((file.key.app_name.as_str(), file.key.user_id.as_str()), ("a", "u"));
            assert_eq!(file.key.session_id, "s");
            assert_eq!(file.state.as_deref(), Some(&[][..]));
            assert_eq!(file.events, []);
        }
        let bare = SessionFile::read(r#"{"id":null,"events":[]}"#).unwrap();
        assert_eq!((bare.key.session_id.as_str(), bare.state), ("", None));
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
        let set = entry::set_members(file.events[0].state_delta.as_ref().unwrap());
        assert_eq!(set[0].1.as_str(), r#""x\ufffd""#);
        assert_eq!(
            entry::body_of(&file.events[0]),
            Some(r#"{"id":"e","content":"\ufffd","actions":{}}"#)
        );
        let exported = r#"{"state":{},"events":[{"id":"e","t":"\ud83d"}],"sessiond":{"session":{"format":1},
            "initial_state":{"k":"\ud83d"},"events":[{"sequence":1}],"hidden":[],"rewinds":[]}}"#;
        let mended: Vec<_> = SessionFile::read(exported).unwrap().mended.into_iter().collect();
        assert_eq!(mended, ["event `e`", "key `k`"]);
        for text in [
            r#"{"id":"s\ud83d","state":{}}"#,
            r#"{"appName":"\ude00","state":{}}"#,
            r#"{"state":{"k\ud83d":1}}"#,
            r#"{"state":{"user:\ud83d":1}}"#,
            r#"{"events":[{"id":"\ud83d"}]}"#,
            r#"{"events":[{"author":"\ud83d"}]}"#,
            r#"{"events":[{"invocationId":"\ud83d"}]}"#,
            r#"{"events":[{"actions":{"stateDelta":{"\ud83d":1}}}]}"#,
            r#"{"state":{},"events":[{"id":"\ud83d"}],"sessiond":{"session":{"format":1},"initial_state":{},
            "events":[{"sequence":1}],"hidden":[],"rewinds":[]}}"#,
            r#"{"state":{},"events":[],"sessiond":{"session":{"format":1},"initial_state":{"\ud83d":1},
            "events":[],"hidden":[],"rewinds":[]}}"#,
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
    fn hidden_events_and_rewinds_take_their_places_in_the_log() {
        let text = r#"{"events":[{"id":"a"},{"id":"d"}],"sessiond":{"session":{"format":1},"initial_state":{},
            "events":[{"sequence":1},{"sequence":4}],
            "hidden":[{"note":{"sequence":2},"entry":{"id":"b","partial":true}}],
            "rewinds":[{"sequence":3,"to_sequence":1,"event_id":"c","author":"x"}]}}"#;
        let file = SessionFile::read(text).unwrap();
        let id = |event: v1::Event| match event.rewind_to_sequence {
            Some(to_sequence) => format!("{} to {to_sequence}", event.event_id),
            None => event.event_id,
        };
        let ids: Vec<_> = file.events.into_iter().map(id).collect();
        assert_eq!(ids, ["a", "b", "c to 1", "d"]);
    }
}
