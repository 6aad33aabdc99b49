//! Reading a session with its events, in as many answers as they need.

use adk_core::{Event, Result};
use tonic::Request;

use crate::{
    call::{Answer, Caller},
    error::unexpected,
    event::from_wire,
    proto::v1::{
        EventSelection, GetSessionRequest, GetSessionResponse, JsonForm, ListEventsRequest,
        ListEventsResponse, Session, SessionKey, event_service_client::EventServiceClient,
        session_service_client::SessionServiceClient,
    },
    session::SessionSnapshot,
};

/// The most that the server puts on a page.
pub(crate) const LARGEST_PAGE: i32 = 1000;

/// Reads a session as `request` says, all of the events that it selects included.
pub(crate) async fn read(
    caller: &Caller,
    mut request: GetSessionRequest,
) -> Result<SessionSnapshot> {
    request.json_form = JsonForm::Text.into();
    let answer = get(caller, &request).await?;
    let mut session = answer.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
    let mut events: Vec<Event> = answer.events.into_iter().map(from_wire).collect::<Result<_>>()?;
    if !answer.next_page_token.is_empty() {
        let mut pages = ListEventsRequest {
            // Lent out until all pages are there.
            key: session.key.take(),
            page_size: LARGEST_PAGE,
            page_token: answer.next_page_token,
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
    SessionSnapshot::new(session, events)
}

/// The session alone: its address, its last sequence and its labels.
pub(crate) async fn head(caller: &Caller, key: SessionKey) -> Result<Session> {
    let request =
        GetSessionRequest { key: Some(key), without_state: true, ..GetSessionRequest::default() };
    let answer = get(caller, &request).await?;
    answer.session.ok_or_else(|| unexpected("sessiond sent no session"))
}

async fn get(caller: &Caller, request: &GetSessionRequest) -> Answer<GetSessionResponse> {
    caller
        .call(request, |channel, request: Request<_>| async move {
            SessionServiceClient::new(channel).get_session(request).await
        })
        .await
}

/// One page of a session's events.
pub(crate) async fn list_events(
    caller: &Caller,
    request: &ListEventsRequest,
) -> Answer<ListEventsResponse> {
    caller
        .call(request, |channel, request: Request<_>| async move {
            EventServiceClient::new(channel).list_events(request).await
        })
        .await
}

/// The newest so many events, where more than the wire can say means all of them.
pub(crate) fn newest(count: usize) -> EventSelection {
    let recent = i32::try_from(count).ok();
    EventSelection { recent, ..EventSelection::default() }
}
