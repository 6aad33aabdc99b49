//! One body of another kit for each thing that it writes differently.

mod siblings;

use adk_core::{
    Event, EventActions, EventCompaction, FileDataPart, FinishReason, FunctionResponseData,
    InlineDataPart, Part,
};
use chrono::{DateTime, Utc};
use prost_types::Timestamp;
use serde_json::{Value, json};

use crate::{
    FOREIGN_BODY,
    event::from_wire,
    proto::v1::{self, event::BodyForm},
};

fn time() -> DateTime<Utc> {
    DateTime::from_timestamp(1_763_654_321, 250_000_000).unwrap()
}

fn read_from(author: &str, body: &Value) -> Event {
    let event = v1::Event {
        event_id: "e1".into(),
        author: author.into(),
        event_time: Some(Timestamp { seconds: 1_763_654_321, nanos: 250_000_000 }),
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

/// An event that ADK holds in part.
#[track_caller]
fn read_in_part(body: Value) -> Event {
    let event = read_from("agent", &body);
    assert_eq!(event.provider_metadata.get(FOREIGN_BODY), Some(&body.to_string()));
    event
}

fn with_part(part: Value) -> Value {
    json!({"content": {"role": "model", "parts": [{"text": "T"}, part]}})
}

/// The parts of an event, whose first is the text of [`with_part`].
#[track_caller]
fn beside_text(event: &Event) -> &[Part] {
    let (text, rest) = event.content().unwrap().parts.split_first().unwrap();
    assert_eq!(text.text(), Some("T"));
    rest
}

fn call(args: Value, id: Option<&str>, signature: Option<&str>) -> Part {
    Part::FunctionCall {
        name: "f".into(),
        args,
        id: id.map(Into::into),
        thought_signature: signature.map(Into::into),
    }
}

#[test]
fn calls() {
    let args = json!({"functionCall": {"n": u64::MAX, "x": 1.0}, "thought": true});
    for (part, wanted) in [
        (
            json!({"functionCall": {"id": "c1", "name": "f", "args": args}, "thoughtSignature": "-_8="}),
            call(args.clone(), Some("c1"), Some("-_8=")),
        ),
        (json!({"functionCall": {"name": "f"}}), call(json!({}), None, None)),
        (
            json!({"text": null, "functionCall": {"id": "", "name": "f", "args": null}}),
            call(json!({}), None, None),
        ),
        (
            json!({"function_call": {"id": "c1", "name": "f", "args": {"a_b": 1}}}),
            call(json!({"a_b": 1}), Some("c1"), None),
        ),
    ] {
        assert_eq!(beside_text(&read(with_part(part))), [wanted]);
    }
}

#[test]
fn results() {
    let result = |response: Value, id: Option<&str>| Part::FunctionResponse {
        function_response: FunctionResponseData::new("f", response),
        id: id.map(Into::into),
        annotations: None,
    };
    let given = json!({"functionResponse": {"id": "c1", "name": "f", "response": {"id": 7}}});
    let wanted = result(json!({"id": 7}), Some("c1"));
    let event = read(with_part(given.clone()));
    assert_eq!(beside_text(&event), std::slice::from_ref(&wanted));
    assert_eq!(event.content().unwrap().role, "model", "there is a text, too");

    let nameless = json!({"functionResponse": {"name": "f"}});
    let event = read(json!({"content": {"role": "user", "parts": [given, nameless]}}));
    assert_eq!(event.content().unwrap().parts, [wanted, result(json!({}), None)]);
    assert_eq!(event.content().unwrap().role, "function", "so that the runner keeps the role");
}

#[test]
fn files_of_a_result() {
    let event = read_in_part(with_part(json!({"functionResponse": {
        "name": "f",
        "response": {},
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "-_8="}},
            {"fileData": {"mimeType": "text/plain", "fileUri": "gs://b/a.txt"}},
            {"ofALaterKit": {}},
        ],
    }})));
    let [Part::FunctionResponse { function_response, .. }] = beside_text(&event) else {
        panic!("{event:?}");
    };
    let image = InlineDataPart {
        mime_type: "image/png".into(),
        data: vec![0xfb, 0xff],
        uri: None,
        annotations: None,
    };
    let file = FileDataPart {
        mime_type: "text/plain".into(),
        file_uri: "gs://b/a.txt".into(),
        annotations: None,
    };
    assert_eq!(
        (&*function_response.inline_data, &*function_response.file_data),
        (&[image][..], &[file][..])
    );
}

#[test]
fn bytes_in_both_alphabets() {
    for data in ["-_8=", "-_8", "+/8=", "+/8"] {
        let event = read(with_part(json!({"inlineData": {"mimeType": "image/png", "data": data}})));
        let wanted = Part::InlineData {
            mime_type: "image/png".into(),
            data: vec![0xfb, 0xff],
            uri: None,
            annotations: None,
        };
        assert_eq!(beside_text(&event), [wanted]);
    }
}

#[test]
fn references_to_files() {
    let given = json!({"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://b/a.jpg", "displayName": "a"}});
    let wanted = Part::FileData {
        mime_type: "image/jpeg".into(),
        file_uri: "gs://b/a.jpg".into(),
        annotations: None,
    };
    assert_eq!(beside_text(&read(with_part(given))), [wanted]);
}

#[test]
fn an_empty_text_of_adk_for_go() {
    for given in [json!({}), json!({"thoughtSignature": "c2ln"})] {
        assert_eq!(beside_text(&read(with_part(given))), [Part::text_part("")]);
    }
}

#[test]
fn parts_that_adk_cannot_hold_are_omitted() {
    for part in [
        json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}, "thought": true}),
        json!({"inlineData": {"mimeType": "image/png", "data": "?"}}),
        json!({"fileData": {"fileUri": "gs://b/without-a-type"}}),
        json!({"functionCall": {"args": {}}}),
        json!("a mere text"),
        json!(null),
    ] {
        let event = read_in_part(with_part(part));
        assert!(beside_text(&event).is_empty(), "{event:?}");
    }
}

#[test]
fn a_content_without_a_role() {
    for content in [
        json!({"parts": [{"text": "T"}]}),
        json!({"role": null, "parts": [{"text": "T"}]}),
        json!({"role": "", "parts": [{"text": "T"}]}),
    ] {
        let body = json!({"content": content});
        for (author, role) in [("user", "user"), ("agent", "model")] {
            let event = read_from(author, &body);
            assert_eq!(event.content().unwrap().role, role);
            assert!(beside_text(&event).is_empty());
        }
    }
    let event = read(json!({"content": {"role": "model"}}));
    assert!(event.content().unwrap().parts.is_empty());
}

#[test]
fn members_in_camel_case() {
    let event = read(json!({
        "errorCode": "429",
        "errorMessage": "slow down",
        "turnComplete": true,
        "interrupted": null,
        "interactionId": "i1",
        "longRunningToolIds": ["c1"],
        "finishReason": "MAX_TOKENS",
        "usageMetadata": {"promptTokenCount": 35, "totalTokenCount": 47, "thoughtsTokenCount": 5, "cachedContentTokenCount": 6},
        "citationMetadata": {"citations": [{"uri": "u", "startIndex": 1, "publicationDate": {"year": 2026}}]},
        "actions": {
            "artifactDelta": {"a_b.csv": 1},
            "transferToAgent": "other",
            "skipSummarization": true,
            "escalate": true,
        },
    }));
    let response = &event.llm_response;
    assert_eq!(response.error_code.as_deref(), Some("429"));
    assert_eq!(response.error_message.as_deref(), Some("slow down"));
    assert!(response.turn_complete && !response.interrupted);
    assert_eq!(response.interaction_id.as_deref(), Some("i1"));
    assert_eq!(event.long_running_tool_ids, ["c1"]);
    assert_eq!(response.finish_reason, Some(FinishReason::MaxTokens));
    let usage = response.usage_metadata.as_ref().unwrap();
    let required =
        [usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count];
    assert_eq!(required, [35, 0, 47]);
    assert_eq!(usage.thinking_token_count, Some(5));
    assert_eq!(usage.cache_read_input_token_count, Some(6));
    let source = &response.citation_metadata.as_ref().unwrap().citation_sources[0];
    assert_eq!((source.uri.as_deref(), source.start_index), (Some("u"), Some(1)));
    let actions = &event.actions;
    assert_eq!(actions.artifact_delta, [("a_b.csv".into(), 1)].into());
    assert_eq!(actions.transfer_to_agent.as_deref(), Some("other"));
    assert!(actions.skip_summarization && actions.escalate);
}

#[test]
fn routes() {
    for (body, wanted) in [
        (json!({"actions": {"route": "a"}}), vec!["a"]),
        (json!({"actions": {"route": ["a", "b"]}}), vec!["a", "b"]),
        (json!({"route": "a"}), vec!["a"]),
        (json!({"routes": ["a", "b"]}), vec!["a", "b"]),
    ] {
        assert_eq!(read(body).actions.route.unwrap(), wanted);
    }
}

#[track_caller]
fn compaction_of(event: Event) -> EventCompaction {
    event.actions.compaction.unwrap()
}

#[test]
fn compactions_in_the_unit_of_their_kit() {
    let compaction = |start: Value, end: Value| {
        let content = json!({"parts": [{"text": "T"}, {"functionCall": {"name": "f"}}]});
        json!({"startTimestamp": start, "endTimestamp": end, "compactedContent": content})
    };
    let nanos = DateTime::from_timestamp_nanos;
    let seconds = compaction(json!(2.5), json!(1_763_654_320.000_001));
    let millis = compaction(json!(2_500), json!(1_763_654_320_001_i64));
    let text = compaction(json!("1970-01-01T00:00:02.5Z"), json!("2025-11-20T15:58:40Z"));
    for (timestamp, compaction, end) in [
        (json!(1_763_654_321.25), &seconds, 1_763_654_320_000_000_954),
        (json!(1_763_654_321_250_i64), &millis, 1_763_654_320_001_000_000),
        (json!("2025-11-20T15:58:41.25Z"), &text, 1_763_654_320_000_000_000),
    ] {
        let body = json!({"timestamp": timestamp, "actions": {"compaction": compaction}});
        let read = compaction_of(read(body));
        assert_eq!(read.start_timestamp, nanos(2_500_000_000));
        // The runner leaves out what is not after this time: the nanosecond is that of an event with the same time.
        assert_eq!(read.end_timestamp, nanos(end));
        assert_eq!(read.compacted_content.role, "model");
        let wanted = [Part::text_part("T"), call(json!({}), None, None)];
        assert_eq!(read.compacted_content.parts, wanted);
    }
    // Without the body's own time, the magnitude tells the unit.
    let late = compaction(json!(1_763_654_320_000_i64), json!(1_763_654_320.5));
    let read = compaction_of(read(json!({"actions": {"compaction": late}})));
    assert_eq!(read.start_timestamp, nanos(1_763_654_320_000_000_000));
    assert_eq!(read.end_timestamp, nanos(1_763_654_320_500_000_000));
}

#[test]
fn a_compaction_in_the_event_itself() {
    let body = json!({"isCompacted": true, "startTime": 2_500, "endTime": 1_763_654_320_001_i64,
        "compactedContent": "T", "actions": {"escalate": true}});
    let event = read(body.clone());
    assert!(event.actions.escalate);
    let read = compaction_of(event);
    assert_eq!(read.start_timestamp, DateTime::from_timestamp_nanos(2_500_000_000));
    assert_eq!(read.end_timestamp, DateTime::from_timestamp_nanos(1_763_654_320_001_000_000));
    assert_eq!(read.compacted_content.parts, [Part::text_part("T")]);
    for name in ["startTime", "endTime", "compactedContent"] {
        let mut body = body.clone();
        body[name] = json!([]);
        let event = read_in_part(body);
        assert!(event.actions.escalate && event.actions.compaction.is_none(), "{name}");
    }
    let mut body = body;
    body["isCompacted"] = json!(false);
    assert!(self::read(body).actions.compaction.is_none());
}

#[test]
fn members_that_adk_cannot_hold_are_omitted() {
    let compaction = json!({"startTimestamp": 1, "endTimestamp": "noon", "compactedContent": {}});
    for actions in [
        json!([1]),
        json!({"compaction": compaction}),
        json!({"compaction": {}}),
        json!({"compaction": {"startTimestamp": 1, "endTimestamp": 2, "compactedContent": {"parts": []}}}),
        json!({"route": 1}),
        json!({"artifactDelta": {"a": "one"}}),
        json!({"skipSummarization": "yes"}),
    ] {
        let mut body = with_part(json!({"functionCall": {"name": "f"}}));
        body["actions"] = actions;
        body["usageMetadata"] = json!("none");
        let event = read_in_part(body);
        assert_eq!(beside_text(&event), [call(json!({}), None, None)]);
        let actions = serde_json::to_value(&event.actions).unwrap();
        assert_eq!(actions, serde_json::to_value(EventActions::default()).unwrap());
    }
}

#[test]
fn the_time_is_that_of_the_envelope() {
    for timestamp in [json!(5), json!("2001-01-01T00:00:00Z"), json!(null)] {
        assert_eq!(read(json!({"timestamp": timestamp})).timestamp, time());
    }
}
