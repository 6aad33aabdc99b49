//! The example of ADK's guide to state, two sessions of one user: `cargo run --example two_sessions -- 127.0.0.1:50051`.

use std::{collections::HashMap, error::Error};

use adk_core::Event;
use adk_session::{CreateRequest, SessionService};
use serde_json::{Value, json};
use sessiond_adk::SessiondSessionService;

fn request(context: &str, shared: Vec<(&str, Value)>) -> CreateRequest {
    let mut state: HashMap<_, _> =
        shared.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    state.insert("context".into(), context.into());
    CreateRequest { app_name: "my_app".into(), user_id: "alice".into(), session_id: None, state }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "an agent uses the default deadline")]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".into());
    let sessions = SessiondSessionService::connect(address).await?;

    let shared = vec![("app:theme", json!("dark")), ("user:language", json!("en"))];
    let first = sessions.create(request("the first conversation", shared)).await?;
    let mut event = Event::new("invocation_123");
    event.author = "agent".into();
    event.actions.state_delta.insert("user:last_seen".into(), json!("today"));
    sessions.append_event(first.id(), event).await?;

    let second = sessions.create(request("the second conversation", Vec::new())).await?;
    println!("{}", serde_json::to_string_pretty(&second.state().all())?);
    Ok(())
}
