//! Records of which a member cannot be held.

use super::*;

/// Of a record, only the member that cannot be held is omitted, at any depth. Its siblings stay.
#[test]
fn siblings_of_omitted_members_stay() {
    let with = |path: &str, value: Value| {
        let mut body = json!({
            "content": {"role": "model", "parts": [
                {"text": "T"}, {"functionCall": {"name": "f", "id": "c"}}, {"text": "H", "thought": true, "thoughtSignature": "s"},
            ]},
            "actions": {
                "artifactDelta": {"refund.pdf": 2}, "transferToAgent": "billing", "escalate": true, "skipSummarization": true,
                "toolConfirmation": {"toolName": "f", "functionCallId": "c", "args": {"a": 1}},
                "compaction": {"startTimestamp": 1, "endTimestamp": 2, "compactedContent": {"parts": [{"text": "S"}]}},
            },
            "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 9},
            "citationMetadata": {"citationSources": [{"uri": "u", "startIndex": 1}]},
            "longRunningToolIds": ["c"],
        });
        let (parent, name) = path.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(items) => items.push(value),
            parent => parent[name] = value,
        }
        body
    };
    let whole = serde_json::to_value(read(with("/future", json!({"any": [1]})))).unwrap();
    for (path, value, lost) in [
        ("/actions/artifactDelta/x", json!("new"), None),
        ("/actions/compaction/startTimestamp", json!("noon"), Some("/actions/compaction")),
        (
            "/actions/toolConfirmation/functionCallId",
            json!(7),
            Some("/actions/tool_confirmation/functionCallId"),
        ),
        ("/actions/toolConfirmation/toolName", json!(7), Some("/actions/tool_confirmation")),
        ("/usageMetadata/thoughtsTokenCount", json!("many"), None),
        ("/usageMetadata/cost", json!({}), None),
        ("/citationMetadata/citationSources/0/license", json!([]), None),
        ("/citationMetadata/citationSources/-", json!("text"), None),
        ("/longRunningToolIds/-", json!(5), None),
        ("/content/parts/-", json!({"executableCode": {}}), None),
        ("/content/parts/0/thought", json!("yes"), None),
        ("/content/parts/0/thoughtSignature", json!(5), None),
        ("/content/parts/1/functionCall/id", json!(5), Some("/content/parts/1/id")),
        ("/actions/compaction/compactedContent/parts/-", json!({"executableCode": {}}), None),
    ] {
        let mut event = read_in_part(with(path, value));
        event.provider_metadata.clear();
        let mut event = serde_json::to_value(event).unwrap();
        let mut wanted = whole.clone();
        if let Some((parent, name)) = lost.and_then(|lost| lost.rsplit_once('/')) {
            wanted.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(name).unwrap();
            let found = event.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            assert_eq!(found.remove(name).unwrap_or_default(), Value::Null, "{path}");
        }
        assert_eq!(event, wanted, "{path}");
    }
}

/// The record that ADK for Rust itself writes stays readable beside a member that it cannot hold.
#[test]
fn actions_of_adk_for_rust_with_an_unknown_form() {
    let event = read_in_part(json!({
        "invocation_id": "i", "id": "e", "author": "agent", "branch": "", "timestamp": "2026-11-26T10:00:00Z",
        "content": {"role": "model", "parts": [{"text": "T"}]},
        "partial": false, "turn_complete": false, "interrupted": false, "long_running_tool_ids": [],
        "actions": {
            "artifact_delta": {"refund.pdf": 2}, "transfer_to_agent": "billing", "escalate": true, "skip_summarization": false,
            "tool_confirmation_decision": "Perhaps",
            "compaction": {
                "start_timestamp": "2026-11-26T09:00:00Z", "end_timestamp": "2026-11-26T09:30:00Z",
                "compacted_content": {"role": "model", "parts": [{"text": "Summary"}]},
            },
        },
    }));
    assert_eq!(event.actions.transfer_to_agent.as_deref(), Some("billing"));
    assert!(event.actions.escalate && event.actions.artifact_delta["refund.pdf"] == 2);
    let compaction = event.actions.compaction.unwrap();
    assert_eq!(compaction.end_timestamp, "2026-11-26T09:30:00Z".parse::<DateTime<Utc>>().unwrap());
}
