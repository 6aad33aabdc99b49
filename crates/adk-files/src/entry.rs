//! One event as an entry of a session file.

use super::{
    event::Event,
    form::{self, Losses},
    object::{Object, members},
    time,
};
use sessiond_core::domain::{
    json::{Json, fingerprint, object_text},
    scope::TEMP,
};

/// How Java and Kotlin mark a key as removed: as its value, or as the only key of its value.
const REMOVED: &str = "__ADK_SENTINEL_REMOVED__";
const DELTA: [&str; 2] = ["state_delta", "stateDelta"];
/// The member with the exact event.
const EXACT: &str = "sessiond";

/// Reads an entry that ADK wrote. `None`: a fragment of a streamed answer, which is not stored.
pub fn from_adk(text: &str) -> Result<Option<Event>, String> {
    let object = Object::read(text)?;
    if object.get(&["partial"]).is_some_and(|(_, value)| value == "true") {
        return Ok(None);
    }
    let stamp = object.value(&["timestamp"]).map(|(_, value)| time::parse_stamp(value));
    let mut event = Event {
        event_id: object.text(&["id"])?,
        invocation_id: object.text(&["invocation_id", "invocationId"])?,
        author: object.text(&["author"])?,
        branch: object.text(&["branch"])?,
        event_time: stamp.transpose().map_err(|error| format!("timestamp: {error}"))?,
        ..Event::default()
    };
    let actions = object.get(&["actions"]).and_then(|(_, value)| Object::read(value).ok());
    let mut body = Json::from_stored(text.to_owned());
    if let Some((actions, (name, delta))) =
        actions.as_ref().and_then(|actions| Some((actions, actions.get(&DELTA)?)))
    {
        if delta != "null" {
            event.set = members(&format!("actions.{name}"), delta)?;
        }
        let rest = Json::of_members(&actions.without(&DELTA));
        body = object_text(object.0.iter().map(|(name, &value)| match name.as_str() {
            "actions" => ("actions", rest.as_str()),
            name => (name, value),
        }));
    }
    event.set.retain(|(key, _)| !key.starts_with(TEMP));
    let removed = event.set.extract_if(.., |(_, value)| is_removal(value));
    event.remove = removed.map(|(key, _)| key).collect();
    event.body = Some(body);
    Ok(Some(event))
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

/// An event as ADK writes it and, unless it can be read from that as it was, with its exact form.
pub fn write(event: &Event) -> serde_json::Result<Json> {
    let mut entry = form::entry(event, &mut Losses::new()).members();
    let is_own = |(name, _): &(String, Json)| name == EXACT;
    if !entry.iter().any(is_own) {
        let form = Json::of_members(&entry);
        let (sequence, rewound) = (event.sequence, event.rewound);
        if let Ok(Some(read)) = from_adk(form.as_str())
            && (Event { sequence, rewound, ..read }) == *event
        {
            return Ok(form);
        }
    }
    entry.retain(|member| !is_own(member));
    let exact = event.to_exact(fingerprint_of(&entry))?;
    entry.push((EXACT.to_owned(), exact));
    Ok(Json::of_members(&entry))
}

/// Reads an entry that [`write`] wrote, and returns whether it was edited since: then its exact form is ignored.
pub fn from_export(text: &str) -> Result<(Event, bool), String> {
    let object = Object::read(text)?;
    let entry = object.without(&[EXACT]);
    let mut is_edited = false;
    if let Some((name, exact)) = object.get(&[EXACT]) {
        let (event, fingerprint) =
            Event::from_exact(exact).map_err(|fault| format!("{name}: {fault}"))?;
        if fingerprint == fingerprint_of(&entry) {
            return Ok((event, false));
        }
        is_edited = true;
    }
    let event = from_adk(Json::of_members(&entry).as_str())?;
    Ok((event.ok_or("is a fragment (partial)")?, is_edited))
}

fn fingerprint_of(entry: &[(String, Json)]) -> String {
    format!("{:032x}", fingerprint(&Json::of_members(entry)))
}

#[cfg(test)]
mod tests;
