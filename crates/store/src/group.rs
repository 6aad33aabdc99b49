//! Group commit: the requests that wait are loaded, decided one after the other, and committed in one transaction.
//!
//! Every store commits through here. What a backend adds is how it loads, applies and commits.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{self, Duration},
};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};
use tracing::{debug, error};

use super::{Notifier, RequestContext, instant, spans};
use sessiond_core::{
    commit::{
        Answer, Appended, ChangeSet, ReadSet, Refusal, Request, WorkingSet, decide, read_set,
    },
    domain::error::{Cause, Error},
};
use sessiond_metrics::WriteMetrics;

/// Times that a group is loaded and decided, as long as transactions of others are in the way.
const ATTEMPTS: u32 = 30;

/// Milliseconds that a group waits before it is loaded again, at most. It waits a random part of a time that doubles with each attempt.
const BACKOFF_MILLIS: u64 = 100;

/// Bytes of bodies and deltas after which a commit takes no further write, so that the first one's answer does not wait noticeably for
/// the last one.
pub const GROUP_BYTES: usize = 8 << 20;

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

    /// Begins a transaction and loads what requests need, and the time. An error means that nothing was begun.
    fn load(&mut self, needs: &[ReadSet<'_>]) -> impl Future<Output = Result<(), Failure>>;

    /// Writes the rows of a change set, and makes them durable. Returns when that began; `None`: nothing is durable.
    /// [`Error::OutcomeUnknown`] if they may be durable.
    fn commit(
        &mut self,
        changes: &ChangeSet,
    ) -> impl Future<Output = Result<Option<time::Instant>, Failure>>;

    /// Ends the transaction without any change, and forgets what was loaded if `changed`: decisions were merged into it.
    fn roll_back(&mut self, changed: bool) -> impl Future<Output = ()>;
}

/// A request that waits for its commit.
#[derive(Debug)]
pub struct Submission {
    pub context: RequestContext,
    pub request: Request,
    pub reply: oneshot::Sender<Result<Answer, Error>>,
}

impl Submission {
    /// Answers, as the last thing: the thread that this wakes often waits for the processor until this one sleeps. The caller may have
    /// gone.
    fn answer(self, answer: Result<Answer, Error>) {
        let Self { context, request, reply } = self;
        drop((context, request));
        drop(reply.send(answer));
    }
}

/// Counts what became of requests, and answers them.
fn answer_all(metrics: &WriteMetrics, answered: Decided) {
    for (submission, answer) in &answered {
        count(metrics, &submission.request, answer);
    }
    answered.into_iter().for_each(|(submission, answer)| submission.answer(answer));
}

/// Refuses the requests that need space. Returns their number.
pub fn refuse_without_space(metrics: &WriteMetrics, group: &mut Vec<Submission>) -> u64 {
    let needs_space =
        |it: &mut Submission| !matches!(it.request, Request::Delete(_) | Request::Sweep);
    let refused: Vec<_> = group.extract_if(.., needs_space).collect();
    let count = refused.len() as u64;
    refuse(metrics, refused, &Error::DiskFull);
    count
}

/// Answers requests that were not executed.
pub fn refuse(
    metrics: &WriteMetrics,
    submissions: impl IntoIterator<Item = Submission>,
    error: &Error,
) {
    let refused = submissions.into_iter().map(|submission| (submission, Err(error.clone())));
    answer_all(metrics, refused.collect());
}

fn count(metrics: &WriteMetrics, request: &Request, answer: &Result<Answer, Error>) {
    let is_append = matches!(request, Request::Append(_));
    let appends = u64::from(is_append);
    match answer {
        Ok(Answer::Appended(Appended { info, events, request_replayed, .. })) => {
            let replayed = events.iter().filter(|it| it.replayed).count() as u64;
            metrics.events.inc_by(events.len() as u64 - replayed);
            metrics.replayed_events.inc_by(replayed);
            metrics.replayed_requests.inc_by(u64::from(*request_replayed));
            let is_replay = *request_replayed || replayed == events.len() as u64;
            if is_replay { &metrics.replayed } else { &metrics.committed }.inc_by(appends);
            if is_append {
                metrics.append_of(&info.key.app_name);
            }
        }
        Ok(Answer::StateUpdated(updated)) => {
            metrics.replayed_requests.inc_by(u64::from(updated.replayed));
        }
        Ok(_) => {}
        Err(Error::Conflict { sequence, keys }) => {
            metrics.sequence_conflicts.inc_by(u64::from(sequence.is_some()));
            metrics.key_conflicts.inc_by(u64::from(!keys.is_empty()));
            metrics.refused.inc_by(appends);
        }
        Err(Error::ExpiredInQueue) => metrics.expired.inc_by(appends),
        Err(
            Error::StoreUnavailable(_)
            | Error::OutcomeUnknown(_)
            | Error::DiskFull
            | Error::FileLost
            | Error::Damaged(..)
            | Error::Internal(_),
        ) => metrics.failed.inc_by(appends),
        Err(_) => metrics.refused.inc_by(appends),
    }
}

/// Executes a group and answers its requests, except for one that has to be loaded again and those behind it: they are left in
/// `group`, for the next one. The error is that of a transaction that failed.
pub async fn execute<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    notifier: &Notifier,
    metrics: &WriteMetrics,
) -> Result<(), Error> {
    let mut attempt = 0;
    loop {
        attempt += 1;
        let began = instant();
        expire(group, began, metrics);
        if group.is_empty() {
            return Ok(());
        }
        let executed = execute_once(backend, group, notifier, metrics).await;
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
) -> Result<(), Failure> {
    let began = take_sampled(group);
    let needed: Vec<ReadSet<'_>> =
        group.iter().map(|submission| read_set(&submission.request)).collect();
    let loaded = backend.load(&needed).await;
    drop(needed);
    match loaded {
        Ok(()) => {}
        Err(Failure::Error(Error::Damaged(..))) if group.len() > 1 => {
            let together = group.len();
            return execute_alone(backend, group, together, notifier, metrics).await;
        }
        Err(Failure::Error(error)) => {
            refuse(metrics, group.drain(..), &error);
            return Err(error.into());
        }
        Err(again) => return Err(again),
    }
    let mut changes = ChangeSet::default();
    let (decided, panicked) = decide_all(backend, group, &mut changes);
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
            execute_alone(backend, group, together, notifier, metrics).await
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

/// Requests with their answers, in the order in which they were decided.
type Decided = Vec<(Submission, Result<Answer, Error>)>;

/// Decides the requests of a group one after the other, and collects their changes. One that has to be loaded again stays in `group` with
/// those behind it. The second result is the request whose decision panicked, with those behind it still in `group`.
fn decide_all<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    changes: &mut ChangeSet,
) -> (Decided, Option<Submission>) {
    let mut decided = Vec::with_capacity(group.len());
    let mut waiting = std::mem::take(group).into_iter();
    let mut panicked = None;
    for submission in waiting.by_ref() {
        let Submission { context, request, .. } = &submission;
        let decision = catch_unwind(AssertUnwindSafe(|| {
            decide(backend.loaded(), changes, request, context.trace_id)
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
        decided.push((submission, answer));
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

/// Executes the first requests of a group one by one, in their order: the damage that one of them has met is not the others'. Another
/// failure may be that of the database, so that those behind it are left.
async fn execute_alone<B: Backend>(
    backend: &mut B,
    group: &mut Vec<Submission>,
    count: usize,
    notifier: &Notifier,
    metrics: &WriteMetrics,
) -> Result<(), Failure> {
    for _ in 0..count {
        let mut alone = vec![group.remove(0)];
        match Box::pin(execute(backend, &mut alone, notifier, metrics)).await {
            Ok(()) => {}
            Err(error @ Error::Damaged(..)) => error!(%error, "a write failed"),
            Err(error) => return Err(error.into()),
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
