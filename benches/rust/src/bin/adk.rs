//! Measures one session service through ADK's interface, and prints a JSON object for each measurement:
//!
//! ```text
//! adk SECONDS sqlite:PATH | postgres://… | HOST:PORT
//! ```
//!
//! The first two are adk-session's own services, which run in this process; the last is a sessiond. An append changes one key of each
//! scope and has 1 KiB of text; a session for each caller, and one application for all. A read returns the newest 20 of 200 events.

use std::{
    collections::HashMap,
    env,
    error::Error,
    str::FromStr as _,
    sync::Arc,
    time::{Duration, Instant},
};

use adk_core::{Content, Event, identity::AdkIdentity};
use adk_session::{
    AppendEventRequest, CreateRequest, GetRequest, PostgresSessionService, SessionService,
    SqliteSessionService,
};
use serde_json::json;
use sessiond_adk::SessiondSessionService;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;
type Service = Arc<dyn SessionService>;

const CALLERS: [usize; 2] = [1, 64];
const APP: &str = "bench";

#[derive(Clone, Copy)]
enum Call {
    Append,
    Read,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [seconds, target] = arguments.as_slice() else {
        return Err("usage: SECONDS TARGET".into());
    };
    let time = Duration::from_secs_f64(seconds.parse()?);
    let service = open(target).await?;
    let mut sessions = Vec::new();
    for caller in 0..CALLERS[1] {
        sessions.push(create(&service, &format!("user-{caller}")).await?);
    }
    for callers in CALLERS {
        measure(&service, Call::Append, &sessions[..callers], time).await?;
    }
    let read = create(&service, "reader").await?;
    for number in 0..200 {
        append(&service, &read, number).await?;
    }
    for callers in CALLERS {
        measure(&service, Call::Read, &vec![read.clone(); callers], time).await?;
    }
    Ok(())
}

async fn open(target: &str) -> Result<Service> {
    if let Some(path) = target.strip_prefix("sqlite:") {
        // As durable as sessiond. With more connections its transactions, which read first, fail because the file is locked.
        let options = SqliteConnectOptions::from_str(path)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full);
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        let service = SqliteSessionService::from_pool(pool);
        service.migrate().await?;
        Ok(Arc::new(service))
    } else if target.starts_with("postgres:") {
        let service = PostgresSessionService::new(target).await?;
        service.migrate().await?;
        Ok(Arc::new(service))
    } else {
        Ok(Arc::new(SessiondSessionService::connect(target).await?))
    }
}

async fn create(service: &Service, user: &str) -> Result<AdkIdentity> {
    let (app_name, user_id, state) = (APP.into(), user.into(), HashMap::new());
    let session =
        service.create(CreateRequest { app_name, user_id, session_id: None, state }).await?;
    Ok(AdkIdentity::new(APP.try_into()?, user.try_into()?, session.id().try_into()?))
}

async fn append(service: &Service, identity: &AdkIdentity, number: u64) -> Result<()> {
    let mut event = Event::new("invocation");
    event.author = "agent".into();
    for key in ["counter", "user:counter", "app:counter"] {
        event.actions.state_delta.insert(key.into(), json!(number));
    }
    event.llm_response.content = Some(Content::new("model").with_text("x".repeat(1024)));
    let request = AppendEventRequest { event, identity: identity.clone() };
    Ok(service.append_event_for_identity(request).await?)
}

async fn get(service: &Service, identity: &AdkIdentity) -> Result<()> {
    let request = GetRequest {
        app_name: APP.into(),
        user_id: identity.user_id.as_ref().into(),
        session_id: identity.session_id.as_ref().into(),
        num_recent_events: Some(20),
        after: None,
    };
    let found = service.get(request).await?;
    if found.events().len() == 20 { Ok(()) } else { Err("other than 20 events".into()) }
}

/// Every caller sends its next call as soon as the last is answered.
async fn measure(
    service: &Service,
    call: Call,
    sessions: &[AdkIdentity],
    time: Duration,
) -> Result<()> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for identity in sessions {
        let (service, identity) = (Arc::clone(service), identity.clone());
        callers.spawn(async move {
            let mut latencies = Vec::new();
            while begun.elapsed() < time {
                let sent = Instant::now();
                match call {
                    Call::Append => append(&service, &identity, latencies.len() as u64).await?,
                    Call::Read => get(&service, &identity).await?,
                }
                latencies.push(sent.elapsed().as_micros());
            }
            Result::Ok(latencies)
        });
    }
    let mut latencies: Vec<u128> = Vec::new();
    for of_caller in callers.join_all().await {
        latencies.extend(of_caller?);
    }
    let per_second = latencies.len() as f64 / begun.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let quantile = |q: f64| latencies[((latencies.len() - 1) as f64 * q) as usize] as u64;
    let workload = match call {
        Call::Append => "append",
        Call::Read => "read",
    };
    let row = json!({
        "workload": workload, "in_flight": sessions.len(), "per_second": per_second,
        "p50_micros": quantile(0.5), "p99_micros": quantile(0.99),
    });
    println!("{row}");
    Ok(())
}
