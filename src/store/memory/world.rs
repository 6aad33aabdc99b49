//! All that the store holds, and what is visible from where.

use super::{keys::Keys, session::Session, sessions::Sessions, wide::Wides};
use crate::{
    domain::{
        Version,
        error::Error,
        event::ScopeVersions,
        json::Json,
        precondition::Precondition,
        scope::{Scope, ScopeKind, StateKey},
        session::State,
        time::Time,
    },
    store::tails::Tails,
};

/// Every kind of scope in the order of the merge; `kind as usize` is its place.
pub(super) const KINDS: [ScopeKind; 3] =
    [ScopeKind::Application, ScopeKind::User, ScopeKind::Session];

/// Everything. How it is written is in `write.rs`, how it is read in `read.rs`.
#[derive(Default)]
pub(super) struct World {
    pub(super) wides: Wides,
    pub(super) sessions: Sessions,
    pub(super) closed: bool,
}

/// The keys of the scopes that are visible from one, from wide to narrow.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a>(pub(super) [Option<&'a Keys>; 3]);

impl World {
    /// The live session that a scope is, if it is one.
    pub(super) fn session_of(&self, scope: &Scope, now: Time) -> Result<Option<&Session>, Error> {
        match scope {
            Scope::Session(key) => self.sessions.live(key, now).map(Some),
            Scope::User(..) | Scope::Application(_) => Ok(None),
        }
    }

    /// What is visible from a scope; `session` is the session that it is.
    pub(super) fn sight<'a>(&'a self, scope: &Scope, session: Option<&'a Session>) -> Sight<'a> {
        let wide = |kind| self.wides.get(scope, kind).map(|wide| &wide.keys);
        let own = session.map(|session| &session.keys);
        Sight([wide(ScopeKind::Application), wide(ScopeKind::User), own])
    }

    /// What is visible from a session.
    pub(super) fn sight_of<'a>(&'a self, session: &'a Session) -> Sight<'a> {
        self.sight(&session.scope(), Some(session))
    }

    /// Wakes those who wait for a scope that has changed, or for a wider one where that changed with it.
    pub(super) fn announce(
        &self,
        tails: &Tails,
        scope: &Scope,
        session: Option<Version>,
        before: ScopeVersions,
    ) {
        if !tails.is_watched() {
            return;
        }
        let after = self.wides.versions(scope);
        if let Some(version) = session {
            tails.advance(scope, version);
        }
        if after.application != before.application {
            let application = Scope::Application(scope.app_name().clone());
            tails.advance(&application, after.application);
        }
        if after.user != before.user
            && let Some(user_id) = scope.user_id()
        {
            let user = Scope::User(scope.app_name().clone(), user_id.clone());
            tails.advance(&user, after.user);
        }
    }
}

impl<'a> Sight<'a> {
    /// A scope's keys, where it is visible.
    pub(super) fn keys(&self, kind: ScopeKind) -> Option<&'a Keys> {
        self.0[kind as usize]
    }

    /// A key's value and version.
    pub(super) fn get(&self, key: &StateKey) -> Option<(&'a Json, Version)> {
        self.keys(key.scope()?)?.get(key.name())
    }

    /// Compares a precondition with what is there; `version` is that of the scope that is written to.
    pub(super) fn check(&self, precondition: &Precondition, version: Version) -> Result<(), Error> {
        precondition.check(version, |key| {
            Ok(self.get(key).map(|(value, version)| (value.clone(), version)))
        })
    }

    /// All of it.
    pub(super) fn state(&self) -> State {
        let parts = KINDS.into_iter().filter_map(|kind| {
            let keys = self.keys(kind)?;
            Some(keys.entries(kind))
        });
        State(parts.flatten().collect())
    }

    /// All of it, each scope as it was at a version.
    pub(super) fn state_as_of(&self, versions: [Version; 3]) -> State {
        let parts = KINDS.into_iter().filter_map(|kind| {
            let keys = self.keys(kind)?;
            Some(keys.entries_as_of(kind, versions[kind as usize]))
        });
        State(parts.flatten().collect())
    }
}
