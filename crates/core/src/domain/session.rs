//! Sessions, their labels and their state.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Sequence, Version,
    error::{Error, Reason, Violation},
    event::ScopeVersions,
    field::Path,
    id::DisplayName,
    json::{Json, object_text},
    limits::{LABEL_BYTES, LABELS},
    scope::{SessionKey, StateKey},
    time::Time,
};

/// Identity of a session from its creation to its deletion: a session created again under an old id has another one. Never reused
/// within a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation(pub u64);

/// Labels of a session: at most 64, with keys and values of at most 63 bytes and no NUL; keys are not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<BTreeMap<String, String>>);

impl Labels {
    /// Checks the rules of this type. Errors: every fault, at the path of its label within the labels.
    pub fn new(labels: BTreeMap<String, String>) -> Result<Self, Vec<Violation>> {
        if labels.len() > LABELS {
            let limit = ("labels", labels.len(), LABELS);
            let fault = Violation::over_limit("", Reason::BadValue, limit, "Send fewer labels.");
            return Err(vec![fault]);
        }
        let has_nul = |text: &str| text.as_bytes().contains(&0);
        let bad_key = "The key of a label is empty or contains a NUL character. Rename it.";
        let bad_value = "The value of a label contains a NUL character. Remove it.";
        let mut faults = Vec::new();
        for (key, value) in &labels {
            let path = Path::REQUEST.key(key);
            let texts = [
                (key, key.is_empty() || has_nul(key), bad_key),
                (value, has_nul(value), bad_value),
            ];
            for (text, is_bad, message) in texts {
                if text.len() > LABEL_BYTES {
                    let (reason, limit) =
                        (Reason::FieldTooLong, ("bytes", text.len(), LABEL_BYTES));
                    faults.push(Violation::over_limit(path, reason, limit, "Shorten the text."));
                } else if is_bad {
                    faults.push(Violation::new(path, Reason::BadValue, message));
                }
            }
        }
        if faults.is_empty() { Ok(Self(Arc::new(labels))) } else { Err(faults) }
    }

    /// Trusts what [`Self::new`] accepted before it was stored.
    pub fn from_stored(labels: BTreeMap<String, String>) -> Self {
        Self(Arc::new(labels))
    }

    pub fn as_map(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Whether every one of `wanted` is among these, with the same value.
    pub fn contain(&self, wanted: &Labels) -> bool {
        wanted.0.iter().all(|(key, value)| self.0.get(key) == Some(value))
    }
}

/// When a session ceases to exist, as a caller asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiration {
    /// At this instant, which has to be in the future.
    At(Time),
    /// This long from now; longer than nothing.
    After { secs: i64, nanos: u32 },
}

impl Expiration {
    /// The instant. Errors: [`Error::Invalid`] on `session.expire_time` or `session.ttl`.
    pub fn resolve(self, now: Time) -> Result<Time, Error> {
        let (time, field, fault) = match self {
            Self::At(time) => (
                Some(time).filter(|time| *time > now),
                "session.expire_time",
                "expire_time is not in the future. Choose a later time, or delete the session.",
            ),
            Self::After { secs, nanos } => (
                now.plus(secs, nanos),
                "session.ttl",
                "ttl ends after the year 9999. Choose a shorter ttl, or omit it for a session that does not expire.",
            ),
        };
        time.ok_or_else(|| Error::invalid(field, Reason::BadValue, fault))
    }
}

/// The source of a forked session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForkOrigin {
    pub key: SessionKey,
    /// The last event that was copied.
    pub sequence: Sequence,
}

/// A session without its state and its events.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub key: SessionKey,
    pub incarnation: Incarnation,
    /// The newest event; 0 without events. In a read of the past, the event it was read as of.
    pub last_sequence: Sequence,
    /// By the store's clock, as all times but `last_event_time`.
    pub create_time: Time,
    pub update_time: Time,
    /// `event_time` of the newest event, or `create_time`.
    pub last_event_time: Time,
    pub expire_time: Option<Time>,
    pub display_name: DisplayName,
    pub labels: Labels,
    pub forked_from: Option<ForkOrigin>,
    pub created_versions: ScopeVersions,
}

impl SessionInfo {
    pub fn expired(&self, now: Time) -> bool {
        self.expire_time.is_some_and(|at| at <= now)
    }

    /// Bytes of its labels and its display name.
    pub fn text_len(&self) -> usize {
        let labels = self.labels.0.iter().map(|(key, value)| key.len() + value.len());
        labels.sum::<usize>() + self.display_name.as_str().len()
    }
}

/// Damaged keys that an answer names.
const DAMAGED_KEYS: usize = 20;

/// Bytes in memory of an entry of a state, about, without key and value.
pub const ENTRY_BYTES: usize = 96;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    pub key: StateKey,
    /// Perhaps [damaged](Json::is_damaged).
    pub value: Json,
    /// Its scope's version at its last write.
    pub version: Version,
}

/// State as visible from a scope: the application's keys, then the user's, then the session's, then `temp:` keys; each part
/// ordered by name. Prefixes keep the parts apart, so the merge is a concatenation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State(pub Vec<StateEntry>);

impl State {
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|entry| entry.key.as_str() == key).map(|entry| &entry.value)
    }

    /// Bytes of [`Self::to_json`], never too few unless a key has to be escaped.
    pub fn text_len(&self) -> usize {
        2 + self.0.iter().map(|it| it.key.as_str().len() + it.value.len() + 4).sum::<usize>()
    }

    /// Bytes in memory, about: small keys take many times what they weigh.
    pub fn bytes(&self) -> usize {
        self.text_len() + self.0.len() * ENTRY_BYTES
    }

    pub fn to_json(&self) -> Json {
        Self::json_of(&self.0)
    }

    /// One JSON object of some keys, with their prefixes.
    pub fn json_of(entries: &[StateEntry]) -> Json {
        let whole = entries.iter().filter(|entry| !entry.value.is_damaged());
        object_text(whole.map(|entry| (entry.key.as_str(), entry.value.as_str())))
    }

    /// Keys whose values are damaged, which [`Self::json_of`] leaves out, as many as an answer names.
    pub fn damaged(entries: &[StateEntry]) -> Vec<String> {
        let damaged = entries.iter().filter(|entry| entry.value.is_damaged());
        damaged.take(DAMAGED_KEYS).map(|entry| entry.key.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_of_small_keys_is_charged_its_entries() {
        let entry = |number: u64| StateEntry {
            key: StateKey::new(number.to_string()).unwrap(),
            value: Json::from_stored("1".to_owned()),
            version: number,
        };
        let state = State((0..1000).map(entry).collect());
        assert!(state.bytes() >= 1000 * size_of::<StateEntry>() + state.text_len());
    }
}
