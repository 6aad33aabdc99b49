//! The backend of group commit: loads copies, and applies change sets to the data.

use super::{
    scope::{LogRow, ScopeRecord},
    session::{Log, Session},
    world::{PendingFork, World},
};
use crate::{
    commit::{
        ChangeSet, FORK_LEASE_SECS, Loaded, Needs, ScopeChange, ScopeKey, ScopeLogRow, SessionRow,
    },
    domain::{error::Error, scope::ScopeKind, time::Time},
    store::group::Backend,
};

impl Backend for World {
    fn loaded(&mut self) -> &mut Loaded {
        &mut self.loaded
    }

    async fn load(&mut self, needs: &[Needs<'_>]) -> Result<(), Error> {
        let mut loaded = Loaded::new(self.now(), self.next_id);
        for needs in needs {
            self.load_request(needs, &mut loaded);
        }
        self.loaded = loaded;
        Ok(())
    }

    async fn apply(&mut self, changes: &ChangeSet) -> Result<(), Error> {
        for info in &changes.removed {
            self.removed.extend(self.sessions.remove(info.incarnation).map(|session| session.log));
        }
        for fork in &changes.begun_forks {
            let lease_end = self.lease_end();
            self.forks.insert(*fork, PendingFork { log: Log::default(), lease_end });
        }
        for piece in &changes.copied {
            let lease_end = self.lease_end();
            if let Some(fork) = self.forks.get_mut(&piece.to)
                && let Some(source) = self.sessions.get(piece.from)
            {
                fork.log.copy(&source.log, piece);
                fork.lease_end = lease_end;
            }
        }
        // Sessions before what belongs to them.
        for row in changes.sessions.values() {
            self.put_session(row);
        }
        for row in &changes.events {
            if let Some(session) = self.sessions.get_mut(row.incarnation) {
                session.log.push(row);
            }
        }
        for (key, change) in &changes.scopes {
            if let Some(scope) = self.scope_mut(key) {
                put_scope(scope, key.kind(), change);
            }
        }
        for row in &changes.requests {
            if let Some(scope) = self.scope_mut(&row.scope) {
                scope.requests.insert(row.id.clone(), row.fingerprint);
            }
        }
        let purged = changes.purged.and_then(|fork| self.forks.remove(&fork));
        self.removed.extend(purged.map(|fork| fork.log));
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), Error> {
        self.next_id = self.loaded.next_id;
        Ok(())
    }

    /// Decisions are made on copies: there is nothing to undo.
    async fn roll_back(&mut self, _changed: bool) {}
}

impl World {
    fn lease_end(&self) -> Time {
        self.loaded.now.plus(FORK_LEASE_SECS, 0).unwrap_or(Time::LAST)
    }

    /// A new session has the log of its fork, or an empty one with the state that it was created with.
    fn put_session(&mut self, row: &SessionRow) {
        let SessionRow { is_new, info, state_bytes: _, initial, metadata: _ } = row;
        if !is_new {
            self.sessions.update(info);
            return;
        }
        let fork = self.forks.remove(&info.incarnation);
        let mut log = fork.map(|fork| fork.log).unwrap_or_default();
        for (name, value) in initial {
            log.own.put(name, Some(value.clone()), 0);
        }
        self.sessions.insert(Session { info: info.clone(), log });
    }

    fn scope_mut(&mut self, key: &ScopeKey) -> Option<&mut ScopeRecord> {
        match key {
            ScopeKey::Session(incarnation) => {
                self.sessions.get_mut(*incarnation).map(|session| &mut session.log.own)
            }
            wide => Some(self.scopes.entry(wide.clone()).or_default()),
        }
    }
}

/// The log tells every change of every key. A session's came with its events.
fn put_scope(scope: &mut ScopeRecord, kind: ScopeKind, change: &ScopeChange) {
    let ScopeChange { before: _, version, state_bytes, state: _, log } = change;
    (scope.version, scope.state_bytes) = (*version, *state_bytes);
    for row in log {
        let ScopeLogRow { version, commit_time, author, source, changes, state_bytes: _ } = row;
        let keys = scope.put_changes(changes, kind, *version);
        let (commit_time, author, source) = (*commit_time, author.clone(), source.clone());
        scope.log.push(LogRow { keys, commit_time, author, source });
    }
}
