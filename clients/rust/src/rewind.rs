//! Rewinding to an earlier event. The server hides the later events, it does not delete them.

use adk_core::{AdkError, ErrorComponent, Result};
use uuid::Uuid;

use crate::{
    address::{Point, same_life, sent_key},
    call::{CallResult, Caller},
    error::{invalid, unexpected},
    proto::v1::{
        EventSelection, GetSessionRequest, JsonForm, ListEventsRequest, Precondition,
        RewindSessionRequest, RewindSessionResponse, SessionKey,
        session_service_client::SessionServiceClient,
    },
    read::{LARGEST_PAGE, head, list_events, read_message},
    session::SessionSnapshot,
};

/// How often the session is read again because somebody appended to it before the rewind.
const MAX_CONFLICTS: u32 = 16;

#[derive(Clone, Copy)]
pub(crate) enum Target<'a> {
    /// The event with this id becomes the last one.
    Event(&'a str),
    /// This many events are hidden, at least one.
    Steps(usize),
}

/// Rewinds the one session with this id. The result has the session's own state as of the target, and the current state of
/// application and user.
pub(crate) async fn rewind(
    caller: &Caller,
    bare_key: SessionKey,
    target: Target<'_>,
) -> Result<SessionSnapshot> {
    let mut conflicts = 0;
    let mut uid = String::new();
    loop {
        let head = head(caller, bare_key.clone()).await?;
        // A session that was created meanwhile is not the one that is meant.
        same_life(&uid, &head.uid)?;
        uid.clone_from(&head.uid);
        let key = sent_key(head.key)?;
        let to_sequence = find(caller, &key, target, false).await?;
        let request = RewindSessionRequest {
            // Steps count from the newest event that `find` has seen.
            precondition: Some(Precondition {
                expected_sequence: Some(head.last_sequence),
                keys: Vec::new(),
                uid: uid.clone(),
            }),
            ..request(key.clone(), to_sequence)
        };
        match send(caller, request).await {
            Ok(response) => return snapshot(caller, key, response).await,
            Err(failure) if failure.is("SEQUENCE_CONFLICT") && conflicts < MAX_CONFLICTS => {
                conflicts += 1;
            }
            Err(failure) => return Err(failure.into()),
        }
    }
}

/// Rewinds a session to the event with this sequence; 0: to before its first event.
pub(crate) async fn rewind_to(
    caller: &Caller,
    key: SessionKey,
    precondition: Option<Precondition>,
    to_sequence: i64,
) -> Result<SessionSnapshot> {
    let request = RewindSessionRequest { precondition, ..request(key.clone(), to_sequence) };
    let response = send(caller, request).await?;
    snapshot(caller, key, response).await
}

/// A rewind with an id, so that it can be sent again.
fn request(key: SessionKey, to_sequence: i64) -> RewindSessionRequest {
    RewindSessionRequest {
        key: Some(key),
        to_sequence: Some(to_sequence),
        event_id: Uuid::new_v4().to_string(),
        ..RewindSessionRequest::default()
    }
}

async fn send(caller: &Caller, request: RewindSessionRequest) -> CallResult<RewindSessionResponse> {
    caller
        .call(&request, |channel, request| async move {
            SessionServiceClient::new(channel).rewind_session(request).await
        })
        .await
}

/// The session as of the rewind, without later events.
async fn snapshot(
    caller: &Caller,
    key: SessionKey,
    response: RewindSessionResponse,
) -> Result<SessionSnapshot> {
    let marker = response.event.ok_or_else(|| unexpected("sessiond sent no rewind event"))?;
    let rewound = response.session.unwrap_or_default();
    let request = GetSessionRequest {
        key: Some(key),
        events: Some(EventSelection::default()),
        as_of_sequence: Some(marker.sequence),
        ..GetSessionRequest::default()
    };
    let (session, events) = read_message(caller, request).await?;
    same_life(&rewound.uid, &session.uid)?;
    SessionSnapshot::new(session, events)
}

/// The sequence of a point in the log.
pub(crate) async fn sequence_of(
    caller: &Caller,
    key: &SessionKey,
    point: Point<'_>,
) -> Result<i64> {
    match point {
        Point::Sequence(sequence) => Ok(sequence),
        Point::Event(event_id) => find(caller, key, Target::Event(event_id), true).await,
    }
}

/// The sequence of the event that becomes the last one; 0 if none is left.
async fn find(
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
        // Only ids and sequences are used, and text costs the server no conversion.
        json_form: JsonForm::Text.into(),
        ..ListEventsRequest::default()
    };
    loop {
        request.page_size = match target {
            Target::Event(_) => LARGEST_PAGE,
            // One more than are hidden.
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
                    format!("session '{}' has no event '{id}'", key.session_id),
                )),
                Target::Steps(steps) if passed == steps => Ok(0),
                Target::Steps(steps) => Err(invalid(
                    "session.rewind_too_far",
                    format!(
                        "session '{}' has {passed} events and cannot be rewound by {steps}",
                        key.session_id
                    ),
                )),
            };
        }
    }
}
