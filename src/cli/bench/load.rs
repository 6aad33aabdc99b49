//! Workers that send their next call as soon as the last is answered.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::histogram::Results;
use crate::{
    cli::{connect::Server, system::instant},
    proto::v1::{self, append_event_stream_response::Outcome},
};

/// The wait after an error, so that a server that is down is not flooded.
const AFTER_ERROR: Duration = Duration::from_millis(10);

/// A call that is sent many times.
#[derive(Debug, Clone)]
pub enum Call {
    Append(Box<v1::AppendEventRequest>),
    Read(v1::GetSessionRequest),
    List(v1::ListSessionsRequest),
}

impl Call {
    async fn send(&self, server: &Server) -> Result<(), Status> {
        match self.clone() {
            Self::Append(request) => server.events().append_event(*request).await.map(drop),
            Self::Read(request) => server.sessions().get_session(request).await.map(drop),
            Self::List(request) => server.sessions().list_sessions(request).await.map(drop),
        }
    }
}

/// How long a round lasts.
#[derive(Debug, Clone, Copy)]
pub enum Limit {
    Time(Duration),
    Calls(u64),
}

/// The bound that the workers of one measurement share.
#[derive(Debug)]
pub struct Round {
    started: Instant,
    until: Option<Instant>,
    calls_left: AtomicU64,
    /// Set by an interrupt.
    stop: Arc<AtomicBool>,
}

impl Round {
    pub fn start(limit: Limit, stop: &Arc<AtomicBool>) -> Arc<Self> {
        let started = instant();
        let (until, calls) = match limit {
            Limit::Time(time) => (Some(started + time), u64::MAX),
            Limit::Calls(calls) => (None, calls),
        };
        let (calls_left, stop) = (AtomicU64::new(calls), Arc::clone(stop));
        Arc::new(Self { started, until, calls_left, stop })
    }

    /// Whether one more call may begin `now`.
    fn take(&self, now: Instant) -> bool {
        if self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| now >= until) {
            return false;
        }
        let less = |left: u64| left.checked_sub(1);
        self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// Runs all workers to their end. Returns how long that took and their results.
pub async fn gather<F>(round: &Round, workers: impl Iterator<Item = F>) -> (Duration, Results)
where
    F: Future<Output = Results> + Send + 'static,
{
    let mut running: JoinSet<Results> = workers.collect();
    let mut all = Results::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(results) => all.add(results),
            Err(error) => all.error(|| error.to_string()),
        }
    }
    (instant().duration_since(round.started), all)
}

/// Sends one call after the other. The workers of a round go through `calls` together: each sends every `workers`-th,
/// beginning at its own number, again and again.
pub async fn one_by_one(
    round: Arc<Round>,
    server: Server,
    calls: Arc<[Call]>,
    worker: usize,
    workers: usize,
) -> Results {
    let mut results = Results::new();
    let mut sent = instant();
    let mut next = worker;
    while round.take(sent) {
        let outcome = calls[next % calls.len()].send(&server).await;
        let answered = instant();
        match outcome {
            Ok(()) => results.success(answered.duration_since(sent)),
            Err(status) => {
                results.error(|| text_of(&status));
                tokio::time::sleep(AFTER_ERROR).await;
            }
        }
        sent = answered;
        next += workers;
    }
    results
}

/// Sends the same append over one stream, with `outstanding` unanswered requests at a time.
pub async fn pipelined(
    round: Arc<Round>,
    server: Server,
    append: v1::AppendEventRequest,
    outstanding: usize,
) -> Results {
    let mut results = Results::new();
    let request = v1::AppendEventStreamRequest { append: Some(append) };
    let (requests, stream) = mpsc::channel(outstanding);
    // When each unanswered request was sent. Answers come in the order of the requests.
    let mut unanswered = VecDeque::with_capacity(outstanding);
    let send = |unanswered: &mut VecDeque<Instant>, now| {
        let sent = round.take(now) && requests.try_send(request.clone()).is_ok();
        if sent {
            unanswered.push_back(now);
        }
        sent
    };
    while unanswered.len() < outstanding && send(&mut unanswered, instant()) {}
    let exchange = async {
        let answers = server.events().append_event_stream(ReceiverStream::new(stream)).await?;
        let mut answers = answers.into_inner();
        while let Some(sent) = unanswered.pop_front() {
            let answer = answers.message().await?;
            let now = instant();
            match answer.map(|answer| answer.outcome) {
                None => return Err(Status::unavailable("the server ended the stream")),
                Some(Some(Outcome::Failure(failure))) => {
                    results.error(|| format!("{}: {}", failure.reason, failure.message));
                }
                Some(_) => results.success(now.duration_since(sent)),
            }
            send(&mut unanswered, now);
        }
        Ok(())
    };
    if let Err(status) = exchange.await {
        results.error(|| text_of(&status));
    }
    results
}

fn text_of(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn workers_share_the_number_of_calls() {
        let stop = Arc::new(AtomicBool::new(false));
        let round = Round::start(Limit::Calls(10), &stop);
        let worker = |round: Arc<Round>| async move {
            let mut results = Results::new();
            while round.take(instant()) {
                results.success(Duration::from_micros(5));
                tokio::task::yield_now().await;
            }
            results
        };
        let (_, results) = gather(&round, (0..3).map(|_| worker(Arc::clone(&round)))).await;
        assert_eq!(results.operations(), 10);
    }

    #[test]
    fn time_and_an_interrupt_end_a_round() {
        let stop = Arc::new(AtomicBool::new(false));
        let round = Round::start(Limit::Time(Duration::from_secs(3600)), &stop);
        assert!(round.take(round.started));
        assert!(!round.take(round.started + Duration::from_secs(3600)));
        stop.store(true, Ordering::Relaxed);
        assert!(!round.take(round.started));
    }
}
