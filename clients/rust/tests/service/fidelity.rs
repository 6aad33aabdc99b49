//! Events come back as they were sent: every field, every number to its last bit, every nanosecond.

use adk_core::{
    BlobResourceContents, CitationMetadata, CitationSource, Content, EmbeddedResource, Event,
    EventActions, EventCompaction, FileDataPart, FinishReason, FunctionResponseData,
    InlineDataPart, LlmResponse, Part, TextResourceContents, ToolConfirmationDecision,
    ToolConfirmationRequest, UsageMetadata,
};
use chrono::{DateTime, TimeZone as _, Utc};
use serde_json::{Value, json};
use sessiond_adk::proto::v1::event::BodyForm;

use crate::foreign::append_foreign;
use crate::harness::{Fixture, body, ids, named, object, on_each_store, setting};

on_each_store! {
    an_event_with_every_field_comes_back_equal
    an_event_of_another_version_comes_back_equal
    the_body_has_the_canonical_form_without_the_delta
    equal_events_are_one_event_in_whatever_order_they_are_written
    every_nanosecond_comes_back
    a_leap_second_and_years_beyond_the_wire_come_back
    numbers_come_back_to_the_last_bit
    text_comes_back_whatever_it_holds
    an_event_without_an_id_is_given_one
    more_events_than_fit_into_one_answer_come_back
}

/// One part of each kind.
fn parts() -> Vec<Part> {
    let args = || json!({"city": "Zürich", "deep": [{"n": 0.1}, null, true], "z": 1, "a": 2});
    let parts = vec![
        Part::Thinking { thinking: "hm".into(), signature: Some("c2ln".into()) },
        Part::Text { text: "Will it rain?\n\"\\\u{0}\u{2028}😀".into() },
        Part::InlineData {
            mime_type: "image/png".into(),
            data: (0..=255).collect(),
            uri: Some("file:///a.png".into()),
            annotations: Some(json!({"audience": ["user"]})),
        },
        Part::FileData {
            mime_type: "image/jpeg".into(),
            file_uri: "gs://bucket/b.jpg".into(),
            annotations: Some(json!([1])),
        },
        Part::FunctionCall {
            name: "weather".into(),
            args: args(),
            id: Some("call-1".into()),
            thought_signature: Some("dGhvdWdodA==".into()),
        },
        Part::FunctionResponse {
            function_response: FunctionResponseData {
                name: "weather".into(),
                response: args(),
                inline_data: vec![InlineDataPart {
                    mime_type: "audio/wav".into(),
                    data: vec![0, 255],
                    uri: Some("file:///c.wav".into()),
                    annotations: Some(json!("loud")),
                }],
                file_data: vec![FileDataPart {
                    mime_type: "text/plain".into(),
                    file_uri: "file:///d.txt".into(),
                    annotations: Some(json!(false)),
                }],
            },
            id: Some("call-1".into()),
            annotations: Some(json!({"cost": 1})),
        },
        Part::ServerToolCall { server_tool_call: args() },
        Part::ServerToolResponse { server_tool_response: args() },
        Part::EmbeddedResource {
            resource: EmbeddedResource::Text(TextResourceContents {
                uri: "file:///e.rs".into(),
                mime_type: Some("text/x-rust".into()),
                text: "fn main() {}".into(),
            }),
        },
        Part::EmbeddedResource {
            resource: EmbeddedResource::Blob(BlobResourceContents {
                uri: "file:///f.bin".into(),
                mime_type: None,
                data: vec![1, 2, 3],
            }),
        },
    ];
    for part in &parts {
        // Fails to compile if ADK adds a kind of part. Add it to the list above.
        match part {
            Part::Thinking { .. }
            | Part::Text { .. }
            | Part::InlineData { .. }
            | Part::FileData { .. }
            | Part::FunctionCall { .. }
            | Part::FunctionResponse { .. }
            | Part::ServerToolCall { .. }
            | Part::ServerToolResponse { .. }
            | Part::EmbeddedResource { .. } => {}
        }
    }
    parts
}

fn time(nanos: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(1_763_654_321, nanos).unwrap()
}

/// Without `..`, so that a new field of ADK fails to compile until it is set here.
fn everything() -> Event {
    Event {
        id: "event-1".into(),
        timestamp: time(123_456_789),
        invocation_id: "turn-1".into(),
        branch: "root.parallel.a".into(),
        author: "agent 😀".into(),
        llm_response: LlmResponse {
            content: Some(Content { role: "model".into(), parts: parts() }),
            usage_metadata: Some(UsageMetadata {
                prompt_token_count: 1,
                candidates_token_count: 2,
                total_token_count: i32::MAX,
                cache_read_input_token_count: Some(3),
                cache_creation_input_token_count: Some(4),
                thinking_token_count: Some(5),
                audio_input_token_count: Some(6),
                audio_output_token_count: Some(i32::MIN),
                cost: Some(0.1 + 0.2),
                is_byok: Some(true),
                provider_usage: Some(json!({"raw": 1e-7})),
            }),
            finish_reason: Some(FinishReason::MaxTokens),
            citation_metadata: Some(CitationMetadata {
                citation_sources: vec![CitationSource {
                    uri: Some("file:///source".into()),
                    title: Some("title".into()),
                    start_index: Some(0),
                    end_index: Some(10),
                    license: Some("CC0".into()),
                    publication_date: Some("2026-11-20".into()),
                }],
            }),
            // Partial events are not stored and have a test of their own.
            partial: false,
            turn_complete: true,
            interrupted: true,
            error_code: Some("429".into()),
            error_message: Some("slow down".into()),
            provider_metadata: Some(json!({"id": 18_446_744_073_709_551_615_u64, "x": [-0.0]})),
            interaction_id: Some("v1_abc".into()),
        },
        actions: EventActions {
            state_delta: object(json!({"own": {"a": [1, 2.5]}, "app:b": null, "user:c": "d"})),
            artifact_delta: [("a.png".to_owned(), 3), ("b.txt".to_owned(), i64::MIN)].into(),
            skip_summarization: true,
            transfer_to_agent: Some("other".into()),
            escalate: true,
            tool_confirmation: Some(ToolConfirmationRequest {
                tool_name: "rm".into(),
                function_call_id: Some("call-2".into()),
                args: json!({"path": "/"}),
            }),
            tool_confirmation_decision: Some(ToolConfirmationDecision::Deny),
            compaction: Some(EventCompaction {
                start_timestamp: time(1),
                end_timestamp: time(999_999_999),
                compacted_content: Content { role: "model".into(), parts: parts() },
            }),
            route: Some(vec!["left".into(), "right".into()]),
        },
        long_running_tool_ids: vec!["call-1".into(), "call-2".into()],
        llm_request: Some("{\"model\":\"m\"}".into()),
        provider_metadata: [("vertex".to_owned(), "1".to_owned()), (String::new(), String::new())]
            .into(),
    }
}

fn json(event: &Event) -> Value {
    serde_json::to_value(event).unwrap()
}

async fn an_event_with_every_field_comes_back_equal(f: Fixture) {
    f.create("s1", json!({})).await;
    let event = everything();
    f.append("s1", event.clone()).await;
    let read = f.get("s1").await.events().all().remove(0);
    assert_eq!(json(&read), json(&event));
    assert_eq!(read.timestamp, event.timestamp);
    assert_eq!(read.content().unwrap().parts, parts());
    assert_eq!(read.actions.state_delta, event.actions.state_delta);
}

/// A body without a field that ADK requires is converted as those of other programs.
async fn an_event_of_another_version_comes_back_equal(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", everything()).await;
    let mut stored = f.stored("s1").await.events.remove(0);
    let older = body(&stored).replacen(r#""author":"agent 😀","#, "", 1);
    assert!(older.len() < body(&stored).len());
    stored.event_id = "event-2".into();
    stored.body_form = Some(BodyForm::BodyJson(older));
    let read = append_foreign(&f, stored).await;
    let event = Event { id: "event-2".into(), ..everything() };
    assert_eq!(json(&read), json(&event));
    assert_eq!(read.content().unwrap().parts, parts());
}

async fn the_body_has_the_canonical_form_without_the_delta(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", everything()).await;
    let stored = f.stored("s1").await.events.remove(0);
    let text = body(&stored);
    let body: Value = serde_json::from_str(text).unwrap();
    let parts = body["content"]["parts"].as_array().unwrap();
    let files = json!([
        {
            "inlineData": {"mimeType": "audio/wav", "data": "AP8="},
            "partMetadata": {"uri": "file:///c.wav", "annotations": "loud"},
        },
        {
            "fileData": {"mimeType": "text/plain", "fileUri": "file:///d.txt"},
            "partMetadata": {"annotations": false},
        },
    ]);
    assert_eq!(parts[5]["functionResponse"]["parts"], files);
    assert_eq!(body["usageMetadata"]["thoughtsTokenCount"], json!(5));
    assert_eq!(body["finishReason"], json!("MAX_TOKENS"));
    assert_eq!(body["actions"].get("stateDelta"), None);
    assert!(text.contains(r#""endTimestamp":1763654321.999999999"#), "{text}");

    // The envelope has the same values, for clients without ADK.
    assert_eq!(stored.event_id, "event-1");
    assert_eq!(stored.invocation_id, "turn-1");
    assert_eq!(stored.branch, "root.parallel.a");
    assert_eq!(stored.author, "agent 😀");
    let event_time = stored.event_time.unwrap();
    assert_eq!((event_time.seconds, event_time.nanos), (1_763_654_321, 123_456_789));
}

/// ADK's hash maps have another order in each event and process.
async fn equal_events_are_one_event_in_whatever_order_they_are_written(f: Fixture) {
    f.create("s1", json!({})).await;
    let numbered = || (0..20).map(|n| (format!("k{n:02}"), n));
    let made_anew = || {
        let mut event = named("e1");
        event.timestamp = time(1);
        event.actions.artifact_delta = numbered().collect();
        event.provider_metadata = numbered().map(|(key, n)| (key, n.to_string())).collect();
        event.actions.state_delta = numbered().map(|(key, n)| (key, n.into())).collect();
        event
    };
    let first = made_anew();
    let text = |event: &Event| serde_json::to_string(event).unwrap();
    f.append("s1", first.clone()).await;
    for _ in 0..5 {
        let mut again = made_anew();
        while text(&again) == text(&first) {
            again = made_anew();
        }
        f.append("s1", again).await;
    }
    assert_eq!(ids(&*f.get("s1").await), ["e1"]);
}

async fn every_nanosecond_comes_back(f: Fixture) {
    f.create("s1", json!({})).await;
    let times = [0, 1, 10, 999, 1_000, 999_999, 1_000_000, 500_000_000, 999_999_999].map(time);
    for (n, timestamp) in times.into_iter().enumerate() {
        let mut event = named(&format!("e{n}"));
        event.timestamp = timestamp;
        f.append("s1", event).await;
        assert_eq!(f.get("s1").await.last_update_time(), timestamp);
    }
    let read: Vec<_> =
        f.get("s1").await.events().all().iter().map(|event| event.timestamp).collect();
    assert_eq!(read, times);
}

async fn a_leap_second_and_years_beyond_the_wire_come_back(f: Fixture) {
    f.create("s1", json!({})).await;
    let day = chrono::NaiveDate::from_ymd_opt(2016, 12, 31).unwrap();
    let leap = day.and_hms_nano_opt(23, 59, 59, 1_500_000_000).unwrap().and_utc();
    let times = [
        leap,
        Utc.with_ymd_and_hms(-1, 1, 1, 0, 0, 0).unwrap(),
        Utc.with_ymd_and_hms(1, 1, 1, 0, 0, 0).unwrap(),
        Utc.with_ymd_and_hms(9999, 12, 31, 23, 59, 59).unwrap(),
        Utc.with_ymd_and_hms(10_000, 1, 1, 0, 0, 0).unwrap(),
    ];
    for (n, timestamp) in times.into_iter().enumerate() {
        let mut event = named(&format!("e{n}"));
        event.timestamp = timestamp;
        f.append("s1", event).await;
    }
    let read: Vec<_> =
        f.get("s1").await.events().all().iter().map(|event| event.timestamp).collect();
    assert_eq!(read, times);
}

async fn numbers_come_back_to_the_last_bit(f: Fixture) {
    // Seeded, so that a failure can be repeated.
    let mut random = fastrand::Rng::with_seed(7);
    let mut numbers = vec![
        json!(0.1 + 0.2),
        json!(5e-324),
        json!(f64::MAX),
        json!(f64::MIN_POSITIVE),
        json!(9_007_199_254_740_993_i64),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(-0.0),
        json!(1.0),
        json!(1),
    ];
    let finite =
        std::iter::repeat_with(|| f64::from_bits(random.u64(..))).filter(|x| x.is_finite());
    numbers.extend(finite.take(2000).map(Value::from));

    let state = json!({"own": numbers, "app:a": numbers, "user:u": numbers});
    let created = f.create("s1", state.clone()).await;
    assert_eq!(created.state().all(), object(state.clone()));
    let mut event = setting(state.clone());
    event.llm_response.provider_metadata = Some(json!(numbers));
    f.append("s1", event).await;
    let read = f.get("s1").await;
    assert_eq!(read.state().all(), object(state.clone()));
    let event = read.events().at(0).unwrap();
    assert_eq!(event.actions.state_delta, object(state));
    let text = serde_json::to_string(&event.llm_response.provider_metadata).unwrap();
    assert_eq!(text, serde_json::to_string(&numbers).unwrap(), "1.0 is not 1, and -0.0 not 0.0");
}

async fn text_comes_back_whatever_it_holds(f: Fixture) {
    let odd = "\u{0}\u{1f}\u{7f}\u{2028}\u{feff}\"\\/<>&'😀e\u{301}";
    f.create("s1", json!({})).await;
    let mut event = setting(json!({"own": odd, format!("app:{}", "ü😀\n\""): odd}));
    event.author = "ü😀\n".into();
    event.set_content(Content::new(odd).with_text(odd));
    f.append("s1", event.clone()).await;
    let read = f.get("s1").await;
    assert_eq!(json(read.events().at(0).unwrap()), json(&event));
    assert_eq!(read.state().all(), event.actions.state_delta);
}

async fn an_event_without_an_id_is_given_one(f: Fixture) {
    f.create("s1", json!({})).await;
    f.append("s1", named("")).await;
    f.append("s1", named("")).await;
    let given = ids(&*f.get("s1").await);
    assert!(!given[0].is_empty() && !given[1].is_empty() && given[0] != given[1], "{given:?}");
}

async fn more_events_than_fit_into_one_answer_come_back(f: Fixture) {
    f.create("s1", json!({"own": "x".repeat(200_000)})).await;
    let mut wanted = Vec::new();
    for n in 0..14 {
        // About 700 KiB each, so that an answer of 4 MiB holds a few.
        let mut event = named(&format!("e{n:02}"));
        event.set_content(Content::new("model").with_text("y".repeat(700_000)));
        wanted.push(event.id.clone());
        f.append("s1", event).await;
    }
    let session = f.get("s1").await;
    assert_eq!(ids(&*session), wanted);
    assert_eq!(session.state().get("own"), Some(json!("x".repeat(200_000))));
    let request =
        adk_session::GetRequest { num_recent_events: Some(9), ..crate::harness::getting("s1") };
    let session = adk_session::SessionService::get(&f.service, request).await.unwrap();
    assert_eq!(ids(&*session), wanted[5..]);
}
