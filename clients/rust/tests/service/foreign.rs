//! Reading events that other programs have written.

use adk_core::{Content, Event, Part};
use prost_types::Timestamp;
use serde_json::{Value, json};
use sessiond_adk::{
    FOREIGN_BODY,
    proto::v1::{
        self, AppendEventRequest, Scope, StateDelta, UpdateStateRequest, event::BodyForm,
        event_service_client::EventServiceClient, state_delta::SetForm,
        state_service_client::StateServiceClient,
    },
};

use crate::harness::{APP, Fixture, USER, body, key, named, object, on_each_store};

on_each_store! {
    unknown_fields_survive_in_the_server
    an_event_with_nothing_but_its_envelope_is_read
    an_event_of_adk_for_python_is_read_as_far_as_possible
    a_thought_of_another_adk_is_a_thought
    a_turn_of_another_adk_is_read_with_its_calls_and_results
    a_body_that_adk_cannot_hold_is_kept_as_text
    a_removed_key_reads_as_null
    a_change_of_state_without_an_event_is_read
}

/// Appends an event of another program and reads it with ADK.
pub(crate) async fn append_foreign(f: &Fixture, event: v1::Event) -> Event {
    let request = AppendEventRequest {
        key: Some(key("s1")),
        event: Some(event),
        ..AppendEventRequest::default()
    };
    EventServiceClient::new(f.service.channel()).append_event(request).await.unwrap();
    f.get("s1").await.events().all().pop().unwrap()
}

fn foreign(body: Option<Value>) -> v1::Event {
    v1::Event {
        event_id: "foreign-1".into(),
        invocation_id: "turn-9".into(),
        author: "python".into(),
        branch: "root".into(),
        event_time: Some(Timestamp { seconds: 1_700_000_000, nanos: 5 }),
        body_form: body.map(|body| BodyForm::BodyJson(body.to_string())),
        ..v1::Event::default()
    }
}

#[track_caller]
fn assert_envelope(event: &Event) {
    assert_eq!(event.id, "foreign-1");
    assert_eq!(event.invocation_id, "turn-9");
    assert_eq!(event.author, "python");
    assert_eq!(event.branch, "root");
    assert_eq!(event.timestamp.timestamp_nanos_opt(), Some(1_700_000_000_000_000_005));
}

async fn unknown_fields_survive_in_the_server(f: Fixture) {
    f.create("s1", json!({})).await;
    let mut sent = serde_json::to_value(named("foreign-1")).unwrap();
    sent["of_a_later_kit"] = json!({"kept": [1, 2.50]});
    sent["actions"]["of_a_later_kit"] = json!(true);
    let text = format!(" {sent:#}\n");
    let event = v1::Event { body_form: Some(BodyForm::BodyJson(text.clone())), ..foreign(None) };
    append_foreign(&f, event).await;
    f.append("s1", named("e2")).await;
    let stored = f.stored("s1").await;
    assert_eq!(body(&stored.events[0]), text.trim(), "byte for byte");
}

async fn an_event_with_nothing_but_its_envelope_is_read(f: Fixture) {
    f.create("s1", json!({})).await;
    let event = append_foreign(&f, foreign(None)).await;
    assert_envelope(&event);
    assert!(event.content().is_none() && event.provider_metadata.is_empty());
}

/// As ADK for Python writes it: camelCase, seconds as a number, null for fields that are not set.
async fn an_event_of_adk_for_python_is_read_as_far_as_possible(f: Fixture) {
    f.create("s1", json!({})).await;
    let sent = json!({
        "id": "other-id",
        "timestamp": 1_700_000_000.5,
        "invocationId": "turn-9",
        "author": null,
        "partial": null,
        "turnComplete": true,
        "content": {"role": "user", "parts": [{"text": "Will it rain?"}]},
        "actions": {"artifactDelta": {}, "skip_summarization": null, "escalate": true},
        "longRunningToolIds": null,
    });
    let event = append_foreign(&f, foreign(Some(sent))).await;
    assert_envelope(&event);
    let wanted = Content::new("user").with_text("Will it rain?");
    assert_eq!(event.content().unwrap().parts, wanted.parts);
    assert!(event.actions.escalate && !event.actions.skip_summarization);
    assert!(event.provider_metadata.is_empty());
}

async fn a_thought_of_another_adk_is_a_thought(f: Fixture) {
    f.create("s1", json!({})).await;
    let args = json!({"thought": true, "text": "an argument", "n": u64::MAX, "x": 1.0});
    let parts = json!([
        {"text": "Look up the forecast.", "thought": true, "thoughtSignature": "c2ln-_8="},
        {"thought": true, "text": "\"Unsigned\"", "thoughtSignature": null},
        {"text": "Yes.", "thought": false, "thoughtSignature": "c2ln"},
        {"text": "Take an umbrella.", "thought": null},
        {"text": "It says \"thought\": true"},
        {"name": "f", "args": args},
    ]);
    let sent = json!({"content": {"role": "model", "parts": parts}});
    let mut event = append_foreign(&f, foreign(Some(sent.clone()))).await;
    assert_envelope(&event);
    let thinking = |thinking: &str, signature: Option<&str>| Part::Thinking {
        thinking: thinking.into(),
        signature: signature.map(Into::into),
    };
    let wanted = [
        thinking("Look up the forecast.", Some("c2ln-_8=")),
        thinking("\"Unsigned\"", None),
        Part::text_part("Yes."),
        Part::text_part("Take an umbrella."),
        Part::text_part("It says \"thought\": true"),
        Part::FunctionCall { name: "f".into(), args, id: None, thought_signature: None },
    ];
    assert_eq!(event.content().unwrap().parts, wanted);
    assert_eq!(event.content().unwrap().role, "model");

    // Written again, it has the canonical form.
    event.id = "e2".into();
    f.append("s1", event).await;
    let stored = f.stored("s1").await;
    assert_eq!(body(&stored.events[0]), sent.to_string(), "reading has not changed it");
    let written: Value = serde_json::from_str(body(&stored.events[1])).unwrap();
    assert_eq!(written["content"]["parts"][0], sent["content"]["parts"][0]);
    assert_eq!(f.get("s1").await.events().at(1).unwrap().content().unwrap().parts, wanted);
}

/// The turn of docs/bodies.md.
async fn a_turn_of_another_adk_is_read_with_its_calls_and_results(f: Fixture) {
    f.create("s1", json!({})).await;
    let document = include_str!("../../../../docs/bodies.md");
    let blocks = document.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    for (n, block) in blocks.enumerate() {
        let author = if n == 0 { "user" } else { "weather_agent" }.into();
        let body = serde_json::from_str(block).unwrap();
        let event = v1::Event { event_id: format!("e{n}"), author, ..foreign(Some(body)) };
        append_foreign(&f, event).await;
    }
    let events = f.get("s1").await.events().all();
    let roles: Vec<_> = events.iter().map(|event| &*event.content().unwrap().role).collect();
    assert_eq!(roles, ["user", "model", "function", "model"]);
    let call = &events[1].tool_calls()[0];
    assert_eq!((call.call_id, call.name), (Some("call-1"), "get_forecast"));
    assert_eq!(call.args, &json!({"city": "Paris", "days": 1}));
    let result = &events[2].tool_results()[0];
    assert_eq!((result.call_id, result.name), (call.call_id, call.name));
    assert_eq!(result.response, &json!({"rain": true, "celsius": 11.5}));
    assert_eq!(events[2].actions.artifact_delta, [("forecast.csv".to_owned(), 1)].into());
    let used = events[3].llm_response.usage_metadata.as_ref().unwrap();
    assert_eq!(used.total_token_count, 74);
    let last: Vec<_> = events.iter().map(Event::is_final_response).collect();
    assert_eq!(last, [true, false, false, true]);
    assert!(events.iter().all(|event| event.provider_metadata.is_empty()));
}

async fn a_body_that_adk_cannot_hold_is_kept_as_text(f: Fixture) {
    f.create("s1", json!({})).await;
    for sent in [
        json!({"content": "a mere text"}),
        json!({"actions": [1]}),
        json!({"event_metadata": {"n": 1}}),
    ] {
        let text = sent.to_string();
        let id = format!("foreign-{}", fastrand::u64(..));
        let event = v1::Event { event_id: id.clone(), ..foreign(Some(sent)) };
        let mut event = append_foreign(&f, event).await;
        assert_eq!(event.provider_metadata.remove(FOREIGN_BODY), Some(text));
        assert_eq!(std::mem::replace(&mut event.id, "foreign-1".into()), id);
        assert_envelope(&event);
        assert!(event.content().is_none());
    }
    f.append("s1", named("e2")).await;
    assert_eq!(f.get("s1").await.events().len(), 4, "and nothing of it hides the rest");
}

async fn a_removed_key_reads_as_null(f: Fixture) {
    f.create("s1", json!({"gone": 1, "stays": 2})).await;
    let delta = StateDelta {
        set_form: Some(SetForm::SetJson(json!({"new": 3}).to_string())),
        remove: vec!["gone".into()],
        ..StateDelta::default()
    };
    let event = v1::Event { state_delta: Some(delta), ..foreign(Some(json!({}))) };
    let event = append_foreign(&f, event).await;
    assert_eq!(event.actions.state_delta, object(json!({"new": 3, "gone": null})));
    assert_eq!(f.get("s1").await.state().all(), object(json!({"new": 3, "stays": 2})));
}

async fn a_change_of_state_without_an_event_is_read(f: Fixture) {
    f.create("s1", json!({})).await;
    let delta = StateDelta {
        set_form: Some(SetForm::SetJson(json!({"own": 1}).to_string())),
        ..StateDelta::default()
    };
    let request = UpdateStateRequest {
        scope: Some(Scope { app_name: APP.into(), user_id: USER.into(), session_id: "s1".into() }),
        delta: Some(delta),
        ..UpdateStateRequest::default()
    };
    StateServiceClient::new(f.service.channel()).update_state(request).await.unwrap();
    let session = f.get("s1").await;
    assert_eq!(session.state().get("own"), Some(json!(1)));
    let event = session.events().at(0).unwrap();
    assert_eq!(event.author, "system");
    assert_eq!(event.actions.state_delta, object(json!({"own": 1})));
}
