//! Workers that send their next call as soon as the last is answered, and their results.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    cli::connect::Server,
    proto::v1::{self, append_event_stream_response::Outcome},
};

/// The wait after an error, so that a server that is down is not flooded.
const AFTER_ERROR: Duration = Duration::from_millis(10);
/// The slowest latency that is kept exactly. Latencies are microseconds with three significant digits.
const SLOWEST_MICROS: u64 = 60_000_000;

#[expect(clippy::disallowed_methods, reason = "the client's one use of the monotonic clock")]
pub fn instant() -> Instant {
    Instant::now()
}

/// A call that is sent many times.
#[derive(Debug, Clone)]
pub enum Call {
    Append(Box<v1::AppendEventRequest>),
    /// Over a stream of its own.
    Stream(Box<v1::AppendEventRequest>),
    Read(v1::GetSessionRequest),
    List(v1::ListSessionsRequest),
}

impl Call {
    async fn send(&self, server: &Server) -> Result<(), Status> {
        match self.clone() {
            Self::Append(call) | Self::Stream(call) => {
                server.events().append_event(*call).await.map(drop)
            }
            Self::Read(call) => server.sessions().get_session(call).await.map(drop),
            Self::List(call) => server.sessions().list_sessions(call).await.map(drop),
        }
    }
}

#[derive(Debug)]
pub struct Results {
    /// Microseconds of the calls that succeeded.
    pub latencies: Histogram<u64>,
    pub errors: u64,
    pub first_error: Option<String>,
}

impl Default for Results {
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(1, SLOWEST_MICROS, 3);
        #[expect(clippy::expect_used, reason = "the bounds are constants that the crate takes")]
        let latencies = latencies.expect("bounds are in order");
        Self { latencies, errors: 0, first_error: None }
    }
}

impl Results {
    pub fn add(&mut self, outcome: Result<Duration, String>) {
        match outcome {
            Ok(latency) => {
                let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
                self.latencies.saturating_record(micros);
            }
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

/// A measurement of some seconds, or of a number of calls, by workers that go through the calls together.
#[derive(Debug)]
pub struct Round {
    servers: Vec<Server>,
    calls: Arc<[Call]>,
    in_flight: usize,
    started: Instant,
    until: Option<Instant>,
    calls_left: AtomicU64,
    results: Mutex<Results>,
}

impl Round {
    pub fn start(
        servers: &[Server],
        calls: &Arc<[Call]>,
        in_flight: usize,
        (seconds, count): (Option<u64>, Option<u64>),
    ) -> Self {
        let started = instant();
        Self {
            servers: servers.to_vec(),
            calls: Arc::clone(calls),
            in_flight,
            started,
            until: seconds.map(|seconds| started + Duration::from_secs(seconds)),
            calls_left: AtomicU64::new(count.unwrap_or(u64::MAX)),
            results: Mutex::default(),
        }
    }

    /// Runs to its end. A stream has a worker of its own.
    pub async fn finish(self) -> (Duration, Results) {
        let is_streamed = matches!(self.calls.first(), Some(Call::Stream(_)));
        let workers = if is_streamed { self.calls.len() } else { self.in_flight };
        let round = Arc::new(self);
        let mut running = JoinSet::new();
        for worker in 0..workers {
            let round = Arc::clone(&round);
            running.spawn(async move {
                let server = &round.servers[worker % round.servers.len()];
                match &round.calls[worker % round.calls.len()] {
                    Call::Stream(append) => round.pipelined(server, append).await,
                    _ => round.one_by_one(server, worker, workers).await,
                }
            });
        }
        running.join_all().await;
        (round.started.elapsed(), mem::take(&mut *round.results()))
    }

    /// Whether one more call may begin `now`.
    fn take(&self, now: Instant) -> bool {
        let less = |left: u64| left.checked_sub(1);
        self.until.is_none_or(|until| now < until)
            && self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Adds the outcome of a call that was sent at `sent`. Returns the time of the answer.
    fn record(&self, sent: Instant, outcome: Result<(), String>) -> Instant {
        let now = instant();
        self.results().add(outcome.map(|()| now.duration_since(sent)));
        now
    }

    fn results(&self) -> MutexGuard<'_, Results> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends every `workers`-th call, beginning with `worker`, again and again.
    async fn one_by_one(&self, server: &Server, worker: usize, workers: usize) {
        let (mut sent, mut next) = (instant(), worker);
        while self.take(sent) {
            let outcome = self.calls[next % self.calls.len()].send(server).await;
            let failed = outcome.is_err();
            sent = self.record(sent, outcome.map_err(text_of));
            if failed {
                tokio::time::sleep(AFTER_ERROR).await;
            }
            next += workers;
        }
    }

    /// Sends the same append over one stream, with as many unanswered requests as are in flight.
    async fn pipelined(&self, server: &Server, append: &v1::AppendEventRequest) {
        let request = v1::AppendEventStreamRequest { append: Some(append.clone()) };
        let outstanding = self.in_flight;
        let (requests, stream) = mpsc::channel(outstanding);
        // When each unanswered request was sent. Answers come in the order of the requests.
        let mut unanswered = VecDeque::with_capacity(outstanding);
        let send = |unanswered: &mut VecDeque<Instant>, now| {
            let sent = self.take(now) && requests.try_send(request.clone()).is_ok();
            unanswered.extend(sent.then_some(now));
            sent
        };
        while unanswered.len() < outstanding && send(&mut unanswered, instant()) {}
        let exchange = async {
            let answers = server.events().append_event_stream(ReceiverStream::new(stream)).await?;
            let mut answers = answers.into_inner();
            while let Some(sent) = unanswered.pop_front() {
                let outcome = match answers.message().await?.map(|answer| answer.outcome) {
                    None => return Err(Status::unavailable("the server ended the stream")),
                    Some(Some(Outcome::Failure(failure))) => {
                        Err(format!("{}: {}", failure.reason, failure.message))
                    }
                    Some(_) => Ok(()),
                };
                send(&mut unanswered, self.record(sent, outcome));
            }
            Ok(())
        };
        if let Err(status) = exchange.await {
            self.results().add(Err(text_of(status)));
        }
    }
}

fn text_of(status: Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(seconds: Option<u64>, count: Option<u64>) -> Round {
        Round::start(&[], &[].into(), 1, (seconds, count))
    }

    #[tokio::test]
    async fn workers_share_the_number_of_calls() {
        let round = Arc::new(round(None, Some(10)));
        let worker = |round: Arc<Round>| async move {
            while round.take(instant()) {
                round.record(round.started, Ok(()));
                tokio::task::yield_now().await;
            }
        };
        let workers: JoinSet<()> = (0..3).map(|_| worker(Arc::clone(&round))).collect();
        workers.join_all().await;
        assert_eq!(round.results().latencies.len(), 10);
    }

    #[test]
    fn time_ends_a_round() {
        let round = round(Some(3600), None);
        assert!(round.take(round.started));
        assert!(!round.take(round.started + Duration::from_secs(3600)));
    }

    #[test]
    fn latencies_are_kept_up_to_the_bound() {
        let mut results = Results::default();
        results.add(Ok(Duration::from_millis(30)));
        assert!((30_000..30_100).contains(&results.latencies.max()));
        results.add(Ok(Duration::from_secs(3600)));
        assert!((SLOWEST_MICROS..SLOWEST_MICROS * 2).contains(&results.latencies.max()));
    }

    #[test]
    fn latencies_and_errors_add_up() {
        let mut all = Results::default();
        for micros in (1..=1000).chain(1..=1000) {
            all.add(Ok(Duration::from_micros(micros)));
        }
        all.add(Err("gone".to_owned()));
        all.add(Err("again".to_owned()));
        assert_eq!(all.first_error.as_deref(), Some("gone"));
        assert_eq!((all.latencies.len(), all.errors), (2000, 2));
        assert_eq!(
            (all.latencies.value_at_quantile(0.5), all.latencies.value_at_quantile(0.99)),
            (500, 990)
        );
        assert_eq!(all.latencies.max(), 1000);
    }
}
