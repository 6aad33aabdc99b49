//! State that the imported session shares with others: by default nobody's value changes.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::is_shared;
use crate::{
    cli::{
        adk_file::{set_members, to_send},
        args::JSON_FORM,
        calls::retry,
        connect::Server,
        failure::Failure,
    },
    domain::{
        json::{Json, same_value},
        limits::{DELTA_BYTES, DELTA_OPERATIONS},
    },
    proto::v1::{
        self, get_state_response::StateForm, key_check::Condition, set_if_absent::ValueForm,
        state_delta::SetForm, state_operation::Operation,
    },
};

/// Author of the corrections of state that the log does not lead to.
pub const AUTHOR: &str = "system";

/// Decides for each `app:` and `user:` key whether the import may write it.
pub struct Shared<'a> {
    server: &'a Server,
    /// The user, or the application alone.
    scope: v1::Scope,
    /// Every key may be written.
    restore: bool,
    /// Keys that had a value before, or got one from somebody else meanwhile.
    kept: BTreeSet<String>,
    /// Keys that events of this import have written.
    owned: BTreeSet<String>,
}

/// Keys of the file's state, by what became of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct SharedCounts {
    /// They had no value, or --restore-shared replaced it.
    pub shared_keys_set: usize,
    /// They had a value, which stays.
    pub shared_keys_kept: usize,
}

impl<'a> Shared<'a> {
    pub async fn read(
        server: &'a Server,
        scope: v1::Scope,
        restore: bool,
    ) -> Result<Self, Failure> {
        let (kept, owned) = (BTreeSet::new(), BTreeSet::new());
        let mut shared = Self { server, scope, restore, kept, owned };
        if !restore {
            shared.kept = shared.actual().await?.into_keys().collect();
        }
        Ok(shared)
    }

    async fn actual(&self) -> Result<BTreeMap<String, Json>, Failure> {
        let request = v1::GetStateRequest {
            scope: Some(self.scope.clone()),
            json_form: JSON_FORM,
            ..Default::default()
        };
        let answer = retry(async || self.server.state().get_state(request.clone()).await).await?;
        let Some(StateForm::StateJson(text)) = answer.state_form else {
            return Ok(BTreeMap::new());
        };
        Ok(Json::from_stored(text).members().into_iter().collect())
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

    /// Conditions that the keys which these stripped events write first still have no value, and those keys.
    pub fn first_writes(&self, events: &[v1::Event]) -> Vec<v1::KeyCheck> {
        if self.restore {
            return Vec::new();
        }
        let mut keys = BTreeSet::new();
        for delta in events.iter().filter_map(|event| event.state_delta.as_ref()) {
            keys.extend(set_members(delta).into_iter().map(|(key, _)| key));
            keys.extend(delta.remove.iter().cloned());
        }
        keys.retain(|key| is_shared(key) && !self.owned.contains(key));
        let check = |key| v1::KeyCheck { key, condition: Some(Condition::Exists(false)) };
        // As many as a precondition takes. Beyond that, only somebody who writes the same key at this very time loses.
        keys.into_iter().take(DELTA_OPERATIONS).map(check).collect()
    }

    /// The checks held, and the events were committed.
    pub fn own(&mut self, checks: Vec<v1::KeyCheck>) {
        self.owned.extend(checks.into_iter().map(|check| check.key));
    }

    /// Somebody else has written a key meanwhile.
    pub async fn refresh(&mut self) -> Result<(), Failure> {
        let actual = self.actual().await?;
        self.kept.extend(actual.into_keys().filter(|key| !self.owned.contains(key)));
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
            match actual.get(&key) == Some(&value) {
                true => self.owned.insert(key),
                false => self.kept.insert(key),
            };
        }
        Ok(())
    }

    /// Brings the keys that may be written to their values at the end of the file. `gone` are keys that the file has no more.
    pub async fn end(
        &self,
        state: &[(String, Json)],
        gone: &[String],
    ) -> Result<SharedCounts, Failure> {
        let actual = self.actual().await?;
        let (mut counts, mut set, mut new) = (SharedCounts::default(), Vec::new(), Vec::new());
        for (key, value) in state.iter().filter(|(key, _)| is_shared(key)).cloned() {
            let owned = self.owned.contains(&key);
            match actual.get(&key) {
                Some(_) if !owned && !self.restore => counts.shared_keys_kept += 1,
                Some(actual) if same_value(actual, &value) => match owned {
                    true => counts.shared_keys_set += 1,
                    false => counts.shared_keys_kept += 1,
                },
                actual => {
                    counts.shared_keys_set += 1;
                    let may_replace = actual.is_some() || self.restore;
                    if may_replace { &mut set } else { &mut new }.push((key, value));
                }
            }
        }
        let mut gone = gone.to_vec();
        gone.retain(|key| actual.contains_key(key) && (self.restore || self.owned.contains(key)));
        self.update(&set, gone).await?;
        self.set_if_absent(&new).await?;
        Ok(counts)
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
            self.send(v1::StateDelta { operations, ..Default::default() }).await?;
        }
        Ok(())
    }

    async fn update(&self, set: &[(String, Json)], remove: Vec<String>) -> Result<(), Failure> {
        for part in parts(set) {
            let set_form = Some(SetForm::SetJson(Json::of_members(part).into_string()));
            self.send(v1::StateDelta { set_form, ..Default::default() }).await?;
        }
        if remove.is_empty() {
            return Ok(());
        }
        self.send(v1::StateDelta { remove, ..Default::default() }).await
    }

    async fn send(&self, delta: v1::StateDelta) -> Result<(), Failure> {
        let request = v1::UpdateStateRequest {
            scope: Some(self.scope.clone()),
            delta: Some(to_send(delta)),
            author: AUTHOR.to_owned(),
            json_form: JSON_FORM,
            ..Default::default()
        };
        // A repetition has the same outcome, so it needs no id.
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
