//! State that the imported session shares with others: by default no existing value changes.
//!
//! A key that had no value is the import's own. After a run that was cut, the history of a key tells whether it wrote the
//! value.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prost::Message as _;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use super::send::Log;
use crate::{
    cli::{
        adk_file::{Event, is_shared},
        args::{JSON_FORM, MAX_PAGE},
        calls::{retry, shared_scope},
        connect::Server,
        convert,
        delta::check,
        failure::Failure,
        whole_state::{members_of, state_request, whole_state},
    },
    domain::{
        json::{Json, same_value},
        limits::{DELTA_BYTES, DELTA_OPERATIONS},
        scope::ScopeKind,
    },
    proto::v1::{self, key_change::ValueForm, key_check::Condition},
};

/// All values that a file ever gives to its shared keys, the last one at the end.
pub type FileValues<'a> = BTreeMap<&'a str, Vec<&'a Json>>;

/// The newest change of each shared key that a run has looked up, by application, user (empty for `app:` keys) and key.
pub type NewestChanges = HashMap<(String, String, String), v1::KeyChange>;

/// Decides for each `app:` and `user:` key whether the import may write it.
pub struct Shared<'a> {
    server: &'a Server,
    /// Many files have the same keys: each change is read once for all of them.
    newest: &'a mut NewestChanges,
    mark: Mark,
    /// The user, or the application alone.
    scope: v1::Scope,
    /// Every key may be written.
    restore: bool,
    values: &'a FileValues<'a>,
    /// Before the import.
    before: State,
    /// Keys that had a value before, or got one from somebody else meanwhile.
    kept: BTreeSet<String>,
    /// Keys that this run or one before it has written.
    owned: BTreeSet<String>,
    /// Keys that somebody else has written after this import did, and that stay.
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

/// The shared keys at some time.
#[derive(Default)]
pub struct State {
    values: BTreeMap<String, Json>,
    versions: HashMap<String, i64>,
}

/// Tells the changes of an import from those of others.
struct Mark {
    key: v1::SessionKey,
    /// Author of its changes outside of the session's log.
    author: String,
    /// Sequences of the session's events that came from the file.
    sequences: BTreeSet<i64>,
}

impl Mark {
    fn new(key: &v1::SessionKey, log: Option<&Log>, events: &[Event]) -> Self {
        let v1::SessionKey { app_name, user_id, session_id } = key;
        let address = json!([app_name, user_id, session_id]).to_string();
        let in_log = |event: &Event| Some(log?.events.get(&event.event_id)?.sequence);
        Self {
            key: key.clone(),
            author: format!("import-{:032x}", xxh3_128(address.as_bytes())),
            sequences: events.iter().filter_map(in_log).collect(),
        }
    }

    fn is_on(&self, change: &v1::KeyChange) -> bool {
        match &change.session {
            Some(session) => *session == self.key && self.sequences.contains(&change.sequence),
            None => change.author == self.author,
        }
    }
}

impl<'a> Shared<'a> {
    /// Of an import of these events into a session with this log.
    pub async fn read(
        (server, newest): (&'a Server, &'a mut NewestChanges),
        key: &v1::SessionKey,
        (log, events): (Option<&Log>, &[Event]),
        restore: bool,
        values: &'a FileValues<'a>,
    ) -> Result<Self, Failure> {
        let mut shared = Self {
            server,
            newest,
            mark: Mark::new(key, log, events),
            scope: shared_scope(key),
            restore,
            values,
            before: State::default(),
            kept: BTreeSet::new(),
            owned: BTreeSet::new(),
            changed: BTreeSet::new(),
        };
        shared.before = shared.refresh().await?;
        Ok(shared)
    }

    /// Tells the keys of this import from those of others.
    pub async fn refresh(&mut self) -> Result<State, Failure> {
        let state = self.state().await?;
        for (key, value) in &state.values {
            if self.restore || self.owned.contains(key) || self.kept.contains(key) {
                continue;
            }
            // Another value than those of the file is not from an earlier run.
            let known = self.values.get(key.as_str());
            let is_known = known.is_some_and(|known| known.iter().any(|it| same_value(it, value)));
            match is_known && self.is_own(&state, key).await? {
                true => self.owned.insert(key.clone()),
                false => self.kept.insert(key.clone()),
            };
        }
        Ok(state)
    }

    async fn state(&self) -> Result<State, Failure> {
        let request =
            v1::GetStateRequest { include_versions: true, ..state_request(self.scope.clone()) };
        let state = whole_state(self.server, request).await?;
        let mut values: BTreeMap<_, _> = members_of(&state).into_iter().collect();
        // Damage, too, is a value of somebody.
        values.extend(state.damaged_keys.into_iter().map(|key| (key, Json::null())));
        Ok(State { values, versions: state.versions })
    }

    /// Whether the key has its value from this import.
    async fn is_own(&mut self, state: &State, key: &str) -> Result<bool, Failure> {
        let Some(version) = state.versions.get(key) else { return Ok(false) };
        let is_application = key.starts_with(ScopeKind::Application.prefix());
        let user_id = if is_application { "" } else { &self.scope.user_id };
        let place = (self.scope.app_name.clone(), user_id.to_owned(), key.to_owned());
        if self.newest.get(&place).is_none_or(|known| known.version != *version) {
            let newest = self.changes(key, 1).await?.into_iter().next();
            let Some(newest) = newest else { return Ok(false) };
            self.newest.insert(place.clone(), v1::KeyChange { value_form: None, ..newest });
        }
        let newest = self.newest.get(&place);
        Ok(newest.is_some_and(|it| it.version == *version && self.mark.is_on(it)))
    }

    /// The last changes of a key, newest first.
    async fn changes(&self, key: &str, page_size: i32) -> Result<Vec<v1::KeyChange>, Failure> {
        let mut request = v1::ListKeyChangesRequest {
            scope: Some(self.scope.clone()),
            key: key.to_owned(),
            page_size,
            json_form: JSON_FORM,
            ..Default::default()
        };
        let mut changes = Vec::new();
        loop {
            let call = async || self.server.state().list_key_changes(request.clone()).await;
            let page = retry(call).await?;
            changes.extend(page.changes);
            request.page_token = page.next_page_token;
            request.page_size = page_size.saturating_sub(changes.len() as i32);
            if request.page_token.is_empty() || request.page_size <= 0 {
                return Ok(changes);
            }
        }
    }

    /// Takes the keys that stay out of the event.
    pub fn strip(&self, event: &mut Event) {
        event.set.retain(|(key, _)| !self.kept.contains(key));
        event.remove.retain(|key| !self.kept.contains(key));
    }

    /// The keys that these stripped events write first, and conditions that they still have no value.
    pub fn first_writes(&self, events: &[Event]) -> (BTreeSet<String>, Vec<v1::KeyCheck>) {
        let set = events.iter().flat_map(|event| event.set.iter().map(|(key, _)| key));
        let keys = set.chain(events.iter().flat_map(|event| &event.remove));
        let keys = keys.filter(|key| is_shared(key) && !self.owned.contains(*key));
        let keys: BTreeSet<_> = keys.cloned().collect();
        let absent = |key: &String| check(key.clone(), Condition::Exists(false));
        // As many as a precondition takes. Beyond that, only somebody who writes the same key at this very time loses.
        let limit = if self.restore { 0 } else { DELTA_OPERATIONS };
        let checks = keys.iter().take(limit).map(absent).collect();
        (keys, checks)
    }

    /// The checks held, and the events were committed.
    pub fn own(&mut self, keys: BTreeSet<String>, sequences: &BTreeSet<i64>) {
        self.mark.sequences.extend(sequences);
        self.owned.extend(keys);
    }

    /// Sets what the file began with, where there is no value.
    pub async fn begin(&mut self, initial: &[(String, Json)]) -> Result<(), Failure> {
        let is_new =
            |(key, _): &&(String, Json)| is_shared(key) && !self.before.values.contains_key(key);
        let new = initial.iter().filter(is_new).cloned();
        let new: Vec<_> = new.map(|(key, value)| (key, Some(value))).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.write(new, &self.before).await?;
        self.refresh().await.map(drop)
    }

    /// Brings the keys that may be written to their values at the end of the file. `gone` are keys that the file has no more.
    pub async fn end(
        &mut self,
        state: &[(String, Json)],
        gone: &[String],
    ) -> Result<SharedCounts, Failure> {
        let now = self.state().await?;
        let (mut counts, mut changes) = (SharedCounts::default(), Vec::new());
        let last = state.iter().map(|(key, value)| (key, Some(value)));
        let last = last.chain(gone.iter().map(|key| (key, None))).filter(|(key, _)| is_shared(key));
        for (key, wanted) in last {
            let there = now.values.get(key);
            let is_right = match (there, wanted) {
                (Some(there), Some(wanted)) => same_value(there, wanted),
                (there, wanted) => there.is_none() && wanted.is_none(),
            };
            let owned = self.owned.contains(key);
            let may_write = self.restore
                || there.is_none()
                || owned && (is_right || self.is_own(&now, key).await?);
            let is_touched = now.versions.get(key) != self.before.versions.get(key);
            let fate = fate(may_write, owned, is_right, is_touched);
            match fate {
                Fate::Set if !is_right => changes.push((key.clone(), wanted.cloned())),
                Fate::Changed => drop(self.changed.insert(key.clone())),
                Fate::Set | Fate::Kept => {}
            }
            let counter = match fate {
                Fate::Set => &mut counts.shared_keys_set,
                Fate::Kept | Fate::Changed => &mut counts.shared_keys_kept,
            };
            *counter += usize::from(wanted.is_some());
        }
        self.write(changes, &now).await?;
        Ok(counts)
    }

    /// Adds to `changed` what an earlier run of this import had not yet brought to its last value when somebody else wrote it.
    pub async fn find_changed(&mut self) -> Result<(), Failure> {
        let now = self.state().await?.values;
        for (key, values) in self.values.iter().filter(|(key, _)| self.kept.contains(**key)) {
            let Some(last) = values.last() else { continue };
            if now.get(*key).is_some_and(|now| same_value(now, last)) {
                continue;
            }
            let mut changes = self.changes(key, MAX_PAGE).await?.into_iter();
            let is_unfinished = |own: v1::KeyChange| match own.value_form {
                Some(ValueForm::ValueJson(text)) => !same_value(&Json::from_stored(text), last),
                _ => true,
            };
            if changes.find(|change| self.mark.is_on(change)).is_some_and(is_unfinished) {
                self.changed.insert((*key).to_owned());
            }
        }
        Ok(())
    }

    /// Sets or removes keys that have had these values since `state` was read.
    async fn write(
        &self,
        changes: Vec<(String, Option<Json>)>,
        state: &State,
    ) -> Result<(), Failure> {
        for part in parts(&changes) {
            let (delta, keys) = written(part, state, self.restore);
            let mut request = v1::UpdateStateRequest {
                scope: Some(self.scope.clone()),
                delta: Some(delta),
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
        }
        Ok(())
    }
}

/// Writes these changes to keys as `state` has them, with conditions that they still are so. With `restore` they are written anyway.
fn written(
    changes: &[(String, Option<Json>)],
    state: &State,
    restore: bool,
) -> (v1::StateDelta, Vec<v1::KeyCheck>) {
    let (mut set, mut remove, mut absent) = (Vec::new(), Vec::new(), Vec::new());
    let mut checks = Vec::new();
    for (key, value) in changes.iter().cloned() {
        if let Some(version) = state.versions.get(&key).filter(|_| !restore) {
            checks.push(check(key.clone(), Condition::Version(*version)));
        }
        match value {
            None => remove.push(key),
            Some(value) if restore || state.values.contains_key(&key) => set.push((key, value)),
            Some(value) => absent.push(convert::set_if_absent(key, value)),
        }
    }
    let mut delta = convert::delta(set, remove).unwrap_or_default();
    delta.operations.extend(absent);
    (delta, checks)
}

/// Outcome for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has the file's value, or gets it now.
    Set,
    Kept,
    /// Kept, although this import had set it.
    Changed,
}

/// The outcome for a key that was the import's or not (`owned`), has the file's value (`is_right`) or another one, and has another version
/// than before the import (`is_touched`) or not.
fn fate(may_write: bool, owned: bool, is_right: bool, is_touched: bool) -> Fate {
    match may_write {
        true if is_right && !is_touched => Fate::Kept,
        true => Fate::Set,
        false if owned => Fate::Changed,
        false => Fate::Kept,
    }
}

/// The changes in parts that a delta takes, by number and by bytes.
fn parts(mut changes: &[(String, Option<Json>)]) -> Vec<&[(String, Option<Json>)]> {
    let mut parts = Vec::new();
    while !changes.is_empty() {
        let mut bytes = 0;
        let fitting = changes.iter().take(DELTA_OPERATIONS).take_while(|(key, value)| {
            // With quotes and separators. Half of the limit: the answer has the rest of the state as well.
            bytes += 2 * key.len() + value.as_ref().map_or(0, Json::len) + 8;
            bytes <= DELTA_BYTES / 2
        });
        let (part, rest) = changes.split_at(fitting.count().max(1));
        parts.push(part);
        changes = rest;
    }
    parts
}

#[cfg(test)]
mod tests;
