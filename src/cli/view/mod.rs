//! Answers as the client prints them: the contract's field names, JSON embedded as it came.

mod event;
mod session;
mod state;
mod structs;

use std::collections::HashMap;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{failure::Failure, json, time};
use crate::proto::v1::SessionKey;

pub use event::{AppendView, DeltaView, EventView};
pub use session::{CreateView, GetView, RewindView, SessionView};
pub use state::{KeyChangeView, StateView, WatchView};

/// JSON text of an answer, ready to be written out.
type Raw = Box<RawValue>;

/// One session in an answer.
#[derive(Debug, Serialize)]
pub struct Of<T> {
    /// The only member.
    pub session: T,
}

/// Address of a session.
#[derive(Debug, Serialize)]
pub struct KeyView {
    app_name: String,
    user_id: String,
    session_id: String,
}

impl From<SessionKey> for KeyView {
    fn from(key: SessionKey) -> Self {
        let SessionKey { app_name, user_id, session_id } = key;
        Self { app_name, user_id, session_id }
    }
}

fn raw(text: &str) -> Result<Raw, Failure> {
    json::raw(text).map_err(|error| {
        Failure::Failed(format!("the server answered with text that is no JSON: {error}"))
    })
}

/// A time that is always written with nine digits.
#[derive(Debug, Clone, Copy)]
struct Time(prost_types::Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&time::format(self.0))
    }
}

/// Maps have no order on the wire; printed they are sorted, so that equal answers are equal texts.
fn sorted<V: Serialize + Ord, S: Serializer>(
    map: &HashMap<String, V>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let sorted: std::collections::BTreeMap<_, _> = map.iter().collect();
    sorted.serialize(serializer)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn is_false(flag: &bool) -> bool {
    !flag
}
