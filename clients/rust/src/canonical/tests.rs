//! Bodies in the canonical form, in its variants, and such as ADK cannot read whole. The cases are in clients/cases.

use adk_core::{Event, FinishReason, Part};
use chrono::{DateTime, Utc};
use prost_types::Timestamp;
use serde_json::{Value, json};

use crate::{
    FOREIGN_BODY,
    event::{from_wire, to_wire},
    proto::v1::{self, event::BodyForm},
};

fn read_from(author: &str, body: &Value) -> Event {
    let event = v1::Event {
        event_id: "e1".into(),
        author: author.into(),
        event_time: Some(Timestamp { seconds: 1_795_690_000, nanos: 250_000_000 }),
        body_form: Some(BodyForm::BodyJson(body.to_string())),
        ..v1::Event::default()
    };
    from_wire(event).unwrap()
}

/// An event that ADK holds completely.
#[track_caller]
fn read(body: Value) -> Event {
    let event = read_from("agent", &body);
    assert_eq!(event.provider_metadata.get(FOREIGN_BODY), None, "{body}");
    event
}

/// The JSON of an event that ADK holds at least in part.
fn read_in_part(body: &Value) -> Value {
    let mut event = read_from("agent", body);
    event.provider_metadata.remove(FOREIGN_BODY);
    serde_json::to_value(event).unwrap()
}

fn cases(file: &str) -> Vec<Value> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../cases/bodies/");
    let text = std::fs::read_to_string(format!("{folder}{file}")).unwrap();
    let mut cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    cases.retain(|case| {
        !case["except"].as_array().is_some_and(|except| except.contains(&json!("rust")))
    });
    cases
}

/// Asserts that `found` has every member of `wanted`, but for the paths of `lost`.
#[track_caller]
fn assert_has(found: &Value, wanted: &Value, lost: &Value, path: &str) {
    if lost.as_array().is_some_and(|lost| lost.contains(&json!(path))) {
        return;
    }
    match (found, wanted) {
        (_, Value::Object(members)) => {
            for (name, value) in members {
                let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                assert_has(&found[name], value, lost, &at);
            }
        }
        (Value::Array(found), Value::Array(items)) if found.len() == items.len() => {
            for (at, (found, item)) in found.iter().zip(items).enumerate() {
                assert_has(found, item, lost, &format!("{path}.{at}"));
            }
        }
        _ => assert_eq!(found, wanted, "{path}"),
    }
}

#[test]
fn a_canonical_body_is_read_and_written() {
    for case in cases("canonical.json") {
        let wanted = &case["canonical"];
        let written = to_wire(read_from("agent", wanted)).unwrap().body_form;
        let Some(BodyForm::BodyJson(text)) = written else { panic!("{written:?}") };
        let written = serde_json::from_str(&text).unwrap();
        assert_has(&written, wanted, &case["lost"]["rust"], "");
    }
}

#[test]
fn a_variant_is_read_as_the_canonical_body() {
    for case in cases("variants.json") {
        let [body, canonical] = ["body", "canonical"].map(|name| read_in_part(&case[name]));
        assert_eq!(body, canonical, "{}", case["name"]);
    }
}

#[test]
fn what_adk_cannot_read_is_omitted_alone() {
    for case in cases("unreadable.json") {
        let [body, kept] = ["body", "kept"].map(|name| read_in_part(&case[name]));
        assert_eq!(body, kept, "{}", case["name"]);
    }
}

/// Of a record, only the member that cannot be held is omitted, at any depth.
#[test]
fn a_body_that_adk_holds_in_part_is_kept_as_text() {
    for body in [
        json!({"content": {"parts": [{"text": "T"}, {"executableCode": {"language": "PYTHON", "code": "1"}}]}}),
        json!({"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": "?"}}]}}),
        json!({"content": {"parts": [{"functionCall": {"name": "f", "id": 5}}]}}),
        json!({"actions": {"toolConfirmation": {"toolName": "f", "functionCallId": 7}}}),
        json!({"citationMetadata": {"citations": [{"uri": "u", "license": []}]}}),
        json!({"longRunningToolIds": ["c", 5]}),
        json!({"usageMetadata": {"cost": {}}}),
        json!({"actions": {"route": 1}}),
    ] {
        let event = read_from("agent", &body);
        assert_eq!(event.provider_metadata.get(FOREIGN_BODY), Some(&body.to_string()));
    }
}

#[test]
fn bytes_in_both_alphabets() {
    for data in ["-_8=", "-_8", "+/8=", "+/8"] {
        let part = json!({"inlineData": {"mimeType": "image/png", "data": data}});
        let event = read(json!({"content": {"role": "model", "parts": [part]}}));
        let Part::InlineData { data, .. } = &event.content().unwrap().parts[0] else { panic!() };
        assert_eq!(data, &[0xfb, 0xff]);
    }
}

#[test]
fn a_content_without_a_role() {
    for role in [json!(null), json!("")] {
        let body = json!({"content": {"role": role, "parts": [{"text": "T"}]}});
        for (author, role) in [("user", "user"), ("agent", "model")] {
            assert_eq!(read_from(author, &body).content().unwrap().role, role);
        }
    }
    let result = json!({"functionResponse": {"name": "f"}});
    let event = read(json!({"content": {"role": "user", "parts": [result]}}));
    assert_eq!(event.content().unwrap().role, "function", "so that the runner keeps the role");
}

#[test]
fn members_under_other_names() {
    let event = read(json!({
        "finishReason": "MAX_TOKENS",
        "usageMetadata": {"thoughtsTokenCount": 5, "cachedContentTokenCount": 6},
        "citationMetadata": {"citations": [{"uri": "u", "publicationDate": {"year": 2026}}]},
        "actions": {"route": "left"},
        // ADK for Go omits a text that is empty.
        "content": {"parts": [{}, {"thoughtSignature": "c2ln"}]},
    }));
    let response = &event.llm_response;
    assert_eq!(response.finish_reason, Some(FinishReason::MaxTokens));
    let usage = response.usage_metadata.as_ref().unwrap();
    let counts = (usage.thinking_token_count, usage.cache_read_input_token_count);
    assert_eq!(counts, (Some(5), Some(6)));
    let sources = &response.citation_metadata.as_ref().unwrap().citation_sources;
    assert_eq!(sources[0].uri.as_deref(), Some("u"));
    assert_eq!(event.actions.route.unwrap(), ["left"]);
    assert_eq!(
        response.content.as_ref().unwrap().parts,
        [Part::text_part(""), Part::text_part("")]
    );
}

#[test]
fn times_are_exact() {
    let content = json!({"parts": [{"text": "T"}]});
    for (time, wanted) in [
        ("1795685400.123", 1_795_685_400_123_000_000),
        ("1795685400.122999907", 1_795_685_400_122_999_907),
        ("-1.5", -1_500_000_000),
        ("1795685460000", 1_795_685_460_000_000_000),
    ] {
        let compaction = format!(
            r#"{{"startTimestamp":{time},"endTimestamp":{time},"compactedContent":{content}}}"#
        );
        let (event, _) = super::read(
            &format!(r#"{{"actions":{{"compaction":{compaction}}}}}"#),
            "a",
            time_of(0),
        );
        assert_eq!(event.actions.compaction.unwrap().end_timestamp, time_of(wanted));
    }
    for timestamp in [json!(5), json!("2001-01-01T00:00:00Z"), json!(null)] {
        let event = read(json!({"timestamp": timestamp}));
        assert_eq!(event.timestamp, time_of(1_795_690_000_250_000_000));
    }
}

fn time_of(nanos: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(nanos)
}
