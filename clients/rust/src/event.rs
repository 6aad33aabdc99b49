//! The kit's event on the wire and back: its own JSON is the body, whole but for the state delta, which travels typed.

use std::{collections::HashMap, mem, sync::LazyLock};

use adk_core::{AdkError, Event, EventActions, Result};
use adk_session::KEY_PREFIX_TEMP;
use chrono::{DateTime, SecondsFormat, Utc};
use prost_types::Timestamp;
use serde::{Deserialize as _, de::value::MapDeserializer};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};
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
    let delta = mem::take(&mut event.actions.state_delta);
    let state_delta = if delta.is_empty() {
        None
    } else {
        Some(v1::StateDelta {
            set_form: Some(SetForm::SetJson(object_text(&delta)?)),
            ..v1::StateDelta::default()
        })
    };
    let body = body(&mut event)?;
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

/// An object as text, its keys in any order: the server compares what is repeated as JSON.
pub(crate) fn object_text(object: &HashMap<String, Value>) -> Result<String> {
    serde_json::to_string(object).map_err(no_json)
}

/// Stands in for the delta while an event is written, so that it is found in the text and cut out again, however large the
/// event is. Random, so that nothing else in an event is taken for it.
static MARK: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// The event's own JSON without its delta, which is replaced.
fn body(event: &mut Event) -> Result<String> {
    event.actions.state_delta = HashMap::from([(MARK.clone(), Value::Null)]);
    let mut text = serde_json::to_string(event).map_err(no_json)?;
    let member = format!(r#""state_delta":{{"{}":null}}"#, *MARK);
    // With a comma on the one side or on the other, unless it stands alone.
    for cut in [format!("{member},"), format!(",{member}"), member] {
        if let Some(start) = text.find(&cut) {
            text.replace_range(start..start + cut.len(), "");
            return Ok(text);
        }
    }
    Err(invalid("session.bad_json", "the event does not write its delta as it used to"))
}

fn no_json(cause: serde_json::Error) -> AdkError {
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

/// JSON that is looked at in parts, by the names of its members.
type Parts<'a> = HashMap<&'a str, &'a RawValue>;

/// The event in a body, with what the kit insists on filled in. None where the rest does not make one.
fn parse(text: &str, time: DateTime<Utc>) -> Option<Event> {
    let given: HashMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let mut body: Parts<'_> = given.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    // The envelope's are put in their place; here they have to be of the right kind only.
    let no_text = serde_json::from_str(r#""""#).ok()?;
    for name in ["id", "invocation_id", "branch", "author"] {
        body.insert(name, no_text);
    }
    let envelope_time = to_raw_value(&time.to_rfc3339_opts(SecondsFormat::AutoSi, true)).ok()?;
    if !body.get("timestamp").is_some_and(|value| is_time(value)) {
        body.insert("timestamp", &envelope_time);
    }
    for flag in ["partial", "turn_complete", "interrupted"] {
        if !body.get(flag).is_some_and(|value| matches!(value.get(), "true" | "false")) {
            body.insert(flag, RawValue::FALSE);
        }
    }
    let actions = complete(body.get("actions").copied())?;
    body.insert("actions", &actions);
    Event::deserialize(MapDeserializer::new(body.into_iter())).ok()
}

fn is_time(value: &RawValue) -> bool {
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    text.is_some_and(|text| text.parse::<DateTime<Utc>>().is_ok())
}

/// The kit's actions of an event that does nothing.
static NO_ACTIONS: LazyLock<HashMap<String, Box<RawValue>>> = LazyLock::new(|| {
    let text = serde_json::to_string(&EventActions::default());
    text.and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
});

/// Actions with every field that the kit insists on. None where they are not an object.
fn complete(actions: Option<&RawValue>) -> Option<Box<RawValue>> {
    let given: HashMap<String, &RawValue> = match actions.map(RawValue::get) {
        None | Some("null") => HashMap::new(),
        Some(text) => serde_json::from_str(text).ok()?,
    };
    let mut complete: Parts<'_> =
        NO_ACTIONS.iter().map(|(name, value)| (name.as_str(), &**value)).collect();
    // Other kits write null for what is not set.
    let set = given.iter().filter(|(_, value)| value.get() != "null");
    complete.extend(set.map(|(name, value)| (name.as_str(), *value)));
    complete.insert("state_delta", serde_json::from_str("{}").ok()?);
    to_raw_value(&complete).ok()
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
        *text = object_text(&set)?;
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body_of(event: Event) -> String {
        match to_wire(event).unwrap().body_form {
            Some(BodyForm::BodyJson(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    /// Whatever else in it looks like one, before it or behind it.
    #[test]
    fn the_body_lacks_the_events_own_delta_and_nothing_else() {
        let looks_alike = json!({"actions": {"state_delta": {}, "a": {"state_delta": {"x": 1}}}});
        let mut event = Event::with_id("e1", "turn-1");
        event.llm_response.provider_metadata = Some(looks_alike.clone());
        event.llm_request = Some(looks_alike.to_string());
        event.provider_metadata.insert("state_delta".into(), "{}".into());
        event.actions.tool_confirmation = Some(adk_core::ToolConfirmationRequest {
            tool_name: "f".into(),
            function_call_id: None,
            args: looks_alike,
        });
        for delta in [json!({}), json!({"own": {"state_delta": {}}})] {
            event.actions.state_delta = serde_json::from_value(delta).unwrap();
            let mut wanted = serde_json::to_value(&event).unwrap();
            wanted["actions"].as_object_mut().unwrap().remove("state_delta").unwrap();
            let body = body_of(event.clone());
            assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), wanted);
            // A member that is there twice would not show above.
            assert_eq!(body.len(), wanted.to_string().len());
        }
    }
}
