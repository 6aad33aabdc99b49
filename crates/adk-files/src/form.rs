//! Events exactly in ADK's form: camelCase, and nothing that ADK refuses to read.

use std::collections::BTreeSet;

use super::{event::Event, lookup::member, time};
use sessiond_core::domain::json::{Json, JsonType};

/// Members that the event has as fields of its envelope, whose values count.
const ENVELOPE: [&str; 5] = ["id", "timestamp", "invocationId", "author", "branch"];
/// Members whose value is data of the application: its names stay as they are.
const OPAQUE: [&str; 9] = [
    "agentState",
    "args",
    "artifactDelta",
    "customMetadata",
    "output",
    "partialArgs",
    "response",
    "result",
    "stateDelta",
];
/// ADK refuses an event with any other action; it ignores other members of the event.
const ACTIONS: [&str; 15] = [
    "agentState",
    "artifactDelta",
    "compaction",
    "endOfAgent",
    "escalate",
    "renderUiWidgets",
    "requestedAuthConfigs",
    "requestedToolConfirmations",
    "rewindBeforeInvocationId",
    "route",
    "setModelResponse",
    "skipSummarization",
    "stateDelta",
    "transferReason",
    "transferToAgent",
];
/// Alike for the content and its parts.
const CONTENT: [&str; 2] = ["parts", "role"];
const PART: [&str; 17] = [
    "audioTranscription",
    "codeExecutionResult",
    "executableCode",
    "fileData",
    "functionCall",
    "functionResponse",
    "inlineData",
    "mediaProcessing",
    "mediaResolution",
    "partMetadata",
    "speechMetadata",
    "text",
    "thought",
    "thoughtSignature",
    "toolCall",
    "toolResponse",
    "videoMetadata",
];

/// The parts of a session that the form cannot hold, for one warning per file.
pub type Losses = BTreeSet<String>;

/// The event as an entry of `events`. Adds what the entry lacks to `losses`.
pub fn entry(event: &Event, losses: &mut Losses) -> Json {
    if !event.remove.is_empty() {
        losses.insert("removals of keys".to_owned());
    }
    let mut members = Vec::new();
    let mut put = |name: &str, value: Option<Json>| {
        members.extend(value.map(|value| (name.to_owned(), value)));
    };
    let text = |text: &str| (!text.is_empty()).then(|| Json::string(text));
    put("id", text(&event.event_id));
    put("timestamp", event.event_time.map(time::format_stamp).map(Json::from_stored));
    put("invocationId", text(&event.invocation_id));
    put("author", Some(Json::string(&event.author)));
    put("branch", text(&event.branch));
    let body = event.body.as_ref().map_or_else(|| Json::of_members(&[]), camel_case);
    for (name, value) in body.members() {
        let is_written = ENVELOPE.contains(&name.as_str()) || name == "actions";
        if is_written || value.as_str() == "null" {
            continue;
        }
        match name.as_str() {
            "content" if value.json_type() == JsonType::Object => {
                put(&name, Some(content(&value, losses)))
            }
            "content" | "customMetadata" if value.json_type() != JsonType::Object => {
                losses.insert(format!("`{name}` of type {}", value.json_type()));
            }
            _ => put(&name, Some(value)),
        }
    }
    let actions = member(&body, &["actions"]).unwrap_or_else(|| Json::of_members(&[]));
    let mut actions = known(&actions, &ACTIONS, "action", losses);
    actions.retain(|(name, value)| name != "stateDelta" && !is_empty(value));
    let set = (!event.set.is_empty()).then(|| Json::of_members(&event.set));
    actions.splice(0..0, set.map(|set| ("stateDelta".to_owned(), set)));
    put("actions", (!actions.is_empty()).then(|| Json::of_members(&actions)));
    Json::of_members(&members)
}

fn content(content: &Json, losses: &mut Losses) -> Json {
    let mut members = known(content, &CONTENT, "member of content", losses);
    for (name, value) in &mut members {
        if name == "parts" {
            let parts = value.items();
            let parts = parts.iter().map(|part| known(part, &PART, "member of a part", losses));
            let parts: Vec<_> = parts.map(|members| Json::of_members(&members)).collect();
            *value = Json::of_items(&parts);
        }
    }
    Json::of_members(&members)
}

/// The members that ADK knows and that have a value.
fn known(json: &Json, names: &[&str], what: &str, losses: &mut Losses) -> Vec<(String, Json)> {
    let mut members = json.members();
    members.retain(|(name, value)| {
        let is_known = names.contains(&name.as_str());
        if !is_known {
            losses.insert(format!("the {what} `{name}`"));
        }
        is_known && value.as_str() != "null"
    });
    members
}

fn is_empty(value: &Json) -> bool {
    matches!(value.as_str(), "{}" | "[]" | "false")
}

/// The value with the names of its members in camelCase, as far as they are ADK's.
fn camel_case(json: &Json) -> Json {
    match json.json_type() {
        JsonType::Object => {
            let members = json.members().into_iter().map(|(name, value)| {
                let name = camel(&name);
                let value =
                    if OPAQUE.contains(&name.as_str()) { value } else { camel_case(&value) };
                (name, value)
            });
            Json::of_members(&members.collect::<Vec<_>>())
        }
        JsonType::Array => Json::of_items(&json.items().iter().map(camel_case).collect::<Vec<_>>()),
        _ => json.clone(),
    }
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    if camel.is_empty() {
        return name.to_owned();
    }
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        camel.push_str(letters.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;

    fn event(body: &str, set: &str) -> Event {
        Event {
            event_id: "e".to_owned(),
            sequence: 3,
            author: "agent".to_owned(),
            event_time: Some(Timestamp { seconds: 1, nanos: 500_000_000 }),
            set: Json::from_stored(set.to_owned()).members(),
            body: Some(Json::object(body.to_owned()).unwrap()),
            ..Event::default()
        }
    }

    fn written(event: &Event) -> (String, Vec<String>) {
        let mut losses = Losses::new();
        let entry = entry(event, &mut losses);
        (entry.into_string(), losses.into_iter().collect())
    }

    #[test]
    fn names_become_camel_case_and_data_stays() {
        let body = r#"{"content":{"parts":[{"function_call":{"name":"f","args":{"snake_case":1.00}}}],"role":"model"},
            "custom_metadata":{"a_b":1},"long_running_tool_ids":["c"],"actions":{"transfer_to_agent":"b","state_delta":{"x":1},"artifact_delta":{}}}"#;
        let (text, losses) = written(&event(body, r#"{"user:my_key":1.0}"#));
        assert_eq!(
            text,
            r#"{"id":"e","timestamp":1.5,"author":"agent","content":{"parts":[{"functionCall":{"name":"f","args":{"snake_case":1.00}}}],"role":"model"},"customMetadata":{"a_b":1},"longRunningToolIds":["c"],"actions":{"stateDelta":{"user:my_key":1.0},"transferToAgent":"b"}}"#
        );
        assert_eq!(losses, [""; 0]);
    }

    #[test]
    fn the_envelope_wins_over_the_body_and_empty_actions_are_left_out() {
        let body = r#"{"id":"other","timestamp":"2026-01-01T00:00:00Z","author":"x","invocation_id":"y","actions":{"stateDelta":{},"requestedAuthConfigs":{}},"errorCode":null}"#;
        assert_eq!(written(&event(body, "{}")).0, r#"{"id":"e","timestamp":1.5,"author":"agent"}"#);
    }

    #[test]
    fn what_adk_refuses_is_left_out_and_named() {
        let body = r#"{"content":{"parts":[{"text":"a","later":1}],"other":2},"actions":{"endInvocation":true},"customMetadata":[1]}"#;
        let mut event = event(body, "{}");
        event.remove = vec!["k".to_owned()];
        let (text, losses) = written(&event);
        assert_eq!(
            text,
            r#"{"id":"e","timestamp":1.5,"author":"agent","content":{"parts":[{"text":"a"}]}}"#
        );
        assert_eq!(
            losses,
            [
                "`customMetadata` of type array",
                "removals of keys",
                "the action `endInvocation`",
                "the member of a part `later`",
                "the member of content `other`",
            ]
        );
    }

    #[test]
    fn a_name_is_converted_as_adk_does() {
        assert_eq!((camel("a_b_c").as_str(), camel("aB").as_str()), ("aBC", "aB"));
        assert_eq!((camel("_private").as_str(), camel("x").as_str()), ("_private", "x"));
    }
}
