//! The calls whose latency is measured: one of each kind at a fixed rate, whether or not earlier ones are answered.
//!
//! They have a thread, a runtime and connections of their own, so that the attacking client delays them as little as it can.

use std::{
    collections::HashMap,
    future::pending,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sessiond::{
    cli::{ConnectArgs, Failure, Server, TokenArgs, bench::instant},
    proto::v1::{
        AppendEventRequest, CreateSessionRequest, Event, EventSelection, GetSessionRequest,
        JsonForm, Scope, SessionKey, StateDelta, WatchRequest, WatchStart, event::BodyForm,
        state_delta::SetForm, watch_response,
    },
};
use tokio::{
    runtime,
    sync::oneshot,
    task::JoinSet,
    time::{interval, timeout},
};
use tonic::Status;

use super::{
    latency::{Call, Kind, Latency, acknowledged, latencies},
    server::{BANK, Process, SHOP},
};
use crate::memory;

/// Calls that are not answered so long after the attack count with the time that they have waited by then.
const GRACE: Duration = Duration::from_secs(1);

/// Load before anything is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// The admin listener takes 64 connections, and each probe is one: one of so many ticks has a probe.
const TICKS_PER_PROBE: u64 = 10;

/// The server keeps 10,000 invocations with `temp:` state, and those of all appends would come near that.
const EVENTS_PER_INVOCATION: u64 = 10;

/// Both measurements. The second one lasts until `stop`.
pub struct Plan {
    pub alone: Duration,
    pub rate: u64,
    pub alone_is_done: oneshot::Sender<()>,
    pub stop: oneshot::Receiver<()>,
}

/// Measures on a runtime of its own; blocks.
pub fn measure(
    process: &Process,
    connect: &ConnectArgs,
    load: &str,
    plan: Plan,
) -> Result<[Vec<Latency>; 2], Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Failed(error.to_string()))?;
    runtime.block_on(async {
        let victim = Victim::prepare(process, connect, load).await?;
        victim.tick(plan.rate, tokio::time::sleep(WARM_UP)).await;
        let alone = victim.tick(plan.rate, tokio::time::sleep(plan.alone)).await;
        // Fails if the load has failed, which ends the other measurement as well.
        let _ = plan.alone_is_done.send(());
        let beside = victim.tick(plan.rate, async { drop(plan.stop.await) }).await;
        Ok([alone, beside])
    })
}

#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    /// When the watch had each event.
    delivered: HashMap<String, Instant>,
    watch_error: Option<String>,
}

struct Victim {
    bank: Server,
    shop: Server,
    own: SessionKey,
    neighbour: SessionKey,
    admin: String,
    /// Calls of all measurements: an event id names one event.
    begun: AtomicU64,
    record: Arc<Mutex<Record>>,
}

impl Victim {
    /// Creates both sessions, and watches that of the other tenant.
    async fn prepare(
        process: &Process,
        connect: &ConnectArgs,
        load: &str,
    ) -> Result<Self, Failure> {
        let server = async |token| {
            let connect = ConnectArgs {
                server: format!("http://{}", process.address),
                timeout: Duration::ZERO,
                token: TokenArgs::of_file(process.token_file(token)?),
                ..connect.clone()
            };
            Server::connect(&connect).await
        };
        let key = |tenant| SessionKey {
            app_name: format!("{tenant}-{load}"),
            user_id: "victim".to_owned(),
            session_id: "victim".to_owned(),
        };
        let victim = Self {
            bank: server(BANK).await?,
            shop: server(SHOP).await?,
            own: key("bank"),
            neighbour: key("shop"),
            admin: process.admin.clone(),
            begun: AtomicU64::new(0),
            record: Arc::default(),
        };
        create(&victim.bank, &victim.own).await?;
        create(&victim.shop, &victim.neighbour).await?;
        victim.watch().await?;
        Ok(victim)
    }

    async fn watch(&self) -> Result<(), Failure> {
        let SessionKey { app_name, user_id, session_id } = self.own.clone();
        let request = WatchRequest {
            scope: Some(Scope { app_name, user_id, session_id }),
            start: WatchStart::Now.into(),
            json_form: JsonForm::Text.into(),
            ..Default::default()
        };
        let mut changes = self.bank.watch().watch(request).await?.into_inner();
        let record = Arc::clone(&self.record);
        tokio::spawn(async move {
            let ended = loop {
                match changes.message().await {
                    Ok(Some(change)) => {
                        if let Some(watch_response::Kind::Event(event)) = change.kind {
                            lock(&record).delivered.insert(event.event_id, instant());
                        }
                    }
                    Ok(None) => break "the server ended the watch".to_owned(),
                    Err(status) => break text_of(&status),
                }
            };
            lock(&record).watch_error = Some(ended);
        });
        Ok(())
    }

    /// Makes calls until `end`, and waits a little for their answers.
    async fn tick(&self, rate: u64, end: impl Future<Output = ()>) -> Vec<Latency> {
        let mut calls = JoinSet::new();
        let begin = async {
            let mut ticks = interval(Duration::from_secs(1) / u32::try_from(rate).unwrap_or(1));
            for tick in 0_u64.. {
                ticks.tick().await;
                for kind in [Kind::Append, Kind::Read, Kind::SameTenant] {
                    self.begin(&mut calls, kind);
                }
                if tick % TICKS_PER_PROBE == 0 {
                    self.begin(&mut calls, Kind::Probe);
                }
            }
            pending().await
        };
        tokio::select! {
            () = begin => {}
            () = end => {}
        }
        let settled = async {
            while calls.join_next().await.is_some() {}
            let mut ticks = interval(Duration::from_millis(10));
            while !lock(&self.record).is_delivered() {
                ticks.tick().await;
            }
        };
        // What is not there by then is unanswered.
        let _ = timeout(GRACE, settled).await;
        calls.shutdown().await;
        let mut record = lock(&self.record);
        let calls = mem::take(&mut record.calls);
        let delivered = mem::take(&mut record.delivered);
        let watch_error = record.watch_error.clone();
        drop(record);
        latencies(&calls, &delivered, watch_error)
    }

    fn begin(&self, calls: &mut JoinSet<()>, kind: Kind) {
        let (bank, shop, admin) = (self.bank.clone(), self.shop.clone(), self.admin.clone());
        let (own, neighbour, record) =
            (self.own.clone(), self.neighbour.clone(), Arc::clone(&self.record));
        let sent = instant();
        let mut begun = lock(&record);
        let at = begun.calls.len();
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let event_id = format!("event-{number}");
        begun.calls.push(Call { kind, event_id: event_id.clone(), sent, outcome: None });
        drop(begun);
        calls.spawn(async move {
            let outcome = match kind {
                Kind::Append => append(&bank, own, event_id, number).await,
                Kind::SameTenant => append(&shop, neighbour, event_id, number).await,
                Kind::Read => read(&bank, own).await,
                Kind::Probe => probe(&admin).await,
                Kind::Watch => return,
            };
            if let Some(call) = lock(&record).calls.get_mut(at) {
                call.outcome = Some((instant(), outcome));
            }
        });
    }
}

impl Record {
    fn is_delivered(&self) -> bool {
        self.calls
            .iter()
            .filter(|call| acknowledged(call).is_some())
            .all(|call| self.watch_error.is_some() || self.delivered.contains_key(&call.event_id))
    }
}

async fn create(server: &Server, key: &SessionKey) -> Result<(), Failure> {
    let request = CreateSessionRequest {
        app_name: key.app_name.clone(),
        user_id: key.user_id.clone(),
        session_id: key.session_id.clone(),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    server.sessions().create_session(request).await?;
    Ok(())
}

/// Appends an event of 1 KiB. Some begin an invocation with `temp:` state.
async fn append(
    server: &Server,
    key: SessionKey,
    event_id: String,
    number: u64,
) -> Result<(), String> {
    let set = match number % EVENTS_PER_INVOCATION {
        0 => r#"{"key":"value","temp:key":1}"#,
        _ => r#"{"key":"value"}"#,
    };
    let set_form = Some(SetForm::SetJson(set.to_owned()));
    let event = Event {
        invocation_id: event_id.clone(),
        event_id,
        author: "victim".to_owned(),
        state_delta: Some(StateDelta { set_form, ..Default::default() }),
        body_form: Some(BodyForm::BodyJson(format!(r#"{{"text":"{}"}}"#, "x".repeat(1000)))),
        ..Default::default()
    };
    let request = AppendEventRequest {
        key: Some(key),
        event: Some(event),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    server.events().append_event(request).await.map(drop).map_err(|status| text_of(&status))
}

async fn read(server: &Server, key: SessionKey) -> Result<(), String> {
    let request = GetSessionRequest {
        key: Some(key),
        events: Some(EventSelection { recent: Some(20), ..Default::default() }),
        json_form: JsonForm::Text.into(),
        ..Default::default()
    };
    server.sessions().get_session(request).await.map(drop).map_err(|status| text_of(&status))
}

async fn probe(admin: &str) -> Result<(), String> {
    let answer = memory::get(admin, "/livez").await.unwrap_or_default();
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err("no answer".to_owned()) }
}

fn text_of(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}
