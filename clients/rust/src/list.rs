//! Lists of a user's sessions, and the end of all of them.

use std::collections::HashSet;

use adk_core::{AdkError, ErrorComponent, Result};
use adk_session::Session;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    call::{Answer, Caller},
    error::unexpected,
    proto::v1::{
        DeleteSessionRequest, JsonForm, ListSessionsRequest, ListSessionsResponse, SessionKey,
        SessionOrder, session_service_client::SessionServiceClient,
    },
    read::LARGEST_PAGE,
    session::SessionSnapshot,
};

/// Deletions under way at the same time: enough for the server to share its flushes to the disk among them.
const DELETIONS: usize = 16;

/// Pages of sessions that one call deletes, of up to [`LARGEST_PAGE`] each: far more than a user has. Without an end to them,
/// somebody who creates sessions as fast as they are deleted would hold the caller for ever.
const DELETED_PAGES: usize = 1000;

/// The sessions of one user, most recently used first, with their state and without events.
///
/// Which of them come at all is decided page by page: one that is used meanwhile moves to the front, and is not listed twice.
pub(crate) async fn list(
    caller: &Caller,
    (app_name, user_id): (String, String),
    offset: usize,
    limit: usize,
) -> Result<Vec<Box<dyn Session>>> {
    let mut sessions: Vec<Box<dyn Session>> = Vec::new();
    let mut seen = HashSet::new();
    let mut to_skip = offset;
    let mut request = ListSessionsRequest {
        app_name,
        user_id,
        order: SessionOrder::LastEventTimeDesc.into(),
        json_form: JsonForm::Text.into(),
        ..ListSessionsRequest::default()
    };
    while sessions.len() < limit {
        // What is skipped comes without its state, on pages of its own.
        let wanted = if to_skip > 0 { to_skip } else { limit - sessions.len() };
        request.page_size =
            i32::try_from(wanted).map_or(LARGEST_PAGE, |size| size.min(LARGEST_PAGE));
        request.include_state = to_skip == 0;
        let page = list_sessions(caller, &request).await?;
        for session in page.sessions {
            if !seen.insert(address(session.key.as_ref())?.session_id.clone()) {
                continue;
            }
            if to_skip > 0 {
                to_skip -= 1;
            } else {
                sessions.push(Box::new(SessionSnapshot::new(session, Vec::new())?));
            }
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    Ok(sessions)
}

/// Deletes every session of one user, those that are created meanwhile included, up to [`DELETED_PAGES`].
pub(crate) async fn delete_all(caller: &Caller, app_name: &str, user_id: &str) -> Result<()> {
    let request = ListSessionsRequest {
        app_name: app_name.into(),
        user_id: user_id.into(),
        page_size: LARGEST_PAGE,
        ..ListSessionsRequest::default()
    };
    // Always the first page: what was on it is gone when it is asked for again.
    for _ in 0..DELETED_PAGES {
        let page = list_sessions(caller, &request).await?;
        if page.sessions.is_empty() {
            return Ok(());
        }
        let keys = page.sessions.into_iter().map(|session| address(session.key));
        stream::iter(keys.collect::<Result<Vec<_>>>()?)
            .map(|key| delete(caller, key))
            .buffer_unordered(DELETIONS)
            .try_collect::<()>()
            .await?;
    }
    Err(AdkError::unavailable(
        ErrorComponent::Session,
        "session.not_all_deleted",
        format!(
            "after {DELETED_PAGES} pages of deletions user '{user_id}' still has sessions, as others go on creating them"
        ),
    ))
}

/// Deletes one session; one that is not there is fine.
pub(crate) async fn delete(caller: &Caller, key: SessionKey) -> Answer<()> {
    let request = DeleteSessionRequest { key: Some(key), allow_missing: true };
    caller
        .call(&request, |channel, request| async move {
            SessionServiceClient::new(channel).delete_session(request).await
        })
        .await?;
    Ok(())
}

async fn list_sessions(
    caller: &Caller,
    request: &ListSessionsRequest,
) -> Answer<ListSessionsResponse> {
    caller
        .call(request, |channel, request| async move {
            SessionServiceClient::new(channel).list_sessions(request).await
        })
        .await
}

fn address<K>(key: Option<K>) -> Result<K> {
    key.ok_or_else(|| unexpected("sessiond sent a session without its address"))
}
