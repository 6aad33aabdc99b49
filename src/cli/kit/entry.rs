//! One event of a session file, put together for the kits and taken apart again.

use prost_types::Timestamp;

use super::{extra::Note, stamp};
use crate::cli::{json, time};

/// How Java and Kotlin write that a key is to be removed, as a value or as the only key of one.
const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";
const DELTA: [&str; 2] = ["state_delta", "stateDelta"];
const INVOCATION: [&str; 2] = ["invocation_id", "invocationId"];

/// One event, as it is sent and as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Empty where the file has none.
    pub event_id: String,
    /// May be empty.
    pub invocation_id: String,
    /// May be empty.
    pub author: String,
    /// May be empty.
    pub branch: String,
    /// None where the file has none.
    pub event_time: Option<Timestamp>,
    /// New values as JSON text, in the order of the file, without `temp:` keys.
    pub set: Vec<(String, String)>,
    /// Removed keys.
    pub remove: Vec<String>,
    /// Everything else, as JSON text.
    pub body: Option<String>,
}

impl Entry {
    /// Takes an entry of a kit's file apart. `None`: a fragment, which is not stored.
    ///
    /// # Errors
    ///
    /// Which member is wrong, and how.
    pub fn of_kit(text: &str) -> Result<Option<Self>, String> {
        let object = json::Object::read(text)?;
        if object.get("partial").is_some_and(|member| member.value == "true") {
            return Ok(None);
        }
        let mut entry = Self::envelope(&object, Reading::Strict)?;
        let set = std::mem::take(&mut entry.set);
        for (key, value) in set {
            if key.starts_with("temp:") {
                continue;
            }
            if is_removal(&value) {
                entry.remove.push(key);
            } else {
                entry.set.push((key, value));
            }
        }
        entry.body = Some(without_delta(&object, 0));
        Ok(Some(entry))
    }

    /// Takes an entry apart that [`put_together`] made.
    ///
    /// # Errors
    ///
    /// When entry and note do not belong together.
    pub fn of_export(text: &str, note: &Note) -> Result<Self, String> {
        let object = json::Object::read(text)?;
        let added = object.members.iter().take(note.added.len());
        if !added.map(|member| &member.key).eq(&note.added) {
            return Err(format!(
                "does not begin with {}, as `sessiond` says",
                note.added.join(", ")
            ));
        }
        let mut entry = Self::envelope(&object, Reading::Lenient)?;
        entry.body = match &note.body_json {
            _ if note.no_body => None,
            Some(body) => Some(json::object(body)?.to_owned()),
            None => Some(without_delta(&object, note.added.len())),
        };
        entry.remove.clone_from(&note.remove);
        let overrides = [
            (&mut entry.event_id, &note.event_id),
            (&mut entry.invocation_id, &note.invocation_id),
            (&mut entry.author, &note.author),
            (&mut entry.branch, &note.branch),
        ];
        for (field, said) in overrides {
            if let Some(text) = said {
                field.clone_from(text);
            }
        }
        if let Some(text) = &note.event_time {
            let time = Some(text.as_str()).filter(|text| !text.is_empty());
            entry.event_time = time.map(time::parse).transpose()?;
        }
        Ok(entry)
    }

    /// Everything but the body and removals.
    fn envelope(object: &json::Object<'_>, reading: Reading) -> Result<Self, String> {
        let wrong = |message: String| match reading {
            Reading::Strict => Err(message),
            Reading::Lenient => Ok(()),
        };
        let present = |keys: &[&str]| object.any(keys).filter(|member| member.value != "null");
        let text = |keys: &[&str]| {
            let Some(member) = present(keys) else {
                return Ok(String::new());
            };
            let text = member.string();
            if text.is_none() {
                let found = json::type_of(member.value);
                wrong(format!("{} is {found}, not a string", member.key))?;
            }
            Ok::<_, String>(text.unwrap_or_default())
        };
        let mut entry = Self {
            event_id: text(&["id"])?,
            invocation_id: text(&INVOCATION)?,
            author: text(&["author"])?,
            branch: text(&["branch"])?,
            ..Self::default()
        };
        if let Some(member) = present(&["timestamp"]) {
            match stamp::read(member.value) {
                Ok(time) => entry.event_time = Some(time),
                Err(error) => wrong(format!("timestamp: {error}"))?,
            }
        }
        let actions =
            present(&["actions"]).and_then(|member| json::Object::read(member.value).ok());
        let delta = actions.as_ref().and_then(|actions| actions.any(&DELTA));
        if let Some(member) = delta.filter(|member| member.value != "null") {
            match json::Object::read(member.value) {
                Ok(delta) => entry.set = pairs(&delta),
                Err(error) => wrong(format!("actions.{}: {error}", member.key))?,
            }
        }
        Ok(entry)
    }
}

/// What to do with a member of another type than kits write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Nobody else says what it should be: refuse it.
    Strict,
    /// The note says what counts.
    Lenient,
}

/// Keys and value texts of an object; of equal keys the last counts.
pub fn pairs(object: &json::Object<'_>) -> Vec<(String, String)> {
    let mut seen = std::collections::HashSet::new();
    let mut pairs: Vec<_> = object
        .members
        .iter()
        .rev()
        .filter(|member| seen.insert(member.key.as_str()))
        .map(|member| (member.key.clone(), member.value.to_owned()))
        .collect();
    pairs.reverse();
    pairs
}

fn is_removal(value: &str) -> bool {
    if !value.contains(REMOVED) {
        return false;
    }
    let marker = json::quote(REMOVED);
    value == marker || json::compact(value) == format!("{{{marker}:true}}")
}

/// The object without its first `added` members and without the delta inside of its actions.
fn without_delta(object: &json::Object<'_>, added: usize) -> String {
    let body = json::cut(object, |position, _| position < added);
    let Ok(object) = json::Object::read(&body) else {
        return body;
    };
    let Some(position) = object.position(&["actions"]) else {
        return body;
    };
    match json::Object::read(object.members[position].value) {
        Ok(actions) if actions.any(&DELTA).is_some() => {
            let rest = json::cut(&actions, |_, member| DELTA.contains(&member.key.as_str()));
            json::replace(&object, position, &rest)
        }
        _ => body,
    }
}

/// Writes a stored event as the kits do, and notes what is needed to take it apart again.
///
/// # Errors
///
/// When the body or the delta is not what a server stores.
pub fn put_together(event: &Entry, sequence: i64) -> Result<(String, Note), String> {
    let body = event.body.as_deref().unwrap_or("{}");
    let mut note = Note {
        sequence,
        no_body: event.body.is_none(),
        remove: event.remove.clone(),
        ..Note::default()
    };
    let camel = writes_camel_case(&json::Object::read(body)?);
    let (mut text, actions_added) = with_delta(body, &event.set, camel)?;
    if actions_added {
        note.added.push("actions".to_owned());
    }
    // Kits expect these; the last one put in comes to stand first.
    let stamp = event.event_time.map(stamp::write);
    let quoted = |text: &String| (!text.is_empty()).then(|| json::quote(text));
    for (keys, value) in [
        (&["branch"][..], quoted(&event.branch)),
        (
            if camel { &["invocationId", "invocation_id"] } else { &INVOCATION },
            quoted(&event.invocation_id),
        ),
        (&["timestamp"], stamp),
        (&["author"], Some(json::quote(&event.author))),
        (&["id"], quoted(&event.event_id)),
    ] {
        let object = json::Object::read(&text)?;
        if let (None, Some(value)) = (object.any(keys), value) {
            text = json::insert_first(&object, keys[0], &value);
            note.added.insert(0, keys[0].to_owned());
        }
    }
    amend(&mut note, &text, event)?;
    Ok((text, note))
}

/// The body with the delta in its actions; whether the actions had to be added.
fn with_delta(body: &str, set: &[(String, String)], camel: bool) -> Result<(String, bool), String> {
    let object = json::Object::read(body)?;
    let position = object.position(&["actions"]);
    let actions = position.and_then(|p| json::Object::read(object.members[p].value).ok());
    let name = if camel { DELTA[1] } else { DELTA[0] };
    let delta = json::write_object(set.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    if let (Some(position), Some(actions)) = (position, actions) {
        // A delta that the body has of its own would be taken for the event's.
        let own = json::cut(&actions, |_, member| DELTA.contains(&member.key.as_str()));
        let actions = if set.is_empty() {
            own
        } else {
            json::insert_first(&json::Object::read(&own)?, name, &delta)
        };
        return Ok((json::replace(&object, position, &actions), false));
    }
    if set.is_empty() {
        return Ok((body.to_owned(), false));
    }
    let own = json::cut(&object, |_, member| member.key == "actions");
    let actions = json::write_object([(name, delta.as_str())]);
    Ok((json::insert_first(&json::Object::read(&own)?, "actions", &actions), true))
}

/// Notes whatever the entry alone would give back otherwise.
fn amend(note: &mut Note, text: &str, event: &Entry) -> Result<(), String> {
    let seen = Entry::of_export(text, note)?;
    if seen.body != event.body {
        note.body_json.clone_from(&event.body);
    }
    let differs = |seen: &String, event: &String| (seen != event).then(|| event.clone());
    note.event_id = differs(&seen.event_id, &event.event_id);
    note.invocation_id = differs(&seen.invocation_id, &event.invocation_id);
    note.author = differs(&seen.author, &event.author);
    note.branch = differs(&seen.branch, &event.branch);
    if seen.event_time != event.event_time {
        // An empty text says that there is none.
        note.event_time = Some(event.event_time.map(time::format).unwrap_or_default());
    }
    Ok(())
}

/// Whether the body's names are camelCase, as Java's and TypeScript's are.
fn writes_camel_case(body: &json::Object<'_>) -> bool {
    let camel = |object: &json::Object<'_>| {
        object.members.iter().any(|member| {
            let key = member.key.as_bytes();
            !key.contains(&b'_')
                && key.windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase())
        })
    };
    let actions = body.get("actions").and_then(|member| json::Object::read(member.value).ok());
    camel(body) || actions.as_ref().is_some_and(camel)
}

#[cfg(test)]
mod tests;
