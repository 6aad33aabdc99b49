//! What can still be read of a damaged store, for `export --skip-damaged`.

use std::collections::BTreeSet;

use indexmap::IndexSet;
use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;

use crate::{
    cli::{
        args::JSON_FORM,
        calls::for_each_event,
        connect::Server,
        failure::{Failure, tell},
    },
    domain::visible::{Marker, Visible},
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

/// The damaged events of a session, and which of the others its rewinds hide.
pub struct Damaged {
    pub events: BTreeSet<i64>,
    last: i64,
    visible: Visible,
}

/// Looks for damaged events among those of a session up to its last one. `None`: no event is, or more than events.
pub async fn find(
    server: &Server,
    key: &v1::SessionKey,
    last: i64,
) -> Result<Option<Damaged>, Failure> {
    let (mut events, mut markers) = (BTreeSet::new(), Vec::new());
    let found = each_event(server, key, last, &mut events, |event| {
        let sequence = event.sequence.cast_unsigned();
        let marker = event.rewind_to_sequence.map(|to| Marker { sequence, to: to.cast_unsigned() });
        markers.extend(marker);
        Ok(())
    });
    match found.await {
        Err(Failure::Refused(status)) if is_damage(&status) => return Ok(None),
        found => found?,
    }
    let visible = Visible::new(&markers, last.cast_unsigned());
    Ok((!events.is_empty()).then_some(Damaged { events, last, visible }))
}

impl Damaged {
    /// Calls `each` with every event of the session, an empty one in the place of each that is damaged.
    pub async fn each_event(
        &self,
        server: &Server,
        key: &v1::SessionKey,
        mut each: impl FnMut(v1::Event) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        each_event(server, key, self.last, &mut self.events.clone(), |event| {
            // A part of the log does not know the rewinds behind it.
            let rewound = !self.visible.contains(event.sequence.cast_unsigned());
            each(v1::Event { rewound, ..event })
        })
        .await
    }
}

/// Reads the events between those that are known to be damaged. Those that turn out to be are added.
async fn each_event(
    server: &Server,
    key: &v1::SessionKey,
    last: i64,
    damaged: &mut BTreeSet<i64>,
    mut each: impl FnMut(v1::Event) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (mut done, mut time) = (0, None);
    while done < last {
        let next = damaged.range(done + 1..).next().copied();
        if next == Some(done + 1) {
            done += 1;
            each(v1::Event {
                event_id: format!("damaged-{done}"),
                sequence: done,
                author: "system".to_owned(),
                event_time: time,
                commit_time: time,
                ..Default::default()
            })?;
            continue;
        }
        let up_to = next.map_or(last, |next| next - 1);
        let request = v1::GetSessionRequest {
            key: Some(key.clone()),
            events: after(done),
            as_of_sequence: Some(up_to),
            without_state: true,
            json_form: JSON_FORM,
            ..Default::default()
        };
        let read = async {
            let first = server.sessions().get_session(request).await?.into_inner();
            time = time.or(first.session.as_ref().and_then(|session| session.create_time));
            for_each_event(server, first, after(done), |event| {
                (done, time) = (event.sequence, event.event_time);
                each(event)
            })
            .await
        };
        match read.await {
            Err(Failure::Refused(status)) => match damaged_event(&status) {
                Some(found) if found > done && found <= up_to && damaged.insert(found) => {}
                _ => return Err(Failure::Refused(status)),
            },
            read => drop(read?),
        }
        if done < up_to && damaged.range(done + 1..=up_to).next().is_none() {
            return Err(Failure::Failed(format!("the server sent no event {}", done + 1)));
        }
    }
    Ok(())
}

/// The event that an answer calls damaged.
fn damaged_event(status: &Status) -> Option<i64> {
    let metadata = status.get_details_error_info()?.metadata;
    let is_event = is_damage(status) && metadata.get("what").is_some_and(|what| what == "event");
    metadata.get("name").filter(|_| is_event)?.parse().ok()
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
