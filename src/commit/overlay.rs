//! The changes of one request on top of what was loaded: dropped when the request is refused, merged when it is accepted.

use std::collections::BTreeMap;

use super::{
    ChangeSet, Loaded, ScopeKey, ScopeLogRow, ScopeState, SessionRow, Source, loaded::entry_bytes,
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
    base: [Option<&'l ScopeState>; 3],
    effects: Effects,
}

/// The changes of a request to the state of its scopes.
#[derive(Default)]
pub(super) struct Effects {
    keys: BTreeMap<StateKey, KeyEffect>,
    scopes: [ScopeEffect; 3],
}

/// What a key became, and at which version; `None`: it was removed.
type KeyEffect = (Option<Json>, Version);

#[derive(Default)]
struct ScopeEffect {
    changed: bool,
    version: Version,
    state_bytes: usize,
    log: Vec<ScopeLogRow>,
}

/// When, by whom and by which event a change is made.
pub(super) struct Stamp<'a> {
    pub commit_time: Time,
    pub author: &'a Author,
    pub source: Option<Source>,
}

impl<'l> Overlay<'l> {
    /// The scopes that are visible from one; `incarnation` is the session's, if the scope is one.
    pub(super) fn new(loaded: &'l Loaded, scope: &Scope, incarnation: Option<Incarnation>) -> Self {
        let user = scope.user_id().and_then(|user| loaded.user(scope.app_name(), user));
        let own = incarnation.and_then(|it| loaded.sessions.get(&it)).map(|session| &session.own);
        let base = [loaded.application(scope.app_name()), user, own];
        let scopes = base.map(|scope| ScopeEffect {
            version: scope.map_or(0, |scope| scope.version),
            state_bytes: scope.map_or(0, |scope| scope.state_bytes),
            ..ScopeEffect::default()
        });
        Self { base, effects: Effects { keys: BTreeMap::new(), scopes } }
    }

    /// A key's value and version.
    fn get(&self, key: &StateKey) -> Option<(&Json, Version)> {
        match self.effects.keys.get(key) {
            Some((value, version)) => value.as_ref().map(|value| (value, *version)),
            None => self.base[key.scope()? as usize]?.get(key.name()),
        }
    }

    pub(super) fn check(&self, precondition: &Precondition, kind: ScopeKind) -> Result<(), Error> {
        precondition.check(self.version(kind), |key| self.get(key))
    }

    pub(super) fn version(&self, kind: ScopeKind) -> Version {
        self.effects.scopes[kind as usize].version
    }

    pub(super) fn versions(&self) -> ScopeVersions {
        ScopeVersions {
            application: self.version(ScopeKind::Application),
            user: self.version(ScopeKind::User),
        }
    }

    /// Evaluates a delta and applies what it results in.
    pub(super) fn apply(
        &mut self,
        delta: &Delta,
        field: &FieldPath,
        own_version: Version,
        stamp: &Stamp<'_>,
    ) -> Result<Vec<KeyResult>, Error> {
        let results = delta.resolve(field, |key| self.get(key).map(|(value, _)| value))?;
        self.put(&results, own_version, stamp)?;
        Ok(results)
    }

    /// Applies what keys became. The version of a wider scope rises by one if one of its keys is among them; that of the session
    /// becomes `own_version`.
    pub(super) fn put(
        &mut self,
        results: &[KeyResult],
        own_version: Version,
        stamp: &Stamp<'_>,
    ) -> Result<(), Error> {
        self.effects.scopes[ScopeKind::Session as usize].version = own_version;
        if results.is_empty() {
            return Ok(());
        }
        let mut sizes = [0; 3];
        let mut touched = [false; 3];
        for kind in ScopeKind::ALL {
            sizes[kind as usize] = self.effects.scopes[kind as usize].state_bytes;
        }
        for (key, value) in results {
            let Some(kind) = key.scope() else { continue };
            let before = self.get(key).map_or(0, |(value, _)| entry_bytes(key.name(), value));
            let after = value.as_ref().map_or(0, |value| entry_bytes(key.name(), value));
            let size = &mut sizes[kind as usize];
            *size = (*size + after).saturating_sub(before);
            touched[kind as usize] = true;
        }
        for kind in ScopeKind::ALL {
            let (after, scope) = (sizes[kind as usize], &self.effects.scopes[kind as usize]);
            if after > SCOPE_BYTES && after > scope.state_bytes {
                return Err(Error::StateTooLarge(kind));
            }
        }
        for kind in ScopeKind::ALL.into_iter().filter(|kind| touched[*kind as usize]) {
            let scope = &mut self.effects.scopes[kind as usize];
            scope.changed = true;
            scope.state_bytes = sizes[kind as usize];
            if kind == ScopeKind::Session {
                continue;
            }
            scope.version += 1;
            let own = results.iter().filter(|(key, _)| key.scope() == Some(kind));
            scope.log.push(ScopeLogRow {
                version: scope.version,
                commit_time: stamp.commit_time,
                author: stamp.author.clone(),
                source: stamp.source.clone(),
                changes: changes(own),
                state_bytes: scope.state_bytes,
            });
        }
        for (key, value) in results {
            if let Some(kind) = key.scope() {
                let version = self.effects.scopes[kind as usize].version;
                self.effects.keys.insert(key.clone(), (value.clone(), version));
            }
        }
        Ok(())
    }

    /// The changes, released from the borrow of what was loaded.
    pub(super) fn into_effects(self) -> Effects {
        self.effects
    }
}

impl Effects {
    /// The new values of the session's own keys, by name.
    pub(super) fn own_state(&self) -> Vec<(Box<str>, Json)> {
        let own = self.keys.iter().filter(|(key, _)| key.scope() == Some(ScopeKind::Session));
        own.filter_map(|(key, (value, _))| Some((key.name().into(), value.clone()?))).collect()
    }

    /// Puts the changes into what was loaded and into the group's.
    pub(super) fn merge(
        self,
        loaded: &mut Loaded,
        changes: &mut ChangeSet,
        scope: impl Fn(ScopeKind) -> ScopeKey,
    ) {
        let mut parts: [Vec<(StateKey, KeyEffect)>; 3] = Default::default();
        for (key, value) in self.keys {
            if let Some(kind) = key.scope() {
                parts[kind as usize].push((key, value));
            }
        }
        for ((kind, effect), keys) in ScopeKind::ALL.into_iter().zip(self.scopes).zip(parts) {
            let key = scope(kind);
            // A session's version rises with every event. A request to a wider scope has no session.
            let is_session = matches!(key, ScopeKey::Session(_));
            if key.kind() != kind || (!effect.changed && !is_session) {
                continue;
            }
            let Some(state) = loaded.scope_mut(&key) else { continue };
            let before = state.version;
            state.version = effect.version;
            state.state_bytes = effect.state_bytes;
            let change = changes
                .scopes
                .entry(key)
                .or_insert_with(|| super::ScopeChange { before, ..super::ScopeChange::default() });
            change.version = effect.version;
            change.state_bytes = effect.state_bytes;
            change.log.extend(effect.log);
            for (key, (value, version)) in keys {
                state.put(key.name(), value.clone().map(|value| (value, version)));
                change.state.insert(key.name().into(), (value, version));
            }
        }
    }
}

/// Notes that a session's row has to be written, and whether more than an event changes of it.
pub(super) fn put_session(
    loaded: &Loaded,
    changes: &mut ChangeSet,
    incarnation: Incarnation,
    metadata: bool,
) {
    let Some(session) = loaded.sessions.get(&incarnation) else { return };
    let row = changes.sessions.entry(incarnation).or_insert_with(|| SessionRow {
        is_new: false,
        metadata: false,
        info: session.info.clone(),
        state_bytes: 0,
        initial: Vec::new(),
    });
    row.metadata |= metadata;
    row.info.clone_from(&session.info);
    row.state_bytes = session.own.state_bytes;
}
