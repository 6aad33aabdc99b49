//! The plan of an import, made from the file alone before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use super::read::SessionFile;
use sessiond_core::domain::{
    json::{Json, fingerprint, same_value},
    scope::{ScopeKind, TEMP},
};

/// Everything that an import does beside the events of the file.
#[derive(Debug, Default)]
pub struct Plan {
    /// State at the creation of the session, with the keys that it shares.
    pub initial: Vec<(String, Json)>,
    /// Shared keys that the file had and has no more at its end.
    pub gone: Vec<String>,
    /// What the events set shared keys to.
    logged: Vec<(String, Json)>,
    /// Merged state at the end; `None` if the file has none.
    state: Option<Vec<(String, Json)>>,
    /// Id of the last event; empty if the file has no events.
    pub last_id: String,
    /// Time of the last event that has one.
    pub last_time: Option<prost_types::Timestamp>,
}

impl Plan {
    pub fn of(file: &SessionFile) -> Self {
        // The state that the log leads to. `None`: removed.
        let mut end: BTreeMap<String, Option<Json>> = BTreeMap::new();
        let mut logged = Vec::new();
        for event in &file.events {
            let set = event.set.iter().cloned();
            logged.extend(set.clone().filter(|(key, _)| is_shared(key)));
            end.extend(set.map(|(key, value)| (key, Some(value))));
            end.extend(event.remove.iter().map(|key| (key.clone(), None)));
        }
        let state = file.state.as_deref().unwrap_or_default();
        let initial = match &file.exported {
            Some(exported) => exported.initial_state.clone(),
            // A key that no delta touches was there from the start.
            None => state.iter().filter(|(key, _)| !end.contains_key(key)).cloned().collect(),
        };
        // ADK may omit shared keys, so only an export says that one is removed.
        let told = file.exported.is_some() && file.state.is_some();
        let mentioned: BTreeSet<_> = initial.iter().map(|(key, _)| key).chain(end.keys()).collect();
        let is_left = |key: &&String| !state.iter().any(|(left, _)| left == *key);
        let gone = mentioned.into_iter().filter(|key| told && is_shared(key)).filter(is_left);
        let gone = gone.cloned().collect();
        Self {
            initial,
            gone,
            logged,
            state: file.state.clone(),
            last_id: file.events.last().map(|event| event.event_id.clone()).unwrap_or_default(),
            last_time: file.events.iter().rev().find_map(|event| event.event_time),
        }
    }

    /// All values that the file gives to its shared keys, at any time.
    pub fn shared_values(&self) -> BTreeMap<&str, Vec<&Json>> {
        let mut values: BTreeMap<&str, Vec<&Json>> = BTreeMap::new();
        for (key, value) in self.initial.iter().chain(&self.logged).chain(self.state()) {
            if is_shared(key) {
                values.entry(key).or_default().push(value);
            }
        }
        values
    }

    /// The session's own state at its creation: one object.
    pub fn initial_state(&self) -> String {
        let own = self.initial.iter().filter(|(key, _)| !is_shared(key));
        Json::of_members(&own.cloned().collect::<Vec<_>>()).into_string()
    }

    /// Merged state at the end of the file, as far as it has one.
    pub fn state(&self) -> &[(String, Json)] {
        self.state.as_deref().unwrap_or_default()
    }

    /// Id of the event that corrects the session's own state. It depends on the file alone, so that a second import
    /// finds the event.
    pub fn correction_id(&self) -> String {
        let mut own = self.state.clone().unwrap_or_default();
        own.retain(|(key, _)| !is_shared(key));
        let own = fingerprint(&Json::of_members(&own));
        let text = json!([self.last_id, format!("{own:032x}")]).to_string();
        format!("import-state-{:032x}", xxh3_128(text.as_bytes()))
    }

    /// The values and the removals that turn the session's `actual` own state into the file's.
    pub fn own_changes(&self, actual: &Json) -> (Vec<(String, Json)>, Vec<String>) {
        let Some(wanted) = &self.state else { return Default::default() };
        let is_own = |key: &str| !is_shared(key) && !key.starts_with(TEMP);
        let mut left: BTreeMap<_, _> = actual.members().into_iter().collect();
        left.retain(|key, _| is_own(key));
        let mut set = wanted.clone();
        set.retain(|(key, value)| {
            is_own(key) && !left.remove(key).is_some_and(|actual| same_value(&actual, value))
        });
        (set, left.into_keys().collect())
    }
}

/// Whether the key belongs to the user or the application, which other sessions share.
pub fn is_shared(key: &str) -> bool {
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
        assert_eq!(plan.initial, owned(&[("start", "1.0"), ("app:start", "\"x\"")]));
        assert_eq!(plan.initial_state(), r#"{"start":1.0}"#, "shared keys are not the session's");
        assert_eq!((plan.last_id.as_str(), plan.last_time.map(|t| t.seconds)), ("b", Some(7)));
    }

    #[test]
    fn every_value_that_a_shared_key_ever_has_is_known() {
        let plan = plan(ADK);
        let values = plan.shared_values();
        let of = |key: &str| values[key].iter().map(|it| it.as_str()).collect::<Vec<_>>();
        assert_eq!(
            values.keys().copied().collect::<Vec<_>>(),
            ["app:late", "app:start", "app:untold", "user:same"]
        );
        assert_eq!((of("app:late"), of("app:start")), (vec!["4", "5"], vec!["\"x\"", "\"x\""]));
    }

    #[test]
    fn adk_may_omit_shared_keys() {
        assert_eq!(plan(ADK).gone, [""; 0]);
    }

    #[test]
    fn own_state_is_compared_with_what_the_session_has() {
        let (set, remove) = plan(ADK)
            .own_changes(&json(r#"{"start":1.0,"changed":3,"gone":1,"app:untold":1,"temp:x":1}"#));
        assert_eq!((set, remove), (owned(&[("changed", "2")]), vec!["gone".to_owned()]));
        let settled = plan(ADK).own_changes(&json(r#"{ "changed":2, "start":1.0}"#));
        assert_eq!(settled, Default::default());
    }

    #[test]
    fn a_file_without_state_asks_for_none() {
        let plan = plan(r#"{"events":[{"id":"a","actions":{"stateDelta":{"k":1}}}]}"#);
        assert_eq!(plan.initial_state(), "{}");
        assert_eq!(plan.own_changes(&json(r#"{"other":1}"#)), Default::default());
        assert_eq!((plan.gone.len(), plan.state().len()), (0, 0));
    }

    #[test]
    fn an_export_says_how_the_session_began_and_what_is_gone() {
        let plan = plan(
            r#"{"state":{"k":2,"app:a":1},"events":[{"id":"e","actions":{"state_delta":{"user:u":1,"app:c":"__ADK_SENTINEL_REMOVED__"}}}],
            "sessiond":{"session":{"format":1},"initial_state":{"k":1,"app:a":1,"app:b":2,"app:c":3},"hidden":[]}}"#,
        );
        assert_eq!(
            plan.initial,
            owned(&[("k", "1"), ("app:a", "1"), ("app:b", "2"), ("app:c", "3")])
        );
        assert_eq!(plan.gone, ["app:b", "app:c", "user:u"]);
    }

    #[test]
    fn ids_follow_from_the_file() {
        let of = |text: &str| plan(text).correction_id();
        assert_eq!(of(r#"{"state":{"a":1,"b":2}}"#), of(r#"{"state":{"b": 2,"a":1}}"#));
        assert_ne!(of(r#"{"state":{"a":1}}"#), of(r#"{"state":{"a":2}}"#));
        assert_ne!(of(r#"{"state":{}}"#), of(r#"{"state":{},"events":[{"id":"e"}]}"#));
        assert!(of(r#"{"state":{}}"#).len() <= 128);
    }
}
