//! Forking: a new session from the past of another.

use adk_core::{Result, identity::SessionId};
use adk_session::Session;

use crate::{
    address::{Point, SessionRef, uid_precondition},
    proto::v1::{
        EventSelection, ForkOrigin, ForkSessionRequest, GetSessionRequest, JsonForm, SessionKey,
        session_service_client::SessionServiceClient,
    },
    read::{head, read},
    rewind::sequence_of,
    service::SessiondSessionService,
};

impl SessiondSessionService {
    /// Makes a new session of the same user from another one's events up to `up_to`, or all of them, and its own state as of
    /// then, its display name, labels and expiration. Without `session_id` it gets a new id.
    ///
    /// # Errors
    ///
    /// `session.not_found`, `session.event_not_found`, `session.beyond_last_sequence`, `session.already_exists`,
    /// `session.replaced`.
    pub async fn fork(
        &self,
        source: impl Into<SessionRef<'_>>,
        up_to: Option<Point<'_>>,
        session_id: Option<SessionId>,
    ) -> Result<Box<dyn Session>> {
        let given = source.into();
        let source = given.key()?;
        let mut precondition = given.precondition();
        // Resolved once, so that a retry copies the same events.
        let up_to = match up_to {
            Some(point) => sequence_of(&self.caller, &source, point).await?,
            None => {
                let head = head(&self.caller, source.clone()).await?;
                precondition = precondition.or_else(|| uid_precondition(&head.uid));
                head.last_sequence
            }
        };
        let session_id = session_id.unwrap_or_else(SessionId::generate);
        let session_id = SessionId::try_from(session_id.as_str())?.to_string();
        let forked = SessionKey { session_id: session_id.clone(), ..source.clone() };
        let request = ForkSessionRequest {
            key: Some(source.clone()),
            up_to_sequence: Some(up_to),
            session_id,
            json_form: JsonForm::Text.into(),
            precondition,
        };
        let outcome = self
            .caller
            .call(&request, |channel, request| async move {
                SessionServiceClient::new(channel).fork_session(request).await
            })
            .await;
        match outcome {
            Ok(_) => {}
            // An earlier attempt may have made the fork. One with the same origin is as good.
            Err(failure) if failure.attempts > 1 && failure.is("SESSION_EXISTS") => {
                let origin = ForkOrigin { key: Some(source), sequence: up_to };
                if head(&self.caller, forked.clone()).await?.forked_from != Some(origin) {
                    return Err(failure.into());
                }
            }
            Err(failure) => return Err(failure.into()),
        }
        let request = GetSessionRequest {
            key: Some(forked),
            events: Some(EventSelection::default()),
            ..GetSessionRequest::default()
        };
        Ok(Box::new(read(&self.caller, request).await?))
    }
}
