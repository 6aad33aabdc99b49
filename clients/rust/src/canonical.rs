//! The canonical form of an event's body (docs/bodies.md), and its variants: ADK files of other languages, older ADK files, and
//! clients without an adapter.
//!
//! Each member is read on its own: one that ADK for Rust cannot hold is omitted, and the rest is kept.

use std::collections::{BTreeMap, HashMap};

use adk_core::{
    CitationMetadata, CitationSource, Content, Event, EventActions, EventCompaction, FinishReason,
    Part, ToolConfirmationRequest, UsageMetadata,
};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::time::to_timestamp;

mod part;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use write::write;

/// Names of one ADK, in camelCase, for members that the others have too.
const RENAMED: [(&str, &str); 3] = [
    ("cacheReadInputTokenCount", "cachedContentTokenCount"),
    ("citationSources", "citations"),
    ("thinkingTokenCount", "thoughtsTokenCount"),
];

/// Times after 1970: seconds stay below it until the year 5138, milliseconds are above it since 1973.
const LEAST_MILLIS: f64 = 1e11;

/// The members of an object that are set, unparsed, by their names in snake_case.
type Members<'a> = HashMap<String, &'a RawValue>;

/// The event in a body, without its envelope, and the members that ADK cannot hold.
pub(crate) fn read(text: &str, author: &str, time: DateTime<Utc>) -> (Event, Vec<String>) {
    let mut event = Event::with_id("", "");
    event.timestamp = time;
    let Some(body) = members(text) else {
        return (event, vec!["body".into()]);
    };
    let mut reader =
        Reader { role: if author == "user" { "user" } else { "model" }, omitted: Vec::new() };
    // ADK's own may be beyond what the envelope holds.
    let written = body.get("timestamp").and_then(|time| serde_json::from_str(time.get()).ok());
    if let Some(written) = written.filter(|written| to_timestamp(*written) == to_timestamp(time)) {
        event.timestamp = written;
    }
    reader.read_event(&body, &mut event);
    // Many parts of one kind are named once.
    reader.omitted.dedup();
    (event, reader.omitted)
}

/// None if it is not an object. Of two spellings of a member, camelCase counts.
fn members(text: &str) -> Option<Members<'_>> {
    // Sorted: capitals are before the underscore. The last one stays.
    let given: BTreeMap<String, &RawValue> = serde_json::from_str(text).ok()?;
    let set = given.into_iter().rev().filter(|(_, value)| value.get() != "null");
    Some(set.map(|(name, value)| (snake_case(&name), value)).collect())
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

struct Reader {
    /// The role of a content without one.
    role: &'static str,
    /// The names of the members that ADK cannot hold.
    omitted: Vec<String>,
}

impl Reader {
    fn read_event(&mut self, body: &Members<'_>, event: &mut Event) {
        let response = &mut event.llm_response;
        response.content = self.members(body, "content").map(|content| self.content(&content));
        response.usage_metadata = self.usage(body);
        response.finish_reason = self.convert(body, "finish_reason", finish_reason);
        response.citation_metadata = self.citations(body);
        response.partial = self.read(body, "partial").unwrap_or_default();
        response.turn_complete = self.read(body, "turn_complete").unwrap_or_default();
        response.interrupted = self.read(body, "interrupted").unwrap_or_default();
        response.error_code = self.read(body, "error_code");
        response.error_message = self.read(body, "error_message");
        response.provider_metadata = self.read(body, "provider_metadata");
        response.interaction_id = self.read(body, "interaction_id");
        if let Some(actions) = self.members(body, "actions") {
            self.read_actions(&actions, &mut event.actions);
        }
        // ADK for TypeScript has a compaction in the event itself.
        if event.actions.compaction.is_none() && self.read(body, "is_compacted") == Some(true) {
            event.actions.compaction = self.compaction_of_event(body);
            if event.actions.compaction.is_none() {
                self.omitted.push("isCompacted".into());
            }
        }
        // ADK for TypeScript and for Go have the route beside the actions.
        event.actions.route = event.actions.route.take().or_else(|| self.route(body));
        event.long_running_tool_ids = self.items(body, "long_running_tool_ids");
        event.llm_request = self.read(body, "llm_request");
        event.provider_metadata = self.entries(body, "event_metadata");
    }

    fn read_actions(&mut self, given: &Members<'_>, actions: &mut EventActions) {
        actions.artifact_delta = self.entries(given, "artifact_delta");
        actions.skip_summarization = self.read(given, "skip_summarization").unwrap_or_default();
        actions.transfer_to_agent = self.read(given, "transfer_to_agent");
        actions.escalate = self.read(given, "escalate").unwrap_or_default();
        actions.tool_confirmation = self.tool_confirmation(given);
        actions.tool_confirmation_decision = self.read(given, "tool_confirmation_decision");
        if let Some(compaction) = self.members(given, "compaction") {
            actions.compaction = self.compaction(&compaction);
            if actions.compaction.is_none() {
                self.omitted.push("compaction".into());
            }
        }
        actions.route = self.route(given);
    }

    /// A member that ADK for Rust has in the same form.
    fn read<'a, T: Deserialize<'a>>(&mut self, object: &Members<'a>, name: &str) -> Option<T> {
        self.convert(object, name, |value| serde_json::from_str(value.get()).ok())
    }

    /// A member that is an object.
    fn members<'a>(&mut self, object: &Members<'a>, name: &str) -> Option<Members<'a>> {
        self.convert(object, name, |value| members(value.get()))
    }

    fn route(&mut self, given: &Members<'_>) -> Option<Vec<String>> {
        let name = if given.contains_key("route") { "route" } else { "routes" };
        self.convert(given, name, route)
    }

    /// The items of a list that can be read.
    fn items<'a, T: Deserialize<'a>>(&mut self, object: &Members<'a>, name: &str) -> Vec<T> {
        let given: Vec<&RawValue> = self.read(object, name).unwrap_or_default();
        let read = given.iter().filter_map(|item| serde_json::from_str(item.get()).ok());
        let items: Vec<T> = read.collect();
        if items.len() < given.len() {
            self.omitted.push(name.into());
        }
        items
    }

    /// The entries of an object, whose names are not the ADK's, that can be read.
    fn entries<'a, T: Deserialize<'a>>(
        &mut self,
        object: &Members<'a>,
        name: &str,
    ) -> HashMap<String, T> {
        let given: HashMap<String, &RawValue> = self.read(object, name).unwrap_or_default();
        let count = given.len();
        let read = given.into_iter().filter_map(|(key, value)| {
            serde_json::from_str(value.get()).ok().map(|value| (key, value))
        });
        let entries: HashMap<String, T> = read.collect();
        if entries.len() < count {
            self.omitted.push(name.into());
        }
        entries
    }

    fn convert<'a, T>(
        &mut self,
        object: &Members<'a>,
        name: &str,
        convert: impl FnOnce(&'a RawValue) -> Option<T>,
    ) -> Option<T> {
        let converted = convert(object.get(name)?);
        if converted.is_none() {
            self.omitted.push(name.into());
        }
        converted
    }

    fn content(&mut self, given: &Members<'_>) -> Content {
        let parts: Vec<&RawValue> = self.read(given, "parts").unwrap_or_default();
        let parts: Vec<Part> =
            parts.iter().filter_map(|part| part::read(part.get(), &mut self.omitted)).collect();
        let role: Option<String> = self.read(given, "role");
        let only_results = !parts.is_empty()
            && parts.iter().all(|part| matches!(part, Part::FunctionResponse { .. }));
        let role = match role.filter(|role| !role.is_empty()) {
            // The runner gives results of the role `user` to the model as the user's words.
            Some(role) if only_results && role == "user" => "function".into(),
            None if only_results => "function".into(),
            role => role.unwrap_or_else(|| self.role.to_owned()),
        };
        Content { role, parts }
    }

    /// The other ADKs omit a count of zero, and have other names for two of them.
    fn usage(&mut self, body: &Members<'_>) -> Option<UsageMetadata> {
        let given = self.members(body, "usage_metadata")?;
        Some(UsageMetadata {
            prompt_token_count: self.read(&given, "prompt_token_count").unwrap_or_default(),
            candidates_token_count: self.read(&given, "candidates_token_count").unwrap_or_default(),
            total_token_count: self.read(&given, "total_token_count").unwrap_or_default(),
            cache_read_input_token_count: self
                .read(&given, "cache_read_input_token_count")
                .or_else(|| self.read(&given, "cached_content_token_count")),
            cache_creation_input_token_count: self.read(&given, "cache_creation_input_token_count"),
            thinking_token_count: self
                .read(&given, "thinking_token_count")
                .or_else(|| self.read(&given, "thoughts_token_count")),
            audio_input_token_count: self.read(&given, "audio_input_token_count"),
            audio_output_token_count: self.read(&given, "audio_output_token_count"),
            cost: self.read(&given, "cost"),
            is_byok: self.read(&given, "is_byok"),
            provider_usage: self.read(&given, "provider_usage"),
        })
    }

    /// The other ADKs name the list `citations`, and have an object for a date.
    fn citations(&mut self, body: &Members<'_>) -> Option<CitationMetadata> {
        let given = self.members(body, "citation_metadata")?;
        let name =
            if given.contains_key("citation_sources") { "citation_sources" } else { "citations" };
        let sources: Vec<Map<String, Value>> = self.items(&given, name);
        let mut citation_sources = Vec::with_capacity(sources.len());
        for source in sources {
            let mut kept = Map::new();
            for (name, value) in source {
                let alone = Map::from_iter([(name.clone(), value.clone())]);
                let date = name == "publicationDate" && !value.is_string();
                if serde_json::from_value::<CitationSource>(alone.into()).is_ok() {
                    kept.insert(name, value);
                } else if !date {
                    self.omitted.push(name);
                }
            }
            citation_sources.extend(serde_json::from_value::<CitationSource>(kept.into()).ok());
        }
        Some(CitationMetadata { citation_sources })
    }

    /// None if the tool has no name.
    fn tool_confirmation(&mut self, given: &Members<'_>) -> Option<ToolConfirmationRequest> {
        let given = self.members(given, "tool_confirmation")?;
        let Some(tool_name) = self.read(&given, "tool_name") else {
            self.omitted.push("tool_confirmation".into());
            return None;
        };
        Some(ToolConfirmationRequest {
            tool_name,
            function_call_id: self.read(&given, "function_call_id"),
            args: self.read(&given, "args").unwrap_or_default(),
        })
    }

    /// None if it cannot take the place of the events that it summarizes.
    fn compaction(&mut self, given: &Members<'_>) -> Option<EventCompaction> {
        let content = self.members(given, "compacted_content")?;
        Some(EventCompaction {
            start_timestamp: read_time(given.get("start_timestamp")?)?,
            end_timestamp: read_time(given.get("end_timestamp")?)?,
            compacted_content: Some(self.content(&content))
                .filter(|content| !content.parts.is_empty())?,
        })
    }

    /// As ADK for TypeScript has it: times in milliseconds, and a text.
    fn compaction_of_event(&mut self, body: &Members<'_>) -> Option<EventCompaction> {
        let text: String = self.read(body, "compacted_content")?;
        let mut time = |name| DateTime::from_timestamp_millis(self.read(body, name)?);
        let (start_timestamp, end_timestamp) = (time("start_time")?, time("end_time")?);
        let compacted_content =
            Content { role: "model".to_owned(), parts: vec![Part::text_part(text)] };
        Some(EventCompaction { start_timestamp, end_timestamp, compacted_content })
    }
}

/// A time as a decimal of seconds, in milliseconds as ADK for Java writes it, or as text.
fn read_time(value: &RawValue) -> Option<DateTime<Utc>> {
    if let Ok(text) = serde_json::from_str::<String>(value.get()) {
        return text.parse().ok();
    }
    let number: f64 = serde_json::from_str(value.get()).ok()?;
    if number.abs() >= LEAST_MILLIS {
        return DateTime::from_timestamp_millis(number as i64);
    }
    let (whole, fraction) = value.get().split_once('.').unwrap_or((value.get(), ""));
    // Of a number with an exponent, the decimal is not worth a parser.
    let (Ok(_), Ok(digits)) = (whole.parse::<i64>(), format!("{fraction:0<9.9}").parse::<i128>())
    else {
        return DateTime::from_timestamp_millis((number * 1e3) as i64);
    };
    let nanos = whole.trim_start_matches('-').parse::<i128>().ok()? * 1_000_000_000 + digits;
    let nanos = if whole.starts_with('-') { -nanos } else { nanos };
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).ok()?;
    DateTime::from_timestamp(seconds, nanos.rem_euclid(1_000_000_000) as u32)
}

/// `MAX_TOKENS`, for which ADK for Rust itself has `MaxTokens`. The others know more reasons.
fn finish_reason(value: &RawValue) -> Option<FinishReason> {
    let name: String = serde_json::from_str(value.get()).ok()?;
    Some(match name.replace('_', "").to_ascii_lowercase().as_str() {
        "stop" => FinishReason::Stop,
        "maxtokens" => FinishReason::MaxTokens,
        "safety" => FinishReason::Safety,
        "recitation" => FinishReason::Recitation,
        _ => FinishReason::Other,
    })
}

/// A list of names, or one name.
fn route(value: &RawValue) -> Option<Vec<String>> {
    let list = serde_json::from_str(value.get()).ok();
    list.or_else(|| Some(vec![serde_json::from_str(value.get()).ok()?]))
}
