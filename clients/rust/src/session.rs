//! A session as it was read: the kit's `Session`, `State` and `Events` in one.

use std::collections::HashMap;

use adk_core::{AdkError, Event, Result, identity::AdkIdentity};
use adk_session::{Events, Session, State};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{error::unexpected, event::from_timestamp, proto::v1};

/// What one read showed. It does not follow what is committed afterwards.
#[derive(Clone, Debug)]
pub(crate) struct SessionSnapshot {
    identity: AdkIdentity,
    state: HashMap<String, Value>,
    events: Vec<Event>,
    last_update_time: DateTime<Utc>,
}

impl SessionSnapshot {
    /// From the server's session, whose state was asked for as text, and events already read.
    pub fn new(session: v1::Session, events: Vec<Event>) -> Result<Self> {
        Ok(Self {
            identity: identity(session.key)?,
            state: match session.state_form {
                Some(v1::session::StateForm::StateJson(text)) => parse_object(&text)?,
                Some(v1::session::StateForm::State(_)) => {
                    return Err(unexpected("sessiond sent state as a Struct where text was asked"));
                }
                None => HashMap::new(),
            },
            events,
            last_update_time: session.last_event_time.map(from_timestamp).unwrap_or_default(),
        })
    }

    /// Drops the events before `after`.
    pub fn keep_since(&mut self, after: DateTime<Utc>) {
        self.events.retain(|event| event.timestamp >= after);
    }
}

/// The address of a session that the server has sent.
pub(crate) fn identity(key: Option<v1::SessionKey>) -> Result<AdkIdentity> {
    let v1::SessionKey { app_name, user_id, session_id } =
        key.ok_or_else(|| unexpected("sessiond sent a session without its address"))?;
    Ok(AdkIdentity::new(
        app_name.try_into().map_err(AdkError::from)?,
        user_id.try_into().map_err(AdkError::from)?,
        session_id.try_into().map_err(AdkError::from)?,
    ))
}

/// One JSON object.
pub(crate) fn parse_object(text: &str) -> Result<HashMap<String, Value>> {
    serde_json::from_str(text).map_err(|cause| {
        unexpected("sessiond sent state that is no JSON object").with_source(cause)
    })
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

    /// Changes this snapshot only: what is to be kept is appended with an event.
    fn set(&mut self, key: String, value: Value) {
        match adk_core::validate_state_key(&key) {
            Ok(()) => {
                self.state.insert(key, value);
            }
            Err(says) => tracing::warn!(key, says, "a state key that the kit does not allow"),
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
    fn a_snapshot_takes_keys_as_the_kit_allows_them() {
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
