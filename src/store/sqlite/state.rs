//! Reading state: of one node, and merged.

use rusqlite::OptionalExtension;

use super::{fault::Outcome, history::Log, lookup::Found, row, schema::NodeId, statements::Reads};
use crate::{
    domain::{
        Sequence, Version,
        event::ScopeVersions,
        json::Json,
        scope::{Scope, ScopeKind, StateKey},
        session::{Incarnation, State, StateEntry},
        token::Position,
    },
    store::{StateQuery, StateView},
};

/// The nodes that are visible from a scope, as far as they are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    pub(super) app: Option<NodeId>,
    pub(super) user: Option<NodeId>,
    pub(super) session: Option<NodeId>,
}

impl Nodes {
    fn of(&self, kind: ScopeKind) -> Option<NodeId> {
        match kind {
            ScopeKind::Application => self.app,
            ScopeKind::User => self.user,
            ScopeKind::Session => self.session,
        }
    }
}

impl Found {
    pub(super) fn nodes(&self) -> Nodes {
        Nodes { app: Some(self.app), user: Some(self.user), session: Some(self.id()) }
    }
}

impl Reads<'_> {
    /// A node's state now, in order of its keys.
    pub(super) fn state_of(
        &mut self,
        node: NodeId,
        kind: ScopeKind,
        out: &mut Vec<StateEntry>,
    ) -> rusqlite::Result<()> {
        let mut rows = self.state.query([node])?;
        while let Some(row) = rows.next()? {
            out.push(StateEntry {
                key: StateKey::in_scope(kind, row::text(row, 0)?),
                value: row::json(row, 1)?,
                version: row::count(row, 2)?,
            });
        }
        Ok(())
    }

    /// A key's value and version now.
    pub(super) fn value(
        &mut self,
        node: NodeId,
        name: &str,
    ) -> rusqlite::Result<Option<(Json, Version)>> {
        self.state_key
            .query_row((node, name), |row| Ok((row::json(row, 0)?, row::count(row, 1)?)))
            .optional()
    }

    /// Everything that is visible from some nodes now.
    pub(super) fn merged(&mut self, nodes: Nodes) -> rusqlite::Result<State> {
        let mut entries = Vec::new();
        for kind in [ScopeKind::Application, ScopeKind::User, ScopeKind::Session] {
            if let Some(node) = nodes.of(kind) {
                self.state_of(node, kind, &mut entries)?;
            }
        }
        Ok(State(entries))
    }

    /// Everything that was visible from a session right after an event.
    pub(super) fn merged_as_of(
        &mut self,
        found: &Found,
        sequence: Sequence,
    ) -> rusqlite::Result<State> {
        let now = self.versions(found)?;
        let then = self.versions_as_of(found, sequence)?;
        let mut entries = Vec::new();
        let app = Log { node: found.app, kind: ScopeKind::Application, version: now.application };
        self.state_as_of(app, then.application, &mut entries)?;
        let user = Log { node: found.user, kind: ScopeKind::User, version: now.user };
        self.state_as_of(user, then.user, &mut entries)?;
        self.state_as_of(found.log(), sequence, &mut entries)?;
        Ok(State(entries))
    }

    /// Reads what is visible from a scope.
    pub(super) fn read_state(&mut self, query: &StateQuery) -> Outcome<StateView> {
        let StateQuery { scope, keys, now } = query;
        let (nodes, info) = match scope {
            Scope::Session(key) => {
                let found = self.live(key, *now)?;
                (found.nodes(), Some(found.info))
            }
            Scope::User(app, user) => {
                let app_node = self.scope_id(app, None)?;
                let user = self.scope_id(app, Some(user))?;
                (Nodes { app: app_node, user, session: None }, None)
            }
            Scope::Application(app) => {
                (Nodes { app: self.scope_id(app, None)?, ..Nodes::default() }, None)
            }
        };
        let versions = ScopeVersions {
            application: self.scope_head(nodes.app)?.version,
            user: self.scope_head(nodes.user)?.version,
        };
        let position = Position {
            incarnation: info.as_ref().map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.as_ref().map_or(0, |info| info.last_sequence),
            versions,
        };
        let state = match keys {
            None => self.merged(nodes)?,
            Some(keys) => self.some_keys(nodes, keys)?,
        };
        Ok(StateView { state, position, info })
    }

    fn some_keys(&mut self, nodes: Nodes, keys: &[StateKey]) -> rusqlite::Result<State> {
        let mut wanted: Vec<&StateKey> = keys.iter().collect();
        wanted.sort_by_key(|key| (key.scope(), key.name()));
        wanted.dedup();
        let mut entries = Vec::new();
        for key in wanted {
            let node = key.scope().and_then(|kind| nodes.of(kind));
            if let Some(node) = node
                && let Some((value, version)) = self.value(node, key.name())?
            {
                entries.push(StateEntry { key: key.clone(), value, version });
            }
        }
        Ok(State(entries))
    }
}

impl Found {
    /// Its own log.
    pub(super) fn log(&self) -> Log {
        Log { node: self.id(), kind: ScopeKind::Session, version: self.info.last_sequence }
    }
}
