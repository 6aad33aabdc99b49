//! The parts of a session file beside its events.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use sessiond_core::domain::json::Json;

/// The version of the member `sessiond` that this program writes and reads.
pub const FORMAT: u32 = 1;
/// The member that marks a file with the state of an application or user.
pub const SHARED_STATE: &str = "sessiond_state";

/// Parts that a file does not name are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    pub app_name: String,
    pub user_id: String,
    pub session_id: String,
}

/// Metadata of a session. Times are RFC 3339.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// `FORMAT`, or the file is refused.
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

/// The member `sessiond` of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extra<'a> {
    pub session: Metadata,
    /// Merged state at creation: one object.
    #[serde(borrow)]
    pub initial_state: &'a RawValue,
    /// Events that a rewind has hidden, and the markers of rewinds, in their exact form.
    #[serde(borrow)]
    pub hidden: Vec<&'a RawValue>,
}

/// Whether a label is of an adapter's own business, which people do not need to see.
pub fn is_internal(label: &str) -> bool {
    label.starts_with("sessiond-adk/")
}

/// A file with the state of an application, or of a user: ids, and one object of keys and values.
pub fn shared_file(app_name: &str, user_id: &str, state: &[(String, Json)]) -> String {
    let user = match user_id {
        "" => String::new(),
        user_id => format!("\"user_id\": {},\n", Json::string(user_id)),
    };
    let (app, state) = (Json::string(app_name), Json::of_members(state));
    format!(
        "{{\n\"{SHARED_STATE}\": {FORMAT},\n\"app_name\": {app},\n{user}\"state\": {state}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionFile;

    #[test]
    fn what_is_written_is_read_as_state_of_that_scope() {
        for user_id in ["", "u\""] {
            let state = [("app:k".to_owned(), Json::parse("1.00".to_owned()).unwrap())];
            let file = SessionFile::read(&shared_file("a\n", user_id, &state)).unwrap();
            assert!(file.shared_only);
            assert_eq!((&*file.address.app_name, &*file.address.user_id), ("a\n", user_id));
            assert_eq!(file.state.unwrap(), state);
        }
    }
}
