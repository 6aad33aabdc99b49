//! Reading sessions and state, now or as of an event.

use rusqlite::OptionalExtension;

use super::{
    row::{self, Found},
    schema::NodeId,
    snapshot::Log,
    statements::Reads,
};
use crate::{
    domain::{
        Sequence, Version,
        error::Error,
        event::ScopeVersions,
        id::{AppName, UserId},
        scope::{Scope, ScopeKind, SessionKey, SessionRef, StateKey},
        session::{Incarnation, State, StateEntry},
        time::Time,
        token::Position,
        visible::{Marker, Visible},
    },
    store::{StateQuery, StateView},
};

/// The nodes that are visible from a scope, as far as they have rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    pub(super) app: Option<NodeId>,
    pub(super) user: Option<NodeId>,
    pub(super) session: Option<NodeId>,
}

impl Nodes {
    pub(super) fn of(&self, kind: ScopeKind) -> Option<NodeId> {
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

    pub(super) fn log(&self) -> Log {
        let version = self.info.last_sequence;
        Log { node: self.id(), kind: ScopeKind::Session, version }
    }
}

/// A scope's row: its number, its version and the bytes of its state.
pub(super) type ScopeRow = (NodeId, Version, usize);

impl Reads<'_> {
    /// An application (`user` is `None`) or a user, if it has a row.
    pub(super) fn scope_row(
        &mut self,
        app: &AppName,
        user: Option<&UserId>,
    ) -> rusqlite::Result<Option<ScopeRow>> {
        let user = user.map_or("", UserId::as_str);
        let row = self.scope.query_row((app.as_str(), user), |row| {
            Ok((row.get(0)?, row::count(row, 1)?, row::bytes(row, 2)?))
        });
        row.optional()
    }

    pub(super) fn version_of(&mut self, scope: NodeId) -> rusqlite::Result<Version> {
        let version = self.scope_version.query_row([scope], |row| row::count(row, 0));
        Ok(version.optional()?.unwrap_or(0))
    }

    /// The session at an address, expired or not.
    pub(super) fn session(&mut self, key: &SessionKey) -> Result<Option<Found>, Error> {
        let Some((user, ..)) = self.scope_row(&key.app_name, Some(&key.user_id))? else {
            return Ok(None);
        };
        self.session_of_user(key, user)
    }

    /// As [`Reads::session`], if the number of the user is known.
    pub(super) fn session_of_user(
        &mut self,
        key: &SessionKey,
        user: NodeId,
    ) -> Result<Option<Found>, Error> {
        let parameters = (user, key.session_id.as_str());
        let found = self
            .session_by_address
            .query_row(parameters, |row| row::session(row, key.app_name.clone()));
        Ok(found.optional()?)
    }

    /// Every session with an id, expired or not.
    pub(super) fn sessions_with(&mut self, session_id: &str) -> Result<Vec<Found>, Error> {
        let mut found = Vec::new();
        let mut rows = self.sessions_by_bare_id.query([session_id])?;
        while let Some(row) = rows.next()? {
            let app = self.scope_names.query_row([row.get::<_, NodeId>(1)?], |row| {
                Ok(AppName::from_stored(row::text(row, 0)?))
            })?;
            found.push(row::session(row, app)?);
        }
        Ok(found)
    }

    /// The live session that is meant. Errors: [`Error::SessionNotFound`], [`Error::AmbiguousSessionId`].
    pub(super) fn live_session(&mut self, session: &SessionRef, now: Time) -> Result<Found, Error> {
        match session {
            SessionRef::Full(key) => self.live(key, now),
            SessionRef::Bare(id) => {
                let found = self.sessions_with(id.as_str())?.into_iter();
                let mut live = found.filter(|found| !found.info.expired(now));
                match (live.next(), live.next()) {
                    (None, _) => Err(Error::not_found_bare(id)),
                    (Some(found), None) => Ok(found),
                    (Some(_), Some(_)) => Err(Error::AmbiguousSessionId(id.clone())),
                }
            }
        }
    }

    pub(super) fn live(&mut self, key: &SessionKey, now: Time) -> Result<Found, Error> {
        let found = self.session(key)?.filter(|found| !found.info.expired(now));
        found.ok_or_else(|| Error::not_found(key))
    }

    /// The markers of a session's rewinds up to an event.
    pub(super) fn markers(
        &mut self,
        session: NodeId,
        as_of: Sequence,
    ) -> rusqlite::Result<Vec<Marker>> {
        let marker = |row: &rusqlite::Row<'_>| {
            Ok(Marker { sequence: row::count(row, 0)?, to: row::count(row, 1)? })
        };
        self.markers.query_map((session, as_of.cast_signed()), marker)?.collect()
    }

    /// The events that rewinds leave visible as of an event.
    pub(super) fn visible(
        &mut self,
        session: NodeId,
        as_of: Sequence,
    ) -> rusqlite::Result<Visible> {
        Ok(Visible::new(&self.markers(session, as_of)?, as_of))
    }

    /// Event time and commit time of an event, and the versions that it left.
    pub(super) fn times(
        &mut self,
        session: NodeId,
        sequence: Sequence,
    ) -> rusqlite::Result<(Time, Time, ScopeVersions)> {
        self.event_times.query_row((session, sequence.cast_signed()), |row| {
            let versions =
                ScopeVersions { application: row::count(row, 4)?, user: row::count(row, 5)? };
            Ok((row::time(row, 0)?, row::time(row, 2)?, versions))
        })
    }

    /// Appends a node's state now, by name.
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

    /// Everything that is visible from some nodes now.
    pub(super) fn merged(&mut self, nodes: Nodes) -> rusqlite::Result<State> {
        let mut entries = Vec::new();
        for kind in ScopeKind::ALL {
            if let Some(node) = nodes.of(kind) {
                self.state_of(node, kind, &mut entries)?;
            }
        }
        Ok(State(entries))
    }

    /// Everything that was visible from a session right after an event.
    pub(super) fn merged_as_of(&mut self, found: &Found, at: Sequence) -> Result<State, Error> {
        let versions = match at {
            0 => found.info.created_versions,
            _ => self.times(found.id(), at)?.2,
        };
        let log = |node, kind, version| Log { node, kind, version };
        let app = log(found.app, ScopeKind::Application, self.version_of(found.app)?);
        let user = log(found.user, ScopeKind::User, self.version_of(found.user)?);
        let mut entries = Vec::new();
        for (log, at) in [(app, versions.application), (user, versions.user), (found.log(), at)] {
            if at >= log.version {
                self.state_of(log.node, log.kind, &mut entries)?;
                continue;
            }
            let past = self.past(log, at)?.state.into_iter();
            entries.extend(past.map(|(name, (value, version))| StateEntry {
                key: StateKey::in_scope(log.kind, &name),
                value,
                version,
            }));
        }
        Ok(State(entries))
    }

    pub(super) fn read_state(&mut self, query: &StateQuery, now: Time) -> Result<StateView, Error> {
        let StateQuery { scope, keys } = query;
        let mut info = None;
        let nodes = match scope {
            Scope::Session(key) => {
                let found = self.live(key, now)?;
                let nodes = found.nodes();
                info = Some(found.info);
                nodes
            }
            Scope::User(app, _) | Scope::Application(app) => {
                let mut node = |user| Ok::<_, Error>(self.scope_row(app, user)?.map(|row| row.0));
                let user = scope.user_id().map(|user| node(Some(user))).transpose()?.flatten();
                Nodes { app: node(None)?, user, session: None }
            }
        };
        let mut version = |node: Option<NodeId>| node.map_or(Ok(0), |node| self.version_of(node));
        let position = Position {
            incarnation: info.as_ref().map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.as_ref().map_or(0, |info| info.last_sequence),
            versions: ScopeVersions {
                application: version(nodes.app)?,
                user: version(nodes.user)?,
            },
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
            let Some(node) = key.scope().and_then(|kind| nodes.of(kind)) else { continue };
            let value = self
                .state_key
                .query_row((node, key.name()), |row| Ok((row::json(row, 0)?, row::count(row, 1)?)));
            let entry = value.optional()?;
            entries.extend(entry.map(|(value, version)| StateEntry {
                key: key.clone(),
                value,
                version,
            }));
        }
        Ok(State(entries))
    }
}
