//! The client that attacks, and what became of its calls.

use std::{
    collections::BTreeMap,
    io, mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use serde::Serialize;
use sessiond::{
    cli::{Failure, bench::instant},
    proto::code_name,
};
use tokio::{
    task::JoinSet,
    time::{interval, sleep, timeout},
};
use tonic::Code;

use super::{
    raw::{Connection, Stream, Windows, frame},
    server::SHOP,
};

/// Connections that the calls of an attack share.
const CONNECTIONS: usize = 4;

/// Small calls in flight while a load is set up, so that many share a commit.
pub const MANY: usize = 256;

/// The wait after a call that was refused for want of capacity, or got no answer: a worker does not ask in a loop.
const AFTER_REFUSAL: Duration = Duration::from_millis(10);

/// A server that takes no further stream has so long to change that.
const OPENING: Duration = Duration::from_secs(1);

/// A call with its whole request.
#[derive(Clone)]
pub struct Call {
    path: String,
    token: &'static str,
    message: Bytes,
}

impl Call {
    /// Of a method such as `EventService/AppendEvent`.
    pub fn new(method: &str, message: &impl Message) -> Self {
        Self { path: path(method), token: SHOP, message: frame(message) }
    }

    pub fn with_token(self, token: &'static str) -> Self {
        Self { token, ..self }
    }
}

pub fn path(method: &str) -> String {
    format!("/sessiond.v1.{method}")
}

/// Streams that are left open.
pub struct Held {
    pub path: String,
    pub token: Option<&'static str>,
    pub connections: usize,
    pub streams_each: usize,
    pub windows: Windows,
    /// What each of them sends.
    pub bytes: Bytes,
    /// Whether its request ends with that.
    pub ends: bool,
}

/// What became of an attack.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counts {
    pub sent: u64,
    /// By code.
    pub answered: BTreeMap<&'static str, u64>,
    /// Calls whose connection or stream ended without an answer, although the client takes all answers.
    pub lost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_loss: Option<String>,
    /// Streams, or connections, that were opened to be left open.
    pub held: u64,
    /// Connections that the server has ended.
    pub ended_connections: u64,
    /// What a person should know of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Counts {
    /// Calls without an outcome yet.
    pub fn unanswered(&self) -> u64 {
        self.sent - self.answered.values().sum::<u64>() - self.lost
    }
}

pub struct Attacker {
    pub address: String,
    pub admin: String,
    /// The application of the attacking tenant.
    pub app: String,
    /// How long an attack begins new calls.
    pub lasts: Duration,
    connections: [tokio::sync::Mutex<Option<Connection>>; CONNECTIONS],
    counts: Mutex<Counts>,
}

impl Attacker {
    pub fn new(address: String, admin: String, app: String, lasts: Duration) -> Self {
        let connections = [const { tokio::sync::Mutex::const_new(None) }; CONNECTIONS];
        Self { address, admin, app, lasts, connections, counts: Mutex::default() }
    }

    pub fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the set-up, whose calls must have succeeded.
    pub fn has_set_up(&self) -> Result<(), Failure> {
        let Counts { sent, answered, first_loss, notes, .. } = mem::take(&mut *self.counts());
        self.counts().notes = notes;
        if answered.get("OK").copied().unwrap_or_default() == sent {
            return Ok(());
        }
        let text = format!("the set-up failed: {answered:?} of {sent} calls, {first_loss:?}");
        Err(Failure::Failed(text))
    }

    /// A single call. Its outcome is not counted.
    pub async fn ask(&self, call: &Call) -> Result<Code, Failure> {
        let connection = self.connection(0).await;
        let answer = async { connection?.call(&call.path, call.token, call.message.clone()).await };
        answer.await.map_err(|error| Failure::Failed(error.to_string()))
    }

    /// Makes the calls of a set-up.
    pub async fn make(
        self: &Arc<Self>,
        in_flight: usize,
        calls: usize,
        call: impl Fn(usize) -> Call + Send + Sync + 'static,
    ) {
        self.work(in_flight, move |number| (number < calls).then(|| call(number))).await;
    }

    /// Keeps calls in flight for as long as the attack lasts, and waits for their answers.
    pub async fn keep(
        self: &Arc<Self>,
        in_flight: usize,
        call: impl Fn(usize) -> Call + Send + Sync + 'static,
    ) {
        let (began, lasts) = (instant(), self.lasts);
        self.work(in_flight, move |number| (began.elapsed() < lasts).then(|| call(number))).await;
    }

    /// Begins calls at a rate, and waits for their answers.
    pub async fn pace(
        self: &Arc<Self>,
        per_second: usize,
        calls: usize,
        call: impl Fn(usize) -> Call,
    ) {
        const TICKS: usize = 100;
        let mut ticks = interval(Duration::from_secs(1) / TICKS as u32);
        let mut running = JoinSet::new();
        for number in 0..calls {
            if number % (per_second / TICKS) == 0 {
                ticks.tick().await;
            }
            let (attacker, call) = (Arc::clone(self), call(number));
            running.spawn(async move { attacker.send(number, call).await });
        }
        running.join_all().await;
    }

    /// Sends a call and gives it up after a time.
    pub async fn give_up(&self, call: Call, after: Duration) -> Result<(), Failure> {
        let mut connection =
            self.connection(0).await.map_err(|error| Failure::Failed(error.to_string()))?;
        let _ = timeout(after, connection.call(&call.path, call.token, call.message)).await;
        Ok(())
    }

    /// Opens the streams, as many as the server takes, and leaves them open until the attack ends.
    pub async fn hold(self: &Arc<Self>, held: Held) -> Result<(), Failure> {
        let began = instant();
        let held = Arc::new(held);
        let mut opening = JoinSet::new();
        for _ in 0..held.connections {
            let (attacker, held) = (Arc::clone(self), Arc::clone(&held));
            opening.spawn(async move { attacker.open(&held).await });
        }
        let open = opening.join_all().await;
        sleep(self.lasts.saturating_sub(began.elapsed())).await;
        let ended = open.iter().flatten().filter(|(connection, _)| connection.has_ended()).count();
        self.counts().ended_connections = ended as u64;
        Ok(())
    }

    async fn open(&self, held: &Held) -> Option<(Connection, Vec<Stream>)> {
        let connection = Connection::open(&self.address, held.windows).await;
        let refused =
            |error: &io::Error| self.counts().notes.push(format!("no connection: {error}"));
        let mut connection = connection.inspect_err(refused).ok()?;
        let mut streams = Vec::new();
        for _ in 0..held.streams_each {
            let begun = timeout(OPENING, connection.begin(&held.path, held.token)).await;
            let Ok(Ok(mut stream)) = begun else { break };
            let sent = held.bytes.is_empty() && !held.ends
                || stream.body.send_data(held.bytes.clone(), held.ends).is_ok();
            if !sent {
                break;
            }
            streams.push(stream);
            self.counts().held += 1;
        }
        Some((connection, streams))
    }

    /// Workers that take a call each, as long as there are some.
    async fn work(
        self: &Arc<Self>,
        in_flight: usize,
        next: impl Fn(usize) -> Option<Call> + Send + Sync + 'static,
    ) {
        let (numbers, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(next));
        let mut workers = JoinSet::new();
        for worker in 0..in_flight {
            let (attacker, numbers, next) =
                (Arc::clone(self), Arc::clone(&numbers), Arc::clone(&next));
            workers.spawn(async move {
                while let Some(call) = next(numbers.fetch_add(1, Ordering::Relaxed)) {
                    attacker.send(worker, call).await;
                }
            });
        }
        workers.join_all().await;
    }

    async fn send(&self, worker: usize, call: Call) {
        self.counts().sent += 1;
        let connection = self.connection(worker).await;
        let answer = async { connection?.call(&call.path, call.token, call.message).await };
        match answer.await {
            Ok(code) => {
                *self.counts().answered.entry(code_name(code)).or_default() += 1;
                if !matches!(code, Code::ResourceExhausted | Code::Unavailable) {
                    return;
                }
            }
            Err(error) => self.lose(&error),
        }
        sleep(AFTER_REFUSAL).await;
    }

    fn lose(&self, error: &io::Error) {
        let mut counts = self.counts();
        counts.lost += 1;
        counts.first_loss.get_or_insert_with(|| error.to_string());
    }

    /// That of a worker, opened again if the server has ended it.
    async fn connection(&self, worker: usize) -> Result<Connection, io::Error> {
        let mut connection = self.connections[worker % CONNECTIONS].lock().await;
        match &*connection {
            Some(open) if !open.has_ended() => Ok(open.clone()),
            other => {
                self.counts().ended_connections += u64::from(other.is_some());
                let open = Connection::open(&self.address, Windows::Usual).await?;
                *connection = Some(open.clone());
                Ok(open)
            }
        }
    }
}
