//! What can still be read of a damaged store, for `export --skip-damaged`.

use indexmap::IndexSet;
use tonic::{Code, Response, Status};

use crate::{
    cli::{
        args::JSON_FORM,
        connect::Server,
        failure::{Failure, tell},
    },
    proto::v1,
};

/// Events that are read at once before damage is met, and one by one then.
const PAGE_EVENTS: i32 = 100;

/// Whether an answer says that what was asked for is damaged.
pub fn is_damage(status: &Status) -> bool {
    status.code() == Code::DataLoss
}

/// The sessions of an application or a user. A list with damage in it is read from both ends.
pub async fn list(
    server: &Server,
    request: &v1::ListSessionsRequest,
) -> Result<IndexSet<v1::SessionKey>, Failure> {
    let mut keys = IndexSet::new();
    for order in [v1::SessionOrder::LastEventTimeAsc, v1::SessionOrder::LastEventTimeDesc] {
        let mut request = v1::ListSessionsRequest { order: order.into(), ..request.clone() };
        loop {
            match server.sessions().list_sessions(request.clone()).await.map(Response::into_inner) {
                Ok(page) => {
                    keys.extend(page.sessions.into_iter().filter_map(|session| session.key));
                    request.page_token = page.next_page_token;
                    if request.page_token.is_empty() {
                        return Ok(keys);
                    }
                }
                // Up to the damage, one session at a time in the end.
                Err(status) if is_damage(&status) && request.page_size > 1 => {
                    request.page_size = (request.page_size / 10).max(1);
                }
                Err(status) if is_damage(&status) => break,
                Err(status) => return Err(status.into()),
            }
        }
    }
    tell("note: the list of sessions is damaged. Sessions between its readable ends are left out");
    Ok(keys)
}

/// The last event up to which a session can be read from its beginning.
pub async fn readable_up_to(server: &Server, key: &v1::SessionKey) -> Result<i64, Failure> {
    let mut last = 0;
    loop {
        let request = v1::ListEventsRequest {
            key: Some(key.clone()),
            page_size: PAGE_EVENTS,
            selection: after(last),
            json_form: JSON_FORM,
            ..Default::default()
        };
        match server.events().list_events(request).await.map(Response::into_inner) {
            Ok(page) => match page.events.last() {
                Some(event) => last = event.sequence,
                None => return Ok(last),
            },
            Err(status) if is_damage(&status) => break,
            Err(status) => return Err(status.into()),
        }
    }
    loop {
        let request = v1::GetSessionRequest {
            key: Some(key.clone()),
            events: after(last),
            as_of_sequence: Some(last + 1),
            without_state: true,
            json_form: JSON_FORM,
            ..Default::default()
        };
        match server.sessions().get_session(request).await {
            Ok(_) => last += 1,
            Err(status) if is_damage(&status) || status.code() == Code::OutOfRange => {
                return Ok(last);
            }
            Err(status) => return Err(status.into()),
        }
    }
}

fn after(sequence: i64) -> Option<v1::EventSelection> {
    let selection = v1::EventSelection { include_rewound: true, ..Default::default() };
    Some(v1::EventSelection { after_sequence: sequence, ..selection })
}
