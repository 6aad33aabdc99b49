//! The parts of a content. ADK for Rust tells them apart by their members, the canonical form by the member around them.

use adk_core::{FileDataPart, FunctionResponseData, InlineDataPart, Part};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// A part in the canonical form. Old files of ADK for Python have snake_case.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CanonicalPart {
    text: Option<String>,
    thought: Option<Value>,
    #[serde(alias = "thought_signature")]
    thought_signature: Option<Value>,
    #[serde(alias = "function_call")]
    function_call: Option<FunctionCall>,
    #[serde(alias = "function_response")]
    function_response: Option<Map<String, Value>>,
    #[serde(alias = "inline_data")]
    inline_data: Option<InlineData>,
    #[serde(alias = "file_data")]
    file_data: Option<FileData>,
    #[serde(default)]
    part_metadata: PartMetadata,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// What only ADK for Rust has beside a part.
#[derive(Default, Deserialize)]
struct PartMetadata {
    uri: Option<String>,
    annotations: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionCall {
    id: Option<Value>,
    name: String,
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InlineData {
    #[serde(alias = "mime_type")]
    mime_type: String,
    data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FileData {
    #[serde(alias = "mime_type")]
    mime_type: String,
    #[serde(alias = "file_uri")]
    file_uri: String,
}

/// None if ADK for Rust has no such part. A part in its own form is a variant.
pub(super) fn read(text: &str, omitted: &mut Vec<String>) -> Option<Part> {
    let part: Option<CanonicalPart> = serde_json::from_str(text).ok();
    let part =
        part.and_then(|part| convert(part, omitted)).or_else(|| serde_json::from_str(text).ok());
    if part.is_none() {
        omitted.push("parts".into());
    }
    part
}

/// None if it is not a part of the canonical form.
fn convert(part: CanonicalPart, omitted: &mut Vec<String>) -> Option<Part> {
    let CanonicalPart { text, thought, thought_signature, rest, .. } = part;
    let PartMetadata { uri, annotations } = part.part_metadata;
    let thought_signature = optional(thought_signature, "thought_signature", omitted);
    if let Some(FunctionCall { id, name, args }) = part.function_call {
        let args = args.unwrap_or_else(|| json!({}));
        let id = optional(id, "id", omitted).filter(|id: &String| !id.is_empty());
        return Some(Part::FunctionCall { name, args, id, thought_signature });
    }
    if let Some(response) = part.function_response {
        return function_response(response, rest, annotations, omitted);
    }
    if let Some(InlineData { mime_type, data }) = part.inline_data {
        let data = bytes(&data)?;
        return Some(Part::InlineData { mime_type, data, uri, annotations });
    }
    if let Some(FileData { mime_type, file_uri }) = part.file_data {
        return Some(Part::FileData { mime_type, file_uri, annotations });
    }
    // ADK for Go omits a text that is empty.
    let text = text.or_else(|| rest.is_empty().then(String::new))?;
    Some(match optional(thought, "thought", omitted) {
        Some(true) => Part::Thinking { thinking: text, signature: thought_signature },
        _ => Part::Text { text },
    })
}

/// A member without which the part can be read.
fn optional<T: DeserializeOwned>(
    given: Option<Value>,
    name: &str,
    omitted: &mut Vec<String>,
) -> Option<T> {
    let read = serde_json::from_value(given?).ok();
    if read.is_none() {
        omitted.push(name.into());
    }
    read
}

/// The canonical form has the id inside of the response, and its files as parts. `rest` is beside the response.
fn function_response(
    mut given: Map<String, Value>,
    mut rest: Map<String, Value>,
    annotations: Option<Value>,
    omitted: &mut Vec<String>,
) -> Option<Part> {
    let id = given.remove("id").or_else(|| rest.remove("id"));
    let id = id.as_ref().and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
    let parts = given.remove("parts");
    given.entry("response").or_insert_with(|| json!({}));
    let mut function_response: FunctionResponseData = serde_json::from_value(given.into()).ok()?;
    for part in parts.as_ref().and_then(Value::as_array).into_iter().flatten() {
        match read(&part.to_string(), omitted) {
            Some(Part::InlineData { mime_type, data, uri, annotations }) => {
                let part = InlineDataPart { mime_type, data, uri, annotations };
                function_response.inline_data.push(part);
            }
            Some(Part::FileData { mime_type, file_uri, annotations }) => {
                let part = FileDataPart { mime_type, file_uri, annotations };
                function_response.file_data.push(part);
            }
            Some(_) => omitted.push("parts".into()),
            None => {}
        }
    }
    let annotations = annotations.or_else(|| rest.remove("annotations"));
    Some(Part::FunctionResponse { function_response, id, annotations })
}

/// Base64 in either alphabet: ADK for Python writes the one for URLs.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=');
    STANDARD_NO_PAD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
}
