//! One of the agents that share a session:
//! `cargo run --example together -- ADDRESS APP USER SESSION COMMAND [ARGUMENTS]`.
//!
//! tests/together starts its counterparts in the other languages against the same server. The commands are:
//!
//! * `turn TEXT`: one turn of an agent
//! * `increment N`: increments `user:turns` N times
//! * `put KEY JSON`: sets a key
//! * `dump`: prints the events and the state as this ADK sees them
//! * `bodies`: prints what this ADK reads in the bodies of the events

use std::{error::Error, sync::Arc};

use adk_core::{
    Agent, Content, Event, EventStream, InvocationContext, Part, Result, async_trait,
    identity::AdkIdentity,
};
use adk_runner::Runner;
use adk_session::{GetRequest, Session, SessionService};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sessiond_adk::{Delta, SessiondSessionService};

const LANGUAGE: &str = "rust";

/// Repeats the message, and writes it into the session's state.
struct Echo;

fn text_of(content: Option<&Content>) -> String {
    let parts = content.map(|content| content.parts.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

#[async_trait]
impl Agent for Echo {
    fn name(&self) -> &str {
        "rust_agent"
    }

    fn description(&self) -> &str {
        "repeats the message"
    }

    fn sub_agents(&self) -> &[Arc<dyn Agent>] {
        &[]
    }

    async fn run(&self, context: Arc<dyn InvocationContext>) -> Result<EventStream> {
        let heard = text_of(Some(context.user_content()));
        let mut event = Event::new(context.invocation_id());
        event.author = self.name().into();
        event.set_content(Content::new("model").with_text(format!("{LANGUAGE} heard {heard}")));
        event.actions.state_delta.insert(format!("{LANGUAGE}:turn"), heard.into());
        Ok(stream::iter([Ok(event)]).boxed())
    }
}

async fn turn(
    sessions: Arc<SessiondSessionService>,
    session: &dyn Session,
    text: String,
) -> Result<()> {
    let runner = Runner::builder()
        .app_name(session.app_name())
        .agent(Arc::new(Echo))
        .session_service(sessions)
        .build()?;
    let message = Content::new("user").with_text(text);
    let events = runner.run_str(session.user_id(), session.id(), message).await?;
    events.try_for_each(async |_| Ok(())).await
}

/// What the test compares of an event.
fn as_json(event: &Event) -> Value {
    json!({"id": event.id, "author": event.author, "text": text_of(event.content())})
}

/// What ADK's own methods read in a body.
fn body_of(event: &Event) -> Value {
    let calls: Vec<Value> = event
        .tool_calls()
        .iter()
        .map(|call| json!({"id": call.call_id, "name": call.name, "args": call.args}))
        .collect();
    let responses: Vec<Value> = event
        .tool_results()
        .iter()
        .map(|result| json!({"id": result.call_id, "name": result.name, "response": result.response}))
        .collect();
    let usage = event.llm_response.usage_metadata.as_ref();
    json!({
        "author": event.author,
        "role": event.content().map(|content| &content.role),
        "text": text_of(event.content()),
        "calls": calls,
        "responses": responses,
        "tokens": usage.map_or(0, |usage| usage.total_token_count),
        "artifacts": event.actions.artifact_delta,
        "final": event.is_final_response(),
    })
}

/// The compaction of an event, in milliseconds, and what its actions have beside it.
fn compaction_of(event: &Event) -> Value {
    let compaction = event.actions.compaction.as_ref();
    json!({
        "start": compaction.map(|found| found.start_timestamp.timestamp_millis()),
        "end": compaction.map(|found| found.end_timestamp.timestamp_millis()),
        "text": compaction.map(|found| text_of(Some(&found.compacted_content))),
        "transfer": event.actions.transfer_to_agent,
        "artifacts": event.actions.artifact_delta,
    })
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "an agent uses the default deadline")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [address, app_name, user_id, session_id, command, rest @ ..] = arguments.as_slice() else {
        return Err("usage: together ADDRESS APP USER SESSION COMMAND [ARGUMENTS]".into());
    };
    let sessions = Arc::new(SessiondSessionService::connect(*address).await?);
    let request = GetRequest {
        app_name: (*app_name).into(),
        user_id: (*user_id).into(),
        session_id: (*session_id).into(),
        num_recent_events: None,
        after: None,
    };
    let session = sessions.get(request).await?;
    let identity = AdkIdentity {
        app_name: session.app_name().try_into()?,
        user_id: session.user_id().try_into()?,
        session_id: session.id().try_into()?,
    };
    match (*command, rest) {
        ("turn", [text]) => turn(sessions, &*session, (*text).into()).await?,
        ("increment", [count]) => {
            for _ in 0..count.parse::<u32>()? {
                let delta = Delta::new().increment("user:turns", 1);
                sessions.append_with(&identity, system_event(), delta).await?;
            }
        }
        ("put", [key, value]) => {
            let mut event = system_event();
            event.actions.state_delta.insert((*key).into(), serde_json::from_str(value)?);
            sessions.append_event(session.id(), event).await?;
        }
        ("dump", []) => {
            let events: Vec<Value> = session.events().all().iter().map(as_json).collect();
            println!("{}", json!({"events": events, "state": session.state().all()}));
        }
        ("bodies", []) => {
            let events: Vec<Value> = session.events().all().iter().map(body_of).collect();
            println!("{}", json!(events));
        }
        ("compactions", []) => {
            let events: Vec<Value> = session.events().all().iter().map(compaction_of).collect();
            println!("{}", json!(events));
        }
        _ => return Err(format!("unknown command {command} {rest:?}").into()),
    }
    Ok(())
}

fn system_event() -> Event {
    let mut event = Event::new("");
    event.author = "system".into();
    event
}
