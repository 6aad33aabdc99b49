//! Write requests to a store, and their answers.

use std::sync::Arc;

use crate::domain::prelude::*;

/// One write.
#[derive(Clone, Debug)]
pub enum Request {
    Create(CreateSession),
    Update(SessionUpdate),
    Delete(DeleteSession),
    Fork(ForkSession),
    /// Copies a bounded piece of a fork's events, those after an event that has been copied.
    CopyEvents(Fork, Sequence),
    FinishFork(Fork),
    Append(Append<SessionKey>),
    Rewind(RewindSession),
    UpdateState(StateUpdate),
    /// Ends sessions that have expired and removes rows of those that are gone, a bounded piece at a time.
    Sweep,
}

impl Request {
    /// Whether its answer has events or states. Those of a fork's later pieces are decided whatever is buffered.
    pub fn has_long_answer(&self) -> bool {
        match self {
            Self::Create(_)
            | Self::Fork(_)
            | Self::Append(_)
            | Self::Rewind(_)
            | Self::UpdateState(_) => true,
            Self::Update(_)
            | Self::Delete(_)
            | Self::CopyEvents(..)
            | Self::FinishFork(_)
            | Self::Sweep => false,
        }
    }

    /// Bytes that it holds while it waits, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Create(create) => {
                create.state.iter().map(|(key, value)| key.as_str().len() + value.len()).sum()
            }
            Self::Append(append) => append.events.iter().map(NewEvent::bytes).sum(),
            Self::UpdateState(update) => update.delta.delta().bytes(),
            _ => 0,
        }
    }
}

/// Why a request was not decided, or not as asked. Neither what was loaded nor the change set is changed.
#[derive(Debug)]
pub enum Refusal {
    /// The answer to the request.
    Error(Error),
    /// It reads what was not loaded, because of what an earlier request of the group changed: load again, with the next group.
    LoadAgain,
}

impl From<Error> for Refusal {
    #[cold]
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The answer to a [`Request`], by its kind.
#[derive(Clone, Debug)]
pub enum Answer {
    Created(Created),
    Updated(SessionInfo),
    /// The session that was deleted.
    Deleted(Option<Incarnation>),
    ForkBegun(Fork),
    /// The last event that has been copied.
    Copied(Sequence),
    /// The new session with its merged state.
    Forked((SessionInfo, State)),
    Appended(Appended),
    StateUpdated(StateUpdated),
    /// Whether more is left to do.
    Swept(bool),
}

impl Answer {
    /// Bytes in memory, about.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Created(created) => created.state.bytes(),
            Self::Forked((_, state)) => state.bytes(),
            Self::StateUpdated(updated) => updated.state.bytes(),
            Self::Appended(Appended { events, state, .. }) => {
                let events = events.iter().map(|it| it.event.bytes()).sum::<usize>();
                events + state.as_ref().map_or(0, State::bytes)
            }
            Self::Updated(_)
            | Self::Deleted(_)
            | Self::ForkBegun(_)
            | Self::Copied(_)
            | Self::Swept(_) => 0,
        }
    }
}

/// The outcome of a creation if the address is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExisting {
    Refuse,
    /// Return the existing session, unchanged.
    Return,
}

#[derive(Clone, Debug)]
pub struct CreateSession {
    pub key: SessionKey,
    /// Initial state: full keys, each once. `temp:` keys go nowhere.
    pub state: Vec<(StateKey, Json)>,
    pub display_name: DisplayName,
    pub labels: Labels,
    /// `None`: never.
    pub expiration: Option<Expiration>,
    pub on_existing: OnExisting,
}

/// A session as created or found.
#[derive(Clone, Debug)]
pub struct Created {
    pub info: SessionInfo,
    /// Merged.
    pub state: State,
    /// False if it existed before.
    pub created: bool,
}

/// New values of a session's metadata; `None`: unchanged.
#[derive(Clone, Debug)]
pub struct SessionUpdate {
    pub key: SessionKey,
    pub display_name: Option<DisplayName>,
    /// All labels.
    pub labels: Option<Labels>,
    /// `Some(None)`: never.
    pub expiration: Option<Option<Expiration>>,
    pub precondition: Precondition,
}

#[derive(Clone, Debug)]
pub struct DeleteSession {
    pub key: SessionKey,
    pub precondition: Precondition,
    /// A session that is gone is no error, also if the address has another one than the precondition means.
    pub allow_missing: bool,
}

impl From<SessionKey> for DeleteSession {
    /// Whatever session is there, if any.
    fn from(key: SessionKey) -> Self {
        Self { key, precondition: Precondition::default(), allow_missing: true }
    }
}

/// Begins a fork. The events follow by [`Request::CopyEvents`], and [`Request::FinishFork`] makes the new session visible.
#[derive(Clone, Debug)]
pub struct ForkSession {
    pub source: SessionKey,
    /// The last event to take over; `None`: all.
    pub up_to: Option<Sequence>,
    /// Id of the new session, of the same user.
    pub session_id: SessionId,
    /// Of the source.
    pub precondition: Precondition,
}

/// A fork that has begun.
#[derive(Clone, Debug)]
pub struct Fork {
    pub source: SessionKey,
    pub source_incarnation: Incarnation,
    pub target: SessionKey,
    pub target_incarnation: Incarnation,
    pub up_to: Sequence,
}

/// The key that makes a change of state idempotent within its scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKey {
    pub id: RequestId,
    /// Of what it asks for.
    pub fingerprint: Fingerprint,
}

/// Events to append to one session. What it names is resolved to the session's full key before it is decided.
#[derive(Clone, Debug)]
pub struct Append<S = SessionRef> {
    pub session: S,
    /// At least one.
    pub events: Vec<NewEvent>,
    /// Checked once, before the first event. Of a replay only the life is.
    pub precondition: Precondition,
    /// Set if this is a change of state by request.
    pub request: Option<RequestKey>,
    /// Answer with the merged state.
    pub return_state: bool,
}

impl<S> Append<S> {
    pub fn to<T>(self, session: T) -> Append<T> {
        let Self { session: _, events, precondition, request, return_state } = self;
        Append { session, events, precondition, request, return_state }
    }
}

#[derive(Clone, Debug)]
pub struct Appended {
    /// The session right after the commit.
    pub info: SessionInfo,
    /// The events as stored, in the order of the request; none if the request was a replay.
    pub events: Vec<AppendedEvent>,
    /// Merged, right after the commit, if requested.
    pub state: Option<State>,
    /// Whether the [`RequestKey`] had been seen before.
    pub request_replayed: bool,
}

#[derive(Clone, Debug)]
pub struct AppendedEvent {
    pub event: Arc<Event>,
    /// It was stored before.
    pub replayed: bool,
}

#[derive(Clone, Debug)]
pub struct RewindSession {
    pub key: SessionKey,
    /// Last event that stays visible; 0 hides all events.
    pub to: Sequence,
    /// Id of the marker.
    pub event_id: EventId,
    pub author: Author,
    /// Of `to` and `author`.
    pub fingerprint: Fingerprint,
    /// Of a replay only the life is checked.
    pub precondition: Precondition,
}

/// A change of an application's or a user's state.
#[derive(Clone, Debug)]
pub struct StateUpdate {
    pub delta: ScopeDelta,
    pub precondition: Precondition,
    pub author: Author,
    pub request: Option<RequestKey>,
}

#[derive(Clone, Debug)]
pub struct StateUpdated {
    /// The keys that are visible from the scope now.
    pub state: State,
    /// The same request was committed before.
    pub replayed: bool,
    /// Of the scope; `None`: nothing is in it.
    pub life: Option<Life>,
}
