//! The events that a session has before an import.

use std::collections::HashMap;

use crate::{
    cli::{
        calls::{for_each_event, get_request, retry},
        connect::Server,
        failure::Failure,
    },
    proto::v1,
};

/// A session's log before the import.
#[derive(Default)]
pub struct Log {
    /// By id.
    pub events: HashMap<String, v1::Event>,
    /// Id of the newest event; empty if there are no events.
    pub newest: String,
    pub last_sequence: i64,
}

impl Log {
    /// `None`: there is no such session.
    pub async fn read(server: &Server, key: &v1::SessionKey) -> Result<Option<Self>, Failure> {
        let events = Some(v1::EventSelection { include_rewound: true, ..Default::default() });
        let request = v1::GetSessionRequest { events, without_state: true, ..get_request(key) };
        let first = retry(async || server.sessions().get_session(request.clone()).await).await;
        let first = match first {
            Err(failure) if failure.has_reason("SESSION_NOT_FOUND") => return Ok(None),
            first => first?,
        };
        let mut log = Self::default();
        for_each_event(server, first, events, |event| {
            log.newest.clone_from(&event.event_id);
            log.last_sequence = event.sequence;
            log.events.insert(event.event_id.clone(), event);
            Ok(())
        })
        .await?;
        Ok(Some(log))
    }
}
