//! Listing and deleting a user's sessions.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use adk_core::{AdkError, ErrorComponent, Result};
use adk_session::Session as _;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::{
    address::{sent_key, uid_precondition},
    call::{CallResult, Caller},
    error::REPLACED,
    proto::v1::{
        DeleteSessionRequest, JsonForm, ListSessionsRequest, ListSessionsResponse, Precondition,
        Session, SessionKey, SessionOrder, session_service_client::SessionServiceClient,
    },
    read::LARGEST_PAGE,
    session::SessionSnapshot,
    state_pages::complete,
};

/// Deletions in flight at the same time: enough for the server to commit them in groups.
const DELETIONS: usize = 16;

/// Pages that one call reads for deletion, of up to [`LARGEST_PAGE`] sessions each: far more than a user has. Without this bound the
/// call would not return while others create sessions as fast as it deletes them.
const MAX_DELETED_PAGES: usize = 1000;

/// The sessions of one user, most recently used first, with their state and without events.
///
/// Each page shows its own moment. A session that is used between two pages is listed once. With a limit it may be left out if it was
/// not read yet, because it moves to the front.
pub(crate) async fn list(
    caller: &Caller,
    (app_name, user_id): (String, String),
    offset: usize,
    limit: Option<usize>,
) -> Result<Vec<Box<dyn adk_session::Session>>> {
    let request = ListSessionsRequest {
        app_name,
        user_id,
        json_form: JsonForm::Text.into(),
        ..ListSessionsRequest::default()
    };
    match limit {
        Some(limit) => list_some(caller, request, offset, limit).await,
        None => list_all(caller, request, offset).await,
    }
}

/// Reads the least recently used sessions first, so that one that is used meanwhile moves to a page that is still to be read.
async fn list_all(
    caller: &Caller,
    mut request: ListSessionsRequest,
    offset: usize,
) -> Result<Vec<Box<dyn adk_session::Session>>> {
    request.order = SessionOrder::LastEventTimeAsc.into();
    request.page_size = LARGEST_PAGE;
    request.include_state = true;
    let mut found = HashMap::new();
    loop {
        let page = list_sessions(caller, &request).await?;
        for session in page.sessions {
            let Some(snapshot) = snapshot(caller, session).await? else { continue };
            // The later of two copies is newer.
            found.insert(snapshot.id().to_owned(), snapshot);
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    let mut sessions: Vec<_> = found.into_values().collect();
    // Ties as the server orders them.
    sessions.sort_unstable_by(|a, b| {
        b.last_update_time().cmp(&a.last_update_time()).then_with(|| a.id().cmp(b.id()))
    });
    Ok(sessions.into_iter().skip(offset).map(|session| Box::new(session) as _).collect())
}

/// Reads no more than `limit` sessions with their state, so the most recently used ones come first.
async fn list_some(
    caller: &Caller,
    mut request: ListSessionsRequest,
    offset: usize,
    limit: usize,
) -> Result<Vec<Box<dyn adk_session::Session>>> {
    request.order = SessionOrder::LastEventTimeDesc.into();
    let mut sessions: Vec<Box<dyn adk_session::Session>> = Vec::new();
    let mut seen = HashSet::new();
    let mut to_skip = offset;
    while sessions.len() < limit {
        // Skipped sessions have pages of their own, which come without state.
        let missing = if to_skip > 0 { to_skip } else { limit - sessions.len() };
        request.page_size =
            i32::try_from(missing).map_or(LARGEST_PAGE, |size| size.min(LARGEST_PAGE));
        request.include_state = to_skip == 0;
        let page = list_sessions(caller, &request).await?;
        for session in page.sessions {
            if !seen.insert(sent_key(session.key.as_ref())?.session_id.clone()) {
                continue;
            }
            if to_skip > 0 {
                to_skip -= 1;
            } else {
                sessions.extend(snapshot(caller, session).await?.map(|it| Box::new(it) as _));
            }
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    Ok(sessions)
}

/// None for a session that was deleted before all of its state was read.
async fn snapshot(caller: &Caller, mut session: Session) -> Result<Option<SessionSnapshot>> {
    match complete(caller, &mut session).await {
        Ok(()) => Ok(Some(SessionSnapshot::new(session, Vec::new())?)),
        Err(gone) if gone.code == REPLACED || gone.code == "session.not_found" => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes every session of one user, including those created meanwhile, up to [`MAX_DELETED_PAGES`].
pub(crate) async fn delete_all(caller: &Caller, app_name: &str, user_id: &str) -> Result<()> {
    let mut request = ListSessionsRequest {
        app_name: app_name.into(),
        user_id: user_id.into(),
        page_size: LARGEST_PAGE,
        ..ListSessionsRequest::default()
    };
    let mut has_deleted = false;
    for _ in 0..MAX_DELETED_PAGES {
        let page = list_sessions(caller, &request).await?;
        has_deleted |= !page.sessions.is_empty();
        let lives =
            page.sessions.into_iter().map(|session| Ok((sent_key(session.key)?, session.uid)));
        stream::iter(lives.collect::<Result<Vec<_>>>()?)
            .map(|(key, uid)| delete(caller, key, uid_precondition(&uid)))
            .buffer_unordered(DELETIONS)
            .try_collect::<()>()
            .await?;
        request.page_token = page.next_page_token;
        // From the beginning again, until there is nothing to delete.
        if request.page_token.is_empty() && !mem::take(&mut has_deleted) {
            return Ok(());
        }
    }
    Err(AdkError::unavailable(
        ErrorComponent::Session,
        "session.not_all_deleted",
        format!(
            "user '{user_id}' still has sessions after {MAX_DELETED_PAGES} pages of deletions. Stop creating sessions and retry."
        ),
    ))
}

/// Deletes one session. A missing one is not an error.
pub(crate) async fn delete(
    caller: &Caller,
    key: SessionKey,
    precondition: Option<Precondition>,
) -> CallResult<()> {
    let request = DeleteSessionRequest { key: Some(key), allow_missing: true, precondition };
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
) -> CallResult<ListSessionsResponse> {
    caller
        .call(request, |channel, request| async move {
            SessionServiceClient::new(channel).list_sessions(request).await
        })
        .await
}
