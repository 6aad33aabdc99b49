//! ADK events on the wire: an event in the canonical form is the body, without the state delta, which travels typed.

use std::{collections::HashMap, mem};

use adk_core::{Event, Result};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    canonical,
    error::{invalid, unexpected},
    json::{object_text, parse_object},
    observe::observe,
    proto::v1::{self, event::BodyForm, state_delta::SetForm},
    time::{from_timestamp, to_timestamp},
};

/// The key in [`Event::provider_metadata`] that holds the body of an event as text, if another program has written it and ADK
/// cannot hold all of it.
pub const FOREIGN_BODY: &str = "sessiond.body";

/// An event without an id gets one, so that the server recognizes a retry.
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
    let body = canonical::write(&event).map_err(|cause| {
        invalid("session.bad_json", "the event cannot be written as JSON").with_source(cause)
    })?;
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

/// The event as it was stored. The id, invocation, author and branch of the envelope win over those of the body.
///
/// If ADK cannot hold all of the body, the rest is omitted and the body is kept as text under [`FOREIGN_BODY`].
pub(crate) fn from_wire(wire: v1::Event) -> Result<Event> {
    let delta = state_changes(wire.state_delta)?;
    let text = match wire.body_form {
        Some(BodyForm::BodyJson(text)) => text,
        Some(BodyForm::Body(_)) => {
            return Err(unexpected("sessiond sent an event as a Struct instead of text"));
        }
        None => "{}".into(),
    };
    let time = wire.event_time.map(from_timestamp).unwrap_or_default();
    let (mut event, omitted) = canonical::read(&text, &wire.author, time);
    if !omitted.is_empty() {
        let event_id = &wire.event_id;
        observe(|| {
            tracing::warn!(event_id, ?omitted, "members of an event omitted, ADK cannot hold them")
        });
        event.provider_metadata.insert(FOREIGN_BODY.into(), text);
    }
    event.id = wire.event_id;
    event.invocation_id = wire.invocation_id;
    event.author = wire.author;
    event.branch = wire.branch;
    event.actions.state_delta = delta;
    Ok(event)
}

/// The new value of each changed key. A removed key, which ADK cannot express, is null.
pub(crate) fn state_changes(delta: Option<v1::StateDelta>) -> Result<HashMap<String, Value>> {
    let Some(v1::StateDelta { set_form, remove, operations: _ }) = delta else {
        return Ok(HashMap::new());
    };
    let mut values = match set_form {
        Some(SetForm::SetJson(text)) => parse_object(&text)?,
        Some(SetForm::Set(_)) => {
            return Err(unexpected("sessiond sent a delta as a Struct instead of text"));
        }
        None => HashMap::new(),
    };
    values.extend(remove.into_iter().map(|key| (key, Value::Null)));
    Ok(values)
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
            args: looks_alike.clone(),
        });
        for delta in [json!({}), json!({"own": {"state_delta": {}}})] {
            event.actions.state_delta = serde_json::from_value(delta).unwrap();
            let body: Value = serde_json::from_str(&body_of(event.clone())).unwrap();
            assert_eq!(body["actions"].get("stateDelta"), None);
            assert_eq!(body["providerMetadata"], looks_alike);
            assert_eq!(body["llmRequest"], looks_alike.to_string());
            assert_eq!(body["eventMetadata"], json!({"state_delta": "{}"}));
            assert_eq!(body["actions"]["toolConfirmation"]["args"], looks_alike);
        }
    }
}
