//! One call to the server: within its deadline, repeated while nobody is there.

use std::{error::Error, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Request, Response, Status, TimeoutExpired, transport::Channel};

use crate::connect::{Patience, Retry};

/// What a deadline is cut to, so that adding it to the clock cannot fail.
const LONGEST_DEADLINE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The channel, and the patience with which calls go over it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub channel: Channel,
    pub patience: Patience,
}

/// A call that failed for good.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub kind: Kind,
    /// How often it was tried. Where that was more than once, an earlier attempt may have been carried out.
    pub attempts: u32,
}

/// What comes of a call.
pub(crate) type Answer<A> = Result<A, Failure>;

/// Who says that a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server, with its status.
    Refused,
    /// This side: no connection, or none any more. It may have been carried out.
    Lost,
    /// The clock. It may have been carried out.
    Late,
}

impl Caller {
    /// Sends `question` until it is answered, refused, or there is no more patience.
    pub async fn call<Q, A, F>(
        &self,
        question: &Q,
        send: impl Fn(Channel, Request<Q>) -> F,
    ) -> Answer<A>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let Patience { deadline, retry } = self.patience;
        let ends = Instant::now() + deadline.min(LONGEST_DEADLINE);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut request = Request::new(question.clone());
            // The server stops working on what nobody waits for.
            request.set_timeout(ends.saturating_duration_since(Instant::now()));
            let (status, kind) = match timeout_at(ends, send(self.channel.clone(), request)).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => {
                    let kind = kind(&status);
                    (status, kind)
                }
                Err(_) => (Status::deadline_exceeded("no answer in time"), Kind::Late),
            };
            let pause = pause(&retry, attempts, fastrand::f64());
            if !may_be_repeated(kind, &status)
                || attempts >= retry.attempts
                || Instant::now() + pause >= ends
            {
                return Err(Failure { status, kind, attempts });
            }
            tracing::debug!(attempts, ?pause, %status, "sessiond did not answer; trying again");
            sleep(pause).await;
        }
    }
}

/// Who made a status. Those of this side carry what went wrong as their source; those of the server cannot.
pub(crate) fn kind(status: &Status) -> Kind {
    let mut cause = status.source();
    if cause.is_some() {
        while let Some(error) = cause {
            if error.is::<TimeoutExpired>() {
                return Kind::Late;
            }
            cause = error.source();
        }
        return Kind::Lost;
    }
    match status.code() {
        // The server's own clock, which was told the deadline, may be the faster one.
        Code::DeadlineExceeded | Code::Cancelled => Kind::Late,
        _ => Kind::Refused,
    }
}

/// Whether nobody was there to answer.
pub(crate) fn may_be_repeated(kind: Kind, status: &Status) -> bool {
    kind == Kind::Lost || (kind == Kind::Refused && status.code() == Code::Unavailable)
}

/// The pause after attempt `attempts`, from 1, shortened by `random` (0 to 1) of its half.
pub(crate) fn pause(retry: &Retry, attempts: u32, random: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
    let full = retry.first_pause.saturating_mul(doubled).min(retry.longest_pause);
    full.mul_f64(1.0 - random / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_their_bound_and_are_shortened_by_a_half_at_most() {
        let retry = Retry::default();
        for (attempts, millis) in
            [(1, 50), (2, 100), (3, 200), (5, 800), (6, 1000), (40, 1000), (u32::MAX, 1000)]
        {
            let full = Duration::from_millis(millis);
            assert_eq!(pause(&retry, attempts, 0.0), full);
            assert_eq!(pause(&retry, attempts, 1.0), full / 2);
        }
    }

    #[test]
    fn a_status_of_the_server_is_a_refusal_whatever_its_code() {
        for code in [Code::NotFound, Code::Unavailable, Code::Unknown, Code::Internal] {
            assert_eq!(kind(&Status::new(code, "")), Kind::Refused);
        }
        assert_eq!(kind(&Status::deadline_exceeded("")), Kind::Late);
        assert_eq!(kind(&Status::cancelled("")), Kind::Late);
    }

    #[test]
    fn a_status_with_a_cause_was_made_on_this_side() {
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(kind(&Status::from_error(Box::new(broken))), Kind::Lost);
        assert_eq!(kind(&Status::from_error(Box::new(TimeoutExpired(())))), Kind::Late);
    }
}
