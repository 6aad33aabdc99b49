//! Events: as requested and as stored.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

pub use super::delta::Changes;
use super::{
    Sequence, Version,
    delta::Delta,
    error::Error,
    field::FieldPath,
    id::{Author, Branch, EventId, InvocationId},
    json::{Json, fingerprint},
    time::Time,
    trace::TraceId,
};

/// A hash of what a request asked for, to tell a repetition from another request under the same id. It depends on the content
/// alone: not on white space, order of members or spelling of numbers in its JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    pub fn of_rewind(to: Sequence, author: &Author) -> Self {
        Self(xxh3_128(&[b"rewind", &to.to_le_bytes()[..], author.as_str().as_bytes()].concat()))
    }
}

/// An event as requested; the store assigns its sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    pub event_id: EventId,
    pub invocation_id: Option<InvocationId>,
    pub author: Author,
    pub branch: Branch,
    /// By the client's clock; `None`: the time of the commit.
    pub event_time: Option<Time>,
    /// A fragment of a streamed answer: answered, never stored, so that stores are given none.
    pub partial: bool,
    /// Changes of state. Stores are given none of `temp:` keys.
    pub delta: Delta,
    /// Everything else: one JSON object.
    pub body: Option<Json>,
    /// Of the content as sent, `temp:` keys included.
    pub fingerprint: Fingerprint,
    /// Why the event must be refused unless it is a replay: the fault in its `temp:` keys, which the store does not see.
    pub refusal: Option<Error>,
    pub field: FieldPath,
}

impl NewEvent {
    /// Bytes that count towards a batch: body and delta, as sent.
    pub fn bytes(&self) -> usize {
        self.body.as_ref().map_or(0, Json::len) + self.delta.bytes()
    }

    pub fn stored(
        &self,
        sequence: Sequence,
        commit_time: Time,
        changes: Changes,
        versions: ScopeVersions,
        trace_id: Option<TraceId>,
    ) -> Event {
        Event {
            event_id: self.event_id.clone(),
            sequence,
            invocation_id: self.invocation_id.clone(),
            author: self.author.clone(),
            branch: self.branch.clone(),
            event_time: self.event_time.unwrap_or(commit_time),
            commit_time,
            changes,
            body: self.body.clone(),
            rewind_to: None,
            rewound: false,
            versions,
            trace_id,
        }
    }

    /// The fingerprint of its content: everything but its id and what the server adds.
    pub fn content_fingerprint(&self) -> Fingerprint {
        let Self {
            invocation_id,
            author,
            branch,
            event_time,
            delta,
            body,
            event_id: _,
            // An event with it is never stored, so that no request is compared with it.
            partial: _,
            fingerprint: _,
            refusal: _,
            field: _,
        } = self;
        let mut hash = Xxh3Default::new();
        let invocation = invocation_id.as_ref().map_or("", InvocationId::as_str);
        for text in [invocation, author.as_str(), branch.as_str()] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hash.update(&[u8::from(event_time.is_some())]);
        if let Some(time) = event_time {
            hash.update(&time.secs().to_le_bytes());
            hash.update(&time.nanos().to_le_bytes());
        }
        hash.update(&delta.fingerprint().to_le_bytes());
        hash.update(&[u8::from(body.is_some())]);
        if let Some(body) = body {
            hash.update(&fingerprint(body).to_le_bytes());
        }
        Fingerprint(hash.digest128())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScopeVersions {
    pub application: Version,
    pub user: Version,
}

impl ScopeVersions {
    /// Whether one is greater than that of a scope that is there.
    pub fn are_ahead(self, present: Self) -> bool {
        let pairs = [(self.application, present.application), (self.user, present.user)];
        pairs.into_iter().any(|(version, present)| present > 0 && version > present)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub event_id: EventId,
    pub sequence: Sequence,
    pub invocation_id: Option<InvocationId>,
    pub author: Author,
    pub branch: Branch,
    /// By the client's clock; the time of the commit if the client sent none.
    pub event_time: Time,
    /// By the store's clock; never earlier than that of the event before it.
    pub commit_time: Time,
    pub changes: Changes,
    pub body: Option<Json>,
    /// Set on a rewind marker: the last event that stayed visible.
    pub rewind_to: Option<Sequence>,
    /// Whether reads hide it: after a rewind, or as a rewind marker.
    pub rewound: bool,
    /// The versions after its commit, so that the past can be read.
    pub versions: ScopeVersions,
    pub trace_id: Option<TraceId>,
}

impl Event {
    /// An upper bound of its bytes in an answer as text.
    pub fn bytes(&self) -> usize {
        // Tags, lengths, times, numbers and the trace id of an Event message take less.
        const ENVELOPE: usize = 160;
        let Self {
            event_id,
            invocation_id,
            author,
            branch,
            changes,
            body,
            sequence: _,
            event_time: _,
            commit_time: _,
            rewind_to: _,
            rewound: _,
            trace_id: _,
            versions: _,
        } = self;
        ENVELOPE
            + event_id.as_str().len()
            + invocation_id.as_ref().map_or(0, |id| id.as_str().len())
            + author.as_str().len()
            + branch.as_str().len()
            + body.as_ref().map_or(0, Json::len)
            + changes.text_len()
            + 4 * changes.remove.len()
    }
}
