//! Sessions, and the answers of SessionService.

use std::collections::HashMap;

use serde::Serialize;

use super::{EventView, KeyView, Raw, Time, raw, sorted, structs::struct_text};
use crate::{
    cli::failure::Failure,
    proto::v1::{
        CreateSessionResponse, Event, ForkOrigin, RewindSessionResponse, Session,
        session::{Expiration, StateForm},
    },
};

/// A session.
#[derive(Debug, Serialize)]
pub struct SessionView {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Raw>,
    #[serde(skip_serializing_if = "super::is_false")]
    state_rounded: bool,
    last_sequence: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_event_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    display_name: String,
    #[serde(skip_serializing_if = "HashMap::is_empty", serialize_with = "sorted")]
    labels: HashMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkView>,
}

#[derive(Debug, Serialize)]
struct ForkView {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<KeyView>,
    sequence: i64,
}

impl TryFrom<Session> for SessionView {
    type Error = Failure;

    fn try_from(session: Session) -> Result<Self, Failure> {
        let Session {
            key,
            state_form,
            state_rounded,
            last_sequence,
            create_time,
            update_time,
            last_event_time,
            expiration,
            display_name,
            labels,
            forked_from,
        } = session;
        let state = match state_form {
            None => None,
            Some(StateForm::StateJson(text)) => Some(raw(&text)?),
            Some(StateForm::State(object)) => Some(raw(&struct_text(&object))?),
        };
        let expire_time = match expiration {
            Some(Expiration::ExpireTime(time)) => Some(Time(time)),
            // Never in an answer.
            Some(Expiration::Ttl(_)) | None => None,
        };
        Ok(Self {
            key: key.map(KeyView::from),
            state,
            state_rounded,
            last_sequence,
            create_time: create_time.map(Time),
            update_time: update_time.map(Time),
            last_event_time: last_event_time.map(Time),
            expire_time,
            display_name,
            labels,
            forked_from: forked_from.map(|ForkOrigin { key, sequence }| ForkView {
                key: key.map(KeyView::from),
                sequence,
            }),
        })
    }
}

/// Converts the session of an answer, which is never missing in a good one.
pub(super) fn session(session: Option<Session>) -> Result<SessionView, Failure> {
    session.unwrap_or_default().try_into()
}

/// Answer of `session create`.
#[derive(Debug, Serialize)]
pub struct CreateView {
    session: SessionView,
    created: bool,
}

impl TryFrom<CreateSessionResponse> for CreateView {
    type Error = Failure;

    fn try_from(answer: CreateSessionResponse) -> Result<Self, Failure> {
        let CreateSessionResponse { session: created_session, created } = answer;
        Ok(Self { session: session(created_session)?, created })
    }
}

/// Answer of `session get`.
#[derive(Debug, Serialize)]
pub struct GetView {
    session: SessionView,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Vec<EventView>>,
}

impl GetView {
    /// A session with those of its events that were asked for; none were: `None`.
    ///
    /// # Errors
    ///
    /// When the server answered with text that is no JSON.
    pub fn new(found: Session, events: Option<Vec<Event>>) -> Result<Self, Failure> {
        let views = |events: Vec<Event>| events.into_iter().map(EventView::try_from).collect();
        Ok(Self { session: found.try_into()?, events: events.map(views).transpose()? })
    }
}

/// Answer of `session rewind`.
#[derive(Debug, Serialize)]
pub struct RewindView {
    session: SessionView,
    event: EventView,
    replayed: bool,
}

impl TryFrom<RewindSessionResponse> for RewindView {
    type Error = Failure;

    fn try_from(answer: RewindSessionResponse) -> Result<Self, Failure> {
        let RewindSessionResponse { session: rewound, event, replayed } = answer;
        Ok(Self {
            session: session(rewound)?,
            event: event.unwrap_or_default().try_into()?,
            replayed,
        })
    }
}

#[cfg(test)]
mod tests {
    use prost_types::Timestamp;

    use super::*;
    use crate::proto::v1::SessionKey;

    #[test]
    fn a_session_prints_as_the_contract_names_it() {
        let key = SessionKey {
            app_name: "a".to_owned(),
            user_id: "u".to_owned(),
            session_id: "s".to_owned(),
        };
        let time = |seconds| Some(Timestamp { seconds, nanos: 5 });
        let session = Session {
            key: Some(key.clone()),
            state_form: Some(StateForm::StateJson(
                "{ \"n\": 1.00,\n\"big\": 12345678901234567890123 }".to_owned(),
            )),
            last_sequence: i64::MAX,
            create_time: time(0),
            expiration: time(1).map(Expiration::ExpireTime),
            labels: [("b", "2"), ("a", "1")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            forked_from: Some(ForkOrigin { key: Some(key), sequence: 3 }),
            ..Session::default()
        };
        let view = SessionView::try_from(session).unwrap();
        assert_eq!(
            serde_json::to_string(&view).unwrap(),
            "{\"key\":{\"app_name\":\"a\",\"user_id\":\"u\",\"session_id\":\"s\"},\
             \"state\":{\"n\":1.00,\"big\":12345678901234567890123},\
             \"last_sequence\":9223372036854775807,\
             \"create_time\":\"1970-01-01T00:00:00.000000005Z\",\
             \"expire_time\":\"1970-01-01T00:00:01.000000005Z\",\
             \"labels\":{\"a\":\"1\",\"b\":\"2\"},\
             \"forked_from\":{\"key\":{\"app_name\":\"a\",\"user_id\":\"u\",\"session_id\":\"s\"},\"sequence\":3}}"
        );
    }

    #[test]
    fn state_that_is_no_json_is_said_to_come_from_the_server() {
        let session = Session {
            state_form: Some(StateForm::StateJson("{".to_owned())),
            ..Session::default()
        };
        let failure = SessionView::try_from(session).unwrap_err();
        assert!(failure.text().contains("the server answered"), "{}", failure.text());
    }
}
