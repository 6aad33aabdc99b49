//! Group commit: the requests that wait are loaded, decided one after the other, and committed in one transaction.
//!
//! Every store commits through here. What a backend adds is how it loads, applies and commits. A group is bounded by what its requests
//! cost, not by what they weigh: it ends, commits and leaves the others when its [budget](Budget) is spent.

mod budget;
mod submission;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{self, Duration},
};

use tokio::time::{Instant, sleep};
use tracing::{debug, error};

use super::{CallerId, Notifier, instant, spans};
pub use budget::{Budget, GROUP_BYTES};
use sessiond_core::{
    commit::{ChangeSet, ReadSet, Refusal, WorkingSet, decide, read_set},
    domain::error::{Cause, Error},
};
use sessiond_metrics::WriteMetrics;
use submission::{Decided, answer_all};
pub use submission::{Submission, put_back, refuse, refuse_without_space};

/// Times that a group is loaded and decided, as long as transactions of others are in the way.
const ATTEMPTS: u32 = 30;

/// Milliseconds that a group waits before it is loaded again, at most. It waits a random part of a time that doubles with each attempt.
const BACKOFF_MILLIS: u64 = 100;

/// Why a transaction did not happen.
#[derive(Debug)]
pub enum Failure {
    /// What was loaded is old by now, or a transaction of another process was in the way: load and decide again.
    Again(Cause),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The operations that group commit needs of a database. One that no other process writes to never answers [`Failure::Again`].
pub trait Backend {
    /// The data loaded so far.
    fn loaded(&mut self) -> &mut WorkingSet;

    /// Begins a transaction and loads the time, and what the first of some requests need: as many as a [`Budget`] allows. Returns their
    /// number, which is not 0. An error means that nothing was begun.
    fn load(&mut self, needs: &[ReadSet<'_>]) -> impl Future<Output = Result<usize, Failure>>;

    /// Writes the rows of a change set, and makes them durable. Returns when that began; `None`: nothing is durable.
    /// [`Error::OutcomeUnknown`] if they may be durable.
    fn commit(
        &mut self,
        changes: &ChangeSet,
    ) -> impl Future<Output = Result<Option<time::Instant>, Failure>>;

    /// Ends the transaction without any change, and forgets what was loaded if `changed`: decisions were merged into it.
    fn roll_back(&mut self, changed: bool) -> impl Future<Output = ()>;
}

/// Charges a caller with what a request has cost beyond its own bytes.
pub type ChargeCaller<'c> = dyn Fn(CallerId, usize) + Sync + 'c;

/// Executes a group and answers its requests, except for those that do not fit into its budget, or one that has to be loaded again, and
/// those behind them: they are left in `group`, for the next one. The error is that of a transaction that failed.
pub async fn execute<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    notifier: &Notifier,
    metrics: &WriteMetrics,
    charge: &ChargeCaller<'_>,
) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let began = instant();
        expire(group, began, metrics);
        if group.is_empty() {
            return Ok(());
        }
        let executed = execute_once(backend, group, notifier, metrics, charge).await;
        metrics.group_duration.observe(began.elapsed().as_secs_f64());
        match executed {
            Ok(()) => return Ok(()),
            Err(Failure::Error(error)) => return Err(error),
            Err(Failure::Again(cause)) if attempt == ATTEMPTS => {
                let error = Error::StoreUnavailable(cause);
                refuse(metrics, group.drain(..), &error);
                return Err(error);
            }
            Err(Failure::Again(cause)) => {
                metrics.retries.inc();
                debug!(attempt, %cause, "a group of writes is decided again");
                let millis = BACKOFF_MILLIS.min(1 << attempt.min(16));
                sleep(Duration::from_micros(fastrand::u64(0..millis * 1000))).await;
            }
        }
    }
}

/// As [`execute`]. A group that has to be decided again is left as it was.
async fn execute_once<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    notifier: &Notifier,
    metrics: &WriteMetrics,
    charge: &ChargeCaller<'_>,
) -> Result<(), Failure> {
    let began = take_sampled(group);
    let needed: Vec<ReadSet<'_>> =
        group.iter().map(|submission| read_set(&submission.request)).collect();
    let loaded = backend.load(&needed).await;
    drop(needed);
    let count = match loaded {
        Ok(count) => count,
        Err(Failure::Error(Error::Damaged(..))) if group.len() > 1 => {
            let together = group.len();
            return execute_alone(backend, group, together, (notifier, metrics), charge).await;
        }
        Err(Failure::Error(error)) => {
            refuse(metrics, group.drain(..), &error);
            return Err(error.into());
        }
        Err(again) => return Err(again),
    };
    let mut changes = ChangeSet::default();
    let (decided, panicked) = decide_all(backend, group, count, &mut changes, charge);
    if let Some(submission) = panicked {
        backend.roll_back(true).await;
        return Err(refuse_all(metrics, submission, decided).into());
    }
    let committed = commit(backend, &changes, metrics).await;
    note_commit(began, &decided, &committed);
    match committed {
        Err(Failure::Again(cause)) => {
            group.splice(..0, decided.into_iter().map(|(submission, _)| submission));
            Err(Failure::Again(cause))
        }
        Err(Failure::Error(Error::Damaged(..))) if decided.len() > 1 => {
            let together = decided.len();
            group.splice(..0, decided.into_iter().map(|(submission, _)| submission));
            execute_alone(backend, group, together, (notifier, metrics), charge).await
        }
        Err(Failure::Error(error)) => {
            answer_group(metrics, decided, Some(&error));
            Err(error.into())
        }
        Ok(_) => {
            notifier.wake(&changes);
            // Before the answers, for the reason that `Submission::answer` tells.
            drop(changes);
            backend.loaded().end_group();
            answer_group(metrics, decided, None);
            Ok(())
        }
    }
}

/// Decides the first requests of a group, those that are loaded, one after the other, and collects their changes. Those for which the
/// budget is spent, or one that has to be loaded again, stay in `group` with those behind them. The second result is the request whose
/// decision panicked, with those behind it still in `group`.
fn decide_all<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    loaded: usize,
    changes: &mut ChangeSet,
    charge: &ChargeCaller<'_>,
) -> (Decided, Option<Submission>) {
    let mut decided = Vec::with_capacity(loaded);
    let mut waiting = std::mem::take(group).into_iter();
    let (mut budget, mut panicked) = (Budget::default(), None);
    for submission in waiting.by_ref().take(loaded) {
        let Submission { context, request, .. } = &submission;
        // Its answer would be buffered beside those that its client has not taken.
        if let Err(full) = context.account.check()
            && request.has_long_answer()
        {
            decided.push((submission, Err(full)));
            continue;
        }
        let mut work = 0;
        let decision = catch_unwind(AssertUnwindSafe(|| {
            decide(backend.loaded(), changes, request, context.trace_id, &mut work)
        }));
        let answer = match decision {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Refusal::Error(error))) => Err(error),
            // Nothing was changed since it was loaded: loading again would not help.
            Ok(Err(Refusal::LoadAgain)) if changes.is_empty() => {
                Err(Error::internal("a request's needs were not loaded"))
            }
            // Those behind it wait as well, so that writes take effect in the order in which they came.
            Ok(Err(Refusal::LoadAgain)) => {
                group.push(submission);
                break;
            }
            Err(_) => {
                panicked = Some(submission);
                break;
            }
        };
        context.work.add(work);
        if work > 0 {
            charge(context.caller, work);
        }
        let goes_on = budget.spend(work + request.bytes());
        decided.push((submission, answer));
        if !goes_on {
            break;
        }
    }
    group.extend(waiting);
    (decided, panicked)
}

/// Answers a group that is rolled back because the decision of one request panicked.
fn refuse_all(metrics: &WriteMetrics, panicked: Submission, decided: Decided) -> Error {
    error!("a decision panicked, rolling back its group");
    let failure = Error::internal("a decision panicked");
    refuse(metrics, [panicked], &failure);
    // The fault is not theirs: the same requests may be sent again.
    let undecided = Error::StoreUnavailable(Cause::new(failure.clone()));
    refuse(metrics, decided.into_iter().map(|(submission, _)| submission), &undecided);
    failure
}

/// Answers a group as decided, or with the error of its commit.
fn answer_group(metrics: &WriteMetrics, mut decided: Decided, error: Option<&Error>) {
    if !decided.is_empty() {
        metrics.group_requests.observe(decided.len() as f64);
    }
    if let Some(error) = error {
        decided.iter_mut().for_each(|(_, answer)| *answer = Err(error.clone()));
    }
    answer_all(metrics, decided);
}

/// Notes the commit in the spans of the sampled calls of a group.
fn note_commit(
    began: Option<time::Instant>,
    decided: &Decided,
    committed: &Result<Option<time::Instant>, Failure>,
) {
    let Some(began) = began else { return };
    let period = began..spans::now();
    let flush = committed.as_ref().ok().copied().flatten();
    let sampled = decided.iter().filter_map(|(submission, _)| submission.context.spans.as_ref());
    sampled.for_each(|spans| spans.committed(period.clone(), flush));
}

/// Executes the first requests of a group one by one, in their order, for as long as a group may take: the damage that one of them has
/// met is not the others'. Another failure may be that of the database, so that those behind it are left.
async fn execute_alone<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    count: usize,
    (notifier, metrics): (&Notifier, &WriteMetrics),
    charge: &ChargeCaller<'_>,
) -> Result<(), Failure> {
    let mut budget = Budget::default();
    for _ in 0..count {
        let mut alone = vec![group.remove(0)];
        match Box::pin(execute(backend, &mut alone, notifier, metrics, charge)).await {
            Ok(()) => {}
            Err(error @ Error::Damaged(..)) => error!(%error, "a write failed"),
            Err(error) => return Err(error.into()),
        }
        if !budget.spend(0) {
            break;
        }
    }
    Ok(())
}

/// Notes that the sampled calls of a group no longer wait. The time, if there are any.
fn take_sampled(group: &[Submission]) -> Option<time::Instant> {
    let sampled = || group.iter().filter_map(|submission| submission.context.spans.as_ref());
    sampled().next()?;
    let now = spans::now();
    sampled().for_each(|spans| spans.taken(now));
    Some(now)
}

/// As [`Backend::commit`], which is not called if nothing changed.
async fn commit<B: Backend>(
    backend: &mut B,
    changes: &ChangeSet,
    metrics: &WriteMetrics,
) -> Result<Option<time::Instant>, Failure> {
    if changes.is_empty() {
        backend.roll_back(false).await;
        return Ok(None);
    }
    let began = instant();
    let committed = backend.commit(changes).await;
    metrics.commit_duration.observe(began.elapsed().as_secs_f64());
    if committed.is_err() {
        backend.roll_back(true).await;
    }
    committed
}

/// Drops the submissions whose callers have stopped waiting: their deadline has passed, or their client has left.
fn expire(group: &mut Vec<Submission>, now: Instant, metrics: &WriteMetrics) {
    let expired = group.extract_if(.., |submission| submission.context.is_expired(now));
    refuse(metrics, expired, &Error::ExpiredInQueue);
    group.retain(|submission| !submission.reply.is_closed());
}

/// An error of a store whose worker ended before it answered.
pub fn abandoned() -> Error {
    Error::OutcomeUnknown(Cause::new("the store's worker ended before it answered"))
}
