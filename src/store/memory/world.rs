//! The data of the store, and what is visible from each scope.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    scope::ScopeRecord,
    session::{Log, Session},
    sessions::Sessions,
};
use crate::{
    commit::{Loaded, ScopeKey},
    domain::{
        Version,
        error::Error,
        event::ScopeVersions,
        json::Json,
        scope::{Scope, ScopeKind, StateKey},
        session::{Incarnation, State, StateEntry},
        time::Time,
    },
    store::Clock,
};

/// Everything. `backend.rs` writes it, the other files read it.
pub(super) struct World {
    clock: Arc<dyn Clock>,
    pub(super) sessions: Sessions,
    /// Applications and users that were written to.
    pub(super) scopes: HashMap<ScopeKey, ScopeRecord>,
    /// Targets of forks that are not finished. No read finds them.
    pub(super) forks: BTreeMap<Incarnation, PendingFork>,
    /// The next incarnation.
    pub(super) next_id: u64,
    /// Loaded for the current request.
    pub(super) loaded: Loaded,
    /// Removed by the current request, to be dropped after the lock is released.
    pub(super) removed: Vec<Log>,
    pub(super) closed: bool,
}

pub(super) struct PendingFork {
    pub(super) log: Log,
    /// When it is given up unless another piece is copied before.
    pub(super) lease_end: Time,
}

/// The scopes that are visible from one, from wide to narrow. `None`: never written to, or no scope of that kind.
#[derive(Clone, Copy)]
pub(super) struct VisibleScopes<'a>(pub(super) [Option<&'a ScopeRecord>; 3]);

impl World {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let loaded = Loaded::new(clock.now(), 1);
        Self {
            clock,
            sessions: Sessions::default(),
            scopes: HashMap::new(),
            forks: BTreeMap::new(),
            next_id: 1,
            loaded,
            removed: Vec::new(),
            closed: false,
        }
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The live session that a scope is, if it is one. Errors: [`Error::SessionNotFound`].
    pub(super) fn session_of(&self, scope: &Scope) -> Result<Option<&Session>, Error> {
        match scope {
            Scope::Session(key) => self.sessions.live(key, self.now()).map(Some),
            Scope::User(..) | Scope::Application(_) => Ok(None),
        }
    }

    /// The keys that are visible from a scope; `session` is the session that it is.
    pub(super) fn visible<'a>(
        &'a self,
        scope: &Scope,
        session: Option<&'a Session>,
    ) -> VisibleScopes<'a> {
        let [application, user] = wide_keys(scope).map(|key| self.scopes.get(&key?));
        VisibleScopes([application, user, session.map(|session| &session.log.own)])
    }

    /// The keys that are visible from a session.
    pub(super) fn visible_from<'a>(&'a self, session: &'a Session) -> VisibleScopes<'a> {
        self.visible(&Scope::Session(session.info.key.clone()), Some(session))
    }
}

impl<'a> VisibleScopes<'a> {
    pub(super) fn scope(&self, kind: ScopeKind) -> Option<&'a ScopeRecord> {
        self.0[kind as usize]
    }

    pub(super) fn entry(&self, key: StateKey) -> Option<StateEntry> {
        let (value, version) = self.scope(key.scope()?)?.get(key.name())?;
        let value = value.clone();
        Some(StateEntry { key, value, version })
    }

    /// All keys now.
    pub(super) fn state(&self) -> State {
        self.state_at([Version::MAX; 3])
    }

    /// All keys, each scope as it was at a version.
    pub(super) fn state_at(&self, versions: [Version; 3]) -> State {
        let parts = ScopeKind::ALL.into_iter().filter_map(|kind| {
            let entries = self.scope(kind)?.entries(versions[kind as usize]);
            Some(entries.map(move |(name, value, version)| entry(kind, name, value, version)))
        });
        State(parts.flatten().collect())
    }

    /// Versions of the wider scopes; 0 for those that were never written to.
    pub(super) fn versions(&self) -> ScopeVersions {
        let version = |kind| self.scope(kind).map_or(0, |scope| scope.version);
        ScopeVersions {
            application: version(ScopeKind::Application),
            user: version(ScopeKind::User),
        }
    }
}

/// The application and the user that a scope is, or belongs to.
pub(super) fn wide_keys(scope: &Scope) -> [Option<ScopeKey>; 2] {
    let app = scope.app_name();
    let user = scope.user_id().map(|user| ScopeKey::User(app.clone(), user.clone()));
    [Some(ScopeKey::Application(app.clone())), user]
}

fn entry(kind: ScopeKind, name: &str, value: &Json, version: Version) -> StateEntry {
    StateEntry { key: StateKey::in_scope(kind, name), value: value.clone(), version }
}
