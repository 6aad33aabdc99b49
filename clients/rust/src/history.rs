//! The log of a session, page by page.

use std::vec;

use adk_core::{Event, Result, identity::AdkIdentity};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, BoxStream, StreamExt as _};

use crate::{
    address::key,
    call::Caller,
    event::from_wire,
    proto::v1::{self, EventSelection, JsonForm, ListEventsRequest},
    read::{LARGEST_PAGE, list_events},
    service::SessiondSessionService,
    time::from_timestamp,
};

/// An event with what the server has given it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event as it was appended.
    pub event: Event,
    /// Its place in the session's log: 1 for the first event.
    pub sequence: i64,
    /// When it was committed, by the server's clock.
    pub commit_time: DateTime<Utc>,
    /// A rewind has hidden it, or it is the marker of one.
    pub is_rewound: bool,
    /// In the marker of a rewind: the sequence of the last event that stays visible.
    pub rewind_to_sequence: Option<i64>,
}

impl StoredEvent {
    pub(crate) fn new(wire: v1::Event) -> Result<Self> {
        Ok(Self {
            sequence: wire.sequence,
            commit_time: wire.commit_time.map_or_else(DateTime::default, from_timestamp),
            is_rewound: wire.rewound,
            rewind_to_sequence: wire.rewind_to_sequence,
            event: from_wire(wire)?,
        })
    }
}

impl SessiondSessionService {
    /// The events of a session after a sequence (0: all), oldest first, page by page. With `include_rewound` also those that
    /// rewinds have hidden, and the markers of rewinds.
    ///
    /// # Errors
    ///
    /// `session.not_found`. The stream ends after an error.
    pub fn list_events(
        &self,
        identity: &AdkIdentity,
        after_sequence: i64,
        include_rewound: bool,
    ) -> BoxStream<'static, Result<StoredEvent>> {
        let key = match key(identity) {
            Ok(key) => key,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let selection =
            EventSelection { after_sequence, include_rewound, ..EventSelection::default() };
        let request = ListEventsRequest {
            key: Some(key),
            page_size: LARGEST_PAGE,
            selection: Some(selection),
            json_form: JsonForm::Text.into(),
            ..ListEventsRequest::default()
        };
        let log =
            Log { caller: self.caller.clone(), next: Some(request), page: Vec::new().into_iter() };
        stream::try_unfold(log, |mut log| async move {
            let event = log.event().await?;
            Ok(event.map(|event| (event, log)))
        })
        .boxed()
    }
}

struct Log {
    caller: Caller,
    /// The request of the next page.
    next: Option<ListEventsRequest>,
    page: vec::IntoIter<v1::Event>,
}

impl Log {
    async fn event(&mut self) -> Result<Option<StoredEvent>> {
        loop {
            if let Some(event) = self.page.next() {
                return StoredEvent::new(event).map(Some);
            }
            let Some(request) = &mut self.next else { return Ok(None) };
            let page = list_events(&self.caller, request).await?;
            self.page = page.events.into_iter();
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() {
                self.next = None;
            }
        }
    }
}
