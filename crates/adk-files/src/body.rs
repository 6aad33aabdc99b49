//! Reads the body of an event, in ADK's form or that of other chat models.

use super::lookup::{member, text};
use sessiond_core::domain::json::{Json, JsonType};

/// One part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Thought(String),
    /// A tool call with its arguments as JSON.
    Call {
        name: String,
        args: Json,
    },
    /// The answer of a tool.
    Answer {
        name: String,
        answer: Json,
    },
    Code(String),
    /// Anything else in a few words: a file, a transfer to another agent.
    Note(String),
    /// What went wrong.
    Error(String),
    /// A body of another form.
    Other(Json),
}

/// The parts of a body in their order.
pub fn parts(body: &Json) -> Vec<Part> {
    let mut parts = Vec::new();
    let content = member(body, &["content"]).unwrap_or_else(|| body.clone());
    match content.json_type() {
        JsonType::String => parts.extend(content.decoded().map(|it| Part::Text(it.into_owned()))),
        JsonType::Array => parts.extend(content.items().iter().filter_map(part)),
        _ => {
            parts.extend(text(&content, &["text"]).map(Part::Text));
            let listed = member(&content, &["parts"]).map(|parts| parts.items());
            parts.extend(listed.unwrap_or_default().iter().filter_map(part));
        }
    }
    let calls = member(body, &["tool_calls"]).map(|calls| calls.items()).unwrap_or_default();
    parts
        .extend(calls.iter().filter_map(|call| member(call, &["function"])).map(|it| call_of(&it)));
    parts.extend(error(body).map(Part::Error));
    if let Some(actions) = member(body, &["actions"]) {
        let agent = text(&actions, &["transfer_to_agent", "transferToAgent"]);
        parts.extend(agent.map(|agent| Part::Note(format!("transfer to {agent}"))));
        let escalates = member(&actions, &["escalate"]).is_some_and(|it| it.as_str() == "true");
        parts.extend(escalates.then(|| Part::Note("escalate".to_owned())));
    }
    let is_told = !parts.is_empty() || body.members().iter().all(|(name, _)| is_envelope(name));
    if !is_told {
        parts.push(Part::Other(body.clone()));
    }
    parts
}

/// Members that the event has as fields, or that say nothing to a reader.
fn is_envelope(name: &str) -> bool {
    const NAMES: [&str; 14] = [
        "id",
        "author",
        "timestamp",
        "branch",
        "invocationId",
        "invocation_id",
        "actions",
        "content",
        "partial",
        "turnComplete",
        "turn_complete",
        "usageMetadata",
        "usage_metadata",
        "finishReason",
    ];
    NAMES.contains(&name)
}

fn part(part: &Json) -> Option<Part> {
    if let Some(call) = member(part, &["function_call", "functionCall"]) {
        return Some(call_of(&call));
    }
    if let Some(answer) = member(part, &["function_response", "functionResponse"]) {
        let name = text(&answer, &["name"]).unwrap_or_default();
        let answer = member(&answer, &["response"]).unwrap_or_else(Json::null);
        return Some(Part::Answer { name, answer });
    }
    if let Some(said) = text(part, &["text"]) {
        let is_thought = member(part, &["thought"]).is_some_and(|it| it.as_str() == "true");
        return Some(if is_thought { Part::Thought(said) } else { Part::Text(said) });
    }
    if let Some(code) = member(part, &["executable_code", "executableCode"]) {
        return Some(Part::Code(text(&code, &["code"]).unwrap_or_default()));
    }
    if let Some(result) = member(part, &["code_execution_result", "codeExecutionResult"]) {
        let answer = member(&result, &["output"]).unwrap_or_else(Json::null);
        return Some(Part::Answer { name: "code".to_owned(), answer });
    }
    if let Some(data) = member(part, &["inline_data", "inlineData"]) {
        let kind = text(&data, &["mime_type", "mimeType"]).unwrap_or_default();
        // Base64: four characters for three bytes.
        let bytes =
            text(&data, &["data"]).map_or(0, |data| data.trim_end_matches('=').len() * 3 / 4);
        return Some(Part::Note(format!("{kind} ({bytes} bytes)")));
    }
    if let Some(file) = member(part, &["file_data", "fileData"]) {
        let place = text(&file, &["file_uri", "fileUri"]).unwrap_or_default();
        return Some(Part::Note(format!("file {place}")));
    }
    (!part.members().is_empty()).then(|| Part::Other(part.clone()))
}

fn call_of(call: &Json) -> Part {
    let name = text(call, &["name"]).unwrap_or_default();
    let args = member(call, &["args", "arguments"]).unwrap_or_else(|| Json::of_members(&[]));
    // Some models send the arguments as a text of JSON.
    let inner = args.decoded().and_then(|text| Json::parse(text.into_owned()).ok());
    Part::Call { name, args: inner.unwrap_or(args) }
}

fn error(body: &Json) -> Option<String> {
    let code = text(body, &["error_code", "errorCode"]).filter(|code| !code.is_empty());
    let message = text(body, &["error_message", "errorMessage"]).filter(|text| !text.is_empty());
    let words: Vec<_> = code.into_iter().chain(message).collect();
    (!words.is_empty()).then(|| format!("error {}", words.join(": ")))
}

/// A body in a few words, for a cell of a table.
pub fn gist(body: &Json) -> String {
    let words = parts(body).into_iter().map(|part| match part {
        Part::Text(text) => text,
        Part::Thought(text) => format!("({text})"),
        Part::Call { name, args } => format!("{name}({args})"),
        Part::Answer { name, answer } => format!("{name}: {answer}"),
        Part::Code(code) => code,
        Part::Note(note) | Part::Error(note) => format!("[{note}]"),
        Part::Other(json) => json.into_string(),
    });
    words.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Part> {
        parts(&Json::object(text.to_owned()).unwrap())
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    #[test]
    fn both_spellings_of_adk_say_the_same() {
        let python = r#"{"content":{"role":"model","parts":[{"text":"a","thought":true},{"text":"b"},
            {"function_call":{"name":"f","args":{"n":1.00}}},{"function_response":{"name":"f","response":{"r":[1]}}},
            {"inline_data":{"mime_type":"image/png","data":"AAAA"}},{"file_data":{"file_uri":"gs://x"}},
            {"executable_code":{"code":"1+1"}},{"code_execution_result":{"output":"2"}}]},
            "actions":{"transfer_to_agent":"boss","escalate":true},"error_code":"E","error_message":"m"}"#;
        let expected = [
            Part::Thought("a".to_owned()),
            Part::Text("b".to_owned()),
            Part::Call { name: "f".to_owned(), args: json(r#"{"n":1.00}"#) },
            Part::Answer { name: "f".to_owned(), answer: json(r#"{"r":[1]}"#) },
            Part::Note("image/png (3 bytes)".to_owned()),
            Part::Note("file gs://x".to_owned()),
            Part::Code("1+1".to_owned()),
            Part::Answer { name: "code".to_owned(), answer: json("\"2\"") },
            Part::Error("error E: m".to_owned()),
            Part::Note("transfer to boss".to_owned()),
            Part::Note("escalate".to_owned()),
        ];
        assert_eq!(read(python), expected);
        let mut java = python.to_owned();
        for (snake, camel) in [
            ("function_call", "functionCall"),
            ("function_response", "functionResponse"),
            ("inline_data", "inlineData"),
            ("mime_type", "mimeType"),
            ("file_data", "fileData"),
            ("file_uri", "fileUri"),
            ("executable_code", "executableCode"),
            ("code_execution_result", "codeExecutionResult"),
            ("transfer_to_agent", "transferToAgent"),
            ("error_code", "errorCode"),
            ("error_message", "errorMessage"),
        ] {
            java = java.replace(snake, camel);
        }
        assert_eq!(read(&java), expected);
    }

    #[test]
    fn other_forms_of_a_body_are_read_or_shown_whole() {
        assert_eq!(read(r#"{"text":"hi"}"#), [Part::Text("hi".to_owned())]);
        assert_eq!(read(r#"{"role":"user","content":"hi"}"#), [Part::Text("hi".to_owned())]);
        assert_eq!(
            read(r#"{"role":"user","content":[{"type":"text","text":"hi"}]}"#),
            [Part::Text("hi".to_owned())]
        );
        assert_eq!(
            read(r#"{"tool_calls":[{"function":{"name":"f","arguments":"{\"a\": 1}"}}]}"#),
            [Part::Call { name: "f".to_owned(), args: json(r#"{"a": 1}"#) }]
        );
        assert_eq!(read(r#"{"n":1.00}"#), [Part::Other(json(r#"{"n":1.00}"#))]);
        assert_eq!(read("{}"), []);
        assert_eq!(read(r#"{"id":"e","actions":{"artifact_delta":{}}}"#), []);
        assert_eq!(
            read(r#"{"content":{"parts":[{},{"later":1}]}}"#),
            [Part::Other(json(r#"{"later":1}"#))]
        );
    }

    #[test]
    fn a_gist_is_one_line() {
        let body = json(
            r#"{"content":{"parts":[{"text":"a\n b"},{"function_call":{"name":"f","args":{}}}]}}"#,
        );
        assert_eq!(gist(&body), "a b f({})");
    }
}
