//! What callers gain from a thread that moves the log into the database beside the writer:
//! `cargo bench --bench checkpointer`.
//!
//! Rounds with the thread and without it alternate, on files of their own, with 512 appends of 1 KiB in flight. The files lie in
//! the folder of temporary files (`TMPDIR`), which has to be on a disk.

use std::{
    fmt::Debug,
    io::{Write as _, stdout},
    sync::Arc,
    time::Duration,
};

use hdrhistogram::Histogram;
use sessiond::{
    domain::{
        event::{Fingerprint, NewEvent},
        id::{AppName, Author, Branch, EventId, SessionId, UserId},
        json::Json,
        scope::{SessionKey, SessionRef},
        token::StoreId,
    },
    engine::{Engine, EngineOptions},
    store::{
        Append, CreateSession, OnExisting, RequestContext, instant,
        sqlite::{self, SqliteOptions},
    },
};

type Error = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 5;
const SECONDS: u64 = 4;
const SESSIONS: usize = 16;
const IN_FLIGHT: usize = 32;
const BODY_BYTES: usize = 1024;

struct Measured {
    per_second: f64,
    /// In microseconds.
    latencies: Histogram<u64>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    writeln!(stdout(), "round  checkpointer  appends/s   p50 ms   p99 ms   max ms")?;
    for round in 1..=ROUNDS {
        for checkpointer in [round % 2 == 0, round % 2 == 1] {
            let Measured { per_second, latencies } = measure(checkpointer).await?;
            let [p50, p99, max] = [0.5, 0.99, 1.0]
                .map(|quantile| latencies.value_at_quantile(quantile) as f64 / 1000.0);
            writeln!(
                stdout(),
                "{round:5}  {checkpointer:12}  {per_second:9.0}  {p50:7.1}  {p99:7.1}  {max:7.1}"
            )?;
        }
    }
    Ok(())
}

async fn measure(checkpointer: bool) -> Result<Measured, Error> {
    let folder = tempfile::tempdir()?;
    let options = SqliteOptions::new(folder.path().join("bench.db"), StoreId([1; 16]));
    let store = sqlite::open(SqliteOptions { checkpointer, ..options }).await?;
    let engine = Arc::new(Engine::new(Arc::new(store), EngineOptions::default()));
    let mut sessions = Vec::new();
    for session in 0..SESSIONS {
        sessions.push(create(&engine, &format!("session-{session}")).await?);
    }
    let (began, end) = (instant(), Duration::from_secs(SECONDS));
    let mut callers = Vec::new();
    for key in &sessions {
        for caller in 0..IN_FLIGHT {
            let (engine, key) = (Arc::clone(&engine), key.clone());
            callers.push(tokio::spawn(async move {
                let mut latencies = Vec::new();
                for number in 0.. {
                    let sent = instant();
                    if sent.duration_since(began) > end {
                        break;
                    }
                    let append = append(&key, &format!("{caller}-{number}"))?;
                    engine.append_events(&RequestContext::internal(), append).await?;
                    latencies.push(sent.elapsed());
                }
                Ok::<_, Error>(latencies)
            }));
        }
    }
    let mut latencies = Histogram::new(3)?;
    for caller in callers {
        for latency in caller.await?? {
            latencies.record(u64::try_from(latency.as_micros())?)?;
        }
    }
    let per_second = latencies.len() as f64 / began.elapsed().as_secs_f64();
    engine.store.close().await;
    Ok(Measured { per_second, latencies })
}

fn legal<T, Fault: Debug>(name: Result<T, Fault>) -> Result<T, Error> {
    name.map_err(|fault| format!("an illegal name: {fault:?}").into())
}

async fn create(engine: &Engine, session: &str) -> Result<SessionKey, Error> {
    let key = SessionKey {
        app_name: legal(AppName::new("bench"))?,
        user_id: legal(UserId::new("user"))?,
        session_id: legal(SessionId::new(session))?,
    };
    let request = CreateSession {
        key: key.clone(),
        state: Vec::new(),
        display_name: Default::default(),
        labels: Default::default(),
        expiration: None,
        on_existing: OnExisting::Refuse,
    };
    engine.store.create_session(&RequestContext::internal(), request).await?;
    Ok(key)
}

fn append(session: &SessionKey, event_id: &str) -> Result<Append, Error> {
    let event = NewEvent {
        event_id: legal(EventId::new(event_id))?,
        invocation_id: None,
        author: legal(Author::new("agent"))?,
        branch: legal(Branch::new(""))?,
        event_time: None,
        partial: false,
        delta: Default::default(),
        body: Some(Json::string(&"x".repeat(BODY_BYTES))),
        fingerprint: Fingerprint::default(),
        refusal: None,
        field: "event".into(),
    };
    Ok(Append {
        session: SessionRef::Full(session.clone()),
        events: vec![event],
        precondition: Default::default(),
        request: None,
        return_state: false,
    })
}
