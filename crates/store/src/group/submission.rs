//! Requests that wait for their commit, and what became of them.

use tokio::sync::oneshot;

use crate::{RequestContext, queue::Queue};
use sessiond_core::{
    commit::{Answer, Appended, Request},
    domain::error::Error,
};
use sessiond_metrics::WriteMetrics;

/// Requests with their answers, in the order in which they were decided.
pub(super) type Decided = Vec<(Submission, Result<Answer, Error>)>;

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
        context.account.note(answer.as_ref().map_or(0, Answer::bytes));
        drop((context, request));
        drop(reply.send(answer));
    }
}

/// Gives back what a group has left: it waits again, first of its callers' and in its order, so that the next group begins with the turns
/// of others.
pub fn put_back(queue: &Queue<Submission>, group: &mut Vec<Submission>) {
    for submission in group.drain(..).rev() {
        let (caller, bytes) = (submission.context.caller, submission.request.bytes());
        queue.put_back(caller, submission, bytes);
    }
}

/// Counts what became of requests, and answers them.
pub(super) fn answer_all(metrics: &WriteMetrics, answered: Decided) {
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
