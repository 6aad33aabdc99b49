//! The session service: the kit's trait, call by call.

use std::collections::HashMap;

use adk_core::{
    Event, Result,
    identity::{AdkIdentity, AppName, SessionId, UserId},
};
use adk_session::{
    AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, ListRequest, Session,
    SessionService,
};
use async_trait::async_trait;
use tonic::{Status, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use uuid::Uuid;

use crate::{
    call::{Answer, Caller, Failure, Kind},
    connect::{Builder, Patience},
    error::unexpected,
    event::{drop_temporary, object_text, to_timestamp, to_wire},
    list,
    proto::v1::{
        self, CreateSessionRequest, EventSelection, GetSessionRequest, JsonForm, SessionKey,
        create_session_request::StateForm, event_service_client::EventServiceClient,
        session_service_client::SessionServiceClient,
    },
    read,
    rewind::{self, Target},
    session::SessionSnapshot,
};

/// The label of a session that tells which request has created it, so that a retry knows its own work.
const CREATION: &str = "sessiond-adk/creation";

/// Sessions kept by a sessiond server, for agents of the Rust Agent Development Kit.
///
/// Cheap to clone: clones share one connection, over which any number of calls run at once.
#[derive(Clone, Debug)]
pub struct SessiondSessionService {
    pub(crate) caller: Caller,
}

impl SessiondSessionService {
    pub(crate) fn new(channel: Channel, patience: Patience) -> Self {
        Self { caller: Caller { channel, patience } }
    }

    /// Connects to `HOST:PORT`, `http://HOST:PORT` or `unix:PATH`, and waits until the server is ready to serve.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that is none, `Unavailable` or `Timeout` where nobody is ready there.
    pub async fn connect(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect().await
    }

    /// The same, but the connection is made by the first call. Needs a Tokio runtime around it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an address that is none.
    pub fn connect_lazy(address: impl Into<String>) -> Result<Self> {
        Self::builder(address).connect_lazy()
    }

    /// The same, with deadlines and retries of one's own.
    pub fn builder(address: impl Into<String>) -> Builder {
        Builder::new(address)
    }

    /// The connection, for calls that this crate has no method for, with the clients of [`proto`](crate::proto).
    pub fn channel(&self) -> Channel {
        self.caller.channel.clone()
    }

    /// Waits for a server that is just coming up.
    pub(crate) async fn wait_until_ready(&self) -> Result<()> {
        let ask = |channel, request| async move {
            let answer = HealthClient::new(channel).check(request).await?;
            readiness(answer.get_ref().status())?;
            Ok(answer)
        };
        self.caller.call(&HealthCheckRequest::default(), ask).await?;
        Ok(())
    }

    /// Appends an event as it is on the wire.
    pub(crate) async fn append(
        &self,
        key: SessionKey,
        event: v1::Event,
    ) -> Result<v1::AppendEventResponse> {
        let mut request = v1::AppendEventRequest {
            key: Some(key),
            event: Some(event),
            json_form: JsonForm::Text.into(),
            ..v1::AppendEventRequest::default()
        };
        let refusal = match self.send_append(&request).await {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        // The server holds the temporary keys of so many turns only. They are a convenience, the event is not. Where it is stored
        // without them already, an append of the whole of it looks like one of another event.
        let without = refusal.has_no_room_for_temporary() || refusal.is("EVENT_ID_REUSED");
        if !without || !request.event.as_mut().map_or(Ok(false), drop_temporary)? {
            return Err(refusal.into());
        }
        match self.send_append(&request).await {
            Ok(answer) => {
                tracing::warn!("sessiond had no room for temp: keys, which were dropped");
                Ok(answer)
            }
            // Neither is it the one that is stored: then what was said of the whole of it holds.
            Err(failure) if failure.is("EVENT_ID_REUSED") => Err(refusal.into()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn send_append(
        &self,
        request: &v1::AppendEventRequest,
    ) -> Answer<v1::AppendEventResponse> {
        self.caller
            .call(request, |channel, request| async move {
                EventServiceClient::new(channel).append_event(request).await
            })
            .await
    }

    /// Whether the session that a retry has found is the one that its first attempt has created.
    async fn is_own_work(&self, key: &SessionKey, creation: &str) -> Result<bool> {
        let head = read::head(&self.caller, key.clone()).await?;
        Ok(head.labels.get(CREATION).is_some_and(|label| label == creation))
    }
}

#[async_trait]
impl SessionService for SessiondSessionService {
    /// Creates a session; an id that is taken is refused with `session.already_exists`.
    async fn create(&self, req: CreateRequest) -> Result<Box<dyn Session>> {
        let session_id = match req.try_session_id()? {
            Some(session_id) => session_id,
            None => SessionId::generate(),
        };
        let identity = AdkIdentity::new(req.try_app_name()?, req.try_user_id()?, session_id);
        let key = key(&identity)?;
        let creation = Uuid::new_v4().to_string();
        let labels = HashMap::from([(CREATION.to_owned(), creation.clone())]);
        let request = CreateSessionRequest {
            app_name: key.app_name.clone(),
            user_id: key.user_id.clone(),
            session_id: key.session_id.clone(),
            state_form: Some(StateForm::StateJson(object_text(&req.state)?)),
            session: Some(v1::Session { labels, ..v1::Session::default() }),
            allow_existing: false,
            json_form: JsonForm::Text.into(),
        };
        let outcome = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).create_session(request).await
            })
            .await;
        match outcome {
            Ok(answer) => {
                let session =
                    answer.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
                Ok(Box::new(SessionSnapshot::new(session, Vec::new())?))
            }
            Err(failure) if failure.attempts > 1 && failure.is("SESSION_EXISTS") => {
                if !self.is_own_work(&key, &creation).await? {
                    return Err(failure.into());
                }
                let request = GetSessionRequest { key: Some(key), ..GetSessionRequest::default() };
                Ok(Box::new(read::read(&self.caller, request).await?))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Reads a session. With both filters the newest so many events are taken first, and of those the ones since `after`.
    async fn get(&self, req: GetRequest) -> Result<Box<dyn Session>> {
        let key = key(&req.try_identity()?)?;
        let selection = match (req.num_recent_events, req.after) {
            (Some(count), _) => read::newest(count),
            (None, after) => {
                EventSelection { after_time: after.map(to_timestamp), ..EventSelection::default() }
            }
        };
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(selection),
            ..GetSessionRequest::default()
        };
        let mut snapshot = read::read(&self.caller, request).await?;
        if let Some(after) = req.after {
            snapshot.keep_since(after);
        }
        Ok(Box::new(snapshot))
    }

    /// Lists a user's sessions, most recently used first, with their state and without their events.
    async fn list(&self, req: ListRequest) -> Result<Vec<Box<dyn Session>>> {
        // An empty user means every user to the server, which nobody of this kit may ask for.
        req.try_app_name()?;
        req.try_user_id()?;
        let limit = req.limit.unwrap_or(usize::MAX);
        list::list(&self.caller, (req.app_name, req.user_id), req.offset.unwrap_or(0), limit).await
    }

    /// Deletes a session; one that is not there is fine.
    async fn delete(&self, req: DeleteRequest) -> Result<()> {
        let key = key(&req.try_identity()?)?;
        Ok(list::delete(&self.caller, key).await?)
    }

    /// Appends to the one session of this id. Where several users have one, it is refused with `session.ambiguous_id`.
    async fn append_event(&self, session_id: &str, event: Event) -> Result<()> {
        self.append(bare(session_id)?, to_wire(event)?).await?;
        Ok(())
    }

    async fn append_event_for_identity(&self, req: AppendEventRequest) -> Result<()> {
        self.append(key(&req.identity)?, to_wire(req.event)?).await?;
        Ok(())
    }

    /// Deletes every session of a user, those that are created meanwhile included. The user's state stays. Where others go on
    /// creating them without end, it gives up after about a million with `session.not_all_deleted`.
    async fn delete_all_sessions(&self, app_name: &str, user_id: &str) -> Result<()> {
        let _: (AppName, UserId) = (AppName::try_from(app_name)?, UserId::try_from(user_id)?);
        list::delete_all(&self.caller, app_name, user_id).await
    }

    /// Takes the one session of this id back to an event, which stays its last one.
    async fn rewind(&self, session_id: &str, target_event_id: &str) -> Result<Box<dyn Session>> {
        bare(session_id)?;
        let target = Target::Event(target_event_id);
        Ok(Box::new(rewind::rewind(&self.caller, session_id, target).await?))
    }

    async fn rewind_steps(&self, session_id: &str, steps: usize) -> Result<Box<dyn Session>> {
        let key = bare(session_id)?;
        if steps > 0 {
            let target = Target::Steps(steps);
            return Ok(Box::new(rewind::rewind(&self.caller, session_id, target).await?));
        }
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(EventSelection::default()),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read::read(&self.caller, request).await?))
    }

    /// Asks the server's health service, which answers once its store is open and until it is told to stop.
    async fn health_check(&self) -> Result<()> {
        let ask = |channel, request| async move { HealthClient::new(channel).check(request).await };
        let answer = self.caller.call(&HealthCheckRequest::default(), ask).await?;
        // An answer, though not the wanted one, so it is not asked for again.
        readiness(answer.status())
            .map_err(|status| Failure { status, kind: Kind::Refused, attempts: 1 }.into())
    }
}

/// What the health of a server means to a call.
fn readiness(health: ServingStatus) -> std::result::Result<(), Status> {
    match health {
        ServingStatus::Serving => Ok(()),
        ServingStatus::NotServing | ServingStatus::Unknown | ServingStatus::ServiceUnknown => {
            Err(Status::unavailable("sessiond is starting or stopping"))
        }
    }
}

/// The address of a session on the wire.
pub(crate) fn key(identity: &AdkIdentity) -> Result<SessionKey> {
    // Ids can be made without their checks, and one that is empty means another session to the server.
    Ok(SessionKey {
        app_name: AppName::try_from(identity.app_name.as_str())?.to_string(),
        user_id: UserId::try_from(identity.user_id.as_str())?.to_string(),
        session_id: SessionId::try_from(identity.session_id.as_str())?.to_string(),
    })
}

/// The address of the one session that has this id.
fn bare(session_id: &str) -> Result<SessionKey> {
    let session_id = SessionId::try_from(session_id)?.as_str().into();
    Ok(SessionKey { session_id, ..SessionKey::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_serves_is_ready() {
        readiness(ServingStatus::Serving).unwrap();
        for health in
            [ServingStatus::NotServing, ServingStatus::Unknown, ServingStatus::ServiceUnknown]
        {
            let status = readiness(health).unwrap_err();
            let failure = Failure { status, kind: Kind::Refused, attempts: 1 };
            let error = adk_core::AdkError::from(failure);
            assert_eq!(error.category, adk_core::ErrorCategory::Unavailable);
            assert!(error.is_retryable() && error.code == "session.unavailable");
        }
    }
}
