//! One event as an entry of a session file.

use std::borrow::Cow;

use super::{
    edit::Object,
    format::Note,
    halves::{FAULT, has_half, mend},
};
use crate::{
    cli::time,
    domain::{
        json::{Json, object_text},
        scope::TEMP,
    },
    proto::v1::{
        self, event::BodyForm, set_if_absent::ValueForm, state_delta::SetForm,
        state_operation::Operation,
    },
};

/// Keys and their values.
type Members = Vec<(String, Json)>;

/// How Java and Kotlin mark a key as removed: as its value, or as the only key of its value.
const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";
const DELTA: [&str; 2] = ["state_delta", "stateDelta"];
const INVOCATION: [&str; 2] = ["invocation_id", "invocationId"];

/// The entry with its body and the values of its delta mended. Half of a surrogate pair in an id, a name or a key is an error.
pub fn mended(text: &str) -> Result<Cow<'_, str>, String> {
    let mended = mend(text);
    if let Cow::Owned(_) = mended {
        let object = Object::read(text)?;
        for names in [&["id"][..], &INVOCATION, &["author"], &["branch"]] {
            if let Some(member) = object.get(names).filter(|member| has_half(member.value)) {
                return Err(format!("{} {FAULT}", member.key));
            }
        }
        let actions = object.value(&["actions"]).and_then(|it| Object::read(it.value).ok());
        let delta = actions.as_ref().and_then(|actions| actions.value(&DELTA));
        if let Some((name, delta)) =
            delta.and_then(|it| Some((&it.key, Object::read(it.value).ok()?)))
        {
            delta.refuse_halves_in_keys(&format!("actions.{name}"))?;
        }
    }
    Ok(mended)
}

/// Reads an entry that ADK wrote. `None`: a fragment of a streamed answer, which is not stored.
pub fn from_adk(text: &str) -> Result<Option<v1::Event>, String> {
    let object = Object::read(text)?;
    if object.get(&["partial"]).is_some_and(|member| member.value == "true") {
        return Ok(None);
    }
    let (mut event, set, faults) = envelope(&object);
    if let Some(fault) = faults.into_iter().next() {
        return Err(fault);
    }
    let mut set = set?;
    set.retain(|(key, _)| !key.starts_with(TEMP));
    let removed = set.extract_if(.., |(_, value)| is_removal(value));
    let remove = removed.map(|(key, _)| key).collect();
    event.state_delta = delta(&set, remove);
    event.body_form = Some(BodyForm::BodyJson(without_delta(&object, 0)));
    Ok(Some(event))
}

/// Reads an entry that [`write`] wrote.
pub fn from_export(text: &str, note: &Note) -> Result<v1::Event, String> {
    let object = Object::read(text)?;
    let added = object.members.iter().take(note.added.len());
    if !added.map(|member| &member.key).eq(&note.added) {
        let added = note.added.join(", ");
        return Err(format!("does not begin with {added}, as `sessiond` says"));
    }
    // Members of another type than ADK writes belong to the body; the note has the event's.
    let (mut event, set, _) = envelope(&object);
    event.sequence = note.sequence;
    event.state_delta = delta(&set?, note.remove.clone());
    let mut body = without_delta(&object, note.added.len());
    for (name, text) in &note.fields {
        let text = text.clone();
        match name.as_str() {
            "event_id" => event.event_id = text,
            "invocation_id" => event.invocation_id = text,
            "author" => event.author = text,
            "branch" => event.branch = text,
            "trace_id" => event.trace_id = text,
            "event_time" if text.is_empty() => event.event_time = None,
            "event_time" => event.event_time = Some(time::parse(&text)?),
            "body_json" => {
                let text = Json::object(text).map_err(|fault| format!("body_json {fault}"))?;
                body = text.into_string();
            }
            _ => return Err(format!("unknown field `{name}`")),
        }
    }
    event.body_form = (!note.no_body).then_some(BodyForm::BodyJson(body));
    Ok(event)
}

/// Everything but the body and the delta, the members of the delta, and the faults of members of a wrong type.
fn envelope(object: &Object<'_>) -> (v1::Event, Result<Members, String>, Vec<String>) {
    let mut faults = Vec::new();
    let mut text = |keys: &[&str]| or_fault(object.text(keys), &mut faults);
    let mut event = v1::Event {
        event_id: text(&["id"]),
        invocation_id: text(&INVOCATION),
        author: text(&["author"]),
        branch: text(&["branch"]),
        ..Default::default()
    };
    let timestamp = object.value(&["timestamp"]).map(|member| time::parse_stamp(member.value));
    let timestamp = timestamp.transpose().map_err(|error| format!("timestamp: {error}"));
    event.event_time = or_fault(timestamp, &mut faults);
    let actions = object.value(&["actions"]);
    let actions = actions.and_then(|member| Object::read(member.value).ok());
    let set = actions.as_ref().and_then(|actions| actions.value(&DELTA));
    let set = set.map_or(Ok(Vec::new()), |member| member.members());
    (event, set.map_err(|error| format!("actions.{error}")), faults)
}

fn or_fault<T: Default>(read: Result<T, String>, faults: &mut Vec<String>) -> T {
    read.map_err(|fault| faults.push(fault)).unwrap_or_default()
}

/// `None` if nothing changes.
pub fn delta(set: &[(String, Json)], remove: Vec<String>) -> Option<v1::StateDelta> {
    let set_form = (!set.is_empty()).then(|| SetForm::SetJson(Json::of_members(set).into_string()));
    let delta = v1::StateDelta { set_form, remove, operations: Vec::new() };
    (delta != v1::StateDelta::default()).then_some(delta)
}

/// The delta in the form that the server takes. A value that nests as deep as a value may is too deep for a text of one level more: an
/// operation sets it.
pub fn to_send(mut delta: v1::StateDelta) -> v1::StateDelta {
    let Some(SetForm::SetJson(text)) = &delta.set_form else { return delta };
    if Json::object(text.clone()).is_ok() {
        return delta;
    }
    let mut set = Json::from_stored(text.clone()).members();
    let is_too_deep = |it: &(String, Json)| {
        Json::object(Json::of_members(std::slice::from_ref(it)).into_string()).is_err()
    };
    for (key, value) in set.extract_if(.., |it| is_too_deep(it)) {
        delta.remove.push(key.clone());
        let value_form = Some(ValueForm::ValueJson(value.into_string()));
        let operation = Some(Operation::SetIfAbsent(v1::SetIfAbsent { value_form }));
        delta.operations.push(v1::StateOperation { key, operation });
    }
    delta.set_form = Some(SetForm::SetJson(Json::of_members(&set).into_string()));
    delta
}

/// The body of an event that was asked for as text.
pub fn body_of(event: &v1::Event) -> Option<&str> {
    match &event.body_form {
        Some(BodyForm::BodyJson(text)) => Some(text),
        _ => None,
    }
}

/// What an event that was asked for as text sets: one object; `None` if it sets nothing.
pub fn set_of(event: &v1::Event) -> Option<&str> {
    match &event.state_delta.as_ref()?.set_form {
        Some(SetForm::SetJson(text)) if text != "{}" => Some(text),
        _ => None,
    }
}

/// The keys that a delta sets, if it was asked for as text, and their values.
pub fn set_members(delta: &v1::StateDelta) -> Members {
    match &delta.set_form {
        Some(SetForm::SetJson(text)) => Json::from_stored(text.clone()).members(),
        _ => Vec::new(),
    }
}

/// Writes an event as ADK does, with a note from which it is restored.
pub fn write(event: &v1::Event) -> Result<(String, Note), String> {
    let delta = event.state_delta.as_ref();
    let mut note = Note {
        sequence: event.sequence,
        no_body: event.body_form.is_none(),
        remove: delta.map(|delta| delta.remove.clone()).unwrap_or_default(),
        ..Default::default()
    };
    let body = body_of(event).unwrap_or("{}");
    // Of the names in snake_case and camelCase.
    let style = usize::from(is_camel_case(&Object::read(body)?));
    let (mut text, actions_added) = with_delta(body, DELTA[style], set_of(event))?;
    if actions_added {
        note.added.push("actions".to_owned());
    }
    let quoted = |text: &str| (!text.is_empty()).then(|| Json::string(text).into_string());
    // ADK expects these members. Each is put before the others, so that the id comes first.
    for (keys, value) in [
        (&["branch"][..], quoted(&event.branch)),
        (&INVOCATION, quoted(&event.invocation_id)),
        (&["timestamp"], event.event_time.map(time::format_stamp)),
        (&["author"], Some(Json::string(&event.author).into_string())),
        (&["id"], quoted(&event.event_id)),
    ] {
        let object = Object::read(&text)?;
        if let (None, Some(value)) = (object.get(keys), value) {
            let key = keys[style.min(keys.len() - 1)];
            text = object.with_first(key, &value);
            note.added.insert(0, key.to_owned());
        }
    }
    let read = from_export(&text, &note)?;
    let differing = fields(event).into_iter().zip(fields(&read)).filter(|(own, read)| own != read);
    note.fields = differing.map(|((name, text), _)| (name.to_owned(), text)).collect();
    Ok((text, note))
}

/// The fields that an entry may fail to give back, as [`Note::fields`] has them.
fn fields(event: &v1::Event) -> [(&'static str, String); 7] {
    let v1::Event {
        event_id,
        invocation_id,
        author,
        branch,
        trace_id,
        event_time,
        // Read by `body_of`.
        body_form: _,
        // The note always has the sequence and the removed keys, and the entry the others.
        sequence: _,
        state_delta: _,
        // Those of the new event are the server's.
        commit_time: _,
        rounded: _,
        // The place in the file tells.
        rewound: _,
        // Events with these are not written as entries.
        partial: _,
        rewind_to_sequence: _,
    } = event;
    [
        ("event_id", event_id.clone()),
        ("invocation_id", invocation_id.clone()),
        ("author", author.clone()),
        ("branch", branch.clone()),
        ("trace_id", trace_id.clone()),
        ("event_time", event_time.map(time::format).unwrap_or_default()),
        ("body_json", body_of(event).unwrap_or_default().to_owned()),
    ]
}

/// The body with the delta in its actions, and whether the actions were added.
fn with_delta(body: &str, name: &str, set: Option<&str>) -> Result<(String, bool), String> {
    let object = Object::read(body)?;
    let position = object.position(&["actions"]);
    let actions = position.and_then(|at| Some((at, Object::read(object.members[at].value).ok()?)));
    match (actions, set) {
        (Some((position, actions)), set) => {
            // A delta of the body's own would be read as the event's.
            let mut text = actions.without(|_, member| DELTA.contains(&member.key.as_str()));
            if let Some(set) = set {
                text = Object::read(&text)?.with_first(name, set);
            }
            Ok((object.with_value(position, &text), false))
        }
        (None, None) => Ok((body.to_owned(), false)),
        (None, Some(set)) => {
            let rest = object.without(|_, member| member.key == "actions");
            let actions = object_text([(name, set)]);
            Ok((Object::read(&rest)?.with_first("actions", actions.as_str()), true))
        }
    }
}

/// The object without its first `added` members and without the delta of its actions.
fn without_delta(object: &Object<'_>, added: usize) -> String {
    let body = object.without(|position, _| position < added);
    with_delta(&body, DELTA[0], None).map_or(body, |(text, _)| text)
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

/// Whether the body's names are camelCase, as those of Java and TypeScript are.
fn is_camel_case(body: &Object<'_>) -> bool {
    let actions = body.get(&["actions"]).and_then(|member| Object::read(member.value).ok());
    let members = body.members.iter().chain(actions.iter().flat_map(|actions| &actions.members));
    members.map(|member| member.key.as_bytes()).any(|key| {
        !key.contains(&b'_')
            && key.windows(2).any(|w| w[0].is_ascii_lowercase() && w[1].is_ascii_uppercase())
    })
}

#[cfg(test)]
mod tests;
