//! Reads around damage, for `export --skip-damaged`.

use indexmap::IndexSet;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;

use crate::{
    cli::{
        args::JSON_FORM,
        calls::{get_request, sessions_page},
        connect::Server,
        failure::{Failure, tell},
    },
    proto::v1,
};

/// Events that are read at once.
const PAGE_EVENTS: i64 = 100;

/// Whether an answer says that what was asked for is damaged.
pub fn is_damage(status: &Status) -> bool {
    status.code() == Code::DataLoss
}

/// The sessions of an application or a user. To skip damage in their list it is read from both ends.
pub async fn list(
    server: &Server,
    request: &v1::ListSessionsRequest,
    skip_damaged: bool,
) -> Result<IndexSet<v1::SessionKey>, Failure> {
    let mut keys = IndexSet::new();
    // From the oldest: a session that is used meanwhile goes to the end, and is listed twice rather than never.
    for order in [v1::SessionOrder::LastEventTimeAsc, v1::SessionOrder::LastEventTimeDesc] {
        let mut request = v1::ListSessionsRequest { order: order.into(), ..request.clone() };
        loop {
            match sessions_page(server, request.clone()).await {
                Ok((page, next)) => {
                    keys.extend(page);
                    request.page_token = next;
                    if request.page_token.is_empty() {
                        return Ok(keys);
                    }
                }
                Err(status) if !skip_damaged || !is_damage(&status) => return Err(status.into()),
                // Up to the damage, one session at a time in the end.
                Err(_) if request.page_size > 1 => {
                    request.page_size = (request.page_size / 10).max(1);
                }
                Err(_) => break,
            }
        }
    }
    tell("note: the list of sessions is damaged. Sessions between its readable ends are left out");
    Ok(keys)
}

/// How far a session's log can be read.
#[derive(Default)]
pub struct Readable {
    pub last: i64,
    /// Events up to there that are damaged.
    pub damaged: Vec<i64>,
}

/// Calls `each` with the events up to `last`, an empty one in the place of each that is damaged. Ends before any other damage.
pub async fn each_event(
    server: &Server,
    key: &v1::SessionKey,
    last: i64,
    mut each: impl FnMut(v1::Event) -> Result<(), Failure>,
) -> Result<Readable, Failure> {
    let (mut read, mut size, mut time) = (Readable::default(), PAGE_EVENTS, None);
    while read.last < last {
        let selection = v1::EventSelection {
            after_sequence: read.last,
            include_rewound: true,
            ..Default::default()
        };
        let request = v1::ListEventsRequest {
            key: Some(key.clone()),
            page_size: size.min(last - read.last) as i32,
            selection: Some(selection),
            json_form: JSON_FORM,
            ..Default::default()
        };
        match server.events().list_events(request).await.map(Response::into_inner) {
            Ok(page) if page.events.is_empty() => break,
            Ok(page) => {
                for event in page.events {
                    (read.last, time) = (event.sequence, event.event_time);
                    each(event)?;
                }
            }
            Err(status) if is_damage(&status) => match damaged_event(&status) {
                Some(sequence) if sequence == read.last + 1 => {
                    read.last = sequence;
                    read.damaged.push(sequence);
                    each(v1::Event {
                        event_id: format!("damaged-{sequence}"),
                        sequence,
                        author: "system".to_owned(),
                        event_time: time,
                        ..Default::default()
                    })?;
                }
                _ if size > 1 => size = 1,
                _ => break,
            },
            Err(status) => return Err(status.into()),
        }
    }
    Ok(read)
}

/// The event that an answer calls damaged.
fn damaged_event(status: &Status) -> Option<i64> {
    let metadata = status.get_details_error_info()?.metadata;
    let is_event = is_damage(status) && metadata.get("what").is_some_and(|what| what == "event");
    metadata.get("name").filter(|_| is_event)?.parse().ok()
}

/// A session as of an event, or as it is now, without its state if that is damaged as well.
pub async fn session(
    server: &Server,
    key: &v1::SessionKey,
    attempts: &[Option<i64>],
) -> Result<v1::Session, Failure> {
    let request = |as_of_sequence, without_state| v1::GetSessionRequest {
        as_of_sequence,
        without_state,
        ..get_request(key)
    };
    let with_state = attempts.iter().map(|as_of| request(*as_of, false));
    let without = attempts.last().map(|as_of| request(*as_of, true));
    let mut failure = Failure::Failed("nothing to read".to_owned());
    for request in with_state.chain(without) {
        let is_without = request.without_state;
        match server.sessions().get_session(request).await {
            Ok(answer) => {
                let session = answer.into_inner().session.unwrap_or_default();
                let state_omitted = session.state_omitted || is_without;
                return Ok(v1::Session { state_omitted, ..session });
            }
            Err(status) if is_damage(&status) => failure = status.into(),
            Err(status) => return Err(status.into()),
        }
    }
    Err(failure)
}
