//! The changes of one request on top of what was loaded: dropped when the request is refused, merged when it is accepted.

use super::{
    ChangeSet, Loaded, Refusal, ScopeChange, ScopeKey, ScopeLogRow, SessionRow, SessionState,
    Source, entry_bytes, loaded::VisibleScopes,
};
use crate::domain::{
    Version,
    delta::{Delta, KeyResult, changes},
    error::Error,
    event::ScopeVersions,
    field::FieldPath,
    id::Author,
    json::Json,
    limits::SCOPE_BYTES,
    precondition::Precondition,
    scope::{Scope, ScopeKind, StateKey},
    session::Incarnation,
    time::Time,
};

/// Scopes as a request sees them: application, user, and its session's own.
pub(super) struct Overlay<'l> {
    base: VisibleScopes<'l>,
    pub changes: [ScopeChange; 3],
}

/// When, by whom and by which event a change is made.
pub(super) struct Stamp<'a> {
    pub commit_time: Time,
    pub author: &'a Author,
    pub source: Option<Source>,
}

impl<'l> Overlay<'l> {
    pub(super) fn new(base: VisibleScopes<'l>) -> Self {
        let changes = base.map(|scope| {
            let (version, state_bytes) = scope.map_or((0, 0), |it| (it.version, it.state_bytes));
            ScopeChange { before: version, version, state_bytes, ..ScopeChange::default() }
        });
        Self { base, changes }
    }

    /// A key's value and version.
    fn get(&self, key: &StateKey) -> Option<(&Json, Version)> {
        let kind = key.scope()? as usize;
        match self.changes[kind].state.get(key.name()) {
            Some((value, version)) => Some((value.as_ref()?, *version)),
            None => self.base[kind]?.get(key.name()),
        }
    }

    /// Ends the decision unless it is known what keys are. A bare id may mean another session by now than the one whose keys were loaded.
    fn require<'k>(&self, mut keys: impl Iterator<Item = &'k StateKey>) -> Result<(), Refusal> {
        let base = |key: &StateKey| self.base[key.scope()? as usize];
        let covered = keys.all(|key| base(key).is_none_or(|scope| scope.covers(key.name())));
        if covered { Ok(()) } else { Err(Refusal::LoadAgain) }
    }

    /// Checks conditions on keys, and on the version of a scope.
    pub(super) fn check(
        &self,
        precondition: &Precondition,
        kind: ScopeKind,
    ) -> Result<(), Refusal> {
        self.require(precondition.keys.iter().map(|(key, _)| key))?;
        let version = self.changes[kind as usize].version;
        Ok(precondition.check(version, |key| self.get(key))?)
    }

    pub(super) fn versions(&self) -> ScopeVersions {
        let [application, user, _] = &self.changes;
        ScopeVersions { application: application.version, user: user.version }
    }

    /// Computes what keys become by a delta.
    pub(super) fn resolve(
        &self,
        delta: &Delta,
        field: &FieldPath,
    ) -> Result<Vec<KeyResult>, Refusal> {
        self.require(delta.keys())?;
        Ok(delta.resolve(field, |key| Some(self.get(key)?.0))?)
    }

    /// Applies what keys became. The version of a wider scope rises by one if one of its keys is among them; that of the session
    /// becomes `own_version`. Errors: [`Error::StateTooLarge`].
    pub(super) fn put(
        &mut self,
        results: Vec<KeyResult>,
        own_version: Version,
        stamp: &Stamp<'_>,
    ) -> Result<(), Error> {
        self.changes[ScopeKind::Session as usize].version = own_version;
        let of = |kind| results.iter().filter(move |(key, _)| key.scope() == Some(kind));
        let mut sizes = [0; 3];
        for kind in ScopeKind::ALL {
            let before = self.changes[kind as usize].state_bytes;
            let size = of(kind).fold(before, |size, (key, value)| {
                let bytes = |value: &Json| entry_bytes(key.name(), value);
                let replaced = self.get(key).map_or(0, |(value, _)| bytes(value));
                (size + value.as_ref().map_or(0, bytes)).saturating_sub(replaced)
            });
            // A scope that is over its limit already may shrink.
            if size > SCOPE_BYTES && size > before {
                return Err(Error::StateTooLarge(kind));
            }
            sizes[kind as usize] = size;
        }
        for (kind, change) in ScopeKind::ALL.into_iter().zip(&mut self.changes) {
            change.state_bytes = sizes[kind as usize];
            if kind == ScopeKind::Session || of(kind).next().is_none() {
                continue;
            }
            change.version += 1;
            change.log.push(ScopeLogRow {
                version: change.version,
                commit_time: stamp.commit_time,
                author: stamp.author.clone(),
                source: stamp.source.clone(),
                changes: changes(of(kind)),
            });
        }
        for (key, value) in results {
            if let Some(kind) = key.scope() {
                let change = &mut self.changes[kind as usize];
                change.state.insert(key.name().into(), (value, change.version));
            }
        }
        Ok(())
    }
}

/// Puts the changes of a request to the scopes that are visible from one into what was loaded and into the group's. `session` is the
/// session's life, if the scope is one.
pub(super) fn merge(
    changes: [ScopeChange; 3],
    loaded: &mut Loaded,
    change_set: &mut ChangeSet,
    scope: &Scope,
    session: Option<Incarnation>,
) {
    for (kind, change) in ScopeKind::ALL.into_iter().zip(changes) {
        // A session's version rises with every event.
        if change.state.is_empty() && kind != ScopeKind::Session {
            continue;
        }
        let Some(key) = ScopeKey::of(kind, scope, session) else { continue };
        let Some(state) = loaded.scope_mut(&key) else { continue };
        let ScopeChange { before, version, state_bytes, state: keys, log } = change;
        (state.version, state.state_bytes) = (version, state_bytes);
        for (name, (value, version)) in &keys {
            state.put(name, value.clone().map(|value| (value, *version)));
        }
        let group = change_set.scopes.entry(key);
        let group = group.or_insert_with(|| ScopeChange { before, ..ScopeChange::default() });
        (group.version, group.state_bytes) = (version, state_bytes);
        group.state.extend(keys);
        group.log.extend(log);
    }
}

/// Notes that a session's row has to be written, and whether more than an event changes of it. Returns the row.
pub(super) fn put_session<'c>(
    changes: &'c mut ChangeSet,
    session: &SessionState,
    metadata: bool,
) -> &'c mut SessionRow {
    let row = changes.sessions.entry(session.info.incarnation).or_insert_with(|| SessionRow {
        is_new: false,
        metadata: false,
        info: session.info.clone(),
        state_bytes: 0,
        initial: Vec::new(),
    });
    row.metadata |= metadata;
    row.info.clone_from(&session.info);
    row.state_bytes = session.own.state_bytes;
    row
}
