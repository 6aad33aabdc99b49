//! One event as an entry of a session file.

use prost_types::Timestamp;

use super::{edit::Object, extra::Note, stamp};
use crate::{
    cli::{failure::Failure, time},
    domain::json::{Json, object_text},
    proto::v1::{Event, Session, event::BodyForm, session::StateForm, state_delta::SetForm},
};

/// How Java and Kotlin mark a key as removed: as its value, or as the only key of its value.
const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";
const DELTA: [&str; 2] = ["state_delta", "stateDelta"];
const INVOCATION: [&str; 2] = ["invocation_id", "invocationId"];

/// An event without sequence and commit time, which the server adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub event_id: String,
    pub invocation_id: String,
    pub author: String,
    pub branch: String,
    pub event_time: Option<Timestamp>,
    /// In the order of the file, without `temp:` keys.
    pub set: Vec<(String, Json)>,
    pub remove: Vec<String>,
    /// Everything else: one object.
    pub body: Option<String>,
}

impl Entry {
    /// Reads an entry that ADK wrote. `None`: a fragment of a streamed answer, which is not stored.
    pub fn from_adk(text: &str) -> Result<Option<Self>, String> {
        let object = Object::read(text)?;
        if object.get(&["partial"]).is_some_and(|member| member.value == "true") {
            return Ok(None);
        }
        let (mut entry, fault) = Self::envelope(&object);
        if let Some(fault) = fault {
            return Err(fault);
        }
        entry.set.retain(|(key, _)| !key.starts_with("temp:"));
        entry.remove =
            entry.set.extract_if(.., |(_, value)| is_removal(value)).map(|set| set.0).collect();
        entry.body = Some(without_delta(&object, 0));
        Ok(Some(entry))
    }

    /// Reads an entry that [`Entry::write`] wrote.
    pub fn from_export(text: &str, note: &Note) -> Result<Self, String> {
        let object = Object::read(text)?;
        let added = object.members.iter().take(note.added.len());
        if !added.map(|member| &member.key).eq(&note.added) {
            return Err(format!(
                "does not begin with {}, as `sessiond` says",
                note.added.join(", ")
            ));
        }
        // Members of another type than ADK writes belong to the body; the note has the event's.
        let (mut entry, _) = Self::envelope(&object);
        entry.body = match &note.body_json {
            _ if note.no_body => None,
            Some(body) => {
                let body =
                    Json::object(body.clone()).map_err(|fault| format!("body_json {fault}"))?;
                Some(body.into_string())
            }
            None => Some(without_delta(&object, note.added.len())),
        };
        entry.remove.clone_from(&note.remove);
        for (field, noted) in [
            (&mut entry.event_id, &note.event_id),
            (&mut entry.invocation_id, &note.invocation_id),
            (&mut entry.author, &note.author),
            (&mut entry.branch, &note.branch),
        ] {
            if let Some(text) = noted {
                field.clone_from(text);
            }
        }
        if let Some(text) = &note.event_time {
            let time = Some(text.as_str()).filter(|text| !text.is_empty());
            entry.event_time = time.map(time::parse).transpose()?;
        }
        Ok(entry)
    }

    /// Everything but the body and the removals, and the first member of a wrong type.
    fn envelope(object: &Object<'_>) -> (Self, Option<String>) {
        let mut fault = None;
        let mut text = |keys: &[&str]| {
            let Some(member) = object.value(keys) else { return String::new() };
            member.string().unwrap_or_else(|| {
                fault.get_or_insert_with(|| format!("{} must be a string", member.key));
                String::new()
            })
        };
        let mut entry = Self {
            event_id: text(&["id"]),
            invocation_id: text(&INVOCATION),
            author: text(&["author"]),
            branch: text(&["branch"]),
            ..Default::default()
        };
        if let Some(member) = object.value(&["timestamp"]) {
            match stamp::read(member.value) {
                Ok(time) => entry.event_time = Some(time),
                Err(error) => fault = fault.or(Some(format!("timestamp: {error}"))),
            }
        }
        let actions = object.value(&["actions"]);
        let actions = actions.and_then(|member| Object::read(member.value).ok());
        if let Some(member) = actions.as_ref().and_then(|actions| actions.value(&DELTA)) {
            match member.members() {
                Ok(set) => entry.set = set,
                Err(error) => fault = fault.or(Some(format!("actions.{error}"))),
            }
        }
        (entry, fault)
    }

    /// The event of an answer, which was asked for as text.
    pub fn from_event(event: Event) -> Result<Self, Failure> {
        let delta = event.state_delta.unwrap_or_default();
        Ok(Self {
            event_id: event.event_id,
            invocation_id: event.invocation_id,
            author: event.author,
            branch: event.branch,
            event_time: event.event_time,
            set: match delta.set_form {
                Some(SetForm::SetJson(text)) => Json::from_stored(text).members(),
                Some(SetForm::Set(_)) => return Err(not_text()),
                None => Vec::new(),
            },
            remove: delta.remove,
            body: match event.body_form {
                Some(BodyForm::BodyJson(text)) => Some(text),
                Some(BodyForm::Body(_)) => return Err(not_text()),
                None => None,
            },
        })
    }

    /// Writes the event as ADK does, with a note from which it is restored.
    pub fn write(&self, sequence: i64) -> Result<(String, Note), String> {
        let body = self.body.as_deref().unwrap_or("{}");
        let mut note = Note {
            sequence,
            no_body: self.body.is_none(),
            remove: self.remove.clone(),
            ..Default::default()
        };
        let camel = is_camel_case(&Object::read(body)?);
        let (mut text, actions_added) = self.with_delta(body, camel)?;
        if actions_added {
            note.added.push("actions".to_owned());
        }
        let quoted = |text: &str| (!text.is_empty()).then(|| Json::string(text).into_string());
        let invocation = if camel { [INVOCATION[1], INVOCATION[0]] } else { INVOCATION };
        // ADK expects these members. Each is put before the others, so that the id comes first.
        for (keys, value) in [
            (&["branch"][..], quoted(&self.branch)),
            (&invocation, quoted(&self.invocation_id)),
            (&["timestamp"], self.event_time.map(stamp::write)),
            (&["author"], Some(Json::string(&self.author).into_string())),
            (&["id"], quoted(&self.event_id)),
        ] {
            let object = Object::read(&text)?;
            if let (None, Some(value)) = (object.get(keys), value) {
                text = object.with_first(keys[0], &value);
                note.added.insert(0, keys[0].to_owned());
            }
        }
        self.amend(&mut note, &text)?;
        Ok((text, note))
    }

    /// The body with the delta in its actions, and whether the actions were added.
    fn with_delta(&self, body: &str, camel: bool) -> Result<(String, bool), String> {
        let object = Object::read(body)?;
        let position = object.position(&["actions"]);
        let actions = position.and_then(|p| Object::read(object.members[p].value).ok());
        let name = if camel { DELTA[1] } else { DELTA[0] };
        let delta = state_text(&self.set);
        if let (Some(position), Some(actions)) = (position, actions) {
            // A delta of the body's own would be read as the event's.
            let mut text = actions.without(|_, member| DELTA.contains(&member.key.as_str()));
            if !self.set.is_empty() {
                text = Object::read(&text)?.with_first(name, &delta);
            }
            return Ok((object.with_value(position, &text), false));
        }
        if self.set.is_empty() {
            return Ok((body.to_owned(), false));
        }
        let rest = object.without(|_, member| member.key == "actions");
        let actions = object_text([(name, delta.as_str())]);
        Ok((Object::read(&rest)?.with_first("actions", actions.as_str()), true))
    }

    /// Notes everything that the entry alone would not give back.
    fn amend(&self, note: &mut Note, text: &str) -> Result<(), String> {
        let read = Self::from_export(text, note)?;
        if read.body != self.body {
            note.body_json.clone_from(&self.body);
        }
        let differing = |read: &String, own: &String| (read != own).then(|| own.clone());
        note.event_id = differing(&read.event_id, &self.event_id);
        note.invocation_id = differing(&read.invocation_id, &self.invocation_id);
        note.author = differing(&read.author, &self.author);
        note.branch = differing(&read.branch, &self.branch);
        if read.event_time != self.event_time {
            note.event_time = Some(self.event_time.map(time::format).unwrap_or_default());
        }
        Ok(())
    }
}

/// The merged state of an answer, which was asked for as text.
pub fn state_of(session: &Session) -> Result<String, Failure> {
    match &session.state_form {
        Some(StateForm::StateJson(text)) => Ok(text.clone()),
        Some(StateForm::State(_)) => Err(not_text()),
        None => Ok("{}".to_owned()),
    }
}

/// One object of keys and values.
pub fn state_text(state: &[(String, Json)]) -> String {
    object_text(state.iter().map(|(key, value)| (key.as_str(), value.as_str()))).into_string()
}

fn not_text() -> Failure {
    Failure::Failed("the server answered with Struct instead of text".to_owned())
}

fn is_removal(value: &Json) -> bool {
    if !value.as_str().contains(REMOVED) {
        return false;
    }
    match value.members().as_slice() {
        [(key, flag)] => key == REMOVED && flag.as_str() == "true",
        _ => value.decoded().is_some_and(|text| text == REMOVED),
    }
}

/// The object without its first `added` members and without the delta of its actions.
fn without_delta(object: &Object<'_>, added: usize) -> String {
    let body = object.without(|position, _| position < added);
    let Ok(object) = Object::read(&body) else { return body };
    let Some(position) = object.position(&["actions"]) else { return body };
    match Object::read(object.members[position].value) {
        Ok(actions) if actions.get(&DELTA).is_some() => {
            let rest = actions.without(|_, member| DELTA.contains(&member.key.as_str()));
            object.with_value(position, &rest)
        }
        _ => body,
    }
}

/// Whether the body's names are camelCase, as those of Java and TypeScript are.
fn is_camel_case(body: &Object<'_>) -> bool {
    let camel = |object: &Object<'_>| {
        object.members.iter().any(|member| {
            let key = member.key.as_bytes();
            !key.contains(&b'_')
                && key.windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase())
        })
    };
    let actions = body.get(&["actions"]).and_then(|member| Object::read(member.value).ok());
    camel(body) || actions.as_ref().is_some_and(camel)
}

#[cfg(test)]
mod tests;
