//! Sessions and what is visible from them.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Sequence, Version,
    event::ScopeVersions,
    id::DisplayName,
    json::{Json, ObjectWriter},
    limits::{LABEL_BYTES, LABELS},
    scope::{SessionKey, StateKey},
    time::Time,
};

/// Identity of one life of a session: a session created anew under an old id has another. Never reused within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// Labels of a session: at most 64, with keys and values of at most 63 bytes and no NUL; keys are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<BTreeMap<String, String>>);

/// Why a set of labels is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelFault {
    /// More than 64; holds how many.
    TooMany(usize),
    /// This key is empty or holds a NUL.
    Key(String),
    /// This key is too long.
    LongKey(String),
    /// The value of this key holds a NUL.
    Value(String),
    /// The value of this key is too long; holds its bytes.
    LongValue(String, usize),
}

impl Labels {
    /// Checks the rules of this type; otherwise tells all that is at fault, of which there is something.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, (LabelFault, Vec<LabelFault>)> {
        if labels.len() > LABELS {
            return Err((LabelFault::TooMany(labels.len()), Vec::new()));
        }
        let has_nul = |text: &str| text.as_bytes().contains(&0);
        let mut faults = Vec::new();
        for (key, value) in &labels {
            if key.len() > LABEL_BYTES {
                faults.push(LabelFault::LongKey(key.clone()));
            } else if key.is_empty() || has_nul(key) {
                faults.push(LabelFault::Key(key.clone()));
            }
            if value.len() > LABEL_BYTES {
                faults.push(LabelFault::LongValue(key.clone(), value.len()));
            } else if has_nul(value) {
                faults.push(LabelFault::Value(key.clone()));
            }
        }
        match faults.pop() {
            None => Ok(Self(Arc::new(labels))),
            Some(last) => Err((last, faults)),
        }
    }

    /// Takes back what [`Self::new`] accepted before it was stored.
    pub fn from_stored(labels: BTreeMap<String, String>) -> Self {
        Self(Arc::new(labels))
    }

    /// The labels, by key.
    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether every one of `wanted` is among these, with the same value.
    pub fn contain(&self, wanted: &Labels) -> bool {
        wanted.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }
}

/// Where a session was forked from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOrigin {
    /// The source.
    pub key: SessionKey,
    /// The last event that was taken over.
    pub sequence: Sequence,
}

/// A session without its state and its log.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// Address.
    pub key: SessionKey,
    /// Which life of it this is.
    pub incarnation: Incarnation,
    /// Newest event; 0 when there is none. In a read of the past, the event it was read as of.
    pub last_sequence: Sequence,
    /// Server clock at creation.
    pub create_time: Time,
    /// Server clock at the last change of any kind.
    pub update_time: Time,
    /// `event_time` of the newest event, or `create_time`.
    pub last_event_time: Time,
    /// When it ceases to exist.
    pub expire_time: Option<Time>,
    /// For people.
    pub display_name: DisplayName,
    /// For filters.
    pub labels: Labels,
    /// Where it was forked from.
    pub forked_from: Option<ForkOrigin>,
    /// Versions of the wider scopes right after its creation.
    pub created_versions: ScopeVersions,
}

impl SessionInfo {
    /// Whether it has ceased to exist at `now`.
    pub fn expired(&self, now: Time) -> bool {
        self.expire_time.is_some_and(|at| at <= now)
    }
}

/// One key of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// With its prefix.
    pub key: StateKey,
    /// Its value.
    pub value: Json,
    /// Its scope's version when it was last written.
    pub version: Version,
}

/// State as it is visible from a scope: the application's keys, then the user's, then the session's own, then `temp:` keys; each
/// part ordered by name. Prefixes keep the parts apart, so the merge is a concatenation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(pub Vec<StateEntry>);

impl State {
    /// The value of a key with its prefix.
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|entry| entry.key.as_str() == key).map(|entry| &entry.value)
    }

    /// One JSON object of all keys, with their prefixes.
    pub fn to_json(&self) -> Json {
        let bytes: usize =
            self.0.iter().map(|entry| entry.key.as_str().len() + entry.value.len() + 4).sum();
        let mut object = ObjectWriter::with_capacity(bytes + 2);
        for entry in &self.0 {
            object.member("", entry.key.as_str(), entry.value.as_str());
        }
        object.finish()
    }
}
