//! An event of ADK for Rust as a body in the canonical form.

use std::sync::LazyLock;

use adk_core::{Content, Event, FileDataPart, InlineDataPart, Part};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;

use super::RENAMED;

/// Encloses decimals of seconds while a body is a tree: no number of a tree is exact to the nanosecond. Random, so that nothing else
/// in an event matches.
static MARK: LazyLock<String> = LazyLock::new(|| Uuid::new_v4().to_string());

/// The JSON of an event without its delta.
pub(crate) fn write(event: &Event) -> serde_json::Result<String> {
    let mut body = camel_case(serde_json::to_value(event)?);
    if let Some(content) = event.content() {
        body["content"] = write_content(content)?;
    }
    for name in ["usageMetadata", "citationMetadata"] {
        if let Some(record) = body.get_mut(name) {
            *record = camel_case(record.take());
        }
    }
    if let Some(Value::String(reason)) = body.get_mut("finishReason") {
        *reason = if reason == "MaxTokens" { "MAX_TOKENS".into() } else { reason.to_uppercase() };
    }
    let mut actions = camel_case(body["actions"].take());
    if let Value::Object(actions) = &mut actions {
        actions.remove("stateDelta");
    }
    if let Some(confirmation) = actions.get_mut("toolConfirmation") {
        *confirmation = camel_case(confirmation.take());
    }
    if let Some(compaction) = &event.actions.compaction {
        actions["compaction"] = json!({
            "startTimestamp": seconds(compaction.start_timestamp),
            "endTimestamp": seconds(compaction.end_timestamp),
            "compactedContent": write_content(&compaction.compacted_content)?,
        });
    }
    body["actions"] = actions;
    let text = serde_json::to_string(&body)?;
    if event.actions.compaction.is_none() {
        return Ok(text);
    }
    Ok(text.replace(&format!("\"{}", *MARK), "").replace(&format!("{}\"", *MARK), ""))
}

/// The object with canonical names, and without members that are null.
fn camel_case(object: Value) -> Value {
    let Value::Object(object) = object else {
        return object;
    };
    let set = object.into_iter().filter(|(_, value)| !value.is_null());
    let renamed = set.map(|(name, value)| {
        let mut words = name.split('_');
        let mut camel = words.next().unwrap_or_default().to_owned();
        for word in words {
            camel.extend(word.get(..1).map(str::to_ascii_uppercase));
            camel.push_str(word.get(1..).unwrap_or_default());
        }
        let known = RENAMED.iter().find(|(own, _)| *own == camel);
        (known.map_or(camel, |(_, canonical)| (*canonical).to_owned()), value)
    });
    Value::Object(renamed.collect())
}

fn write_content(content: &Content) -> serde_json::Result<Value> {
    let is_result = |part: &Part| matches!(part, Part::FunctionResponse { .. });
    let only_results = !content.parts.is_empty() && content.parts.iter().all(is_result);
    // The reader gives it back.
    let role = if only_results && content.role == "function" { "user" } else { &*content.role };
    let parts = content.parts.iter().map(write_part).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({"role": role, "parts": parts}))
}

fn write_part(part: &Part) -> serde_json::Result<Value> {
    Ok(match part {
        Part::Thinking { thinking, signature } => {
            set(json!({"text": thinking, "thought": true, "thoughtSignature": signature}))
        }
        Part::InlineData { mime_type, data, uri, annotations } => {
            inline_data(mime_type, data, uri.as_ref(), annotations.as_ref())
        }
        Part::FileData { mime_type, file_uri, annotations } => {
            file_data(mime_type, file_uri, annotations.as_ref())
        }
        Part::FunctionCall { name, args, id, thought_signature } => {
            let mut call = set(json!({"id": id, "name": name}));
            call["args"] = args.clone();
            set(json!({"functionCall": call, "thoughtSignature": thought_signature}))
        }
        Part::FunctionResponse { function_response: given, id, annotations } => {
            let inline = given.inline_data.iter().map(|file| {
                let InlineDataPart { mime_type, data, uri, annotations } = file;
                inline_data(mime_type, data, uri.as_ref(), annotations.as_ref())
            });
            let files = given.file_data.iter().map(|file| {
                let FileDataPart { mime_type, file_uri, annotations } = file;
                file_data(mime_type, file_uri, annotations.as_ref())
            });
            let parts: Vec<_> = inline.chain(files).collect();
            let parts = if parts.is_empty() { Value::Null } else { parts.into() };
            let mut response = set(json!({"id": id, "name": given.name, "parts": parts}));
            response["response"] = given.response.clone();
            set(
                json!({"functionResponse": response, "partMetadata": metadata(None, annotations.as_ref())}),
            )
        }
        // The other ADKs have no such part.
        other => serde_json::to_value(other)?,
    })
}

fn inline_data(
    mime_type: &str,
    data: &[u8],
    uri: Option<&String>,
    annotations: Option<&Value>,
) -> Value {
    let blob = json!({"mimeType": mime_type, "data": STANDARD.encode(data)});
    set(json!({"inlineData": blob, "partMetadata": metadata(uri, annotations)}))
}

fn file_data(mime_type: &str, file_uri: &str, annotations: Option<&Value>) -> Value {
    let file = json!({"mimeType": mime_type, "fileUri": file_uri});
    set(json!({"fileData": file, "partMetadata": metadata(None, annotations)}))
}

/// What only ADK for Rust has beside a part.
fn metadata(uri: Option<&String>, annotations: Option<&Value>) -> Option<Value> {
    let some = uri.is_some() || annotations.is_some();
    some.then(|| set(json!({"uri": uri, "annotations": annotations})))
}

/// The object without members that are null.
fn set(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// A decimal of seconds, between marks.
fn seconds(time: DateTime<Utc>) -> String {
    let nanos = i128::from(time.timestamp()) * 1_000_000_000
        + i128::from(time.timestamp_subsec_nanos().min(999_999_999));
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    format!("{0}{sign}{1}.{2:09}{0}", *MARK, nanos / 1_000_000_000, nanos % 1_000_000_000)
}
