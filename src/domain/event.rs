//! Entries of a session's log: as they are asked for, and as they are kept.

use xxhash_rust::xxh3::Xxh3Default;

use super::{
    Sequence, Version,
    delta::Delta,
    error::{Error, Reason, Violation},
    id::{Author, Branch, EventId, InvocationId},
    json::{Json, fingerprint, text_bytes},
    limits::BATCH_BYTES,
    scope::StateKey,
    time::Time,
};

/// What a request asked for, so that a repetition of it can be told from another request under the same id. It depends on the
/// content alone: not on the form of its JSON, nor on white space, order of members or spelling of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub u128);

/// An event as a caller asks for it; the store gives it its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Unique within the session.
    pub event_id: EventId,
    /// The turn it belongs to.
    pub invocation_id: Option<InvocationId>,
    /// Who.
    pub author: Author,
    /// Agent branch.
    pub branch: Branch,
    /// Client clock; `None`: the commit's time.
    pub event_time: Option<Time>,
    /// Changes of state. Holds no `temp:` keys once it is on its way to a store.
    pub delta: Delta,
    /// Everything else: one JSON object.
    pub body: Option<Json>,
    /// Of the content as it came, `temp:` keys included.
    pub fingerprint: Fingerprint,
    /// Why the event must be refused unless it is a replay: what was found outside of the store, in its `temp:` part.
    pub refusal: Option<Error>,
}

impl NewEvent {
    /// Bytes that count towards a batch: body and delta as sent.
    pub fn bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Json::len) + self.delta.bytes()
    }
}

/// The fingerprint of an event's content: everything but its id and what the server adds.
pub fn event_fingerprint(
    invocation_id: Option<&InvocationId>,
    author: &Author,
    branch: &Branch,
    event_time: Option<Time>,
    delta: &Delta,
    body: Option<&Json>,
) -> Fingerprint {
    let mut hash = Xxh3Default::new();
    for text in [invocation_id.map_or("", InvocationId::as_str), author.as_str(), branch.as_str()] {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    match event_time {
        None => hash.update(&[0]),
        Some(time) => {
            hash.update(&[1]);
            hash.update(&time.secs().to_le_bytes());
            hash.update(&time.nanos().to_le_bytes());
        }
    }
    hash.update(&delta.fingerprint().to_le_bytes());
    match body {
        None => hash.update(&[0]),
        Some(body) => {
            hash.update(&[1]);
            hash.update(&fingerprint(body).to_le_bytes());
        }
    }
    Fingerprint(hash.digest128())
}

/// What keys became by one commit: a delta after everything in it was evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// One JSON object of full keys and their new values; `None` where nothing was set.
    pub set: Option<Json>,
    /// Full keys that were removed.
    pub remove: Vec<StateKey>,
}

impl Changes {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.set.is_none() && self.remove.is_empty()
    }

    /// Bytes of its keys and values, counted as those of the delta were that it comes from.
    pub fn bytes(&self) -> usize {
        let removed: usize = self.remove.iter().map(|key| text_bytes(key.as_str())).sum();
        let set = self.set.as_ref().map(Json::members).unwrap_or_default();
        removed + set.iter().map(|(key, value)| text_bytes(key) + value.len()).sum::<usize>()
    }

    /// Bytes of its text.
    pub fn text_len(&self) -> usize {
        let removed: usize = self.remove.iter().map(|key| key.as_str().len()).sum();
        self.set.as_ref().map_or(0, Json::len) + removed
    }
}

/// Versions of the wider scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeVersions {
    /// The application's.
    pub application: Version,
    /// The user's.
    pub user: Version,
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Unique within the session.
    pub event_id: EventId,
    /// Its place in the log, from 1.
    pub sequence: Sequence,
    /// The turn it belongs to.
    pub invocation_id: Option<InvocationId>,
    /// Who.
    pub author: Author,
    /// Agent branch.
    pub branch: Branch,
    /// Client clock, or the commit's time where the client sent none.
    pub event_time: Time,
    /// Server clock at commit; never earlier than that of the event before it.
    pub commit_time: Time,
    /// What its delta did, in all scopes.
    pub changes: Changes,
    /// The body, byte for byte.
    pub body: Option<Json>,
    /// Set on the marker of a rewind: the last event that stayed visible.
    pub rewind_to: Option<Sequence>,
    /// Whether reads hide it: by a rewind, or as the marker of one.
    pub rewound: bool,
    /// The versions that its commit left, so that the past can be read.
    pub versions: ScopeVersions,
}

/// Counts the bodies of a batch's events and what their deltas resolved to. Replays count as well, since they are answered whole.
#[derive(Debug, Default)]
pub struct BatchSize(usize);

impl BatchSize {
    /// Adds an event that is stored, or about to be: its body, and the bytes of what its delta resolved to.
    pub fn add(&mut self, body: Option<&Json>, delta: usize) -> Result<(), Error> {
        self.0 += body.map_or(0, Json::len) + delta;
        if self.0 <= BATCH_BYTES {
            return Ok(());
        }
        let message = format!(
            "The events resolve to more than {BATCH_BYTES} bytes of bodies, keys and values; split them over several calls."
        );
        let violation = Violation::new("events", Reason::BatchTooLarge, message);
        Err(violation.with("bytes", self.0).with("limit", BATCH_BYTES).into())
    }
}

impl Event {
    /// About how many bytes this takes in an answer as text, never less than it does.
    pub fn bytes(&self) -> usize {
        // Tags, lengths, two times and numbers of an Event message stay below this.
        const ENVELOPE: usize = 128;
        ENVELOPE
            + self.event_id.as_str().len()
            + self.invocation_id.as_ref().map_or(0, |id| id.as_str().len())
            + self.author.as_str().len()
            + self.branch.as_str().len()
            + self.body.as_ref().map_or(0, Json::len)
            + self.changes.text_len()
            + 4 * self.changes.remove.len()
    }
}
