//! Typed calls of a store: a write submits its request to [`Store::commit`] and takes the answer of its kind.

use super::{RequestContext, SessionQuery, Store, spans::Spans};
use sessiond_core::{
    commit::{
        Answer, Append, Appended, CreateSession, Created, DeleteSession, ForkSession, Request,
        RewindSession, SessionUpdate, StateUpdate, StateUpdated,
    },
    domain::prelude::*,
};

/// The answer of the kind that a request has.
macro_rules! answer {
    ($store:expr, $context:expr, $request:expr, $kind:ident) => {{
        $context.spans.iter().for_each(Spans::submitted);
        match $store.commit($context, $request).await? {
            Answer::$kind(answer) => Ok(answer),
            other => Err(Error::internal(format!("the answer is of another kind: {other:?}"))),
        }
    }};
}

/// Methods that submit one request each.
macro_rules! writes {
    ($($method:ident($content:ty): $request:ident -> $answer:ident($type:ty);)*) => {
        $(pub async fn $method(
            &self,
            context: &RequestContext,
            request: $content,
        ) -> Result<$type, Error> {
            answer!(self, context, Request::$request(request), $answer)
        })*
    };
}

impl dyn Store {
    // `delete_session` answers the session that was deleted.
    writes! {
        create_session(CreateSession): Create -> Created(Created);
        update_session(SessionUpdate): Update -> Updated(SessionInfo);
        delete_session(DeleteSession): Delete -> Deleted(Option<Incarnation>);
        rewind_session(RewindSession): Rewind -> Appended(Appended);
        update_state(StateUpdate): UpdateState -> StateUpdated(StateUpdated);
    }

    /// Appends events. What a bare id means is read before, so that a commit knows full keys only.
    pub async fn append(
        &self,
        context: &RequestContext,
        append: Append<impl Into<SessionRef> + Clone>,
    ) -> Result<Appended, Error> {
        let key = self.resolve(append.session.clone().into()).await?;
        answer!(self, context, Request::Append(append.to(key)), Appended)
    }

    /// The full key of a session, which is read if a bare id names it.
    /// Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`], [`Error::PermissionDenied`].
    pub async fn resolve(&self, session: SessionRef) -> Result<SessionKey, Error> {
        if let SessionRef::Full(key) = session {
            return Ok(key);
        }
        let key = self.read_session(SessionQuery::info(session.clone())).await?.info.key;
        session.require(&key)?;
        Ok(key)
    }

    /// Forks a session in bounded pieces, between which other writes go on. The answer holds the merged state.
    pub async fn fork_session(
        &self,
        context: &RequestContext,
        fork: ForkSession,
    ) -> Result<(SessionInfo, State), Error> {
        let fork = answer!(self, context, Request::Fork(fork), ForkBegun)?;
        let mut after = 0;
        // The first piece is copied even if there are no events, because a store copies with it what belongs to sequence 0.
        loop {
            after = answer!(self, context, Request::CopyEvents(fork.clone(), after), Copied)?;
            if after >= fork.up_to {
                break;
            }
        }
        answer!(self, context, Request::FinishFork(fork), Forked)
    }

    /// Ends expired sessions and removes rows of those that are gone, a bounded piece. Whether more is left to do.
    pub async fn sweep(&self) -> Result<bool, Error> {
        answer!(self, &RequestContext::internal(), Request::Sweep, Swept)
    }
}
