//! Sessions that know the versions of their keys, so that an append from them overwrites nobody's value unseen.

use std::collections::HashMap;

use adk_core::{Event, Result, identity::AdkIdentity};
use adk_session::{Events, KEY_PREFIX_APP, KEY_PREFIX_TEMP, KEY_PREFIX_USER, Session, State};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;

use crate::{
    address::{SessionRef, key},
    append::append_request,
    delta::Delta,
    error::unexpected,
    event::{from_wire, to_wire},
    json::parse_object,
    observe::observe,
    proto::v1::{
        self, AppendEventRequest, EventSelection, GetSessionRequest, KeyCheck, Precondition,
        key_check::Condition, session::StateForm, state_delta::SetForm,
    },
    read::read_message,
    service::SessiondSessionService,
    session::SessionSnapshot,
    state_pages::complete_within,
    time::from_timestamp,
};

type Texts = HashMap<String, Box<RawValue>>;
type Versions = HashMap<String, i64>;

/// A session as it was read by [`get_tracked`](SessiondSessionService::get_tracked), and as its own appends have changed it.
///
/// It is ADK's [`Session`]. A key has been changed if its version is another one. If the server sent no version, because it is an
/// older one or the state was too large for the answer to an append, the values are compared.
#[derive(Clone, Debug)]
pub struct TrackedSession {
    snapshot: SessionSnapshot,
    /// The life of the session id; empty if the server has sent none.
    uid: String,
    /// The stored values, byte for byte.
    texts: Texts,
    /// The version at which a key got the value in `texts`.
    versions: Versions,
}

impl SessiondSessionService {
    /// Reads a session for [`append_from`](Self::append_from): as `get`, with the versions of the keys.
    ///
    /// # Errors
    ///
    /// `session.not_found`.
    pub async fn get_tracked(&self, identity: &AdkIdentity) -> Result<TrackedSession> {
        let request = GetSessionRequest {
            key: Some(key(identity)?),
            events: Some(EventSelection::default()),
            include_versions: true,
            ..GetSessionRequest::default()
        };
        let (session, events) = read_message(&self.caller, request).await?;
        TrackedSession::new(session, events)
    }

    /// Appends an event as [`append_with`](Self::append_with) does, and brings `session` up to date, including the `temp:` keys of the
    /// event's invocation. Refused if others have changed
    /// a key that the event or the delta sets or removes since `session` was read. All other keys are merged. Operations never
    /// conflict, as they are evaluated in the commit.
    ///
    /// # Errors
    ///
    /// As `append_with`, with `session.replaced` if the session was deleted and created anew, and `session.key_conflict` with the keys in `details.metadata["keys"]`. Nothing is written then: read the
    /// session again and decide again.
    pub async fn append_from(
        &self,
        session: &mut TrackedSession,
        mut event: Event,
        delta: Delta,
    ) -> Result<Event> {
        let event_delta = std::mem::take(&mut event.actions.state_delta);
        let delta = delta.with_event_delta(event_delta);
        let precondition = session.unchanged(&delta);
        let mut event = to_wire(event)?;
        event.state_delta = Some(delta.into_wire()?);
        let request = AppendEventRequest {
            key: Some(key(session.snapshot.identity())?),
            event: Some(event),
            precondition: Some(precondition),
            return_state: true,
            include_versions: true,
            ..AppendEventRequest::default()
        };
        let answer = append_request(&self.caller, request).await?;
        let stored = answer.event.ok_or_else(|| unexpected("sessiond sent no event"))?;
        let mut now = answer.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
        // The event is stored, whether the state can be read or not.
        if let Err(error) =
            complete_within(&self.caller, &mut now, &stored.invocation_id, true).await
        {
            observe(|| tracing::warn!(%error, "failed to read the state after an append"));
        }
        session.advance(stored, now)
    }
}

impl TrackedSession {
    fn new(mut session: v1::Session, events: Vec<Event>) -> Result<Self> {
        let texts = match &session.state_form {
            Some(StateForm::StateJson(text)) => texts(text)?,
            _ => Texts::new(),
        };
        let versions = std::mem::take(&mut session.versions);
        let uid = std::mem::take(&mut session.uid);
        Ok(Self { snapshot: SessionSnapshot::new(session, events)?, uid, texts, versions })
    }

    /// Which life of the session id this is, for [`SessionRef::new`]; empty if the server has sent none.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The condition that the session is the one that was read, and that others have changed no key that `delta` overwrites.
    fn unchanged(&self, delta: &Delta) -> Precondition {
        let overwritten = delta.overwritten().into_iter();
        let keys = overwritten.filter(|key| !key.starts_with(KEY_PREFIX_TEMP)).map(|key| {
            let condition = match (self.texts.get(&key), self.versions.get(&key)) {
                (None, _) => Condition::Exists(false),
                (Some(_), Some(version)) => Condition::Version(*version),
                (Some(text), None) => Condition::ValueJson(text.get().to_owned()),
            };
            KeyCheck { key, condition: Some(condition) }
        });
        Precondition { keys: keys.collect(), expected_sequence: None, uid: self.uid.clone() }
    }

    /// Takes over what is stored after an append, and returns the stored event.
    fn advance(&mut self, stored: v1::Event, now: v1::Session) -> Result<Event> {
        if self.uid.is_empty() {
            self.uid = now.uid;
        }
        (self.texts, self.versions) = match now.state_form {
            Some(StateForm::StateJson(text)) => (texts(&text)?, now.versions),
            // A state that is too large for the answer is left out.
            _ => self.changed_by(&stored)?,
        };
        let state = self.texts.iter().map(|(key, text)| format!("{}:{}", quoted(key), text.get()));
        let state = parse_object(&format!("{{{}}}", state.collect::<Vec<_>>().join(",")))?;
        let updated = now.last_event_time.map(from_timestamp).unwrap_or_default();
        let event = from_wire(stored)?;
        self.snapshot.push(event.clone(), state, updated);
        Ok(event)
    }

    /// The values and versions after the changes of `stored`. Versions of wider scopes come with a state only.
    fn changed_by(&self, stored: &v1::Event) -> Result<(Texts, Versions)> {
        let (mut values, mut versions) = (self.texts.clone(), self.versions.clone());
        let delta = stored.state_delta.clone().unwrap_or_default();
        let written = match &delta.set_form {
            Some(SetForm::SetJson(text)) => texts(text)?,
            _ => Texts::new(),
        };
        for (key, text) in written {
            if key.starts_with(KEY_PREFIX_APP) || key.starts_with(KEY_PREFIX_USER) {
                versions.remove(&key);
            } else {
                versions.insert(key.clone(), stored.sequence);
            }
            values.insert(key, text);
        }
        values.retain(|key, _| !delta.remove.contains(key));
        Ok((values, versions))
    }
}

impl<'a> From<&'a TrackedSession> for SessionRef<'a> {
    fn from(session: &'a TrackedSession) -> Self {
        Self::new(session.snapshot.identity(), &session.uid)
    }
}

fn quoted(key: &str) -> String {
    serde_json::Value::from(key).to_string()
}

fn texts(object: &str) -> Result<Texts> {
    serde_json::from_str(object).map_err(|cause| {
        unexpected("sessiond sent state that is not a JSON object").with_source(cause)
    })
}

impl Session for TrackedSession {
    fn id(&self) -> &str {
        self.snapshot.id()
    }

    fn app_name(&self) -> &str {
        self.snapshot.app_name()
    }

    fn user_id(&self) -> &str {
        self.snapshot.user_id()
    }

    fn state(&self) -> &dyn State {
        self.snapshot.state()
    }

    fn events(&self) -> &dyn Events {
        self.snapshot.events()
    }

    fn last_update_time(&self) -> DateTime<Utc> {
        self.snapshot.last_update_time()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::proto::v1::{SessionKey, StateDelta};

    fn message(state: Option<&str>, versions: &[(&str, i64)]) -> v1::Session {
        let key = SessionKey { app_name: "a".into(), user_id: "u".into(), session_id: "s".into() };
        v1::Session {
            key: Some(key),
            state_form: state.map(|text| StateForm::StateJson(text.into())),
            versions: versions.iter().map(|(key, version)| ((*key).into(), *version)).collect(),
            ..v1::Session::default()
        }
    }

    fn event(sequence: i64, set: &str, remove: &[&str]) -> v1::Event {
        let delta = StateDelta {
            set_form: Some(SetForm::SetJson(set.into())),
            remove: remove.iter().map(|key| (*key).into()).collect(),
            ..StateDelta::default()
        };
        let body_form = Some(v1::event::BodyForm::BodyJson("{}".into()));
        v1::Event { sequence, state_delta: Some(delta), body_form, ..v1::Event::default() }
    }

    /// What the session demands of `key` when it overwrites it.
    fn condition(session: &TrackedSession, key: &str) -> Condition {
        let precondition = session.unchanged(&Delta::new().set(key, 0));
        precondition.keys.into_iter().find_map(|check| check.condition).unwrap()
    }

    #[test]
    fn versions_are_those_of_the_newest_state() {
        let read = message(Some(r#"{"k":1,"app:x":1}"#), &[("k", 0), ("app:x", 7)]);
        let mut session = TrackedSession::new(read, Vec::new()).unwrap();
        assert_eq!(condition(&session, "k"), Condition::Version(0));
        assert_eq!(condition(&session, "app:x"), Condition::Version(7));
        assert_eq!(condition(&session, "new"), Condition::Exists(false));
        let now =
            message(Some(r#"{"k":2,"app:x":1,"new":1}"#), &[("k", 4), ("app:x", 9), ("new", 5)]);
        session.advance(event(5, r#"{"new":1}"#, &[]), now).unwrap();
        for (key, version) in [("k", 4), ("app:x", 9), ("new", 5)] {
            assert_eq!(condition(&session, key), Condition::Version(version));
        }
    }

    #[test]
    fn without_versions_values_are_compared() {
        let read = message(Some(r#"{"k":1,"app:x":1.0}"#), &[]);
        let mut session = TrackedSession::new(read, Vec::new()).unwrap();
        assert_eq!(condition(&session, "app:x"), Condition::ValueJson("1.0".into()));
        let now = message(Some(r#"{"k":2,"app:x":1.0}"#), &[]);
        session.advance(event(1, r#"{"k":2}"#, &[]), now).unwrap();
        assert_eq!(condition(&session, "k"), Condition::ValueJson("2".into()));
        assert_eq!(condition(&session, "new"), Condition::Exists(false));
    }

    #[test]
    fn without_state_the_own_changes_are_known() {
        let state = r#"{"k":1,"kept":1,"gone":1,"app:x":1,"app:kept":1}"#;
        let versions = [("k", 1), ("kept", 1), ("gone", 1), ("app:x", 7), ("app:kept", 7)];
        let mut session = TrackedSession::new(message(Some(state), &versions), Vec::new()).unwrap();
        let stored = event(2, r#"{"k":2,"app:x":2}"#, &["gone"]);
        session.advance(stored, message(None, &[])).unwrap();
        let state = json!({"k": 2, "kept": 1, "app:x": 2, "app:kept": 1});
        assert_eq!(json!(session.state().all()), state);
        assert_eq!(condition(&session, "k"), Condition::Version(2));
        assert_eq!(condition(&session, "kept"), Condition::Version(1));
        assert_eq!(condition(&session, "gone"), Condition::Exists(false));
        assert_eq!(condition(&session, "app:x"), Condition::ValueJson("2".into()));
        assert_eq!(condition(&session, "app:kept"), Condition::Version(7));
    }
}
