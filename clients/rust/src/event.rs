//! The kit's event on the wire and back: its own JSON is the body, whole but for the state delta, which travels typed.

use std::collections::{BTreeMap, HashMap};

use adk_core::{Event, EventActions, Result};
use adk_session::KEY_PREFIX_TEMP;
use chrono::{DateTime, SecondsFormat, Utc};
use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    error::{invalid, unexpected},
    proto::v1::{self, event::BodyForm, state_delta::SetForm},
    session::parse_object,
};

/// Where the body of an event is found, as text in [`Event::provider_metadata`], that another program has written and that
/// is no event of this kit.
pub const FOREIGN_BODY: &str = "sessiond.body";

/// Seconds of the first and of the last time that the wire can hold, of the years 1 and 9999.
const WIRE_SECONDS: (i64, i64) = (-62_135_596_800, 253_402_300_799);

/// The event as it is sent. An event without an id is given one, so that a retry is known as one.
pub(crate) fn to_wire(mut event: Event) -> Result<v1::Event> {
    if event.id.is_empty() {
        event.id = Uuid::new_v4().to_string();
    }
    let delta = std::mem::take(&mut event.actions.state_delta);
    let state_delta = if delta.is_empty() {
        None
    } else {
        Some(v1::StateDelta {
            set_form: Some(SetForm::SetJson(object_text(delta)?)),
            ..v1::StateDelta::default()
        })
    };
    let body = body(&event)?;
    Ok(v1::Event {
        event_id: event.id,
        invocation_id: event.invocation_id,
        author: event.author,
        branch: event.branch,
        event_time: Some(to_timestamp(event.timestamp)),
        partial: event.llm_response.partial,
        state_delta,
        body_form: Some(BodyForm::BodyJson(body)),
        ..v1::Event::default()
    })
}

/// An object as text. Its keys are sorted, so that equal objects are equal text and a repeated request is the same request.
pub(crate) fn object_text(object: HashMap<String, Value>) -> Result<String> {
    let sorted: BTreeMap<_, _> = object.into_iter().collect();
    serde_json::to_string(&sorted).map_err(no_json)
}

/// The event's own JSON without its delta. Where the kit holds a hash map, whose order is another each time, keys are sorted.
fn body(event: &Event) -> Result<String> {
    let mut body = serde_json::to_value(event).map_err(no_json)?;
    if let Some(actions) = body.get_mut("actions").and_then(Value::as_object_mut) {
        actions.remove("state_delta");
        sort(actions.get_mut("artifact_delta"));
    }
    sort(body.get_mut("event_metadata"));
    serde_json::to_string(&body).map_err(no_json)
}

fn sort(object: Option<&mut Value>) {
    if let Some(Value::Object(object)) = object {
        object.sort_keys();
    }
}

fn no_json(cause: serde_json::Error) -> adk_core::AdkError {
    invalid("session.bad_json", "the event cannot be written as JSON").with_source(cause)
}

/// The event as it was stored. The address of its envelope (id, invocation, author, branch) wins over that of its body.
///
/// Events that other programs have written are shown as well as this kit can: what is missing comes from the envelope, and a
/// body that is still no event of this kit is found as text under [`FOREIGN_BODY`].
pub(crate) fn from_wire(wire: v1::Event) -> Result<Event> {
    let delta = delta(wire.state_delta)?;
    let text = match wire.body_form {
        Some(BodyForm::BodyJson(text)) => text,
        Some(BodyForm::Body(_)) => {
            return Err(unexpected("sessiond sent an event as a Struct where text was asked"));
        }
        None => "{}".into(),
    };
    let time = wire.event_time.map(from_timestamp).unwrap_or_default();
    let mut event = parse(&text, time).unwrap_or_else(|| {
        let mut event = Event::with_id("", "");
        event.timestamp = time;
        event.provider_metadata.insert(FOREIGN_BODY.into(), text);
        event
    });
    event.id = wire.event_id;
    event.invocation_id = wire.invocation_id;
    event.author = wire.author;
    event.branch = wire.branch;
    event.actions.state_delta = delta;
    Ok(event)
}

/// What each key became. A key that was removed, which the kit has no word for, became null.
pub(crate) fn delta(delta: Option<v1::StateDelta>) -> Result<HashMap<String, Value>> {
    let Some(v1::StateDelta { set_form, remove, operations: _ }) = delta else {
        return Ok(HashMap::new());
    };
    let mut became = match set_form {
        Some(SetForm::SetJson(text)) => parse_object(&text)?,
        Some(SetForm::Set(_)) => {
            return Err(unexpected("sessiond sent a delta as a Struct where text was asked"));
        }
        None => HashMap::new(),
    };
    became.extend(remove.into_iter().map(|key| (key, Value::Null)));
    Ok(became)
}

/// The event in a body, with what the kit insists on filled in. None where the rest does not make one.
fn parse(text: &str, time: DateTime<Utc>) -> Option<Event> {
    let mut body: Map<String, Value> = serde_json::from_str(text).ok()?;
    // The envelope's are put in their place; here they have to be of the right kind only.
    for name in ["id", "invocation_id", "branch", "author"] {
        body.insert(name.into(), "".into());
    }
    if !body.get("timestamp").is_some_and(is_time) {
        let time = time.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        body.insert("timestamp".into(), time.into());
    }
    for flag in ["partial", "turn_complete", "interrupted"] {
        if !body.get(flag).is_some_and(Value::is_boolean) {
            body.insert(flag.into(), false.into());
        }
    }
    let actions = body.remove("actions");
    body.insert("actions".into(), complete(actions)?);
    serde_json::from_value(body.into()).ok()
}

fn is_time(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.parse::<DateTime<Utc>>().is_ok())
}

/// Actions with every field that the kit insists on. None where they are not an object.
fn complete(actions: Option<Value>) -> Option<Value> {
    let Ok(Value::Object(mut complete)) = serde_json::to_value(EventActions::default()) else {
        return None;
    };
    match actions {
        // Other kits write null for what is not set.
        Some(Value::Object(actions)) => {
            complete.extend(actions.into_iter().filter(|(_, value)| !value.is_null()));
        }
        Some(Value::Null) | None => {}
        Some(_) => return None,
    }
    complete.insert("state_delta".into(), json!({}));
    Some(complete.into())
}

/// A time as the wire can hold it: within the years 1 to 9999, a leap second as the end of the second before. The body keeps
/// what it was.
pub(crate) fn to_timestamp(time: DateTime<Utc>) -> Timestamp {
    let (first, last) = WIRE_SECONDS;
    let nanos = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(i32::MAX);
    match time.timestamp() {
        seconds if seconds < first => Timestamp { seconds: first, nanos: 0 },
        seconds if seconds > last => Timestamp { seconds: last, nanos: 999_999_999 },
        seconds => Timestamp { seconds, nanos: nanos.min(999_999_999) },
    }
}

/// The same time.
pub(crate) fn from_timestamp(time: Timestamp) -> DateTime<Utc> {
    let nanos = u32::try_from(time.nanos).unwrap_or_default();
    DateTime::from_timestamp(time.seconds, nanos).unwrap_or_default()
}

/// Takes every change of `temp:` keys out of an event's delta. Whether there were any.
pub(crate) fn drop_temporary(event: &mut v1::Event) -> Result<bool> {
    let Some(delta) = &mut event.state_delta else { return Ok(false) };
    let kept = |key: &str| !key.starts_with(KEY_PREFIX_TEMP);
    let changes = delta.remove.len() + delta.operations.len();
    delta.remove.retain(|key| kept(key));
    delta.operations.retain(|operation| kept(&operation.key));
    let mut dropped = delta.remove.len() + delta.operations.len() < changes;
    if let Some(SetForm::SetJson(text)) = &mut delta.set_form {
        let mut set = parse_object(text)?;
        let before = set.len();
        set.retain(|key, _| kept(key));
        dropped |= set.len() < before;
        *text = object_text(set)?;
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever order the kit's hash maps have in this process.
    #[test]
    fn equal_events_are_equal_text() {
        let numbered = || (0..20).map(|n| (format!("k{n:02}"), n));
        let mut event = Event::with_id("e1", "turn-1");
        event.actions.artifact_delta = numbered().collect();
        event.provider_metadata = numbered().map(|(key, n)| (key, n.to_string())).collect();
        event.actions.state_delta = numbered().map(|(key, n)| (key, n.into())).collect();
        let wire = to_wire(event).unwrap();
        let in_order = |text: &str| {
            let found = numbered().map(|(key, _)| text.find(&format!("\"{key}\"")).unwrap());
            assert!(found.is_sorted(), "{text}");
        };
        let Some(BodyForm::BodyJson(body)) = wire.body_form else { panic!() };
        let artifacts = body.split("event_metadata").next().unwrap();
        in_order(artifacts);
        in_order(&body[artifacts.len()..]);
        match wire.state_delta.unwrap().set_form {
            Some(SetForm::SetJson(set)) => in_order(&set),
            other => panic!("{other:?}"),
        }
    }
}
