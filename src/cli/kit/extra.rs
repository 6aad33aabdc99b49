//! The member `sessiond` of a session file: what the kits' form cannot say.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The form that this program writes and reads.
pub const FORMAT: u32 = 1;

/// Everything about a session that the rest of its file does not say.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra<'a> {
    /// What is said about the session as a whole.
    pub session: Head,
    /// Merged state at creation: one object.
    #[serde(borrow)]
    pub initial_state: &'a RawValue,
    /// For each entry of the file's `events`, how to take it apart.
    pub events: Vec<Note>,
    /// Events that a rewind has hidden.
    #[serde(borrow)]
    pub hidden: Vec<Hidden<'a>>,
    /// Rewinds, to be carried out again at their place in the log.
    pub rewinds: Vec<Rewind>,
}

/// What is said about the session as a whole.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// [`FORMAT`].
    pub format: u32,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// For filters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When the session ceases to exist, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<String>,
    /// When it was created, RFC 3339. For people: an import creates it anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_time: Option<String>,
    /// Where it was forked from. For people: the file holds all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkNote>,
}

/// Where a session was forked from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForkNote {
    /// Application of the source.
    pub app_name: String,
    /// User of the source.
    pub user_id: String,
    /// Session of the source.
    pub session_id: String,
    /// The last event that was taken over.
    pub sequence: i64,
}

/// How to take an entry apart. What is not said here, the entry says itself.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    /// The event's place in the log, from 1.
    pub sequence: i64,
    /// The entry's first members, by name, that are not of the body but were put before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// The event has no body at all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub no_body: bool,
    /// The body's text, where the entry cannot give it back byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_json: Option<String>,
    /// Keys that the event removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// The event's id, where the entry says another or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The invocation, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// The author, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// The branch, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The event's time, likewise; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
}

/// An event that a rewind has hidden.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hidden<'a> {
    /// How to take it apart.
    pub note: Note,
    /// As an entry of `events` would be.
    #[serde(borrow)]
    pub entry: &'a RawValue,
}

/// A rewind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewind {
    /// The marker's place in the log.
    pub sequence: i64,
    /// The last event that stayed visible.
    pub to_sequence: i64,
    /// Id of the marker.
    pub event_id: String,
    /// Who.
    pub author: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_false(flag: &bool) -> bool {
    !flag
}
