//! Typed writes: each submits its request to [`Store::commit`] and takes the answer of its kind.

use super::{RequestContext, Store};
use crate::{
    commit::{
        Answer, Append, Appended, CopyEvents, CreateSession, Created, DeleteSession, FinishFork,
        ForkSession, Request, RewindSession, SessionUpdate, StateUpdate, StateUpdated,
    },
    domain::{
        error::Error,
        session::{SessionInfo, State},
    },
};

/// The answer of the kind that a request has.
macro_rules! answer {
    ($store:expr, $context:expr, $request:expr, $kind:ident) => {
        match $store.commit($context, $request).await? {
            Answer::$kind(answer) => Ok(answer),
            other => Err(Error::internal(format!("the answer is of another kind: {other:?}"))),
        }
    };
}

impl dyn Store {
    pub async fn create_session(
        &self,
        context: &RequestContext,
        create: CreateSession,
    ) -> Result<Created, Error> {
        answer!(self, context, Request::Create(create), Created)
    }

    pub async fn update_session(
        &self,
        context: &RequestContext,
        update: SessionUpdate,
    ) -> Result<SessionInfo, Error> {
        answer!(self, context, Request::Update(update), Updated)
    }

    /// Whether there was a session.
    pub async fn delete_session(
        &self,
        context: &RequestContext,
        delete: DeleteSession,
    ) -> Result<bool, Error> {
        answer!(self, context, Request::Delete(delete), Deleted)
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
            let copy = CopyEvents { fork: fork.clone(), after };
            after = answer!(self, context, Request::CopyEvents(copy), Copied)?;
            if after >= fork.up_to {
                break;
            }
        }
        answer!(self, context, Request::FinishFork(FinishFork { fork }), Forked)
    }

    pub async fn append(
        &self,
        context: &RequestContext,
        append: Append,
    ) -> Result<Appended, Error> {
        answer!(self, context, Request::Append(append), Appended)
    }

    pub async fn rewind_session(
        &self,
        context: &RequestContext,
        rewind: RewindSession,
    ) -> Result<Appended, Error> {
        answer!(self, context, Request::Rewind(rewind), Appended)
    }

    pub async fn update_state(
        &self,
        context: &RequestContext,
        update: StateUpdate,
    ) -> Result<StateUpdated, Error> {
        answer!(self, context, Request::UpdateState(update), StateUpdated)
    }

    /// Ends expired sessions and removes rows of those that are gone, a bounded piece. Whether more is left to do.
    pub async fn sweep(&self) -> Result<bool, Error> {
        answer!(self, &RequestContext::internal(), Request::Sweep, Swept)
    }
}
