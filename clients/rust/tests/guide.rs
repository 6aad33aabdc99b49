//! The examples of ADK's guide to state, with sessiond instead of the in-memory service.
//!
//! Each example is a function of a session service, and runs with both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{collections::HashMap, sync::Arc};

use adk_core::{
    Agent, Content, Event, EventActions, EventStream, InvocationContext, Result, async_trait,
    inject_session_state,
};
use adk_runner::Runner;
use adk_session::{
    CreateRequest, GetRequest, InMemorySessionService, KEY_PREFIX_APP, KEY_PREFIX_TEMP,
    KEY_PREFIX_USER, Session, SessionService,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sessiond_adk_testing::{Server, Store, builder};

/// Runs each example with ADK's in-memory service and with sessiond on each store.
macro_rules! examples {
    ($($name:ident)*) => { $(
        mod $name {
            use super::*;

            #[tokio::test]
            async fn in_memory() {
                super::$name(Arc::new(InMemorySessionService::new())).await;
            }

            #[tokio::test]
            async fn sessiond_on_memory() {
                let server = Server::start(Store::Memory);
                let sessions = builder(server.address()).connect().await.unwrap();
                super::$name(Arc::new(sessions)).await;
            }

            #[tokio::test]
            async fn sessiond_on_sqlite() {
                let server = Server::start(Store::Sqlite);
                let sessions = builder(server.address()).connect().await.unwrap();
                super::$name(Arc::new(sessions)).await;
            }
        }
    )* };
}

examples! {
    initial_state_is_sorted_by_prefix
    an_event_changes_state_when_it_is_appended
    a_second_session_inherits_theme_and_language
    a_login_counter_is_read_raised_and_written
    an_instruction_greets_with_state
}

type Service = Arc<dyn SessionService>;

fn state<const N: usize>(entries: [(&str, Value); N]) -> HashMap<String, Value> {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

async fn create<const N: usize>(
    service: &Service,
    session_id: &str,
    entries: [(&str, Value); N],
) -> Box<dyn Session> {
    let request = CreateRequest {
        app_name: "my_app".into(),
        user_id: "alice".into(),
        session_id: Some(session_id.into()),
        state: state(entries),
    };
    service.create(request).await.unwrap()
}

async fn get(service: &Service, session_id: &str) -> Box<dyn Session> {
    let request = GetRequest {
        app_name: "my_app".into(),
        user_id: "alice".into(),
        session_id: session_id.into(),
        num_recent_events: None,
        after: None,
    };
    service.get(request).await.unwrap()
}

/// Initial state is sorted by prefix, and is read with `get` and `all`.
async fn initial_state_is_sorted_by_prefix(service: Service) {
    let (theme, language) =
        (format!("{KEY_PREFIX_APP}theme"), format!("{KEY_PREFIX_USER}language"));
    let entries = [
        (theme.as_str(), json!("dark")),
        (language.as_str(), json!("en")),
        ("context", json!({"topic": "billing", "open": [1, 2]})),
    ];
    create(&service, "first", entries.clone()).await;
    let session = get(&service, "first").await;
    assert_eq!(session.state().get("app:theme"), Some(json!("dark")));
    assert_eq!(session.state().get("user:language"), Some(json!("en")));
    assert_eq!(session.state().get("context"), Some(json!({"topic": "billing", "open": [1, 2]})));
    assert_eq!(session.state().get("theme"), None, "keys keep their prefixes");
    assert_eq!(session.state().all(), state(entries));
}

/// "State changes with the event that is appended": `counter` and `user:last_seen` of `invocation_123`.
async fn an_event_changes_state_when_it_is_appended(service: Service) {
    create(&service, "first", [("counter", json!(0))]).await;
    let delta = state([("counter", json!(42)), ("user:last_seen", json!("2026-01-15"))]);
    let mut event = Event::new("invocation_123");
    event.author = "agent".into();
    event.actions = EventActions { state_delta: delta.clone(), ..EventActions::default() };
    service.append_event("first", event).await.unwrap();

    let session = get(&service, "first").await;
    assert_eq!(session.state().all(), delta);
    let events = session.events().all();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].invocation_id, "invocation_123");
    assert_eq!(events[0].actions.state_delta, delta);
    assert_eq!(session.last_update_time(), events[0].timestamp);
}

/// Two sessions of `alice` in `my_app`: the second sees the application's and the user's state, and has its own context.
async fn a_second_session_inherits_theme_and_language(service: Service) {
    let entries = [
        ("app:theme", json!("dark")),
        ("user:language", json!("en")),
        ("context", json!("first conversation")),
    ];
    let first = create(&service, "first", entries).await;
    assert_eq!(first.state().get("context"), Some(json!("first conversation")));

    let second = create(&service, "second", [("context", json!("second conversation"))]).await;
    assert_eq!((second.app_name(), second.user_id(), second.id()), ("my_app", "alice", "second"));
    assert_eq!(second.state().get("app:theme"), Some(json!("dark")));
    assert_eq!(second.state().get("user:language"), Some(json!("en")));
    assert_eq!(second.state().get("context"), Some(json!("second conversation")));
    assert_eq!(get(&service, "second").await.state().all(), second.state().all());
    assert_eq!(get(&service, "first").await.state().get("context"), first.state().get("context"));
}

/// Reads, increments and writes a counter of the user, with a `temp:` key for the rest of the invocation.
async fn a_login_counter_is_read_raised_and_written(service: Service) {
    let entries = [("user:login_count", json!(0)), ("task_status", json!("idle"))];
    let session = create(&service, "first", entries).await;
    let count = session.state().get("user:login_count").unwrap().as_i64().unwrap() + 1;

    let mut event = Event::new("inv_login_update");
    event.author = "system".into();
    event.actions.state_delta = state([
        ("user:login_count", json!(count)),
        ("task_status", json!("active")),
        ("user:last_login_ts", json!(1_700_000_000)),
    ]);
    event.actions.state_delta.insert(format!("{KEY_PREFIX_TEMP}validation_needed"), json!(true));
    service.append_event("first", event).await.unwrap();

    let session = get(&service, "first").await;
    let wanted = state([
        ("user:login_count", json!(1)),
        ("task_status", json!("active")),
        ("user:last_login_ts", json!(1_700_000_000)),
    ]);
    assert_eq!(session.state().all(), wanted, "temp: keys are not kept");
    assert_eq!(session.events().at(0).unwrap().actions.state_delta, wanted);
    assert_eq!(
        create(&service, "second", []).await.state().get("user:login_count"),
        Some(json!(1))
    );
}

/// Answers with its instruction, which ADK renders from the session's state.
struct Greeter;

const GREETING: &str =
    "You are helping {user:name} with {topic}. Their preferred language is {user:language}.";

#[async_trait]
impl Agent for Greeter {
    fn name(&self) -> &str {
        "greeter"
    }

    fn description(&self) -> &str {
        "answers with its instruction"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    async fn run(&self, context: Arc<dyn InvocationContext>) -> Result<EventStream> {
        let instruction = inject_session_state(context.as_ref(), GREETING).await?;
        let mut event = Event::new(context.invocation_id());
        event.author = self.name().into();
        event.actions.state_delta.insert("greeting".into(), instruction.clone().into());
        event.set_content(Content::new("model").with_text(instruction));
        Ok(stream::iter([Ok(event)]).boxed())
    }
}

/// An agent in ADK's runner.
async fn an_instruction_greets_with_state(service: Service) {
    let entries = [
        ("user:name", json!("Alice")),
        ("topic", json!("billing")),
        ("user:language", json!("English")),
    ];
    create(&service, "first", entries).await;
    let runner = Runner::builder()
        .app_name("my_app")
        .agent(Arc::new(Greeter))
        .session_service(Arc::clone(&service))
        .build()
        .unwrap();
    let question = Content::new("user").with_text("hello");
    let answers: Vec<Event> =
        runner.run_str("alice", "first", question).await.unwrap().try_collect().await.unwrap();
    let wanted = "You are helping Alice with billing. Their preferred language is English.";
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].actions.state_delta["greeting"], wanted);

    let session = get(&service, "first").await;
    assert_eq!(session.state().get("greeting"), Some(json!(wanted)));
    let authors: Vec<_> = session.events().all().into_iter().map(|event| event.author).collect();
    assert_eq!(authors, ["user", "greeter"]);
    assert_eq!(session.events().at(1).unwrap().id, answers[0].id);
}
