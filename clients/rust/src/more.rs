//! What the kit's interface has no words for: state without events, operations, the past, forks, turns, expiry.

use std::{collections::HashMap, time::Duration};

use adk_core::{
    Event, Result,
    identity::{AdkIdentity, AppName, SessionId, UserId},
};
use adk_session::Session;
use chrono::{DateTime, Utc};
use prost_types::FieldMask;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    call::Failure,
    delta::Delta,
    error::{invalid, unexpected},
    event::{from_timestamp, from_wire, to_wire},
    proto::v1::{
        self, EndInvocationRequest, EventSelection, ForkOrigin, ForkSessionRequest,
        GetSessionRequest, GetStateRequest, JsonForm, SessionKey, UpdateSessionRequest,
        UpdateStateRequest, get_state_response, session::Expiration,
        session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
        update_state_response,
    },
    read,
    rewind::{Target, find},
    service::{SessiondSessionService, key},
    session::{SessionSnapshot, parse_object},
};

/// Whose state: an application's, a user's, or a session's. From each, the wider ones show too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Keys with `app:`.
    App(AppName),
    /// Keys with `user:`, and the application's.
    User(AppName, UserId),
    /// Keys without either, the user's, and the application's.
    Session(AdkIdentity),
}

impl Scope {
    pub(crate) fn to_wire(&self) -> Result<v1::Scope> {
        Ok(match self {
            Self::App(app_name) => v1::Scope {
                // An id that was made without its check is checked here, as an empty one would name a wider scope.
                app_name: AppName::try_from(app_name.as_str())?.to_string(),
                ..v1::Scope::default()
            },
            Self::User(app_name, user_id) => v1::Scope {
                app_name: AppName::try_from(app_name.as_str())?.to_string(),
                user_id: UserId::try_from(user_id.as_str())?.to_string(),
                session_id: String::new(),
            },
            Self::Session(identity) => {
                let SessionKey { app_name, user_id, session_id } = key(identity)?;
                v1::Scope { app_name, user_id, session_id }
            }
        })
    }
}

impl SessiondSessionService {
    /// Reads what is visible from a scope, keys with their prefixes, no session being needed. What was never written is empty.
    ///
    /// # Errors
    ///
    /// `session.not_found` for a session that is missing.
    pub async fn state(&self, scope: &Scope) -> Result<HashMap<String, Value>> {
        let request = GetStateRequest {
            scope: Some(scope.to_wire()?),
            json_form: JsonForm::Text.into(),
            ..GetStateRequest::default()
        };
        let answer = self
            .caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).get_state(request).await
            })
            .await?;
        match answer.state_form {
            Some(get_state_response::StateForm::StateJson(text)) => parse_object(&text),
            _ => Err(unexpected("sessiond sent no state as text")),
        }
    }

    /// Changes state outside of a turn, and returns what is visible from the scope then. An application's scope takes `app:`
    /// keys, a user's `app:` and `user:` keys, a session's all of them but `temp:`, and records the change as an event.
    ///
    /// # Errors
    ///
    /// `session.key_outside_scope`, `session.type_mismatch` for an operation on a value of another type, `session.not_found`.
    pub async fn update_state(
        &self,
        scope: &Scope,
        delta: Delta,
    ) -> Result<HashMap<String, Value>> {
        let request = UpdateStateRequest {
            scope: Some(scope.to_wire()?),
            delta: Some(delta.into_wire()?),
            request_id: Uuid::new_v4().to_string(),
            json_form: JsonForm::Text.into(),
            ..UpdateStateRequest::default()
        };
        let answer = self
            .caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).update_state(request).await
            })
            .await?;
        match answer.state_form {
            Some(update_state_response::StateForm::StateJson(text)) => parse_object(&text),
            _ => Err(unexpected("sessiond sent no state as text")),
        }
    }

    /// Appends an event with removals and operations beside its own delta, all in one commit. The event that is returned is the
    /// stored one, whose delta holds what each key became.
    ///
    /// # Errors
    ///
    /// As `append_event_for_identity`; `session.type_mismatch` for an operation on a value of another type.
    pub async fn append_with(
        &self,
        identity: &AdkIdentity,
        mut event: Event,
        delta: Delta,
    ) -> Result<Event> {
        let delta = delta.after(std::mem::take(&mut event.actions.state_delta)).into_wire()?;
        let mut event = to_wire(event)?;
        event.state_delta = Some(delta);
        let stored = self.append(key(identity)?, event).await?;
        from_wire(stored.event.ok_or_else(|| unexpected("sessiond sent no event"))?)
    }

    /// The session as it was right after an event, with the application's and the user's state at that moment. Events that a
    /// rewind has hidden since are still there to ask for.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.event_not_found`.
    pub async fn get_as_of(
        &self,
        identity: &AdkIdentity,
        event_id: &str,
    ) -> Result<Box<dyn Session>> {
        let key = key(identity)?;
        let sequence = find(&self.caller, &key, Target::Event(event_id), true).await?;
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(EventSelection::default()),
            as_of_sequence: Some(sequence),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read::read(&self.caller, request).await?))
    }

    /// The session with the `temp:` keys of a turn.
    ///
    /// # Errors
    ///
    /// `session.not_found`.
    pub async fn get_within(
        &self,
        identity: &AdkIdentity,
        invocation_id: &str,
    ) -> Result<Box<dyn Session>> {
        let request = GetSessionRequest {
            key: Some(key(identity)?),
            events: Some(EventSelection::default()),
            invocation_id: invocation_id.into(),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read::read(&self.caller, request).await?))
    }

    /// Ends a turn: its `temp:` keys are gone. The server does so itself an hour after they were last used.
    ///
    /// # Errors
    ///
    /// `session.not_found`.
    pub async fn end_invocation(&self, identity: &AdkIdentity, invocation_id: &str) -> Result<()> {
        let request =
            EndInvocationRequest { key: Some(key(identity)?), invocation_id: invocation_id.into() };
        self.caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).end_invocation(request).await
            })
            .await?;
        Ok(())
    }

    /// Lets a session expire `after` so long, counted by the server's clock from when it is asked: from then on it is as if it
    /// had been deleted. None: never. Returns the time when that will be.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.bad_value` for no time at all and for more than the server can count.
    pub async fn expire(
        &self,
        identity: &AdkIdentity,
        after: Option<Duration>,
    ) -> Result<Option<DateTime<Utc>>> {
        let ttl = after.map(prost_types::Duration::try_from).transpose().map_err(|cause| {
            invalid("session.bad_value", "the session would live too long").with_source(cause)
        })?;
        let request = UpdateSessionRequest {
            key: Some(key(identity)?),
            session: Some(v1::Session {
                expiration: ttl.map(Expiration::Ttl),
                ..v1::Session::default()
            }),
            update_mask: Some(FieldMask { paths: vec!["ttl".into()] }),
        };
        let answer = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).update_session(request).await
            })
            .await?;
        let session = answer.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
        match session.expiration {
            Some(Expiration::ExpireTime(time)) => Ok(Some(from_timestamp(time))),
            None => Ok(None),
            Some(Expiration::Ttl(_)) => Err(unexpected("sessiond sent no time of expiration")),
        }
    }

    /// Makes a new session of the same user from the past of another: its events up to `up_to`, or all of them, and its own
    /// state as it was then. Without an id for it, one is made.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.event_not_found`, `session.already_exists`.
    pub async fn fork(
        &self,
        source: &AdkIdentity,
        up_to: Option<&str>,
        session_id: Option<SessionId>,
    ) -> Result<Box<dyn Session>> {
        let source = key(source)?;
        // Found once, so that a retry takes over the same events.
        let up_to = match up_to {
            Some(event_id) => find(&self.caller, &source, Target::Event(event_id), true).await?,
            None => read::head(&self.caller, source.clone()).await?.last_sequence,
        };
        let session_id = session_id.unwrap_or_else(SessionId::generate);
        let session_id = SessionId::try_from(session_id.as_str())?.to_string();
        let forked = SessionKey { session_id: session_id.clone(), ..source.clone() };
        let request = ForkSessionRequest {
            key: Some(source.clone()),
            up_to_sequence: Some(up_to),
            session_id,
            json_form: JsonForm::Text.into(),
        };
        let outcome = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).fork_session(request).await
            })
            .await;
        match outcome {
            Ok(_) => {}
            // The fork that a retry finds may be its own; one that is equal is as good.
            Err(failure) if failure.attempts > 1 && failure.is("SESSION_EXISTS") => {
                let origin = ForkOrigin { key: Some(source), sequence: up_to };
                self.expect_origin(&forked, origin, failure).await?;
            }
            Err(failure) => return Err(failure.into()),
        }
        let request = GetSessionRequest {
            key: Some(forked),
            events: Some(EventSelection::default()),
            ..GetSessionRequest::default()
        };
        let snapshot: SessionSnapshot = read::read(&self.caller, request).await?;
        Ok(Box::new(snapshot))
    }

    async fn expect_origin(
        &self,
        forked: &SessionKey,
        origin: ForkOrigin,
        failure: Failure,
    ) -> Result<()> {
        let head = read::head(&self.caller, forked.clone()).await?;
        if head.forked_from == Some(origin) { Ok(()) } else { Err(failure.into()) }
    }
}
