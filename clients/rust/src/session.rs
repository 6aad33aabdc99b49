//! A session as it was read: ADK's `Session`, `State` and `Events` in one type.

use std::collections::HashMap;

use adk_core::{Event, Result, identity::AdkIdentity};
use adk_session::{Events, Session, State};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{
    address::identity, error::unexpected, json::parse_object, observe::observe, proto::v1,
    time::from_timestamp,
};

/// The result of one read. Later commits do not change it.
#[derive(Clone, Debug)]
pub(crate) struct SessionSnapshot {
    identity: AdkIdentity,
    state: HashMap<String, Value>,
    events: Vec<Event>,
    last_update_time: DateTime<Utc>,
}

impl SessionSnapshot {
    pub fn new(session: v1::Session, events: Vec<Event>) -> Result<Self> {
        Ok(Self {
            identity: identity(session.key)?,
            state: match session.state_form {
                Some(v1::session::StateForm::StateJson(text)) => parse_object(&text)?,
                Some(v1::session::StateForm::State(_)) => {
                    return Err(unexpected("sessiond sent state as a Struct instead of text"));
                }
                None => HashMap::new(),
            },
            events,
            last_update_time: session.last_event_time.map(from_timestamp).unwrap_or_default(),
        })
    }

    pub fn identity(&self) -> &AdkIdentity {
        &self.identity
    }

    /// Adds an event, after which the state and the time of the last event are these.
    pub fn push(&mut self, event: Event, state: HashMap<String, Value>, updated: DateTime<Utc>) {
        self.events.push(event);
        self.state = state;
        self.last_update_time = updated;
    }

    /// Drops the events before `after`.
    pub fn keep_since(&mut self, after: DateTime<Utc>) {
        self.events.retain(|event| event.timestamp >= after);
    }
}

impl Session for SessionSnapshot {
    fn id(&self) -> &str {
        self.identity.session_id.as_ref()
    }

    fn app_name(&self) -> &str {
        self.identity.app_name.as_ref()
    }

    fn user_id(&self) -> &str {
        self.identity.user_id.as_ref()
    }

    fn state(&self) -> &dyn State {
        self
    }

    fn events(&self) -> &dyn Events {
        self
    }

    fn last_update_time(&self) -> DateTime<Utc> {
        self.last_update_time
    }
}

impl State for SessionSnapshot {
    fn get(&self, key: &str) -> Option<Value> {
        self.state.get(key).cloned()
    }

    /// Changes this snapshot only. State is stored by appending an event.
    fn set(&mut self, key: String, value: Value) {
        match adk_core::validate_state_key(&key) {
            Ok(()) => {
                self.state.insert(key, value);
            }
            Err(says) => observe(|| tracing::warn!(key, says, "state key refused by ADK")),
        }
    }

    fn all(&self) -> HashMap<String, Value> {
        self.state.clone()
    }
}

impl Events for SessionSnapshot {
    fn all(&self) -> Vec<Event> {
        self.events.clone()
    }

    fn len(&self) -> usize {
        self.events.len()
    }

    fn at(&self, index: usize) -> Option<&Event> {
        self.events.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_refuses_keys_that_adk_does_not_allow() {
        let key = v1::SessionKey {
            app_name: "app".into(),
            user_id: "alice".into(),
            session_id: "s1".into(),
        };
        let session = v1::Session { key: Some(key), ..v1::Session::default() };
        let mut snapshot = SessionSnapshot::new(session, Vec::new()).unwrap();
        snapshot.set("user:name".into(), "Alice".into());
        snapshot.set("../up".into(), "no".into());
        let wanted = HashMap::from([("user:name".to_owned(), Value::from("Alice"))]);
        assert_eq!(State::all(&snapshot), wanted);
    }
}
