//! Reading a session with its events, page by page.

use adk_core::{Event, Result};
use tonic::Request;

use crate::{
    call::{CallResult, Caller},
    error::unexpected,
    event::from_wire,
    proto::v1::{
        EventSelection, GetSessionRequest, GetSessionResponse, JsonForm, ListEventsRequest,
        ListEventsResponse, Session, SessionKey, event_service_client::EventServiceClient,
        session_service_client::SessionServiceClient,
    },
    session::SessionSnapshot,
    state_pages::complete_within,
};

/// The largest page that the server sends.
pub(crate) const LARGEST_PAGE: i32 = 1000;

/// Reads a session with all of the events that `request` selects.
pub(crate) async fn read(caller: &Caller, request: GetSessionRequest) -> Result<SessionSnapshot> {
    let (session, events) = read_message(caller, request).await?;
    SessionSnapshot::new(session, events)
}

/// The same, with the session as the server sent it.
pub(crate) async fn read_message(
    caller: &Caller,
    mut request: GetSessionRequest,
) -> Result<(Session, Vec<Event>)> {
    request.json_form = JsonForm::Text.into();
    let response = get(caller, &request).await?;
    let mut session = response.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
    let mut events: Vec<Event> =
        response.events.into_iter().map(from_wire).collect::<Result<_>>()?;
    if !response.next_page_token.is_empty() {
        let mut pages = ListEventsRequest {
            // Put back after the last page.
            key: session.key.take(),
            page_size: LARGEST_PAGE,
            page_token: response.next_page_token,
            selection: request.events,
            json_form: JsonForm::Text.into(),
            ..ListEventsRequest::default()
        };
        while !pages.page_token.is_empty() {
            let page = list_events(caller, &pages).await?;
            for event in page.events {
                events.push(from_wire(event)?);
            }
            pages.page_token = page.next_page_token;
        }
        session.key = pages.key;
    }
    if session.state_omitted && request.as_of_sequence.is_some() {
        return Err(unexpected("the state as of that event does not fit into an answer"));
    }
    complete_within(caller, &mut session, &request.invocation_id, request.include_versions).await?;
    Ok((session, events))
}

/// The session without state and events: its key, last sequence, labels and origin.
pub(crate) async fn head(caller: &Caller, key: SessionKey) -> Result<Session> {
    let request =
        GetSessionRequest { key: Some(key), without_state: true, ..GetSessionRequest::default() };
    let response = get(caller, &request).await?;
    response.session.ok_or_else(|| unexpected("sessiond sent no session"))
}

async fn get(caller: &Caller, request: &GetSessionRequest) -> CallResult<GetSessionResponse> {
    caller
        .call(request, |channel, request: Request<_>| async move {
            SessionServiceClient::new(channel).get_session(request).await
        })
        .await
}

pub(crate) async fn list_events(
    caller: &Caller,
    request: &ListEventsRequest,
) -> CallResult<ListEventsResponse> {
    caller
        .call(request, |channel, request: Request<_>| async move {
            EventServiceClient::new(channel).list_events(request).await
        })
        .await
}

/// The newest `count` events. A count that the wire cannot hold means all events.
pub(crate) fn newest(count: usize) -> EventSelection {
    let recent = i32::try_from(count).ok();
    EventSelection { recent, ..EventSelection::default() }
}
