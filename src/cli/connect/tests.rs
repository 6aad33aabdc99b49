//! Addresses, pages, and calls that are repeated.

mod late_answers;

use tonic::Code;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::*;

#[test]
fn every_form_of_an_address_is_understood() {
    for (text, address) in [
        ("localhost:50051", "http://localhost:50051"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
        ("[::1]:50051", "http://[::1]:50051"),
        ("http://db.internal:80", "http://db.internal:80"),
        ("https://db.internal:443", "https://db.internal:443"),
        ("unix:/run/s.sock", "unix:/run/s.sock"),
        ("unix:///run/s.sock", "unix:///run/s.sock"),
        ("", DEFAULT_SERVER),
    ] {
        let parsed = parse_address(text);
        assert_eq!(parsed.as_deref(), Ok(address));
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_forms_that_are() {
    for text in ["localhost", "unix:", "unix://", "ftp://h:1", ":1", "a b:1", "h:99999999"] {
        let error = parse_address(text).unwrap_err();
        assert!(error.contains("HOST:PORT"), "{text}: {error}");
    }
}

#[tokio::test]
async fn a_connection_that_fails_is_one_sentence_with_the_address() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("unix:{}", dir.path().join("none.sock").display());
    let timeout = Duration::from_secs(1);
    let (tls, token) = (TlsArgs::default(), TokenArgs::default());
    let args = ConnectArgs { server: path.clone(), timeout, tls, token, output: None };
    let text = Server::connect(&args).await.unwrap_err().text();
    assert!(text.starts_with(&format!("cannot connect to {path}: ")), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[tokio::test]
async fn all_pages_are_fetched_in_order() {
    let pages = [("", vec![1, 2], "a"), ("a", vec![], "b"), ("b", vec![3], "")];
    let mut left = pages.iter();
    let items = all_pages(async |token| {
        let (expected, items, next) = left.next().unwrap();
        assert_eq!(token, *expected);
        Ok((items.clone(), (*next).to_owned()))
    });
    assert_eq!(items.await.unwrap(), [1, 2, 3]);
    assert!(left.next().is_none());
}

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

fn limited() -> Answer {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_secs(20)));
    details.set_error_info("RATE_LIMITED", "sessiond", [("retryable".into(), "yes".into())]);
    Err(Status::with_error_details(Code::ResourceExhausted, "too many", details))
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "the test measures paused time")]
async fn a_call_is_repeated_no_sooner_than_the_server_asks() {
    let began = tokio::time::Instant::now();
    let (sent, outcome) = attempts(&[limited, || Ok(Response::new(7))]).await;
    assert_eq!((sent, outcome.unwrap(), began.elapsed().as_secs()), (2, 7, 20));
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
