//! An event of a session file, and its exact form: JSON from which it comes back byte for byte.

use prost_types::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{object::members, time};
use sessiond_core::domain::json::Json;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    pub event_id: String,
    /// 0 in a file of ADK.
    pub sequence: i64,
    pub invocation_id: String,
    pub author: String,
    pub branch: String,
    pub event_time: Option<Timestamp>,
    /// Of the call that appended it.
    pub trace_id: String,
    /// The keys that it sets.
    pub set: Vec<(String, Json)>,
    /// The keys that it removes.
    pub remove: Vec<String>,
    pub body: Option<Json>,
    /// Set on the marker of a rewind: the last event that stayed visible.
    pub rewind_to: Option<i64>,
    /// A rewind hides it.
    pub rewound: bool,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Exact<'a> {
    /// Of ADK's form beside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    fingerprint: String,
    #[serde(skip_serializing_if = "is_zero")]
    sequence: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    event_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    invocation_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    author: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    event_time: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_id: String,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    set: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remove: Vec<String>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    body: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rewind_to_sequence: Option<i64>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl Event {
    /// The exact form. A visible event has the fingerprint of ADK's form beside it, and a hidden one its sequence.
    pub fn to_exact(&self, fingerprint: String) -> serde_json::Result<Json> {
        // The server makes the rest of a marker.
        let marker = Self::default();
        let rest = if self.rewind_to.is_some() { &marker } else { self };
        let set = Json::of_members(&rest.set);
        let exact = Exact {
            sequence: if fingerprint.is_empty() { self.sequence } else { 0 },
            fingerprint,
            event_id: self.event_id.clone(),
            invocation_id: rest.invocation_id.clone(),
            author: self.author.clone(),
            branch: rest.branch.clone(),
            event_time: rest.event_time.map(time::format),
            trace_id: self.trace_id.clone(),
            set: (!rest.set.is_empty()).then(|| serde_json::from_str(set.as_str())).transpose()?,
            remove: rest.remove.clone(),
            body: rest.body.as_ref().map(|it| serde_json::from_str(it.as_str())).transpose()?,
            rewind_to_sequence: self.rewind_to,
        };
        serde_json::to_string(&exact).map(Json::from_stored)
    }

    /// Reads an exact form. Returns the fingerprint of ADK's form as well.
    pub fn from_exact(text: &str) -> Result<(Self, String), String> {
        let exact: Exact<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let body = exact.body.map(|body| Json::object(body.get().to_owned())).transpose();
        let event = Self {
            event_id: exact.event_id,
            sequence: exact.sequence,
            invocation_id: exact.invocation_id,
            author: exact.author,
            branch: exact.branch,
            event_time: exact.event_time.as_deref().map(time::parse).transpose()?,
            trace_id: exact.trace_id,
            set: exact.set.map_or(Ok(Vec::new()), |set| members("set", set.get()))?,
            remove: exact.remove,
            body: body.map_err(|fault| format!("body {fault}"))?,
            rewind_to: exact.rewind_to_sequence,
            rewound: false,
        };
        Ok((event, exact.fingerprint))
    }
}
