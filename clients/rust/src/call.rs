//! One call to the server: within its deadline, repeated as the call policy says.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Request, Response, Status, transport::Channel};

use crate::{
    affinity::{Owned, affinity},
    channels::Channels,
    failure::{Failure, Kind},
    metadata::CallMetadata,
    observe::observe,
    policy::CallPolicy,
};

/// Longer deadlines are cut to this, so that adding one to the clock cannot overflow.
const LONGEST_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub channels: Arc<Channels>,
    pub policy: CallPolicy,
    pub metadata: CallMetadata,
    pub outage: Outage,
}

/// Logs an outage of the server twice, however many calls it affects: when the first call is retried, and when the next one
/// succeeds. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outage(Arc<AtomicBool>);

impl Outage {
    pub fn retrying(&self, failure: &Failure) {
        if self.begins(failure) {
            observe(
                || tracing::warn!(status = %failure.status, "sessiond is unavailable, retrying"),
            );
        }
    }

    pub fn succeeded(&self) {
        if self.ends() {
            observe(|| tracing::warn!("connected to sessiond again"));
        }
    }

    /// A busy server is no outage.
    fn begins(&self, failure: &Failure) -> bool {
        let unavailable =
            failure.kind == Kind::ConnectionLost || failure.status.code() == Code::Unavailable;
        unavailable && !self.0.swap(true, Ordering::Relaxed)
    }

    fn ends(&self) -> bool {
        self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed)
    }
}

pub(crate) type CallResult<A> = Result<A, Failure>;

impl Caller {
    /// Sends `request` until it succeeds, fails for good, or the attempts or the time are used up.
    pub async fn call<Q, A, F>(
        &self,
        request: &Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> CallResult<A>
    where
        Q: Clone + Owned,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        self.call_unless(|_| false, request, send).await
    }

    /// The same, but a failure that is `handled` by the caller is not repeated, even if it is retryable.
    pub async fn call_unless<Q, A, F>(
        &self,
        handled: impl Fn(&Failure) -> bool,
        request: &Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> CallResult<A>
    where
        Q: Clone + Owned,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let CallPolicy { deadline, absence, retry } = self.policy;
        let begun = Instant::now();
        let end = begun + deadline.min(LONGEST_DEADLINE);
        let time_left = || end.saturating_duration_since(Instant::now());
        let hint = affinity(request);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut attempt = self.metadata.hinted(request.clone(), hint.as_ref());
            // The server drops calls that nobody waits for any more.
            attempt.set_timeout(time_left());
            let failure = match timeout_at(end, send(self.channels.first(), attempt)).await {
                Ok(Ok(response)) => {
                    self.outage.succeeded();
                    return Ok(response.into_inner());
                }
                Ok(Err(status)) => Failure::new(status, attempts),
                Err(_) => Failure::new(Status::deadline_exceeded("no answer in time"), attempts),
            };
            let pause = pause(&self.policy, &failure);
            let is_away = failure.is_absent() && begun.elapsed() + pause >= absence;
            let is_last = attempts >= retry.attempts || pause >= time_left() || is_away;
            if is_last || !failure.is_retryable() || handled(&failure) {
                return Err(failure);
            }
            self.outage.retrying(&failure);
            observe(
                || tracing::debug!(attempts, ?pause, status = %failure.status, "call failed, retrying"),
            );
            sleep(pause).await;
        }
    }
}

/// The pause before the next attempt, at least what the server asks for.
pub(crate) fn pause(policy: &CallPolicy, failure: &Failure) -> Duration {
    let pause = policy.retry.pause(failure.attempts, fastrand::f64());
    pause.max(failure.retry_delay().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_once_and_ends_once_for_all_clones() {
        let outage = Outage::default();
        let gone = Failure::new(Status::unavailable("gone"), 1);
        assert!(!outage.ends());
        for _ in 0..2 {
            let clone = outage.clone();
            assert!(!outage.begins(&Failure::new(Status::resource_exhausted("busy"), 1)));
            assert!(outage.begins(&gone));
            assert!(!clone.begins(&gone) && !outage.begins(&gone));
            assert!(clone.ends());
            assert!(!outage.ends());
        }
    }
}
