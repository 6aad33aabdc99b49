//! The session service: ADK's trait, call by call.

use std::{collections::HashMap, sync::Arc};

use adk_core::{
    Event, Result,
    identity::{AdkIdentity, AppName, SessionId, UserId},
};
use adk_session::{
    AppendEventRequest, CreateRequest, DeleteRequest, GetRequest, KEY_PREFIX_TEMP, ListRequest,
    Session, SessionService,
};
use async_trait::async_trait;
use tonic::{Request, transport::Channel};
use uuid::Uuid;

use crate::{
    address::{bare_key, key},
    append::append,
    call::{Caller, Outage},
    channels::Channels,
    error::unexpected,
    event::to_wire,
    health,
    json::object_text,
    list,
    metadata::CallMetadata,
    policy::CallPolicy,
    proto::v1::{
        self, CreateSessionRequest, EventSelection, GetSessionRequest, JsonForm, SessionKey,
        create_session_request::StateForm, session_service_client::SessionServiceClient,
    },
    read::{head, newest, read},
    rewind::{Target, rewind},
    session::SessionSnapshot,
    state_pages::complete,
    time::to_timestamp,
};

/// The label that holds the id of the creation, by which a retry recognizes the session of its first attempt.
const CREATION_LABEL: &str = "sessiond-adk/creation";

/// ADK's session service on a sessiond server.
///
/// Cheap to clone. Clones share one connection, over which calls run concurrently, and a further one for each 200 watches.
#[derive(Clone, Debug)]
pub struct SessiondSessionService {
    pub(crate) caller: Caller,
}

impl SessiondSessionService {
    pub(crate) fn new(channels: Channels, policy: CallPolicy, metadata: CallMetadata) -> Self {
        let channels = Arc::new(channels);
        Self { caller: Caller { channels, policy, metadata, outage: Outage::default() } }
    }

    /// The first connection, for calls that this crate has no method for. The clients are in [`proto`](crate::proto), and
    /// [`request`](Self::request) makes their requests.
    pub fn channel(&self) -> Channel {
        self.caller.channels.first()
    }

    /// A request through [`channel`](Self::channel) that is sent now, with the token and the trace context.
    pub fn request<Q>(&self, message: Q) -> Request<Q> {
        self.caller.metadata.request(message)
    }

    /// Whether an earlier attempt of this creation has made the session.
    async fn is_created_by(&self, creation: &str, key: &SessionKey) -> Result<bool> {
        let head = head(&self.caller, key.clone()).await?;
        Ok(head.labels.get(CREATION_LABEL).is_some_and(|label| label == creation))
    }
}

#[async_trait]
impl SessionService for SessiondSessionService {
    /// Creates a session. A taken id is refused with `session.already_exists`.
    async fn create(&self, mut req: CreateRequest) -> Result<Box<dyn Session>> {
        let session_id = match req.try_session_id()? {
            Some(session_id) => session_id,
            None => SessionId::generate(),
        };
        let identity = AdkIdentity::new(req.try_app_name()?, req.try_user_id()?, session_id);
        let key = key(&identity)?;
        // The server drops them, but it refuses large ones.
        req.state.retain(|key, _| !key.starts_with(KEY_PREFIX_TEMP));
        let creation = Uuid::new_v4().to_string();
        let labels = HashMap::from([(CREATION_LABEL.to_owned(), creation.clone())]);
        let request = CreateSessionRequest {
            app_name: key.app_name.clone(),
            user_id: key.user_id.clone(),
            session_id: key.session_id.clone(),
            state_form: Some(StateForm::StateJson(object_text(&req.state)?)),
            session: Some(v1::Session { labels, ..v1::Session::default() }),
            allow_existing: false,
            json_form: JsonForm::Text.into(),
            include_versions: false,
        };
        let outcome = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).create_session(request).await
            })
            .await;
        match outcome {
            Ok(response) => {
                let mut session =
                    response.session.ok_or_else(|| unexpected("sessiond sent no session"))?;
                complete(&self.caller, &mut session).await?;
                Ok(Box::new(SessionSnapshot::new(session, Vec::new())?))
            }
            Err(failure) if failure.attempts > 1 && failure.is("SESSION_EXISTS") => {
                if !self.is_created_by(&creation, &key).await? {
                    return Err(failure.into());
                }
                let request = GetSessionRequest { key: Some(key), ..GetSessionRequest::default() };
                Ok(Box::new(read(&self.caller, request).await?))
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Reads a session. With both filters, `num_recent_events` applies first, and `after` (inclusive) to the result.
    async fn get(&self, req: GetRequest) -> Result<Box<dyn Session>> {
        let key = key(&req.try_identity()?)?;
        let selection = match (req.num_recent_events, req.after) {
            (Some(count), _) => newest(count),
            (None, after) => {
                EventSelection { after_time: after.map(to_timestamp), ..EventSelection::default() }
            }
        };
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(selection),
            ..GetSessionRequest::default()
        };
        let mut snapshot = read(&self.caller, request).await?;
        if let Some(after) = req.after {
            snapshot.keep_since(after);
        }
        Ok(Box::new(snapshot))
    }

    /// Lists a user's sessions, most recently used first, with state and without events.
    ///
    /// With a `limit`, a session that is used while the pages are read may be left out, because it moves to the front.
    async fn list(&self, req: ListRequest) -> Result<Vec<Box<dyn Session>>> {
        // The server reads an empty user as every user, which ADK does not offer.
        req.try_app_name()?;
        req.try_user_id()?;
        let (offset, limit) = (req.offset.unwrap_or(0), req.limit);
        list::list(&self.caller, (req.app_name, req.user_id), offset, limit).await
    }

    /// Deletes a session. A missing one is not an error.
    async fn delete(&self, req: DeleteRequest) -> Result<()> {
        let key = key(&req.try_identity()?)?;
        Ok(list::delete(&self.caller, key, None).await?)
    }

    /// Appends to the one session with this id. If several sessions have it, `session.ambiguous_id`.
    async fn append_event(&self, session_id: &str, event: Event) -> Result<()> {
        append(&self.caller, bare_key(session_id)?, None, to_wire(event)?).await?;
        Ok(())
    }

    async fn append_event_for_identity(&self, req: AppendEventRequest) -> Result<()> {
        append(&self.caller, key(&req.identity)?, None, to_wire(req.event)?).await?;
        Ok(())
    }

    /// Deletes every session of a user, including those created meanwhile. The user's state stays. Gives up with
    /// `session.not_all_deleted` after about a million, if others keep creating sessions.
    async fn delete_all_sessions(&self, app_name: &str, user_id: &str) -> Result<()> {
        let _: (AppName, UserId) = (AppName::try_from(app_name)?, UserId::try_from(user_id)?);
        list::delete_all(&self.caller, app_name, user_id).await
    }

    /// Rewinds the one session with this id to an event, which becomes its last one.
    async fn rewind(&self, session_id: &str, target_event_id: &str) -> Result<Box<dyn Session>> {
        let key = bare_key(session_id)?;
        let target = Target::Event(target_event_id);
        Ok(Box::new(rewind(&self.caller, key, target).await?))
    }

    async fn rewind_steps(&self, session_id: &str, steps: usize) -> Result<Box<dyn Session>> {
        let key = bare_key(session_id)?;
        if steps > 0 {
            let target = Target::Steps(steps);
            return Ok(Box::new(rewind(&self.caller, key, target).await?));
        }
        let request = GetSessionRequest {
            key: Some(key),
            events: Some(EventSelection::default()),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read(&self.caller, request).await?))
    }

    /// Fails unless the server has opened its store and is not shutting down.
    async fn health_check(&self) -> Result<()> {
        health::check(&self.caller).await
    }
}
