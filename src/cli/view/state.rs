//! State, the changes of a key, and what a watch says.

use std::collections::HashMap;

use serde::Serialize;

use super::{
    DeltaView, EventView, KeyView, Raw, Time, raw, sorted,
    structs::{struct_text, value_text},
};
use crate::{
    cli::failure::Failure,
    proto::v1::{
        GetStateResponse, Heartbeat, KeyChange, StateChange, StateSnapshot, UpdateStateResponse,
        WatchResponse, get_state_response, key_change, state_snapshot, update_state_response,
        watch_response::Kind,
    },
};

/// Answer of `state get` and `state set`.
#[derive(Debug, Serialize)]
pub struct StateView {
    state: Raw,
    #[serde(skip_serializing_if = "super::is_false")]
    state_rounded: bool,
    #[serde(skip_serializing_if = "HashMap::is_empty", serialize_with = "sorted")]
    versions: HashMap<String, i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replayed: Option<bool>,
}

impl TryFrom<GetStateResponse> for StateView {
    type Error = Failure;

    fn try_from(answer: GetStateResponse) -> Result<Self, Failure> {
        use get_state_response::StateForm;
        let GetStateResponse { state_form, state_rounded, versions } = answer;
        let state = match state_form {
            Some(StateForm::StateJson(text)) => raw(&text)?,
            Some(StateForm::State(object)) => raw(&struct_text(&object))?,
            None => raw("{}")?,
        };
        Ok(Self { state, state_rounded, versions, replayed: None })
    }
}

impl TryFrom<UpdateStateResponse> for StateView {
    type Error = Failure;

    fn try_from(answer: UpdateStateResponse) -> Result<Self, Failure> {
        use update_state_response::StateForm;
        let UpdateStateResponse { state_form, state_rounded, replayed } = answer;
        let state = match state_form {
            Some(StateForm::StateJson(text)) => raw(&text)?,
            Some(StateForm::State(object)) => raw(&struct_text(&object))?,
            None => raw("{}")?,
        };
        Ok(Self { state, state_rounded, versions: HashMap::new(), replayed: Some(replayed) })
    }
}

/// One change of one key; `value` is missing where the key was removed.
#[derive(Debug, Serialize)]
pub struct KeyChangeView {
    version: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Raw>,
    #[serde(skip_serializing_if = "super::is_false")]
    removed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_time: Option<Time>,
    author: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<KeyView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<i64>,
}

impl TryFrom<KeyChange> for KeyChangeView {
    type Error = Failure;

    fn try_from(change: KeyChange) -> Result<Self, Failure> {
        let KeyChange { version, value_form, commit_time, author, session, sequence } = change;
        let value = match value_form {
            None => None,
            Some(key_change::ValueForm::ValueJson(text)) => Some(raw(&text)?),
            Some(key_change::ValueForm::Value(value)) => Some(raw(&value_text(&value))?),
        };
        Ok(Self {
            version,
            removed: value.is_none(),
            value,
            commit_time: commit_time.map(Time),
            author,
            sequence: session.is_some().then_some(sequence),
            session: session.map(KeyView::from),
        })
    }
}

/// One message of a watch: what happened, and where to resume.
#[derive(Debug, Serialize)]
pub struct WatchView {
    #[serde(flatten)]
    kind: Option<KindView>,
    cursor: String,
}

// Only newtype variants: serde writes those through a flattened field unbuffered, which raw text needs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum KindView {
    Snapshot(SnapshotView),
    Event(Box<EventView>),
    StateChange(ChangeView),
    CaughtUp(Nothing),
    Heartbeat(HeartbeatView),
    SessionDeleted(Nothing),
}

#[derive(Debug, Serialize)]
struct SnapshotView {
    state: Raw,
    #[serde(skip_serializing_if = "super::is_false")]
    state_rounded: bool,
    last_sequence: i64,
}

#[derive(Debug, Serialize)]
struct ChangeView {
    #[serde(skip_serializing_if = "Option::is_none")]
    delta: Option<DeltaView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_time: Option<Time>,
}

#[derive(Debug, Serialize)]
struct HeartbeatView {
    #[serde(skip_serializing_if = "Option::is_none")]
    server_time: Option<Time>,
}

#[derive(Debug, Serialize)]
struct Nothing {}

impl TryFrom<WatchResponse> for WatchView {
    type Error = Failure;

    fn try_from(message: WatchResponse) -> Result<Self, Failure> {
        let WatchResponse { kind, cursor } = message;
        let kind = kind.map(KindView::try_from).transpose()?;
        Ok(Self { kind, cursor })
    }
}

impl TryFrom<Kind> for KindView {
    type Error = Failure;

    fn try_from(kind: Kind) -> Result<Self, Failure> {
        Ok(match kind {
            Kind::Snapshot(snapshot) => {
                let StateSnapshot { state_form, state_rounded, last_sequence } = snapshot;
                let state = match state_form {
                    Some(state_snapshot::StateForm::StateJson(text)) => raw(&text)?,
                    Some(state_snapshot::StateForm::State(object)) => raw(&struct_text(&object))?,
                    None => raw("{}")?,
                };
                Self::Snapshot(SnapshotView { state, state_rounded, last_sequence })
            }
            Kind::Event(event) => Self::Event(Box::new(event.try_into()?)),
            Kind::StateChange(StateChange { delta, commit_time }) => {
                Self::StateChange(ChangeView {
                    delta: delta.map(DeltaView::try_from).transpose()?,
                    commit_time: commit_time.map(Time),
                })
            }
            Kind::CaughtUp(_) => Self::CaughtUp(Nothing {}),
            Kind::Heartbeat(Heartbeat { server_time }) => {
                Self::Heartbeat(HeartbeatView { server_time: server_time.map(Time) })
            }
            Kind::SessionDeleted(_) => Self::SessionDeleted(Nothing {}),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::{CaughtUp, Event};

    fn print(kind: Kind) -> String {
        let message = WatchResponse { kind: Some(kind), cursor: "c".to_owned() };
        serde_json::to_string(&WatchView::try_from(message).unwrap()).unwrap()
    }

    #[test]
    fn a_watch_names_what_happened() {
        assert_eq!(print(Kind::CaughtUp(CaughtUp {})), r#"{"caught_up":{},"cursor":"c"}"#);
        let snapshot = StateSnapshot {
            state_form: Some(state_snapshot::StateForm::StateJson("{\"a\":1.0}".to_owned())),
            state_rounded: false,
            last_sequence: 2,
        };
        assert_eq!(
            print(Kind::Snapshot(snapshot)),
            r#"{"snapshot":{"state":{"a":1.0},"last_sequence":2},"cursor":"c"}"#
        );
        let event = Event { event_id: "e".to_owned(), ..Event::default() };
        assert_eq!(
            print(Kind::Event(event)),
            r#"{"event":{"event_id":"e","sequence":0,"author":""},"cursor":"c"}"#
        );
    }

    #[test]
    fn a_removal_is_told_from_null() {
        let change = |value_form| {
            let change = KeyChange { version: 3, value_form, ..KeyChange::default() };
            serde_json::to_string(&KeyChangeView::try_from(change).unwrap()).unwrap()
        };
        let null = key_change::ValueForm::ValueJson("null".to_owned());
        assert_eq!(change(Some(null)), r#"{"version":3,"value":null,"author":""}"#);
        assert_eq!(change(None), r#"{"version":3,"removed":true,"author":""}"#);
    }
}
