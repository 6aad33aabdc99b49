//! Repeats calls while the server is unavailable.

use std::time::Duration;

use tonic::{Response, Status};

use super::failure::Failure;

/// How often a call is sent.
const ATTEMPTS: u32 = 6;
/// The wait before the second attempt. It doubles each time, so that all of them outlast a restart of the server.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Calls until it succeeds or fails for good. Every call of an import has an event or request id or changes nothing,
/// so it may be repeated.
pub async fn retry<T>(
    mut call: impl AsyncFnMut() -> Result<Response<T>, Status>,
) -> Result<T, Failure> {
    let mut wait = FIRST_WAIT;
    let mut attempt = 1;
    loop {
        match call().await.map_err(Failure::from) {
            Err(failure) if failure.is_retryable() && attempt < ATTEMPTS => {
                tokio::time::sleep(wait).await;
            }
            outcome => return outcome.map(Response::into_inner),
        }
        wait *= 2;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = Result<Response<u32>, Status>;

    async fn attempts(answers: &[fn() -> Answer]) -> (usize, Result<u32, Failure>) {
        let mut sent = 0;
        let outcome = retry(async || {
            let answer = answers[sent.min(answers.len() - 1)];
            sent += 1;
            answer()
        });
        let outcome = outcome.await;
        (sent, outcome)
    }

    fn away() -> Answer {
        Err(Status::unavailable("draining"))
    }

    fn refused() -> Answer {
        Err(Status::aborted("conflict"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_repeated_until_the_server_is_back() {
        let (sent, outcome) = attempts(&[away, away, || Ok(Response::new(7))]).await;
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
