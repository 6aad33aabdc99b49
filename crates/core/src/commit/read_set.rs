//! The reads of a decision, as data, so that a store can fetch them for a whole group in few statements or from its cache.

use super::Request;
use crate::domain::{limits::BATCH_BYTES, prelude::*};

/// Bytes of stored bodies and changes that the replays of one request may have. The limit of a batch counts no punctuation, which can be
/// three times as long as the keys and values in between.
pub const REPLAY_BYTES: usize = 4 * BATCH_BYTES;

/// The reads of the decision about one request.
#[derive(Clone, Debug, Default)]
pub struct ReadSet<'r> {
    pub address: Option<Address<'r>>,
    /// Another session of the same user whose address has to be known: the target of a fork.
    pub target: Option<&'r SessionId>,
    /// Keys that may be written, of any scope that is visible from the address. A key may come more than once.
    pub written: Vec<&'r StateKey>,
    /// Keys that a precondition reads.
    pub checked: Vec<&'r StateKey>,
    /// Every key of every scope that is visible from the address.
    pub all_state: bool,
    /// Stored events of the session, whole if they have the fingerprint. Of replays of more than [`REPLAY_BYTES`] the rest is not loaded.
    pub events: Vec<(&'r EventId, Fingerprint)>,
    /// A request of the addressed scope.
    pub request_id: Option<&'r RequestId>,
    /// The session's own state as of an event.
    pub past: Option<Sequence>,
    /// The end of a piece of copied events that begins behind an event.
    pub copy: Option<(Incarnation, Sequence, Sequence)>,
    /// Whether a fork's target still has its lease.
    pub fork: Option<Incarnation>,
    /// A number for a new session.
    pub number: bool,
    /// Sessions that have expired, and one that is to be removed.
    pub sweep: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Address<'r> {
    Session(&'r SessionKey),
    /// An application or a user.
    Shared(&'r Scope),
}

/// The use of an application, a user or a session by a decision, for stores that lock rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only its version is recorded.
    Observe,
    /// A precondition reads it.
    Check,
    /// Its version may rise.
    Write,
}

impl<'r> ReadSet<'r> {
    /// Keys whose values are needed.
    pub fn keys(&self) -> impl Iterator<Item = &'r StateKey> {
        self.written.iter().chain(&self.checked).copied()
    }

    /// The use of the application or the user of the address.
    pub fn mode(&self, kind: ScopeKind) -> Mode {
        let names = |keys: &[&StateKey]| keys.iter().any(|key| key.scope() == Some(kind));
        match (names(&self.written), names(&self.checked)) {
            (true, _) => Mode::Write,
            (false, true) => Mode::Check,
            (false, false) => Mode::Observe,
        }
    }
}

/// The needs of a request.
pub fn read_set(request: &Request) -> ReadSet<'_> {
    let session = |key| ReadSet { address: Some(Address::Session(key)), ..ReadSet::default() };
    match request {
        Request::Create(create) => ReadSet {
            written: create.state.iter().map(|(key, _)| key).collect(),
            all_state: true,
            number: true,
            ..session(&create.key)
        },
        Request::Update(update) => {
            ReadSet { checked: checked(&update.precondition), ..session(&update.key) }
        }
        Request::Delete(delete) => {
            ReadSet { checked: checked(&delete.precondition), ..session(&delete.key) }
        }
        Request::Fork(fork) => ReadSet {
            checked: checked(&fork.precondition),
            target: Some(&fork.session_id),
            number: true,
            ..session(&fork.source)
        },
        Request::CopyEvents(fork, after) => ReadSet {
            copy: Some((fork.source_incarnation, *after, fork.up_to)),
            fork: Some(fork.target_incarnation),
            ..session(&fork.source)
        },
        Request::FinishFork(fork) => ReadSet {
            target: Some(&fork.target.session_id),
            all_state: true,
            past: Some(fork.up_to),
            fork: Some(fork.target_incarnation),
            ..session(&fork.source)
        },
        Request::Append(append) => ReadSet {
            written: append.events.iter().flat_map(|event| event.delta.keys()).collect(),
            checked: checked(&append.precondition),
            all_state: append.return_state,
            events: append.events.iter().map(|it| (&it.event_id, it.fingerprint)).collect(),
            request_id: append.request.as_ref().map(|request| &request.id),
            ..session(&append.session)
        },
        Request::Rewind(rewind) => ReadSet {
            checked: checked(&rewind.precondition),
            all_state: true,
            events: vec![(&rewind.event_id, rewind.fingerprint)],
            past: Some(rewind.to),
            ..session(&rewind.key)
        },
        Request::UpdateState(update) => ReadSet {
            address: Some(Address::Shared(update.delta.scope())),
            written: update.delta.delta().keys().collect(),
            checked: checked(&update.precondition),
            all_state: true,
            request_id: update.request.as_ref().map(|request| &request.id),
            ..ReadSet::default()
        },
        Request::Sweep => ReadSet { sweep: true, ..ReadSet::default() },
    }
}

/// The keys that a precondition reads.
fn checked(precondition: &Precondition) -> Vec<&StateKey> {
    precondition.keys.iter().map(|(key, _)| key).collect()
}
