//! What the service offers beyond ADK's interface: state without events, operations, past states, invocations, expiry.

use std::{collections::HashMap, time::Duration};

use adk_core::{Event, Result, identity::AdkIdentity};
use adk_session::Session;
use chrono::{DateTime, Utc};
use prost_types::FieldMask;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    address::{Point, Scope, key},
    append::append,
    delta::Delta,
    error::{invalid, unexpected},
    event::{from_wire, to_wire},
    json::parse_object,
    proto::v1::{
        self, EndInvocationRequest, EventSelection, GetSessionRequest, GetStateRequest, JsonForm,
        UpdateSessionRequest, UpdateStateRequest, get_state_response, session::Expiration,
        session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
        update_state_response,
    },
    read::read,
    rewind::{rewind_to, sequence_of},
    service::SessiondSessionService,
    time::from_timestamp,
};

impl SessiondSessionService {
    /// Reads the state that is visible from a scope. Keys have their prefixes. A scope that was never written is empty.
    ///
    /// # Errors
    ///
    /// `session.not_found` for a missing session.
    pub async fn state(&self, scope: &Scope) -> Result<HashMap<String, Value>> {
        let request = GetStateRequest {
            scope: Some(scope.to_wire()?),
            json_form: JsonForm::Text.into(),
            ..GetStateRequest::default()
        };
        let response = self
            .caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).get_state(request).await
            })
            .await?;
        match response.state_form {
            Some(get_state_response::StateForm::StateJson(text)) => parse_object(&text),
            _ => Err(unexpected("sessiond sent no state as text")),
        }
    }

    /// Changes state outside of an invocation, and returns the state that is then visible from the scope. An application's scope
    /// takes `app:` keys, a user's `app:` and `user:` keys, a session's all keys but `temp:`, and records the change as an event.
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
        let response = self
            .caller
            .call(&request, |channel, request| async move {
                StateServiceClient::new(channel).update_state(request).await
            })
            .await?;
        match response.state_form {
            Some(update_state_response::StateForm::StateJson(text)) => parse_object(&text),
            _ => Err(unexpected("sessiond sent no state as text")),
        }
    }

    /// Appends an event with removals and operations beside its own delta, all in one commit. Returns the stored event, whose
    /// delta holds the new value of each key.
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
        let event_delta = std::mem::take(&mut event.actions.state_delta);
        let delta = delta.with_event_delta(event_delta).into_wire()?;
        let mut event = to_wire(event)?;
        event.state_delta = Some(delta);
        let stored = append(&self.caller, key(identity)?, event).await?;
        from_wire(stored.event.ok_or_else(|| unexpected("sessiond sent no event"))?)
    }

    /// The session as of a point in its log, with the application's and the user's state at that moment. A rewind may have hidden
    /// the event since.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.event_not_found`, `session.beyond_last_sequence`.
    pub async fn get_as_of(
        &self,
        identity: &AdkIdentity,
        point: Point<'_>,
    ) -> Result<Box<dyn Session>> {
        let key = key(identity)?;
        let sequence = sequence_of(&self.caller, &key, point).await?;
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(EventSelection::default()),
            as_of_sequence: Some(sequence),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read(&self.caller, request).await?))
    }

    /// Rewinds a session to the event with this sequence; 0: to before its first event. Unlike ADK's `rewind`, it addresses the
    /// session with all three parts.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.beyond_last_sequence`.
    pub async fn rewind_to(
        &self,
        identity: &AdkIdentity,
        sequence: i64,
    ) -> Result<Box<dyn Session>> {
        Ok(Box::new(rewind_to(&self.caller, key(identity)?, sequence).await?))
    }

    /// The session with the `temp:` keys of an invocation.
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
        Ok(Box::new(read(&self.caller, request).await?))
    }

    /// Ends an invocation, which drops its `temp:` keys. The server does so itself an hour after their last use.
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

    /// Makes a session expire `after` the given time on the server's clock, or never. An expired session is as if deleted.
    /// Returns the time of expiry.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.bad_value` for zero and for more than the server can count.
    pub async fn expire(
        &self,
        identity: &AdkIdentity,
        after: Option<Duration>,
    ) -> Result<Option<DateTime<Utc>>> {
        let ttl = after.map(prost_types::Duration::try_from).transpose().map_err(|cause| {
            invalid("session.bad_value", "the time to live is too long").with_source(cause)
        })?;
        let request = UpdateSessionRequest {
            key: Some(key(identity)?),
            session: Some(v1::Session {
                expiration: ttl.map(Expiration::Ttl),
                ..v1::Session::default()
            }),
            update_mask: Some(FieldMask { paths: vec!["ttl".into()] }),
            precondition: None,
        };
        let response = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).update_session(request).await
            })
            .await?;
        let session = response.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
        match session.expiration {
            Some(Expiration::ExpireTime(time)) => Ok(Some(from_timestamp(time))),
            None => Ok(None),
            Some(Expiration::Ttl(_)) => Err(unexpected("sessiond sent no time of expiry")),
        }
    }
}
