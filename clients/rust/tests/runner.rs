//! ADK's runner with an agent that streams, calls a tool and changes state: the session is the same with sessiond and with ADK's
//! in-memory service.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use adk_core::{
    Agent, Content, Event, EventStream, FunctionResponseData, InvocationContext, Part, Result,
    async_trait, identity::AdkIdentity,
};
use adk_runner::Runner;
use adk_session::{
    AppendEventRequest, CreateRequest, GetRequest, InMemorySessionService, ListRequest, Session,
    SessionService,
};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sessiond_adk_testing::{Server, Store, builder};

/// Streams an answer in chunks, calls a tool, and counts its invocations in user state.
struct Assistant;

fn event(context: &dyn InvocationContext, id: &str, parts: Vec<Part>) -> Event {
    let mut event =
        Event::with_id(format!("{id}-{}", context.invocation_id()), context.invocation_id());
    event.author = "assistant".into();
    event.set_content(Content { role: "model".into(), parts });
    event
}

#[async_trait]
impl Agent for Assistant {
    fn name(&self) -> &str {
        "assistant"
    }

    fn description(&self) -> &str {
        "answers"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    async fn run(&self, context: Arc<dyn InvocationContext>) -> Result<EventStream> {
        let state = context.session().state();
        let turns = state.get("user:turns").and_then(|turns| turns.as_i64()).unwrap_or(0) + 1;
        let heard = context.session().conversation_history().len();

        let arguments = json!({"turn": turns});
        let call = event(
            &*context,
            "call",
            vec![Part::FunctionCall {
                name: "look_up".into(),
                args: arguments.clone(),
                id: Some(format!("call-{turns}")),
                thought_signature: None,
            }],
        );
        let mut answer = event(
            &*context,
            "response",
            vec![Part::FunctionResponse {
                function_response: FunctionResponseData::new("look_up", arguments),
                id: Some(format!("call-{turns}")),
                annotations: None,
            }],
        );
        answer.actions.state_delta.insert("temp:looked_up".into(), json!(true));
        answer.actions.state_delta.insert("looked_up".into(), json!([turns, null]));

        let text = |text: &str| vec![Part::Text { text: text.into() }];
        let mut chunks: Vec<Event> = ["It ", "rains."]
            .map(|chunk| {
                let mut chunk = event(&*context, "answer", text(chunk));
                chunk.llm_response.partial = true;
                // Chunks change no state.
                chunk.actions.state_delta.insert("chunk".into(), json!(true));
                chunk
            })
            .into();
        let mut whole = event(&*context, "answer", text("It rains."));
        whole.llm_response.turn_complete = true;
        whole.actions.state_delta.insert("user:turns".into(), json!(turns));
        whole.actions.state_delta.insert("app:turns".into(), json!(turns));
        whole.actions.state_delta.insert("heard".into(), json!(heard));

        let mut events = vec![call, answer];
        events.append(&mut chunks);
        events.push(whole);
        Ok(stream::iter(events.into_iter().map(Ok)).boxed())
    }
}

/// Three invocations in two sessions. Returns the stored sessions without ids and times.
async fn converse(sessions: Arc<dyn SessionService>) -> Value {
    let runner = Runner::builder()
        .app_name("my_app")
        .agent(Arc::new(Assistant))
        .session_service(Arc::clone(&sessions))
        .build()
        .unwrap();
    for id in ["first", "second"] {
        let state = [("user:name".to_owned(), json!("Alice")), ("begun".to_owned(), json!(id))];
        let request = CreateRequest {
            app_name: "my_app".into(),
            user_id: "alice".into(),
            session_id: Some(id.into()),
            state: state.into(),
        };
        sessions.create(request).await.unwrap();
    }
    for id in ["first", "second", "first"] {
        let question = Content::new("user").with_text(format!("Will it rain in the {id}?"));
        let told: Vec<Event> =
            runner.run_str("alice", id, question).await.unwrap().try_collect().await.unwrap();
        assert_eq!(told.iter().filter(|event| event.llm_response.partial).count(), 2);
    }
    let mut seen = Vec::new();
    for id in ["first", "second"] {
        let request = GetRequest {
            app_name: "my_app".into(),
            user_id: "alice".into(),
            session_id: id.into(),
            num_recent_events: None,
            after: None,
        };
        seen.push(describe(&*sessions.get(request).await.unwrap()));
    }
    let request = ListRequest {
        app_name: "my_app".into(),
        user_id: "alice".into(),
        limit: None,
        offset: None,
    };
    let listed = sessions.list(request).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|session| session.id().to_owned()).collect();
    json!({"sessions": seen, "listed": listed})
}

fn describe(session: &dyn Session) -> Value {
    let mut turns = Vec::new();
    let events: Vec<Value> = session
        .events()
        .all()
        .iter()
        .map(|event| {
            if !turns.contains(&event.invocation_id) {
                turns.push(event.invocation_id.clone());
            }
            let turn = turns.iter().position(|turn| *turn == event.invocation_id);
            let mut told = serde_json::to_value(event).unwrap();
            for differs in ["id", "timestamp", "invocation_id"] {
                told.as_object_mut().unwrap().remove(differs).unwrap();
            }
            told["turn"] = json!(turn);
            told
        })
        .collect();
    json!({"id": session.id(), "state": session.state().all(), "events": events})
}

#[tokio::test]
async fn a_conversation_leaves_the_same_session() {
    let wanted = converse(Arc::new(InMemorySessionService::new())).await;
    assert_eq!(wanted["sessions"][0]["events"].as_array().unwrap().len(), 8);
    assert_eq!(wanted["sessions"][0]["state"]["user:turns"], 3);
    for store in [Store::Memory, Store::Sqlite] {
        let server = Server::start(store);
        let sessions = builder(server.address()).connect().await.unwrap();
        assert_eq!(converse(Arc::new(sessions)).await, wanted, "{store:?}");
    }
}

/// Writes, lets another writer append, and reports the state that it sees then.
struct Interrupted {
    sessions: Arc<dyn SessionService>,
}

#[async_trait]
impl Agent for Interrupted {
    fn name(&self) -> &str {
        "interrupted"
    }

    fn description(&self) -> &str {
        "reports what it sees"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    async fn run(&self, context: Arc<dyn InvocationContext>) -> Result<EventStream> {
        let seen = |context: &dyn InvocationContext| {
            let session = context.session();
            let state = ["own", "others", "user:who"].map(|key| session.state().get(key));
            json!({"state": state, "heard": session.conversation_history().len()})
        };
        let text = |text: &str| vec![Part::Text { text: text.into() }];
        let mut first = event(&*context, "first", text("I write."));
        first.actions.state_delta.insert("at first".into(), seen(&*context));
        first.actions.state_delta.insert("own".into(), json!("mine"));
        first.actions.state_delta.insert("user:who".into(), json!("I"));

        let sessions = Arc::clone(&self.sessions);
        // Polled after the runner has stored the first event.
        let second = stream::once(async move {
            let mut others = event(&*context, "others", text("Another writes."));
            others.author = "another".into();
            for (key, value) in [("own", "another's"), ("others", "new"), ("user:who", "another")] {
                others.actions.state_delta.insert(key.into(), json!(value));
            }
            let identity = AdkIdentity::new(
                context.session().app_name().try_into()?,
                context.session().user_id().try_into()?,
                context.session().id().try_into()?,
            );
            let request = AppendEventRequest { identity, event: others };
            sessions.append_event_for_identity(request).await?;
            let mut second = event(&*context, "second", text("I say what I see."));
            second.actions.state_delta.insert("at last".into(), seen(&*context));
            Ok(second)
        });
        Ok(stream::iter([Ok(first)]).chain(second).boxed())
    }
}

/// A run keeps the session that it has read, with its own changes. Concurrent writes of others are stored, and the next run sees
/// them.
async fn be_interrupted(sessions: Arc<dyn SessionService>) {
    let runner = Runner::builder()
        .app_name("my_app")
        .agent(Arc::new(Interrupted { sessions: Arc::clone(&sessions) }))
        .session_service(Arc::clone(&sessions))
        .build()
        .unwrap();
    let request = CreateRequest {
        app_name: "my_app".into(),
        user_id: "alice".into(),
        session_id: Some("s1".into()),
        state: Default::default(),
    };
    sessions.create(request).await.unwrap();
    for (began, heard) in
        [(json!([null, null, null]), 1), (json!(["another's", "new", "another"]), 5)]
    {
        let question = Content::new("user").with_text("What do you see?");
        let told: Vec<Event> =
            runner.run_str("alice", "s1", question).await.unwrap().try_collect().await.unwrap();
        let first = &told[0].actions.state_delta["at first"];
        assert_eq!(*first, json!({"state": began, "heard": heard}));
        let last = &told[1].actions.state_delta["at last"];
        let still = json!(["mine", began[1], "I"]);
        assert_eq!(*last, json!({"state": still, "heard": heard + 1}), "its own session");

        let request = GetRequest {
            app_name: "my_app".into(),
            user_id: "alice".into(),
            session_id: "s1".into(),
            num_recent_events: Some(4),
            after: None,
        };
        let session = sessions.get(request).await.unwrap();
        let authors: Vec<_> =
            session.events().all().into_iter().map(|event| event.author).collect();
        assert_eq!(authors, ["user", "assistant", "another", "assistant"]);
        for (key, value) in [("own", "another's"), ("others", "new"), ("user:who", "another")] {
            assert_eq!(session.state().get(key), Some(json!(value)), "the last who wrote it");
        }
        assert_eq!(session.state().get("at last").as_ref(), Some(last));
    }
}

#[tokio::test]
async fn a_run_keeps_its_own_session() {
    be_interrupted(Arc::new(InMemorySessionService::new())).await;
    for store in [Store::Memory, Store::Sqlite] {
        let server = Server::start(store);
        let sessions = builder(server.address()).connect().await.unwrap();
        be_interrupted(Arc::new(sessions)).await;
    }
}

#[tokio::test]
async fn a_run_without_its_session_ends_with_not_found() {
    let server = Server::start(Store::Memory);
    let sessions = builder(server.address()).connect().await.unwrap();
    let runner = Runner::builder()
        .app_name("my_app")
        .agent(Arc::new(Assistant))
        .session_service(Arc::new(sessions))
        .build()
        .unwrap();
    let run = runner.run_str("alice", "nowhere", Content::new("user").with_text("hello")).await;
    let error = run.unwrap().try_collect::<Vec<Event>>().await.unwrap_err();
    assert!(error.is_not_found() && error.code == "session.not_found", "{error:?}");
}
