//! Sessions that know the versions of their keys, so that an append from them overwrites nobody's value unseen.

use std::collections::HashMap;

use adk_core::{Event, Result, identity::AdkIdentity};
use adk_session::{Events, KEY_PREFIX_APP, KEY_PREFIX_TEMP, KEY_PREFIX_USER, Session, State};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;

use crate::{
    address::{Scope, key},
    append::append_request,
    delta::Delta,
    error::unexpected,
    event::{from_wire, to_wire},
    json::parse_object,
    proto::v1::{
        self, AppendEventRequest, EventSelection, GetSessionRequest, GetStateRequest, JsonForm,
        KeyCheck, Precondition, get_state_response, key_check::Condition, session::StateForm,
        state_delta::SetForm, state_service_client::StateServiceClient,
    },
    read::read_with_state,
    service::SessiondSessionService,
    session::SessionSnapshot,
    time::from_timestamp,
};

type Texts = HashMap<String, Box<RawValue>>;

/// A session as it was read by [`get_tracked`](SessiondSessionService::get_tracked), and as its own appends have changed it.
///
/// It is ADK's [`Session`]. Values are compared by their versions as far as these are known: an `app:` or `user:` key that this
/// object wrote last counts as unchanged if it has the same value.
#[derive(Clone, Debug)]
pub struct TrackedSession {
    snapshot: SessionSnapshot,
    /// The stored values, byte for byte.
    texts: Texts,
    /// The version at which a key got the value in `texts`.
    versions: HashMap<String, i64>,
}

impl SessiondSessionService {
    /// Reads a session for [`append_from`](Self::append_from). Takes one call more than `get`, for the versions of the keys.
    ///
    /// # Errors
    ///
    /// `session.not_found`.
    pub async fn get_tracked(&self, identity: &AdkIdentity) -> Result<TrackedSession> {
        // Before the session: a key that changes in between then has another value and no known version.
        let request = GetStateRequest {
            scope: Some(Scope::Session(identity.clone()).to_wire()?),
            include_versions: true,
            json_form: JsonForm::Text.into(),
            ..GetStateRequest::default()
        };
        let earlier = self
            .caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).get_state(request).await
            })
            .await?;
        let Some(get_state_response::StateForm::StateJson(then)) = earlier.state_form else {
            return Err(unexpected("sessiond sent no state as text"));
        };
        let request = GetSessionRequest {
            key: Some(key(identity)?),
            events: Some(EventSelection::default()),
            ..GetSessionRequest::default()
        };
        let (snapshot, now) = read_with_state(&self.caller, request).await?;
        let (then, texts) = (texts(&then)?, texts(&now)?);
        let mut versions = earlier.versions;
        versions.retain(|key, _| text_of(&then, key) == text_of(&texts, key));
        Ok(TrackedSession { snapshot, texts, versions })
    }

    /// Appends an event as [`append_with`](Self::append_with) does, and brings `session` up to date, including the `temp:` keys of the
    /// event's invocation. Refused if others have changed
    /// a key that the event or the delta sets or removes since `session` was read. All other keys are merged. Operations never
    /// conflict, as they are evaluated in the commit.
    ///
    /// # Errors
    ///
    /// As `append_with`, and `session.key_conflict` with the keys in `details.metadata["keys"]`. Nothing is written then: read the
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
            ..AppendEventRequest::default()
        };
        let answer = append_request(&self.caller, request).await?;
        let stored = answer.event.ok_or_else(|| unexpected("sessiond sent no event"))?;
        let now = answer.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
        session.advance(stored, now, answer.replayed)
    }
}

impl TrackedSession {
    /// The condition that nobody has changed a key that `delta` overwrites.
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
        Precondition { keys: keys.collect(), ..Precondition::default() }
    }

    /// Takes over what is stored after an append, and returns the stored event.
    fn advance(&mut self, stored: v1::Event, now: v1::Session, replayed: bool) -> Result<Event> {
        let delta = stored.state_delta.clone().unwrap_or_default();
        let written = match &delta.set_form {
            Some(SetForm::SetJson(text)) => texts(text)?,
            _ => Texts::new(),
        };
        let texts = match now.state_form {
            Some(StateForm::StateJson(text)) => texts(&text)?,
            // A state that is too large for the answer is left out.
            _ => {
                let mut texts = self.texts.clone();
                texts.extend(written.clone());
                texts.retain(|key, _| !delta.remove.contains(key));
                texts
            }
        };
        self.versions.retain(|key, _| {
            !written.contains_key(key) && text_of(&self.texts, key) == text_of(&texts, key)
        });
        if !replayed {
            // Versions of wider scopes come with a read only, not with a commit.
            let shared =
                |key: &String| key.starts_with(KEY_PREFIX_APP) || key.starts_with(KEY_PREFIX_USER);
            let own = written.into_keys().filter(|key| !shared(key));
            self.versions.extend(own.map(|key| (key, stored.sequence)));
        }
        let state = texts.iter().map(|(key, text)| format!("{}:{}", quoted(key), text.get()));
        let state = parse_object(&format!("{{{}}}", state.collect::<Vec<_>>().join(",")))?;
        self.texts = texts;
        let updated = now.last_event_time.map(from_timestamp).unwrap_or_default();
        let event = from_wire(stored)?;
        self.snapshot.push(event.clone(), state, updated);
        Ok(event)
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

fn text_of<'a>(texts: &'a Texts, key: &str) -> Option<&'a str> {
    texts.get(key).map(|text| text.get())
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
