//! Workers that call as fast as they are answered, until it is enough.

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use prost::bytes::Bytes;
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;

use super::{
    raw::{Call, RawClient},
    tally::Tally,
};
use crate::{cli::ambient::instant, proto::v1::AppendFailure};

const APPEND_STREAM: &str = "/sessiond.v1.EventService/AppendEventStream";

/// How much is to be measured.
#[derive(Debug, Clone, Copy)]
pub enum Measure {
    /// As many calls as fit into this time.
    For(Duration),
    /// So many calls.
    Calls(u64),
}

/// When the workers of one measurement are done.
#[derive(Debug)]
pub struct Pace {
    started: Instant,
    until: Option<Instant>,
    left: AtomicU64,
    /// Set from outside when nobody wants to wait any longer.
    stop: Arc<AtomicBool>,
}

impl Pace {
    /// Begins a measurement.
    pub fn start(measure: Measure, stop: &Arc<AtomicBool>) -> Arc<Self> {
        let started = instant();
        let (until, left) = match measure {
            Measure::For(time) => (Some(started + time), u64::MAX),
            Measure::Calls(calls) => (None, calls),
        };
        let (left, stop) = (AtomicU64::new(left), Arc::clone(stop));
        Arc::new(Self { started, until, left, stop })
    }

    /// Whether one more call may begin `now`.
    fn go_on(&self, now: Instant) -> bool {
        if self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| now >= until) {
            return false;
        }
        let take = |left: u64| left.checked_sub(1);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// Runs all workers to their end. Returns how long it took, and what they measured.
pub async fn gather<F>(pace: &Pace, workers: impl Iterator<Item = F>) -> (Duration, Tally)
where
    F: Future<Output = Tally> + Send + 'static,
{
    let mut running: JoinSet<Tally> = workers.collect();
    let mut all = Tally::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(tally) => all.add(tally),
            Err(error) => all.failed(|| error.to_string()),
        }
    }
    (instant().duration_since(pace.started), all)
}

/// Sends one call after the other.
pub async fn one_by_one(pace: Arc<Pace>, mut client: RawClient, call: Call) -> Tally {
    let mut tally = Tally::new();
    let mut begun = instant();
    while pace.go_on(begun) {
        let outcome = client.unary(&call).await;
        let ended = instant();
        match outcome {
            Ok(_) => tally.answered(ended.duration_since(begun)),
            Err(status) => {
                tally.failed(|| format!("{:?}: {}", status.code(), status.message()));
                // A server that is away refuses at once: let it be, rather than count how fast.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        begun = ended;
    }
    tally
}

/// Appends over one stream, with `outstanding` unanswered requests at a time.
pub async fn windowed(
    pace: Arc<Pace>,
    mut client: RawClient,
    request: Bytes,
    outstanding: usize,
) -> Tally {
    let mut tally = Tally::new();
    let (requests, stream) = mpsc::channel(outstanding);
    let mut begun = VecDeque::with_capacity(outstanding);
    while begun.len() < outstanding {
        let now = instant();
        // The channel has room for exactly these.
        if !pace.go_on(now) || requests.try_send(request.clone()).is_err() {
            break;
        }
        begun.push_back(now);
    }
    let mut answers = match client.stream(APPEND_STREAM, ReceiverStream::new(stream)).await {
        Ok(answers) => answers,
        Err(status) => {
            tally.failed(|| status.to_string());
            return tally;
        }
    };
    // Answers come in the order of the requests.
    while let Some(sent) = begun.pop_front() {
        let answer = match answers.message().await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                tally.failed(|| "the server ended the stream".to_owned());
                return tally;
            }
            Err(status) => {
                tally.failed(|| status.to_string());
                return tally;
            }
        };
        let now = instant();
        match failure_of(&answer) {
            None => tally.answered(now.duration_since(sent)),
            Some(failure) => tally.failed(|| format!("{}: {}", failure.reason, failure.message)),
        }
        if pace.go_on(now) && requests.try_send(request.clone()).is_ok() {
            begun.push_back(now);
        }
    }
    tally
}

/// An answer of AppendEventStream of which only the failure is read.
#[derive(Clone, PartialEq, prost::Message)]
struct OutcomeOnly {
    #[prost(message, optional, tag = "3")]
    failure: Option<AppendFailure>,
}

fn failure_of(answer: &Bytes) -> Option<AppendFailure> {
    let outcome = <OutcomeOnly as prost::Message>::decode(answer.clone());
    match outcome {
        Ok(outcome) => outcome.failure,
        Err(error) => {
            Some(AppendFailure { message: error.to_string(), ..AppendFailure::default() })
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto::v1::{
        AppendEventResponse, AppendEventStreamResponse, append_event_stream_response::Outcome,
    };

    #[tokio::test]
    async fn workers_share_the_number_of_calls() {
        let stop = Arc::new(AtomicBool::new(false));
        let pace = Pace::start(Measure::Calls(10), &stop);
        let worker = |pace: Arc<Pace>| async move {
            let mut tally = Tally::new();
            while pace.go_on(instant()) {
                tally.answered(Duration::from_micros(5));
                tokio::task::yield_now().await;
            }
            tally
        };
        let (_, tally) = gather(&pace, (0..3).map(|_| worker(Arc::clone(&pace)))).await;
        let row =
            super::super::tally::Row::new("x", Default::default(), Duration::from_secs(1), &tally);
        assert_eq!(serde_json::to_value(row).unwrap()["operations"], 10);
    }

    #[test]
    fn time_and_a_request_to_stop_end_a_measurement() {
        let stop = Arc::new(AtomicBool::new(false));
        let pace = Pace::start(Measure::For(Duration::from_secs(3600)), &stop);
        assert!(pace.go_on(pace.started));
        assert!(!pace.go_on(pace.started + Duration::from_secs(3600)));
        stop.store(true, Ordering::Relaxed);
        assert!(!pace.go_on(pace.started));
    }

    #[test]
    fn a_failure_is_read_from_the_answer_of_a_stream() {
        let encoded = |outcome| {
            Bytes::from(
                AppendEventStreamResponse { index: 3, outcome: Some(outcome) }.encode_to_vec(),
            )
        };
        let appended = AppendEventResponse { replayed: true, ..AppendEventResponse::default() };
        assert_eq!(failure_of(&encoded(Outcome::Appended(appended))), None);
        let failure = AppendFailure { code: 5, reason: "R".to_owned(), message: "m".to_owned() };
        assert_eq!(failure_of(&encoded(Outcome::Failure(failure.clone()))), Some(failure));
        assert!(failure_of(&Bytes::from_static(b"\xff")).is_some());
    }
}
