//! What the writer is asked, and how its answers wait for the commit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::fault::{Fault, Outcome};
use crate::{
    domain::{error::Error, scope::SessionKey, session::SessionInfo, time::Time},
    store::{
        Append, Appended, CreateSession, Created, ForkSession, RewindSession, SessionUpdate,
        SessionView, StateUpdate, StateUpdated,
    },
};

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// One write.
pub(super) enum Command {
    Create(CreateSession, Reply<Created>),
    Update(SessionUpdate, Reply<SessionInfo>),
    Delete(SessionKey, Time, Reply<bool>),
    Fork(ForkSession, Reply<SessionView>),
    Append(Append, Reply<Appended>),
    Rewind(RewindSession, Reply<Appended>),
    UpdateState(StateUpdate, Reply<StateUpdated>),
    Sweep(Time, Reply<bool>),
}

impl Command {
    /// Bytes that it holds while it waits, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Create(create, _) => {
                create.state.iter().map(|(key, value)| key.as_str().len() + value.len()).sum()
            }
            Self::Append(append, _) => append.events.iter().map(|event| event.bytes()).sum(),
            Self::UpdateState(update, _) => update.delta.bytes(),
            Self::Update(..)
            | Self::Delete(..)
            | Self::Fork(..)
            | Self::Rewind(..)
            | Self::Sweep(..) => 0,
        }
    }

    /// Answers without doing anything. Whoever asked may have gone; that is fine here and below.
    pub(super) fn refuse(self, error: Error) {
        match self {
            Self::Create(_, reply) => drop(reply.send(Err(error))),
            Self::Update(_, reply) => drop(reply.send(Err(error))),
            Self::Delete(_, _, reply) | Self::Sweep(_, reply) => drop(reply.send(Err(error))),
            Self::Fork(_, reply) => drop(reply.send(Err(error))),
            Self::Append(_, reply) | Self::Rewind(_, reply) => drop(reply.send(Err(error))),
            Self::UpdateState(_, reply) => drop(reply.send(Err(error))),
        }
    }
}

/// An answer that is ready and waits for the commit; `Some`: the commit failed, and this is the answer instead.
pub(super) type Ready = Box<dyn FnOnce(Option<Error>) + Send>;

/// Why a whole group cannot be committed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The driver failed.
    Driver(rusqlite::Error),
    /// The writer's own code failed, and what it has in memory is not to be trusted.
    Panic,
}

/// Does one command's work and makes its answer ready. Trouble ends the group.
pub(super) fn carry_out<T: Send + 'static>(
    reply: Reply<T>,
    work: impl FnOnce() -> Outcome<T>,
) -> (Ready, Option<Trouble>) {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => (ready(reply, Ok(value)), None),
        Ok(Err(Fault::Refused(error))) => (ready(reply, Err(error)), None),
        Ok(Err(Fault::Driver(error))) => {
            (ready(reply, Err(Error::StoreUnavailable)), Some(Trouble::Driver(error)))
        }
        Err(_) => {
            let error = Error::Internal("a write panicked".into());
            let answer: Ready = Box::new(move |_| drop(reply.send(Err(error))));
            (answer, Some(Trouble::Panic))
        }
    }
}

/// An answer that is ready.
pub(super) fn ready<T: Send + 'static>(reply: Reply<T>, result: Result<T, Error>) -> Ready {
    Box::new(move |failure| drop(reply.send(failure.map_or(result, Err))))
}
