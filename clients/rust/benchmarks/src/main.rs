//! Compares appends through sessiond with those of adk-session's `PostgresSessionService`, in alternating rounds:
//!
//! ```text
//! createdb theirs && createdb ours
//! sessiond serve --store postgres://USER@HOST/ours
//! cargo run --release -- postgres://USER@HOST/theirs 127.0.0.1:50051 [ROUNDS] [SECONDS]
//! ```
//!
//! 64 callers append to a session each: an event with 1 KiB of text that changes one key of each scope. All of them have
//! the application's key in common. adk-session's service runs in this process, and sessiond in one of its own.

use std::{
    collections::HashMap,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use adk_core::{Content, Event, identity::AdkIdentity};
use adk_session::{AppendEventRequest, CreateRequest, PostgresSessionService, SessionService};
use serde_json::json;
use sessiond_adk::SessiondSessionService;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CALLERS: usize = 64;

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "an agent uses the default deadline")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(database), Some(server)) = (arguments.next(), arguments.next()) else {
        return Err("usage: DATABASE_URL SERVER [ROUNDS] [SECONDS]".into());
    };
    let rounds: u32 = arguments.next().map_or(Ok(5), |it| it.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(3), |it| it.parse())?;
    let theirs = PostgresSessionService::new(&database).await?;
    theirs.migrate().await?;
    let ours = SessiondSessionService::connect(server).await?;
    let services: [(&str, Arc<dyn SessionService>); 2] =
        [("adk-session", Arc::new(theirs)), ("sessiond", Arc::new(ours))];
    for round in 1..=rounds {
        for (name, service) in &services {
            let appended = appends(service, round, Duration::from_secs(seconds)).await?;
            println!("{round} {name:12} {:.0} appends/s", appended as f64 / seconds as f64);
        }
    }
    Ok(())
}

/// Appends for some time. Returns how many appends succeeded. The error is that of the first that failed.
async fn appends(service: &Arc<dyn SessionService>, round: u32, time: Duration) -> Result<u64> {
    let app = format!("bench-{}-{round}", std::process::id());
    let mut sessions = Vec::new();
    for caller in 0..CALLERS {
        let (user_id, session_id) = (format!("user-{caller}"), format!("session-{caller}"));
        let (app_name, state) = (app.clone(), HashMap::new());
        let create = CreateRequest { app_name, user_id, session_id: Some(session_id), state };
        let session = service.create(create).await?;
        sessions.push(AdkIdentity::new(
            session.app_name().try_into()?,
            session.user_id().try_into()?,
            session.id().try_into()?,
        ));
    }
    let end = Instant::now() + time;
    let mut callers = JoinSet::new();
    for identity in sessions {
        let service = Arc::clone(service);
        callers.spawn(async move {
            let mut appended = 0;
            while Instant::now() < end {
                let (event, identity) = (event(appended), identity.clone());
                let request = AppendEventRequest { event, identity };
                service.append_event_for_identity(request).await?;
                appended += 1;
            }
            Ok::<u64, Box<dyn Error + Send + Sync>>(appended)
        });
    }
    let appended: Result<Vec<u64>> = callers.join_all().await.into_iter().collect();
    Ok(appended?.into_iter().sum())
}

fn event(number: u64) -> Event {
    let mut event = Event::new("invocation");
    event.author = "agent".into();
    for key in ["counter", "user:counter", "app:counter"] {
        event.actions.state_delta.insert(key.into(), json!(number));
    }
    event.llm_response.content = Some(Content::new("model").with_text("x".repeat(1024)));
    event
}
