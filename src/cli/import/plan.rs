//! The plan of an import, made from the file alone before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::Timestamp;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    cli::adk_file::{SessionFile, Step, state_text},
    domain::{
        json::{Json, fingerprint, same_value},
        scope::Prefix,
    },
    proto::v1::{StateDelta, state_delta::SetForm},
};

/// Everything that an import does beside the steps of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// State to create the session with: one object.
    pub initial_state: String,
    /// Changes of user and application state that the log does not make.
    pub wider: Changes,
    /// The session's own state at the end; `None` if the file has no state.
    pub own_state: Option<Vec<(String, Json)>>,
    /// Id of the last step; empty if there is none.
    pub last_id: String,
    /// Time of the last event that has one.
    pub last_time: Option<Timestamp>,
}

/// New values and removals.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub set: Vec<(String, Json)>,
    pub remove: Vec<String>,
}

impl Changes {
    /// How many keys change.
    pub fn len(&self) -> usize {
        self.set.len() + self.remove.len()
    }

    /// `None` if nothing changes.
    pub fn delta(&self) -> Option<StateDelta> {
        let set_form = (!self.set.is_empty()).then(|| SetForm::SetJson(state_text(&self.set)));
        let delta = StateDelta { set_form, remove: self.remove.clone(), operations: Vec::new() };
        (self.len() > 0).then_some(delta)
    }
}

impl Plan {
    /// Reads every step, so that a bad one is found before the first is sent.
    pub fn of(file: &SessionFile<'_>) -> Result<Self, String> {
        let mut plan = Self::default();
        // The state that the log leads to. `None`: removed.
        let mut end: BTreeMap<String, Option<Json>> = BTreeMap::new();
        for step in file.steps() {
            match step? {
                Step::Event(entry) => {
                    end.extend(entry.set.into_iter().map(|(key, value)| (key, Some(value))));
                    end.extend(entry.remove.into_iter().map(|key| (key, None)));
                    plan.last_id = entry.event_id;
                    plan.last_time = entry.event_time.or(plan.last_time);
                }
                Step::Rewind(rewind) => plan.last_id = rewind.event_id,
                Step::Fragment => (),
            }
        }
        let state = file.state.as_deref();
        let initial: Vec<_> = match &file.extra {
            Some(extra) => Json::from_stored(extra.initial_state.get().to_owned()).members(),
            // A key that no delta touches was there from the start.
            None => {
                let state = state.unwrap_or_default().iter();
                state.filter(|(key, _)| !end.contains_key(key)).cloned().collect()
            }
        };
        plan.initial_state = state_text(&initial);
        if let Some(state) = state {
            for (key, value) in initial {
                end.entry(key).or_insert(Some(value));
            }
            plan.wider = wider_changes(&end, state, file.extra.is_some());
            let own = state.iter().filter(|(key, _)| !is_wider(key));
            plan.own_state = Some(own.cloned().collect());
        }
        Ok(plan)
    }

    /// Id of the event that corrects the session's own state. It depends on the file alone, so that a second import
    /// finds the event.
    pub fn correction_id(&self) -> String {
        let own = state_text(self.own_state.as_deref().unwrap_or_default());
        let own = fingerprint(&Json::from_stored(own));
        hashed_id(&json!([self.last_id, format!("{own:032x}")]).to_string())
    }

    /// Id of the request that corrects user and application state, alike.
    pub fn wider_request_id(&self, session_id: &str) -> String {
        let set: Vec<_> = self.wider.set.iter().map(|(k, v)| (k, v.as_str())).collect();
        hashed_id(&json!([session_id, self.last_id, set, self.wider.remove]).to_string())
    }

    /// The changes that turn the session's `actual` own state into the file's.
    pub fn own_changes(&self, actual: Json) -> Changes {
        let Some(wanted) = &self.own_state else {
            return Changes::default();
        };
        let actual: BTreeMap<_, _> = actual.members().into_iter().collect();
        let is_there = |(key, value): &&(String, Json)| {
            actual.get(key).is_some_and(|actual| same_value(actual, value))
        };
        let set = wanted.iter().filter(|pair| !is_there(pair)).cloned().collect();
        let keys: BTreeSet<_> = wanted.iter().map(|(key, _)| key).collect();
        let is_left = |key: &String| {
            !is_wider(key) && !key.starts_with(Prefix::Temp.as_str()) && !keys.contains(key)
        };
        Changes { set, remove: actual.into_keys().filter(is_left).collect() }
    }
}

fn hashed_id(text: &str) -> String {
    format!("import-state-{:032x}", xxh3_128(text.as_bytes()))
}

/// Whether the key belongs to the user or the application, which other sessions share.
fn is_wider(key: &str) -> bool {
    key.starts_with(Prefix::App.as_str()) || key.starts_with(Prefix::User.as_str())
}

/// The changes of user and application state that the log does not make. ADK may omit their keys, so only an export
/// says that a key is removed.
fn wider_changes(
    end: &BTreeMap<String, Option<Json>>,
    state: &[(String, Json)],
    exported: bool,
) -> Changes {
    let differs = |key: &str, value| {
        let there = end.get(key).and_then(Option::as_ref);
        there.is_none_or(|there| !same_value(there, value))
    };
    let set = state.iter().filter(|(key, value)| is_wider(key) && differs(key, value));
    let mut changes = Changes { set: set.cloned().collect(), remove: Vec::new() };
    if exported {
        let keys: BTreeSet<_> = state.iter().map(|(key, _)| key).collect();
        let is_left = |(key, value): &(&String, &Option<Json>)| {
            value.is_some() && is_wider(key) && !keys.contains(key)
        };
        changes.remove = end.iter().filter(is_left).map(|(key, _)| key.clone()).collect();
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::of(&SessionFile::read(text).unwrap()).unwrap()
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
            .own_changes(json(r#"{"start":1.0,"changed":3,"gone":1,"app:untold":1,"temp:x":1}"#));
        assert_eq!(changes.set, owned(&[("changed", "2")]));
        assert_eq!(changes.remove, ["gone"]);
        let settled = plan(ADK).own_changes(json(r#"{ "changed":2, "start":1.0}"#));
        assert_eq!(settled.delta(), None);
    }

    #[test]
    fn a_file_without_state_asks_for_none() {
        let plan = plan(r#"{"events":[{"id":"a","actions":{"stateDelta":{"k":1}}}]}"#);
        assert_eq!(plan.initial_state, "{}");
        assert_eq!(plan.own_changes(json(r#"{"other":1}"#)).delta(), None);
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

    #[test]
    fn one_bad_event_spoils_the_file_before_anything_is_sent() {
        let file = SessionFile::read(r#"{"events":[{"id":"a"},{"timestamp":"x"}]}"#).unwrap();
        assert!(Plan::of(&file).unwrap_err().starts_with("events[1]: "));
    }
}
