//! What importing a file will do, worked out from the file alone, before anything is sent.

use std::collections::{BTreeMap, BTreeSet};

use prost_types::Timestamp;

use crate::{
    cli::{
        json,
        kit::{SessionFile, Step, pairs},
    },
    proto::v1::{StateDelta, state_delta::SetForm},
};

/// What the file asks for beside its steps.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// State to create the session with: one object.
    pub initial_state: String,
    /// What the user's and the application's state end with, where the log alone does not lead there.
    pub wider: Changes,
    /// What the session's own state ends with; none where the file does not say.
    pub own_state: Option<Pairs>,
    /// Id of the last step, empty where there is none.
    pub last_id: String,
    /// Time of the last event that has one.
    pub last_time: Option<Timestamp>,
}

/// Keys and value texts.
pub type Pairs = Vec<(String, String)>;

/// New values and removals.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// New values as JSON text.
    pub set: Pairs,
    /// Keys to remove.
    pub remove: Vec<String>,
}

impl Changes {
    /// How many keys change.
    pub fn len(&self) -> usize {
        self.set.len() + self.remove.len()
    }

    /// The delta as the contract has it; none where nothing changes.
    pub fn delta(&self) -> Option<StateDelta> {
        let set = self.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        (self.len() > 0).then(|| StateDelta {
            set_form: (!self.set.is_empty()).then(|| SetForm::SetJson(json::write_object(set))),
            remove: self.remove.clone(),
            operations: Vec::new(),
        })
    }
}

impl Plan {
    /// Reads every step of the file, so that what is wrong with one shows before the first is sent.
    ///
    /// # Errors
    ///
    /// What is wrong, and where.
    pub fn of(file: &SessionFile<'_>) -> Result<Self, String> {
        let mut plan = Self::default();
        // What the deltas of the log leave; none: removed.
        let mut left: BTreeMap<String, Option<String>> = BTreeMap::new();
        for step in file.steps() {
            match step? {
                Step::Event(entry) => {
                    left.extend(entry.set.into_iter().map(|(key, value)| (key, Some(value))));
                    left.extend(entry.remove.into_iter().map(|key| (key, None)));
                    plan.last_id = entry.event_id;
                    plan.last_time = entry.event_time.or(plan.last_time);
                }
                Step::Rewind(rewind) => plan.last_id = rewind.event_id,
                Step::Fragment => (),
            }
        }
        let state = file.state.as_deref();
        let initial = match &file.extra {
            Some(extra) => pairs(&json::Object::read(extra.initial_state.get())?),
            // What no delta touches can only have been there from the start.
            None => state
                .unwrap_or_default()
                .iter()
                .filter(|(key, _)| !left.contains_key(key))
                .cloned()
                .collect(),
        };
        plan.initial_state =
            json::write_object(initial.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        if let Some(state) = state {
            for (key, value) in initial {
                left.entry(key).or_insert(Some(value));
            }
            plan.wider = wider_changes(&left, state, file.extra.is_some());
            plan.own_state =
                Some(state.iter().filter(|(key, _)| !is_wider(key)).cloned().collect());
        }
        Ok(plan)
    }

    /// Id of the event that corrects the session's own state after the last step: the same for
    /// the same file, so that a second import finds it.
    pub fn correction_id(&self) -> String {
        let mut text = self.last_id.clone();
        let own = self.own_state.as_deref().unwrap_or_default();
        let own: BTreeMap<_, _> = own.iter().map(|(k, v)| (k, json::canonical(v))).collect();
        text.push_str(&serde_json::json!(own).to_string());
        format!("import-state-{:032x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
    }

    /// Id of the request that changes the wider scopes, alike.
    pub fn wider_request_id(&self, session_id: &str) -> String {
        let text = serde_json::json!([session_id, self.last_id, self.wider.set, self.wider.remove]);
        let hash = xxhash_rust::xxh3::xxh3_128(text.to_string().as_bytes());
        format!("import-state-{hash:032x}")
    }

    /// What leads from the state that the session has to the own state that the file ends with.
    ///
    /// # Errors
    ///
    /// When `actual` is no JSON object.
    pub fn own_changes(&self, actual: &str) -> Result<Changes, String> {
        let Some(wanted) = &self.own_state else {
            return Ok(Changes::default());
        };
        let actual: BTreeMap<_, _> = pairs(&json::Object::read(actual)?).into_iter().collect();
        let is_there = |(key, value): &&(String, String)| {
            actual.get(key).is_some_and(|actual| json::same(actual, value))
        };
        let keys: BTreeSet<_> = wanted.iter().map(|(key, _)| key).collect();
        Ok(Changes {
            set: wanted.iter().filter(|pair| !is_there(pair)).cloned().collect(),
            remove: actual
                .into_keys()
                .filter(|key| !is_wider(key) && !key.starts_with("temp:") && !keys.contains(key))
                .collect(),
        })
    }
}

/// Whether the key belongs to the user or the application, whom others share.
fn is_wider(key: &str) -> bool {
    key.starts_with("app:") || key.starts_with("user:")
}

/// What the wider scopes lack after the log. A kit's file may leave them out altogether, so that
/// only an export can say that a key is gone.
fn wider_changes(
    left: &BTreeMap<String, Option<String>>,
    state: &[(String, String)],
    exported: bool,
) -> Changes {
    let mut changes = Changes::default();
    for (key, value) in state.iter().filter(|(key, _)| is_wider(key)) {
        let there = left.get(key).and_then(Option::as_ref);
        if !there.is_some_and(|there| json::same(there, value)) {
            changes.set.push((key.clone(), value.clone()));
        }
    }
    if exported {
        let ends_with: BTreeSet<_> = state.iter().map(|(key, _)| key).collect();
        let gone = left
            .iter()
            .filter(|(key, value)| value.is_some() && is_wider(key) && !ends_with.contains(key));
        changes.remove = gone.map(|(key, _)| key.clone()).collect();
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Plan {
        Plan::of(&SessionFile::read(text).unwrap()).unwrap()
    }

    fn owned(pairs: &[(&str, &str)]) -> Pairs {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    const KIT: &str = r#"{"state":{"start":1.0,"changed":2,"app:start":"x","app:late":5,"user:same":{"b":1,"a":2}},"events":[
        {"id":"a","timestamp":7,"actions":{"state_delta":{"changed":1,"user:same":{"a":2,"b":1},"app:late":4,"gone":1}}},
        {"id":"b","actions":{"state_delta":{"changed":2,"app:untold":1}}}]}"#;

    #[test]
    fn what_no_delta_touches_was_there_from_the_start() {
        let plan = plan(KIT);
        assert_eq!(plan.initial_state, r#"{"start":1.0,"app:start":"x"}"#);
        assert_eq!((plan.last_id.as_str(), plan.last_time.map(|t| t.seconds)), ("b", Some(7)));
    }

    #[test]
    fn wider_scopes_are_corrected_where_the_file_says_so() {
        let plan = plan(KIT);
        assert_eq!(plan.wider.set, owned(&[("app:late", "5")]));
        assert_eq!(plan.wider.remove, [""; 0], "a kit may leave wider keys out");
    }

    #[test]
    fn own_state_is_compared_with_what_the_session_has() {
        let changes = plan(KIT)
            .own_changes(r#"{"start":1.0,"changed":3,"gone":1,"app:untold":1,"temp:x":1}"#)
            .unwrap();
        assert_eq!(changes.set, owned(&[("changed", "2")]));
        assert_eq!(changes.remove, ["gone"]);
        let settled = plan(KIT).own_changes(r#"{ "changed":2, "start":1.0}"#).unwrap();
        assert_eq!(settled.delta(), None);
    }

    #[test]
    fn a_file_without_state_asks_for_none() {
        let plan = plan(r#"{"events":[{"id":"a","actions":{"stateDelta":{"k":1}}}]}"#);
        assert_eq!(plan.initial_state, "{}");
        assert_eq!(plan.own_changes(r#"{"other":1}"#).unwrap().delta(), None);
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
        let request = |id| plan(KIT).wider_request_id(id);
        assert_ne!(request("s"), request("t"));
        assert!(request("s").len() <= 128);
    }

    #[test]
    fn one_bad_event_spoils_the_file_before_anything_is_sent() {
        let file = SessionFile::read(r#"{"events":[{"id":"a"},{"timestamp":"x"}]}"#).unwrap();
        assert!(Plan::of(&file).unwrap_err().starts_with("events[1]: "));
    }
}
