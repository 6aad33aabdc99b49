//! The log of a session, page by page, and its events by their ids and sequences.

use std::vec;

use adk_core::{Event, Result, identity::AdkIdentity};
use chrono::{DateTime, Utc};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use tonic::Request;

use crate::{
    address::key,
    call::Caller,
    error::unexpected,
    event::from_wire,
    proto::v1::{
        self, BatchGetEventsRequest, EventSelection, JsonForm, ListEventsRequest, event_ref::Ref,
        event_service_client::EventServiceClient,
    },
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

/// Refs that one request may have.
const MOST_REFS: usize = 1000;

/// Names an event of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventRef {
    /// The event with this id.
    Id(String),
    /// The event with this sequence, from 1.
    Sequence(i64),
}

impl EventRef {
    fn to_wire(&self) -> v1::EventRef {
        let named = match self {
            Self::Id(id) => Ref::EventId(id.clone()),
            Self::Sequence(sequence) => Ref::Sequence(*sequence),
        };
        v1::EventRef { r#ref: Some(named) }
    }

    fn from_wire(wire: v1::EventRef) -> Result<Self> {
        match wire.r#ref {
            Some(Ref::EventId(id)) => Ok(Self::Id(id)),
            Some(Ref::Sequence(sequence)) => Ok(Self::Sequence(sequence)),
            None => Err(unexpected("sessiond sent a ref without a name")),
        }
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

    /// The events of a session that `refs` name, also those that rewinds have hidden: in the order of `refs`, one that is named
    /// twice twice. Beside them the refs that name no event. Without refs it sends nothing.
    ///
    /// # Errors
    ///
    /// `session.not_found`. An empty id or a negative sequence is invalid input (`INVALID_ARGUMENT`).
    pub async fn get_events(
        &self,
        identity: &AdkIdentity,
        refs: &[EventRef],
    ) -> Result<(Vec<StoredEvent>, Vec<EventRef>)> {
        let key = key(identity)?;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for named in refs.chunks(MOST_REFS) {
            let mut request = BatchGetEventsRequest {
                key: Some(key.clone()),
                refs: named.iter().map(EventRef::to_wire).collect(),
                page_token: String::new(),
                json_form: JsonForm::Text.into(),
            };
            loop {
                let call = |channel, request: Request<_>| async move {
                    EventServiceClient::new(channel).batch_get_events(request).await
                };
                let page = self.caller.call(&request, call).await?;
                for event in page.events {
                    found.push(StoredEvent::new(event)?);
                }
                for wire in page.missing {
                    missing.push(EventRef::from_wire(wire)?);
                }
                if page.next_page_token.is_empty() {
                    break;
                }
                request.page_token = page.next_page_token;
            }
        }
        Ok((found, missing))
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
