//! Going back to an earlier event. Nothing is forgotten: the server hides what came after it.

use adk_core::{AdkError, ErrorComponent, Result};
use uuid::Uuid;

use crate::{
    call::{Answer, Caller},
    error::{invalid, unexpected},
    proto::v1::{
        EventSelection, GetSessionRequest, JsonForm, ListEventsRequest, Precondition,
        RewindSessionRequest, RewindSessionResponse, SessionKey,
        session_service_client::SessionServiceClient,
    },
    read::{self, LARGEST_PAGE, list_events},
    session::SessionSnapshot,
};

/// How often somebody else may append between the look at the log and the rewind, before that is the caller's to know.
const RACES: u32 = 16;

/// Where to go back to.
#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The event of this id stays the last one.
    Event(&'a str),
    /// So many events go, at least one.
    Steps(usize),
}

/// Rewinds the one session of this id. What shows from there is what the session was at that event, application and user state
/// being as they are now.
pub(crate) async fn rewind(
    caller: &Caller,
    session_id: &str,
    target: Target<'_>,
) -> Result<SessionSnapshot> {
    let bare = SessionKey { session_id: session_id.into(), ..SessionKey::default() };
    let mut races = 0;
    loop {
        let head = read::head(caller, bare.clone()).await?;
        let key = head.key.ok_or_else(|| unexpected("sessiond sent a session without address"))?;
        let to_sequence = find(caller, &key, target, false).await?;
        let request = RewindSessionRequest {
            key: Some(key.clone()),
            to_sequence: Some(to_sequence),
            event_id: Uuid::new_v4().to_string(),
            // Steps count from the newest event, so nobody may have added another.
            precondition: Some(Precondition {
                expected_sequence: Some(head.last_sequence),
                keys: Vec::new(),
            }),
            ..RewindSessionRequest::default()
        };
        match send(caller, request).await {
            Ok(answer) => return show(caller, key, answer).await,
            Err(failure) if failure.is("SEQUENCE_CONFLICT") && races < RACES => races += 1,
            Err(failure) => return Err(failure.into()),
        }
    }
}

async fn send(caller: &Caller, request: RewindSessionRequest) -> Answer<RewindSessionResponse> {
    caller
        .call(&request, |channel, request| async move {
            SessionServiceClient::new(channel).rewind_session(request).await
        })
        .await
}

/// The session as it was right after its rewind, whatever has been appended since.
async fn show(
    caller: &Caller,
    key: SessionKey,
    answer: RewindSessionResponse,
) -> Result<SessionSnapshot> {
    let marker = answer.event.ok_or_else(|| unexpected("sessiond sent no marker of a rewind"))?;
    let request = GetSessionRequest {
        key: Some(key),
        events: Some(EventSelection::default()),
        as_of_sequence: Some(marker.sequence),
        ..GetSessionRequest::default()
    };
    read::read(caller, request).await
}

/// The sequence of the event that stays the last one; 0 where none stays.
pub(crate) async fn find(
    caller: &Caller,
    key: &SessionKey,
    target: Target<'_>,
    include_rewound: bool,
) -> Result<i64> {
    let mut passed = 0;
    let mut request = ListEventsRequest {
        key: Some(key.clone()),
        descending: true,
        selection: Some(EventSelection { include_rewound, ..EventSelection::default() }),
        // Nothing but ids and sequences is looked at, and text is what the server need not convert.
        json_form: JsonForm::Text.into(),
        ..ListEventsRequest::default()
    };
    loop {
        request.page_size = match target {
            Target::Event(_) => LARGEST_PAGE,
            // One more than those that go.
            Target::Steps(steps) => i32::try_from((steps - passed).saturating_add(1))
                .map_or(LARGEST_PAGE, |size| size.min(LARGEST_PAGE)),
        };
        let page = list_events(caller, &request).await?;
        for event in page.events {
            let found = match target {
                Target::Event(id) => event.event_id == id,
                Target::Steps(steps) => passed == steps,
            };
            if found {
                return Ok(event.sequence);
            }
            passed += 1;
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return match target {
                Target::Event(id) => Err(AdkError::not_found(
                    ErrorComponent::Session,
                    "session.event_not_found",
                    format!("session '{}' has no such event to go to: '{id}'", key.session_id),
                )),
                Target::Steps(steps) if passed == steps => Ok(0),
                Target::Steps(steps) => Err(invalid(
                    "session.rewind_too_far",
                    format!(
                        "session '{}' has {passed} events, so it cannot go back by {steps}",
                        key.session_id
                    ),
                )),
            };
        }
    }
}
