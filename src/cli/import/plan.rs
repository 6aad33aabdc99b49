//! The plan of an import, made from the file alone before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    cli::adk_file::{SessionFile, delta, set_of, state_text},
    domain::{
        json::{Json, fingerprint, same_value},
        scope::{ScopeKind, TEMP},
    },
    proto::v1,
};

/// Everything that an import does beside the events of the file.
#[derive(Debug, Default)]
pub struct Plan {
    /// State to create the session with: one object.
    pub initial_state: String,
    /// Changes of user and application state that the log does not make.
    pub wider: Changes,
    /// Merged state at the end; `None` if the file has none.
    state: Option<Vec<(String, Json)>>,
    /// Id of the last event; empty if there is none.
    pub last_id: String,
    /// Time of the last event that has one.
    pub last_time: Option<prost_types::Timestamp>,
}

/// New values and removals.
#[derive(Debug, Default)]
pub struct Changes {
    set: Vec<(String, Json)>,
    remove: Vec<String>,
}

impl Changes {
    /// The changes that turn `actual` state into `wanted`, among the keys that `concerns` picks.
    fn between(
        actual: &BTreeMap<String, Json>,
        wanted: &[(String, Json)],
        concerns: impl Fn(&str) -> bool,
    ) -> Self {
        let differs = |(key, value): &&(String, Json)| {
            concerns(key) && actual.get(key).is_none_or(|actual| !same_value(actual, value))
        };
        let wanted_keys: BTreeSet<_> = wanted.iter().map(|(key, _)| key).collect();
        let is_left = |key: &&String| concerns(key) && !wanted_keys.contains(key);
        Self {
            set: wanted.iter().filter(differs).cloned().collect(),
            remove: actual.keys().filter(is_left).cloned().collect(),
        }
    }

    /// How many keys change.
    pub fn len(&self) -> usize {
        self.set.len() + self.remove.len()
    }

    /// `None` if nothing changes.
    pub fn delta(&self) -> Option<v1::StateDelta> {
        delta(&self.set, self.remove.clone())
    }
}

impl Plan {
    pub fn of(file: &SessionFile) -> Self {
        // The state that the log leads to. `None`: removed.
        let mut end: BTreeMap<String, Option<Json>> = BTreeMap::new();
        for event in &file.events {
            let set = Json::from_stored(set_of(event).unwrap_or("{}").to_owned());
            end.extend(set.members().into_iter().map(|(key, value)| (key, Some(value))));
            let removed = event.state_delta.iter().flat_map(|delta| &delta.remove);
            end.extend(removed.map(|key| (key.clone(), None)));
        }
        let state = file.state.as_deref().unwrap_or_default();
        let initial = match &file.exported {
            Some(exported) => exported.initial_state.members(),
            // A key that no delta touches was there from the start.
            None => state.iter().filter(|(key, _)| !end.contains_key(key)).cloned().collect(),
        };
        let initial_state = state_text(&initial);
        let mut wider = Changes::default();
        if file.state.is_some() {
            let mut actual: BTreeMap<_, _> = initial.into_iter().collect();
            for (key, value) in end {
                match value {
                    Some(value) => drop(actual.insert(key, value)),
                    None => drop(actual.remove(&key)),
                }
            }
            wider = Changes::between(&actual, state, is_wider);
            // ADK may omit keys of wider scopes, so only an export says that one is removed.
            if file.exported.is_none() {
                wider.remove.clear();
            }
        }
        Self {
            initial_state,
            wider,
            state: file.state.clone(),
            last_id: file.events.last().map(|event| event.event_id.clone()).unwrap_or_default(),
            last_time: file.events.iter().rev().find_map(|event| event.event_time),
        }
    }

    /// Id of the event that corrects the session's own state. It depends on the file alone, so that a second import
    /// finds the event.
    pub fn correction_id(&self) -> String {
        let mut own = self.state.clone().unwrap_or_default();
        own.retain(|(key, _)| !is_wider(key));
        let own = fingerprint(&Json::from_stored(state_text(&own)));
        hashed_id(&json!([self.last_id, format!("{own:032x}")]).to_string())
    }

    /// Id of the request that corrects user and application state, alike.
    pub fn wider_request_id(&self, session_id: &str) -> String {
        let set: Vec<_> = self.wider.set.iter().map(|(k, v)| (k, v.as_str())).collect();
        hashed_id(&json!([session_id, self.last_id, set, self.wider.remove]).to_string())
    }

    /// The changes that turn the session's `actual` own state into the file's.
    pub fn own_changes(&self, actual: &Json) -> Changes {
        let Some(wanted) = &self.state else {
            return Changes::default();
        };
        let actual = actual.members().into_iter().collect();
        let is_own = |key: &str| !is_wider(key) && !key.starts_with(TEMP);
        Changes::between(&actual, wanted, is_own)
    }
}

fn hashed_id(text: &str) -> String {
    format!("import-state-{:032x}", xxh3_128(text.as_bytes()))
}

/// Whether the key belongs to the user or the application, which other sessions share.
fn is_wider(key: &str) -> bool {
    key.starts_with(ScopeKind::Application.prefix()) || key.starts_with(ScopeKind::User.prefix())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::of(&SessionFile::read(text).unwrap())
    }

    fn json(text: &str) -> Json {
        Json::parse(text.to_owned()).unwrap()
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, Json)> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), json(v))).collect()
    }

    const ADK: &str = r#"{"state":{"start":1.0,"changed":2,"app:start":"x","app:late":5,"user:same":{"b":1,"a":2}},"events":[
        {"id":"a","timestamp":7,"actions":{"state_delta":{"changed":1,"user:same":{"a":2,"b":1},"app:late":4,"gone":1}}},
        {"id":"b","actions":{"state_delta":{"changed":2,"app:untold":1}}}]}"#;

    #[test]
    fn what_no_delta_touches_was_there_from_the_start() {
        let plan = plan(ADK);
        assert_eq!(plan.initial_state, r#"{"start":1.0,"app:start":"x"}"#);
        assert_eq!((plan.last_id.as_str(), plan.last_time.map(|t| t.seconds)), ("b", Some(7)));
    }

    #[test]
    fn wider_scopes_are_corrected_where_the_file_says_so() {
        let plan = plan(ADK);
        assert_eq!(plan.wider.set, owned(&[("app:late", "5")]));
        assert_eq!(plan.wider.remove, [""; 0], "ADK may omit wider keys");
    }

    #[test]
    fn own_state_is_compared_with_what_the_session_has() {
        let changes = plan(ADK)
            .own_changes(&json(r#"{"start":1.0,"changed":3,"gone":1,"app:untold":1,"temp:x":1}"#));
        assert_eq!(changes.set, owned(&[("changed", "2")]));
        assert_eq!(changes.remove, ["gone"]);
        let settled = plan(ADK).own_changes(&json(r#"{ "changed":2, "start":1.0}"#));
        assert_eq!(settled.delta(), None);
    }

    #[test]
    fn a_file_without_state_asks_for_none() {
        let plan = plan(r#"{"events":[{"id":"a","actions":{"stateDelta":{"k":1}}}]}"#);
        assert_eq!(plan.initial_state, "{}");
        assert_eq!(plan.own_changes(&json(r#"{"other":1}"#)).delta(), None);
        assert_eq!(plan.wider.delta(), None);
    }

    #[test]
    fn an_export_says_how_the_session_began_and_what_is_gone() {
        let plan = plan(
            r#"{"state":{"k":2,"app:a":1},"events":[{"id":"e","actions":{"state_delta":{"user:u":1}}}],
            "sessiond":{"session":{"format":1},"initial_state":{"k":1,"app:a":1,"app:b":2,"app:c":3},
            "events":[{"sequence":1,"remove":["app:c"]}],"hidden":[],"rewinds":[]}}"#,
        );
        assert_eq!(plan.initial_state, r#"{"k":1,"app:a":1,"app:b":2,"app:c":3}"#);
        assert_eq!(plan.wider.set, owned(&[]));
        assert_eq!(plan.wider.remove, ["app:b", "user:u"]);
    }

    #[test]
    fn ids_follow_from_the_file() {
        let of = |text: &str| plan(text).correction_id();
        assert_eq!(of(r#"{"state":{"a":1,"b":2}}"#), of(r#"{"state":{"b": 2,"a":1}}"#));
        assert_ne!(of(r#"{"state":{"a":1}}"#), of(r#"{"state":{"a":2}}"#));
        assert_ne!(of(r#"{"state":{}}"#), of(r#"{"state":{},"events":[{"id":"e"}]}"#));
        let request = |id| plan(ADK).wider_request_id(id);
        assert_ne!(request("s"), request("t"));
        assert!(request("s").len() <= 128);
    }
}
