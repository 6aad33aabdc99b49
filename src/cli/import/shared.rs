//! State that the imported session shares with others: by default nobody's value changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message as _;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    plan::is_shared,
    writers::{Mark, Writers},
};
use crate::{
    cli::{
        adk_file::{set_members, to_send},
        args::JSON_FORM,
        calls::retry,
        connect::Server,
        failure::Failure,
        whole_state::{members_of, state_request, whole_state},
    },
    domain::{
        json::{Json, same_value},
        limits::{DELTA_BYTES, DELTA_OPERATIONS},
    },
    proto::v1::{
        self, key_check::Condition, set_if_absent::ValueForm, state_delta::SetForm,
        state_operation::Operation,
    },
};

/// Decides for each `app:` and `user:` key whether the import may write it.
pub struct Shared<'a, 'w> {
    server: &'a Server,
    writers: &'w mut Writers<'a>,
    mark: Mark,
    /// The user, or the application alone.
    scope: v1::Scope,
    /// Every key may be written.
    restore: bool,
    /// Keys that had a value before, or got one from somebody else meanwhile.
    kept: BTreeSet<String>,
    /// Keys that this run or one before it has written.
    owned: BTreeSet<String>,
    /// Those of this run.
    written: BTreeSet<String>,
    /// Keys that somebody else has written after this import did.
    pub changed: BTreeSet<String>,
}

/// Keys of the file's state, by what became of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct SharedCounts {
    /// They had no value, or --restore-shared replaced it.
    pub shared_keys_set: usize,
    /// They had a value, which stays.
    pub shared_keys_kept: usize,
}

/// The values of the shared keys and their versions.
struct Actual {
    values: BTreeMap<String, Json>,
    versions: HashMap<String, i64>,
}

impl<'a, 'w> Shared<'a, 'w> {
    /// `values` are all that the file ever gives to its shared keys.
    pub async fn read(
        (server, writers): (&'a Server, &'w mut Writers<'a>),
        mark: Mark,
        scope: v1::Scope,
        restore: bool,
        values: &BTreeMap<&str, Vec<&Json>>,
    ) -> Result<Self, Failure> {
        let sets = || BTreeSet::new();
        let (kept, owned, written, changed) = (sets(), sets(), sets(), sets());
        let mut shared =
            Self { server, writers, mark, scope, restore, kept, owned, written, changed };
        if restore {
            return Ok(shared);
        }
        let actual = shared.actual().await?;
        for (key, value) in &actual.values {
            // Another value than those of the file is not from an earlier run.
            let known = values.get(key.as_str());
            let is_known = known.is_some_and(|known| known.iter().any(|it| same_value(it, value)));
            match is_known && shared.is_own(&actual, key).await? {
                true => shared.owned.insert(key.clone()),
                false => shared.kept.insert(key.clone()),
            };
        }
        Ok(shared)
    }

    async fn actual(&self) -> Result<Actual, Failure> {
        let request =
            v1::GetStateRequest { include_versions: true, ..state_request(self.scope.clone()) };
        let state = whole_state(self.server, request).await?;
        let mut values: BTreeMap<_, _> = members_of(&state).into_iter().collect();
        // Damage, too, is a value of somebody.
        values.extend(state.damaged_keys.into_iter().map(|key| (key, Json::null())));
        Ok(Actual { values, versions: state.versions })
    }

    /// Whether the key has its value from this import.
    async fn is_own(&mut self, actual: &Actual, key: &str) -> Result<bool, Failure> {
        let Some(version) = actual.versions.get(key) else { return Ok(false) };
        self.writers.is_marked((&self.scope, key, *version), &self.mark).await
    }

    fn may_write(&self, key: &str) -> bool {
        !is_shared(key) || self.restore || !self.kept.contains(key)
    }

    /// Takes the keys that stay out of the event's delta.
    pub fn strip(&self, event: &mut v1::Event) {
        let Some(delta) = &mut event.state_delta else { return };
        delta.remove.retain(|key| self.may_write(key));
        let mut set = set_members(delta);
        let all = set.len();
        set.retain(|(key, _)| self.may_write(key));
        if set.len() < all {
            delta.set_form = Some(SetForm::SetJson(Json::of_members(&set).into_string()));
        }
    }

    /// The keys that these stripped events write first.
    pub fn first_writes(&self, events: &[v1::Event]) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        for delta in events.iter().filter_map(|event| event.state_delta.as_ref()) {
            keys.extend(set_members(delta).into_iter().map(|(key, _)| key));
            keys.extend(delta.remove.iter().cloned());
        }
        keys.retain(|key| is_shared(key) && !self.owned.contains(key));
        keys
    }

    /// Conditions that they still have no value.
    pub fn checks(&self, keys: &BTreeSet<String>) -> Vec<v1::KeyCheck> {
        let check = |key: &String| v1::KeyCheck {
            key: key.clone(),
            condition: Some(Condition::Exists(false)),
        };
        // As many as a precondition takes. Beyond that, only somebody who writes the same key at this very time loses.
        let limit = if self.restore { 0 } else { DELTA_OPERATIONS };
        keys.iter().take(limit).map(check).collect()
    }

    /// The checks held, and the events were committed.
    pub fn own(&mut self, keys: BTreeSet<String>, sequences: &BTreeSet<i64>) {
        self.mark.sequences.extend(sequences);
        self.written.extend(keys.iter().cloned());
        self.owned.extend(keys);
    }

    /// Somebody else has written a key meanwhile.
    pub async fn refresh(&mut self) -> Result<(), Failure> {
        for key in self.actual().await?.values.into_keys() {
            if !self.owned.contains(&key) {
                self.kept.insert(key);
            }
        }
        Ok(())
    }

    /// Sets what the file began with, where there is no value.
    pub async fn begin(&mut self, initial: &[(String, Json)]) -> Result<(), Failure> {
        let initial = initial.iter().filter(|(key, _)| is_shared(key) && self.may_write(key));
        let initial: Vec<_> = initial.cloned().collect();
        if initial.is_empty() {
            return Ok(());
        }
        self.set_if_absent(&initial).await?;
        // If somebody was faster, the value is theirs.
        let actual = self.actual().await?;
        for (key, value) in initial {
            match actual.values.get(&key) == Some(&value) {
                true => self.own([key].into(), &BTreeSet::new()),
                false => drop(self.kept.insert(key)),
            }
        }
        Ok(())
    }

    /// Brings the keys that may be written to their values at the end of the file. `gone` are keys that the file has no more.
    pub async fn end(
        &mut self,
        state: &[(String, Json)],
        gone: &[String],
    ) -> Result<SharedCounts, Failure> {
        let actual = self.actual().await?;
        let (mut counts, mut set, mut new) = (SharedCounts::default(), Vec::new(), Vec::new());
        for (key, value) in state.iter().filter(|(key, _)| is_shared(key)).cloned() {
            match actual.values.get(&key) {
                Some(_) if !self.owned.contains(&key) && !self.restore => {
                    counts.shared_keys_kept += 1;
                }
                Some(actual) if same_value(actual, &value) => match self.written.contains(&key) {
                    true => counts.shared_keys_set += 1,
                    false => counts.shared_keys_kept += 1,
                },
                Some(_) if !self.restore && !self.is_own(&actual, &key).await? => {
                    counts.shared_keys_kept += 1;
                    self.changed.insert(key);
                }
                there => {
                    counts.shared_keys_set += 1;
                    let may_replace = there.is_some() || self.restore;
                    if may_replace { &mut set } else { &mut new }.push((key, value));
                }
            }
        }
        let mut removed = Vec::new();
        for key in gone.iter().filter(|key| actual.values.contains_key(*key)) {
            match self.restore || (self.owned.contains(key) && self.is_own(&actual, key).await?) {
                true => removed.push(key.clone()),
                false if self.owned.contains(key) => drop(self.changed.insert(key.clone())),
                false => {}
            }
        }
        self.update(&set, removed, &actual).await?;
        self.set_if_absent(&new).await?;
        Ok(counts)
    }

    /// Adds to `changed` what an earlier run of this import had not yet brought to its last value when somebody else wrote it.
    pub async fn find_changed(
        &mut self,
        values: &BTreeMap<&str, Vec<&Json>>,
    ) -> Result<(), Failure> {
        let actual = self.actual().await?.values;
        for (key, values) in values.iter().filter(|(key, _)| self.kept.contains(**key)) {
            let Some(last) = values.last() else { continue };
            if actual.get(*key).is_some_and(|actual| same_value(actual, last)) {
                continue;
            }
            let own = self.writers.last_marked(&self.scope, key, &self.mark).await?;
            if own.is_some_and(|own| own.is_none_or(|own| !same_value(&own, last))) {
                self.changed.insert((*key).to_owned());
            }
        }
        Ok(())
    }

    async fn set_if_absent(&self, keys: &[(String, Json)]) -> Result<(), Failure> {
        let operation = |(key, value): &(String, Json)| v1::StateOperation {
            key: key.clone(),
            operation: Some(Operation::SetIfAbsent(v1::SetIfAbsent {
                value_form: Some(ValueForm::ValueJson(value.as_str().to_owned())),
            })),
        };
        for part in parts(keys) {
            let operations = part.iter().map(operation).collect();
            self.send(v1::StateDelta { operations, ..Default::default() }, Vec::new()).await?;
        }
        Ok(())
    }

    /// Replaces values that are still of these versions, unless every key may be written.
    async fn update(
        &self,
        set: &[(String, Json)],
        remove: Vec<String>,
        actual: &Actual,
    ) -> Result<(), Failure> {
        let checks = |keys: &mut dyn Iterator<Item = &String>| {
            let version = |key: &String| Some(Condition::Version(*actual.versions.get(key)?));
            let check = |key: &String| v1::KeyCheck { key: key.clone(), condition: version(key) };
            if self.restore { Vec::new() } else { keys.map(check).collect() }
        };
        for part in parts(set) {
            let set_form = Some(SetForm::SetJson(Json::of_members(part).into_string()));
            let delta = v1::StateDelta { set_form, ..Default::default() };
            self.send(delta, checks(&mut part.iter().map(|(key, _)| key))).await?;
        }
        for part in remove.chunks(DELTA_OPERATIONS) {
            let delta = v1::StateDelta { remove: part.to_vec(), ..Default::default() };
            self.send(delta, checks(&mut part.iter())).await?;
        }
        Ok(())
    }

    async fn send(&self, delta: v1::StateDelta, keys: Vec<v1::KeyCheck>) -> Result<(), Failure> {
        let mut request = v1::UpdateStateRequest {
            scope: Some(self.scope.clone()),
            delta: Some(to_send(delta)),
            author: self.mark.author.clone(),
            json_form: JSON_FORM,
            ..Default::default()
        };
        // Without a condition a repetition has the same outcome. Conditions on versions are met once, so the id never comes again.
        if !keys.is_empty() {
            request.precondition = Some(v1::Precondition { keys, ..Default::default() });
            request.request_id = format!("import-{:032x}", xxh3_128(&request.encode_to_vec()));
        }
        retry(async || self.server.state().update_state(request.clone()).await).await?;
        Ok(())
    }
}

/// The keys in parts that a delta takes, by number and by bytes.
fn parts(mut keys: &[(String, Json)]) -> Vec<&[(String, Json)]> {
    let mut parts = Vec::new();
    while !keys.is_empty() {
        let mut bytes = 0;
        let fitting = keys.iter().take(DELTA_OPERATIONS).take_while(|(key, value)| {
            // With quotes and separators. Half of the limit: the answer has the rest of the state as well.
            bytes += 2 * key.len() + value.len() + 8;
            bytes <= DELTA_BYTES / 2
        });
        let (part, rest) = keys.split_at(fitting.count().max(1));
        parts.push(part);
        keys = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_sent_in_parts_that_a_delta_takes() {
        let key = |bytes: usize| ("user:k".to_owned(), Json::string(&"x".repeat(bytes)));
        let sizes =
            |keys: &[(String, Json)]| parts(keys).iter().map(|it| it.len()).collect::<Vec<_>>();
        assert_eq!(sizes(&[]), [0; 0]);
        assert_eq!(sizes(&[key(200_000), key(200_000), key(200_000)]), [2, 1]);
        assert_eq!(sizes(&[key(600_000), key(1)]), [1, 1], "a single one is the server's to judge");
        assert_eq!(sizes(&vec![key(1); 1001]), [1000, 1]);
    }
}
