//! Calls that are safe to repeat, repeated while the server is away.

use std::time::Duration;

use crate::cli::failure::Failure;

/// How often a call is sent at most.
const ATTEMPTS: u32 = 6;
/// The wait before the second attempt; it doubles from one to the next, so that a restart of
/// the server fits in.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Calls until the answer is one that stays. Every call of an import has an id or changes
/// nothing, so that one that did arrive does no harm when it is repeated.
///
/// # Errors
///
/// The last failure, or the first that repeating cannot mend.
pub async fn retry<T>(mut call: impl AsyncFnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let mut wait = FIRST_WAIT;
    for _ in 1..ATTEMPTS {
        match call().await {
            Err(failure) if failure.is_transient() => tokio::time::sleep(wait).await,
            outcome => return outcome,
        }
        wait *= 2;
    }
    call().await
}

#[cfg(test)]
mod tests {
    use tonic::Status;

    use super::*;

    async fn attempts(answers: &[fn() -> Result<u32, Failure>]) -> (usize, Result<u32, Failure>) {
        let mut sent = 0;
        let outcome = retry(async || {
            let answer = answers[sent.min(answers.len() - 1)];
            sent += 1;
            answer()
        });
        let outcome = outcome.await;
        (sent, outcome)
    }

    fn away() -> Result<u32, Failure> {
        Err(Status::unavailable("draining").into())
    }

    fn refused() -> Result<u32, Failure> {
        Err(Status::aborted("conflict").into())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_the_server_is_back() {
        let (sent, outcome) = attempts(&[away, away, || Ok(7)]).await;
        assert_eq!((sent, outcome.unwrap()), (3, 7));
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_mended_is_not_repeated() {
        let (sent, outcome) = attempts(&[refused]).await;
        assert_eq!(sent, 1);
        assert!(outcome.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_at_some_point() {
        let (sent, outcome) = attempts(&[away]).await;
        assert_eq!(sent, 6);
        assert!(outcome.is_err());
    }
}
