//! Calls that begin at a fixed rate, whether or not earlier ones have been answered, as those of many independent clients do.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sessiond::{
    cli::{
        Server,
        bench::{Results, instant},
    },
    proto::v1::AppendEventRequest,
};
use tokio::{
    sync::Semaphore,
    time::{MissedTickBehavior, interval},
};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

/// How often the calls are begun that are due by then.
const TICK: Duration = Duration::from_millis(1);

/// Calls that wait for their first turn. More would delay the tasks that send and receive.
const STARTING: usize = 256;

/// Of a load on the server: making up for calls that are later would exceed the rate.
pub const LATEST: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy)]
pub struct Rate {
    pub per_second: f64,
    pub seconds: u64,
    /// After which the client of a call gives up.
    pub deadline: Duration,
    pub max_in_flight: usize,
    /// A call that is later than this is held back. `None`: it is begun all the same.
    pub latest: Option<Duration>,
}

impl Rate {
    /// The number of calls that should have begun after a time.
    fn due(&self, elapsed: Duration) -> u64 {
        let elapsed = elapsed.min(Duration::from_secs(self.seconds));
        (elapsed.as_secs_f64() * self.per_second) as u64
    }

    /// The number of calls that are too late after a time.
    fn late(&self, elapsed: Duration) -> u64 {
        self.latest.map_or(0, |latest| self.due(elapsed.saturating_sub(latest)))
    }
}

/// Calls by the reason of their refusal.
pub type Refused = BTreeMap<String, u64>;

type Outcomes = Mutex<(Results, Refused)>;

/// The outcome of the calls.
#[derive(Debug)]
pub struct Offered {
    /// Of the calls that succeeded within their deadline.
    pub results: Results,
    pub begun: u64,
    /// Calls that were due and not begun, because too many were in flight, or because the client was late.
    pub held_back: u64,
    /// All others.
    pub refused: Refused,
    pub seconds: f64,
}

impl Offered {
    pub fn goodput(&self) -> f64 {
        self.results.latencies.len() as f64 / self.seconds
    }

    pub fn millis_at(&self, quantile: f64) -> f64 {
        self.results.latencies.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Begins calls at the rate, each on the next connection, and waits for all of them.
pub async fn offer(servers: &[Server], calls: &[AppendEventRequest], rate: Rate) -> Offered {
    let outcomes = Arc::new(Mutex::new((Results::default(), Refused::new())));
    let permits = Arc::new(Semaphore::new(rate.max_in_flight));
    let starts = Arc::new(Semaphore::new(STARTING));
    let (started, last) = (instant(), Duration::from_secs(rate.seconds));
    let (mut begun, mut held_back) = (0, 0);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while started.elapsed() < last {
        ticks.tick().await;
        let elapsed = started.elapsed();
        let due = rate.due(elapsed);
        held_back = held_back.max(rate.late(elapsed).saturating_sub(begun));
        while begun + held_back < due {
            let Ok(start) = Arc::clone(&starts).try_acquire_owned() else { break };
            let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
                held_back = due - begun;
                break;
            };
            let at = begun as usize;
            let (server, call) =
                (servers[at % servers.len()].clone(), calls[at % calls.len()].clone());
            let outcomes = Arc::clone(&outcomes);
            begun += 1;
            tokio::spawn(async move {
                drop(start);
                let sent = instant();
                let outcome = send(&server, call, rate.deadline).await;
                record(&outcomes, outcome, sent.elapsed(), rate.deadline);
                drop(permit);
            });
        }
    }
    held_back = rate.due(last) - begun;
    // All permits are free again when the last call has ended.
    let _all = permits.acquire_many(u32::try_from(rate.max_in_flight).unwrap_or(u32::MAX)).await;
    let (results, refused) = mem::take(&mut *lock(&outcomes));
    Offered { results, refused, begun, held_back, seconds: rate.seconds as f64 }
}

/// Appends with a deadline, after which both sides give it up.
async fn send(
    server: &Server,
    append: AppendEventRequest,
    deadline: Duration,
) -> Result<(), Status> {
    let mut request = Request::new(append);
    request.set_timeout(deadline);
    server.events().append_event(request).await.map(drop).map_err(unsent)
}

/// The status of a call that was not sent because its connection ended: UNAVAILABLE, as for the calls that follow. The transport says
/// CANCELLED, which means that the client has given up.
fn unsent(status: Status) -> Status {
    match (status.code(), status.message()) {
        (Code::Cancelled, "operation was canceled") => {
            Status::unavailable("the connection ended before the call was sent")
        }
        _ => status,
    }
}

fn record(outcomes: &Outcomes, outcome: Result<(), Status>, latency: Duration, deadline: Duration) {
    let refusal = match outcome {
        Ok(()) if latency <= deadline => None,
        Ok(()) => Some("deadline".to_owned()),
        Err(status) => Some(reason(&status)),
    };
    let (results, refused) = &mut *lock(outcomes);
    match refusal {
        None => results.add(Ok(latency)),
        Some(reason) => *refused.entry(reason).or_default() += 1,
    }
}

fn lock(outcomes: &Outcomes) -> MutexGuard<'_, (Results, Refused)> {
    outcomes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server's reason; `deadline` if the client gave up, and the code of any other error.
fn reason(status: &Status) -> String {
    match status.get_details_error_info() {
        Some(info) => info.reason,
        None if matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded) => {
            "deadline".to_owned()
        }
        None => format!("{:?}", status.code()),
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn what_is_too_late_is_held_back_only_where_the_rate_is_a_load() {
        let deadline = Duration::from_secs(1);
        let latest = Some(Duration::from_millis(20));
        let load = Rate { per_second: 1000.0, seconds: 2, deadline, max_in_flight: 10, latest };
        let at = Duration::from_millis;
        assert_eq!([0, 10, 500, 9000].map(|millis| load.due(at(millis))), [0, 10, 500, 2000]);
        assert_eq!([0, 10, 500, 9000].map(|millis| load.late(at(millis))), [0, 0, 480, 2000]);
        assert_eq!(Rate { latest: None, ..load }.late(at(500)), 0);
    }

    #[test]
    fn a_call_that_was_not_sent_is_unavailable_and_one_that_was_given_up_is_not() {
        let ended = unsent(Status::cancelled("operation was canceled"));
        assert_eq!(ended.code(), Code::Unavailable);
        for status in [Status::cancelled("Timeout expired"), Status::internal("x")] {
            assert_eq!(unsent(status.clone()).code(), status.code());
        }
    }

    #[test]
    fn only_what_is_answered_in_time_is_goodput() {
        let outcomes = Mutex::new((Results::default(), Refused::new()));
        let (soon, late, deadline) =
            (Duration::from_millis(5), Duration::from_secs(2), Duration::from_secs(1));
        let details = ErrorDetails::with_error_info("RATE_LIMITED", "sessiond", []);
        let refused = Status::with_error_details(Code::ResourceExhausted, "too many", details);
        record(&outcomes, Ok(()), soon, deadline);
        record(&outcomes, Ok(()), late, deadline);
        record(&outcomes, Err(Status::cancelled("Timeout expired")), late, deadline);
        record(&outcomes, Err(Status::unavailable("gone")), soon, deadline);
        record(&outcomes, Err(refused), soon, deadline);
        let (results, refused) = outcomes.into_inner().unwrap();
        assert_eq!(results.latencies.len(), 1);
        let refused: Vec<_> =
            refused.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
        assert_eq!(refused, [("RATE_LIMITED", 1), ("Unavailable", 1), ("deadline", 2)]);
    }
}
