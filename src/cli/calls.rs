//! Calls that outlast a restart of the server, and requests and pages that several commands share.

use std::time::Duration;

use tonic::{Request, Response, Status};

use super::{
    args::{JSON_FORM, MAX_PAGE},
    connect::Server,
    failure::Failure,
};
use crate::proto::v1;

/// How often [`retry`] sends a call.
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
                tokio::time::sleep(wait.max(failure.retry_delay().unwrap_or_default())).await;
            }
            outcome => return outcome.map(Response::into_inner),
        }
        wait *= 2;
        attempt += 1;
    }
}

/// A call in the trace of an exported event, which the server then keeps for the event. It is not sampled. An empty id is no trace.
pub fn in_trace<T>(message: T, trace_id: &str) -> Request<T> {
    let mut request = Request::new(message);
    // The span from which the event was appended is not known.
    let parent = format!("00-{trace_id}-0000000000000001-00").parse();
    if let (false, Ok(parent)) = (trace_id.is_empty(), parent) {
        request.metadata_mut().insert("traceparent", parent);
    }
    request
}

/// The items of every page. `fetch` takes a page's token, which is empty for the first one, and returns its items with the next token.
pub async fn all_pages<T>(
    mut fetch: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Failure>,
) -> Result<Vec<T>, Failure> {
    let (mut items, mut token) = fetch(String::new()).await?;
    while !token.is_empty() {
        let (more, next) = fetch(token).await?;
        items.extend(more);
        token = next;
    }
    Ok(items)
}

pub async fn users_page(
    server: &Server,
    app_name: &str,
    page_token: String,
) -> Result<(Vec<String>, String), Failure> {
    let app_name = app_name.to_owned();
    let request = v1::ListUsersRequest { app_name, page_size: MAX_PAGE, page_token };
    let page = retry(async || server.admin().list_users(request.clone()).await).await?;
    Ok((page.users.into_iter().map(|user| user.user_id).collect(), page.next_page_token))
}

/// Asks for the sessions of an application or, if it is not empty, of one user; the newest first.
pub fn sessions_request(app_name: &str, user_id: &str) -> v1::ListSessionsRequest {
    v1::ListSessionsRequest {
        app_name: app_name.to_owned(),
        user_id: user_id.to_owned(),
        order: v1::SessionOrder::LastEventTimeDesc.into(),
        page_size: MAX_PAGE,
        json_form: JSON_FORM,
        ..Default::default()
    }
}

pub async fn sessions_page(
    server: &Server,
    request: v1::ListSessionsRequest,
) -> Result<(Vec<v1::SessionKey>, String), Status> {
    let page = server.sessions().list_sessions(request).await?.into_inner();
    let keys = page.sessions.into_iter().filter_map(|session| session.key);
    Ok((keys.collect(), page.next_page_token))
}

/// The user of a session key, or its application if it names no user.
pub fn shared_scope(key: &v1::SessionKey) -> v1::Scope {
    let (app_name, user_id) = (key.app_name.clone(), key.user_id.clone());
    v1::Scope { app_name, user_id, session_id: String::new() }
}

pub fn get_request(key: &v1::SessionKey) -> v1::GetSessionRequest {
    v1::GetSessionRequest { key: Some(key.clone()), json_form: JSON_FORM, ..Default::default() }
}

/// Calls `each` with the events of an answer, then with those that did not fit into it. Returns the session.
pub async fn for_each_event(
    server: &Server,
    answer: v1::GetSessionResponse,
    selection: Option<v1::EventSelection>,
    mut each: impl FnMut(v1::Event) -> Result<(), Failure>,
) -> Result<v1::Session, Failure> {
    let session = answer.session.unwrap_or_default();
    answer.events.into_iter().try_for_each(&mut each)?;
    let mut request = v1::ListEventsRequest {
        key: session.key.clone(),
        page_size: MAX_PAGE,
        page_token: answer.next_page_token,
        selection,
        json_form: JSON_FORM,
        ..Default::default()
    };
    while !request.page_token.is_empty() {
        let page = retry(async || server.events().list_events(request.clone()).await).await?;
        page.events.into_iter().try_for_each(&mut each)?;
        request.page_token = page.next_page_token;
    }
    Ok(session)
}

#[cfg(test)]
mod tests {
    use tonic::Code;
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

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
}
