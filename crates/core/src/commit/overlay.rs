//! The changes of one request on top of what was loaded: dropped when the request is refused, merged when it is accepted.

use hashbrown::hash_map::Entry;

use super::{
    ChangeSet, KeyRow, Refusal, ScopeChange, ScopeKey, ScopeLogRow, ScopeState, SessionRow,
    SessionState, Source, WorkingSet, entry_bytes, working_set::VisibleScopes,
};
use crate::domain::{delta::changes, field::FieldPath, limits::SCOPE_BYTES, prelude::*};

/// Scopes as a request sees them: application, user, and its session's own.
pub struct Overlay<'l> {
    base: VisibleScopes<'l>,
    pub changes: [ScopeChange; 3],
    version_floor: Version,
}

/// When, by whom and by which event a change is made.
pub struct Stamp<'a> {
    pub commit_time: Time,
    pub author: &'a Author,
    pub source: Option<Source>,
}

impl<'l> Overlay<'l> {
    /// `base` is what was loaded.
    pub fn new(loaded: &'l WorkingSet, base: VisibleScopes<'l>) -> Self {
        let changes = base.map(|scope| match scope {
            Some(&ScopeState { version, base, state_bytes, .. }) => ScopeChange {
                before: version,
                version,
                base,
                state_bytes,
                ..ScopeChange::default()
            },
            None => ScopeChange::default(),
        });
        Self { base, changes, version_floor: loaded.version_floor }
    }

    /// A key's value and version.
    fn get(&self, key: &StateKey) -> Option<(&Json, Version)> {
        self.get_in(key.scope()?, key.name())
    }

    fn get_in(&self, kind: ScopeKind, name: &str) -> Option<(&Json, Version)> {
        match self.changes[kind as usize].state.get(name) {
            Some(row) => Some((row.value.as_ref()?, row.version)),
            None => self.base[kind as usize]?.get(name),
        }
    }

    /// Ends the decision unless it is known what keys are.
    fn require<'k>(&self, mut keys: impl Iterator<Item = &'k StateKey>) -> Result<(), Refusal> {
        let base = |key: &StateKey| self.base[key.scope()? as usize];
        let covered = keys.all(|key| base(key).is_none_or(|scope| scope.covers(key.name())));
        if covered { Ok(()) } else { Err(Refusal::LoadAgain) }
    }

    /// Checks conditions on keys, and on the version of a scope. Adds the bytes that they read to `work`.
    pub fn check(
        &self,
        precondition: &Precondition,
        kind: ScopeKind,
        work: &mut usize,
    ) -> Result<(), Refusal> {
        self.require(precondition.keys.iter().map(|(key, _)| key))?;
        let version = self.changes[kind as usize].version;
        Ok(precondition.check(version, work, |key| self.get(key))?)
    }

    pub fn versions(&self) -> ScopeVersions {
        let [application, user, _] = &self.changes;
        ScopeVersions { application: application.version, user: user.version }
    }

    /// Computes what keys become by a delta, as [`Delta::resolve`] does.
    pub fn resolve(
        &self,
        delta: &Delta,
        field: &FieldPath,
        work: &mut usize,
    ) -> Result<Vec<KeyResult>, Refusal> {
        self.require(delta.keys())?;
        Ok(delta.resolve(field, work, |key| Some(self.get(key)?.0))?)
    }

    /// Applies what keys became. The version of a shared scope rises by one if one of its keys is among them; that of the session
    /// becomes `own_version`. Errors: [`Error::StateTooLarge`].
    pub fn put(
        &mut self,
        results: Vec<KeyResult>,
        own_version: Version,
        stamp: &Stamp<'_>,
    ) -> Result<(), Error> {
        self.changes[ScopeKind::Session as usize].version = own_version;
        let mut by_kind: [Vec<KeyResult>; 3] = Default::default();
        for result in results {
            if let Some(kind) = result.0.scope() {
                by_kind[kind as usize].push(result);
            }
        }
        for (kind, results) in ScopeKind::ALL.into_iter().zip(by_kind) {
            if !results.is_empty() {
                self.put_in(kind, results, stamp)?;
            }
        }
        Ok(())
    }

    /// Of the keys of one scope.
    fn put_in(
        &mut self,
        kind: ScopeKind,
        results: Vec<KeyResult>,
        stamp: &Stamp<'_>,
    ) -> Result<(), Error> {
        let before = self.changes[kind as usize].state_bytes;
        let size = results.iter().fold(before, |size, (key, value)| {
            let name = key.name();
            let bytes = |value: &Json| entry_bytes(name, value);
            let replaced = self.get_in(kind, name).map_or(0, |(value, _)| bytes(value));
            (size + value.as_ref().map_or(0, bytes)).saturating_sub(replaced)
        });
        // A scope that is over its limit already may shrink.
        if size > SCOPE_BYTES && size > before {
            return Err(Error::StateTooLarge(kind));
        }
        let (base, change) = (self.base[kind as usize], &mut self.changes[kind as usize]);
        change.state_bytes = size;
        if kind != ScopeKind::Session {
            if change.version == 0 {
                (change.base, change.version) = (self.version_floor, self.version_floor);
            }
            change.version += 1;
            change.log.push(ScopeLogRow {
                version: change.version,
                commit_time: stamp.commit_time,
                author: stamp.author.clone(),
                source: stamp.source.clone(),
                changes: changes(results.iter()),
            });
        }
        for (key, value) in results {
            let name = key.name();
            let is_new = base.is_none_or(|scope| scope.get(name).is_none());
            change.put(name.into(), KeyRow { is_new, value, version: change.version });
        }
        Ok(())
    }
}

/// What was loaded for the requests of a transaction, and what those before have changed.
pub struct Transaction<'t> {
    pub loaded: &'t mut WorkingSet,
    pub changes: &'t mut ChangeSet,
    /// Of the call.
    pub trace_id: Option<TraceId>,
    /// Bytes that the request costs beyond its own.
    pub work: &'t mut usize,
}

impl Transaction<'_> {
    /// Everything that is visible from a scope, for an answer.
    pub fn state(&mut self, scope: &Scope) -> Result<State, Refusal> {
        let state = self.loaded.state(scope)?;
        *self.work += state.bytes();
        Ok(state)
    }

    /// Merges the changes of a request to the scopes that are visible from one. `session` is the session's life, if the scope is one.
    pub fn merge(
        &mut self,
        changes: [ScopeChange; 3],
        scope: &Scope,
        session: Option<Incarnation>,
    ) {
        for (kind, change) in ScopeKind::ALL.into_iter().zip(changes) {
            // A session's version rises with every event.
            if change.state.is_empty() && kind != ScopeKind::Session {
                continue;
            }
            let Some(key) = ScopeKey::of(kind, scope, session) else { continue };
            let Some(state) = self.loaded.scope_mut(&key) else { continue };
            let ScopeChange { base, version, state_bytes, .. } = change;
            (state.base, state.version, state.state_bytes) = (base, version, state_bytes);
            for (name, KeyRow { value, version, .. }) in &change.state {
                state.put(name, value.clone().map(|value| (value, *version)));
            }
            if kind != ScopeKind::Session && state_bytes == 0 {
                self.changes.emptied.insert(key.clone());
            }
            match self.changes.scopes.entry(key) {
                Entry::Vacant(vacant) => drop(vacant.insert(change)),
                Entry::Occupied(mut group) => group.get_mut().append(change),
            }
        }
    }

    /// Notes that a session's row has to be written, and whether more than an event changes of it. Returns the row.
    pub fn put_session(&mut self, incarnation: Incarnation, metadata: bool) -> &mut SessionRow {
        let SessionState { info, own, .. } = &self.loaded.sessions[&incarnation];
        let row = match self.changes.sessions.entry(incarnation) {
            Entry::Occupied(row) => {
                let row = row.into_mut();
                row.info.clone_from(info);
                row
            }
            Entry::Vacant(vacant) => vacant.insert(SessionRow {
                is_new: false,
                metadata: false,
                info: info.clone(),
                state_bytes: 0,
                initial: Vec::new(),
            }),
        };
        row.metadata |= metadata;
        row.state_bytes = own.state_bytes;
        row
    }
}
