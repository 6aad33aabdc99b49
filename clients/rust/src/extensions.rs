//! What the service offers beyond ADK's interface: state without events, operations, past states, invocations, expiry.

use std::{collections::HashMap, time::Duration};

use adk_core::{Event, Result, identity::AdkIdentity};
use adk_session::Session;
use chrono::{DateTime, Utc};
use prost_types::FieldMask;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    address::{Point, Scope, SessionRef, key},
    append::append,
    delta::Delta,
    error::{invalid, unexpected},
    event::{from_wire, to_wire},
    json::parse_object,
    list::delete,
    proto::v1::{
        self, EndInvocationRequest, EventSelection, GetSessionRequest, GetStateRequest, JsonForm,
        UpdateSessionRequest, UpdateStateRequest, session::Expiration,
        session_service_client::SessionServiceClient, state_service_client::StateServiceClient,
        update_state_response,
    },
    read::read,
    rewind::{rewind_to, sequence_of},
    service::SessiondSessionService,
    state_pages::{read_state, warn_damaged},
    time::from_timestamp,
};

impl SessiondSessionService {
    /// Reads the state that is visible from a scope. Keys have their prefixes. A scope that was never written is empty.
    ///
    /// # Errors
    ///
    /// `session.not_found` for a missing session.
    pub async fn state(&self, scope: &Scope) -> Result<HashMap<String, Value>> {
        let scope = scope.to_wire()?;
        let session_id = scope.session_id.clone();
        let request = GetStateRequest { scope: Some(scope), ..GetStateRequest::default() };
        let found = read_state(&self.caller, request).await?;
        warn_damaged(&session_id, &found.damaged_keys);
        parse_object(&found.text)
    }

    /// Deletes a session as `delete` does. With the uid of a [`SessionRef`] it deletes no session that was created under the id
    /// since, however often the call is repeated.
    ///
    /// # Errors
    ///
    /// None of its own: a missing session is not an error, nor is another life of its id, which stays.
    pub async fn delete_session(&self, session: impl Into<SessionRef<'_>>) -> Result<()> {
        let session = session.into();
        Ok(delete(&self.caller, session.key()?, session.precondition()).await?)
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
        if response.state_omitted {
            return self.state(scope).await;
        }
        let scope = request.scope.unwrap_or_default();
        warn_damaged(&scope.session_id, &response.damaged_keys);
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
    /// As `append_event_for_identity`; `session.type_mismatch` for an operation on a value of another type; `session.replaced`.
    pub async fn append_with(
        &self,
        session: impl Into<SessionRef<'_>>,
        mut event: Event,
        delta: Delta,
    ) -> Result<Event> {
        let event_delta = std::mem::take(&mut event.actions.state_delta);
        let delta = delta.with_event_delta(event_delta).into_wire()?;
        let mut event = to_wire(event)?;
        event.state_delta = Some(delta);
        let session = session.into();
        let stored = append(&self.caller, session.key()?, session.precondition(), event).await?;
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
    /// `session.not_found`, `session.beyond_last_sequence`, `session.replaced`.
    pub async fn rewind_to(
        &self,
        session: impl Into<SessionRef<'_>>,
        sequence: i64,
    ) -> Result<Box<dyn Session>> {
        let session = session.into();
        let precondition = session.precondition();
        Ok(Box::new(rewind_to(&self.caller, session.key()?, precondition, sequence).await?))
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
    /// `session.not_found`, `session.replaced`, `session.bad_value` for zero and for more than the server can count.
    pub async fn expire(
        &self,
        session: impl Into<SessionRef<'_>>,
        after: Option<Duration>,
    ) -> Result<Option<DateTime<Utc>>> {
        let ttl = after.map(prost_types::Duration::try_from).transpose().map_err(|cause| {
            invalid("session.bad_value", "the time to live is too long").with_source(cause)
        })?;
        let addressed = session.into();
        let request = UpdateSessionRequest {
            key: Some(addressed.key()?),
            session: Some(v1::Session {
                expiration: ttl.map(Expiration::Ttl),
                ..v1::Session::default()
            }),
            update_mask: Some(FieldMask { paths: vec!["ttl".into()] }),
            precondition: addressed.precondition(),
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
