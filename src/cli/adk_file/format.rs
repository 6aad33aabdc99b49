//! The member `sessiond` of a session file: what the form of ADK cannot express.

use std::{collections::BTreeMap, ops::Not as _};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::proto::v1;

/// The version of the member's form that this program writes and reads.
pub const FORMAT: u32 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra<'a> {
    pub session: Metadata,
    /// Merged state at creation: one object.
    #[serde(borrow)]
    pub initial_state: &'a RawValue,
    /// One for each entry of the file's `events`.
    pub events: Vec<Note>,
    /// Events that a rewind has hidden.
    #[serde(borrow)]
    pub hidden: Vec<Hidden<'a>>,
    pub rewinds: Vec<Rewind>,
}

/// Metadata of the session. Times are RFC 3339.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// [`FORMAT`].
    pub format: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<String>,
    /// For people: an import creates the session anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_time: Option<String>,
    /// For people: the file holds all events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Value>,
}

/// How to restore an event from its entry. A member that is missing here is the entry's.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub sequence: i64,
    /// Keys of the entry's first members, which do not belong to the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    #[serde(default, skip_serializing_if = "<&bool>::not")]
    pub no_body: bool,
    /// Keys that the event removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// Fields of the event that the entry cannot give back: `event_id`, `invocation_id`, `author`, `branch`, `trace_id`,
    /// `event_time` (RFC 3339; empty if the event has no time), `body_json` (byte for byte).
    #[serde(flatten)]
    pub fields: BTreeMap<String, String>,
}

/// An event that a rewind has hidden.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hidden<'a> {
    pub note: Note,
    #[serde(borrow)]
    pub entry: &'a RawValue,
}

/// The marker event of a rewind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewind {
    pub sequence: i64,
    /// The last event that stayed visible.
    pub to_sequence: i64,
    pub event_id: String,
    pub author: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
}

impl From<Rewind> for v1::Event {
    fn from(Rewind { sequence, to_sequence, event_id, author, trace_id }: Rewind) -> Self {
        let rewind_to_sequence = Some(to_sequence);
        Self { sequence, event_id, author, trace_id, rewind_to_sequence, ..Default::default() }
    }
}
