//! Reading state, now or as of an event.

use std::collections::BTreeSet;

use futures_util::future::{try_join, try_join_all};

use super::{
    super::{
        columns::Columns,
        node::Node,
        prelude::*,
        row::{self, number},
        snapshot::past,
    },
    pool::Reader,
    session::Nodes,
};
use crate::store::{Bases, StateQuery, StateView};

impl Reader<'_> {
    pub(in super::super) async fn read_state(
        &self,
        query: &StateQuery,
    ) -> Result<StateView, Error> {
        let (nodes, found) = self.visible_from(&query.scope).await?;
        let state = async {
            match &query.keys {
                None => {
                    let nodes: Vec<Node> = nodes.iter().flatten().cloned().collect();
                    let states = self.states(&nodes).await?;
                    Ok(State(states.into_iter().flatten().collect()))
                }
                Some(keys) => self.some_keys(&nodes, keys).await,
            }
        };
        let versions = self.versions(query.scope.app_name(), query.scope.user_id());
        let (state, (versions, bases)) = try_join(state, versions).await?;
        let info = found.map(|found| found.info);
        let position = Position {
            incarnation: info.as_ref().map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.as_ref().map_or(0, |info| info.last_sequence),
            versions,
        };
        Ok(StateView { state, position, info, bases })
    }

    /// The versions of an application and of one of its users, and those from which their lives went on.
    pub(super) async fn versions(
        &self,
        app: &AppName,
        user: Option<&UserId>,
    ) -> Result<(ScopeVersions, Bases), Error> {
        let sql = "SELECT 0, version, base FROM scope WHERE app_name = $1 AND user_id = ''
            UNION ALL SELECT 1, version, base FROM scope WHERE app_name = $1 AND user_id = $2";
        let rows = Columns::new(sql).text(app).text(user).all(self.connection).await?;
        let mut versions = ScopeVersions::default();
        let nothing = Bases::of(0, 0);
        let mut bases = ScopeVersions { application: nothing, user: nothing };
        for row in rows {
            let version = number(&row, 1)?;
            let base = Bases::of(version, number(&row, 2)?);
            match row.try_get::<i32>(0)? {
                0 => (versions.application, bases.application) = (version, base),
                _ => (versions.user, bases.user) = (version, base),
            }
        }
        Ok((versions, Bases(bases)))
    }

    /// The state of some nodes now, each in the order of names.
    pub(super) async fn states(&self, nodes: &[Node]) -> Result<Vec<Vec<StateEntry>>, Error> {
        let sql = "SELECT n.place, s.name, s.value, s.version
            FROM unnest($1::text[], $2::text[], $3::bigint[])
                WITH ORDINALITY AS n (app_name, user_id, incarnation, place)
            JOIN state s ON s.app_name = n.app_name AND s.user_id = n.user_id
                AND s.incarnation = n.incarnation
            WHERE s.value IS NOT NULL";
        let rows = Columns::new(sql).nodes(nodes.iter()).all(self.connection).await?;
        let mut states = vec![Vec::new(); nodes.len()];
        for row in rows {
            let place = place(&row)?;
            let (Some(node), Some(state)) = (nodes.get(place), states.get_mut(place)) else {
                continue;
            };
            let key = StateKey::in_scope(node.kind(), row.try_get(1)?);
            let value = row::value(&row, 2)?;
            if node.kind() == ScopeKind::Session && value.is_damaged() {
                return Err(Error::damaged_key(&key));
            }
            state.push(StateEntry { key, value, version: number(&row, 3)? });
        }
        for state in &mut states {
            state.sort_unstable_by(|a: &StateEntry, b| a.key.name().cmp(b.key.name()));
        }
        Ok(states)
    }

    pub(super) async fn some_keys(&self, nodes: &Nodes, keys: &[StateKey]) -> Result<State, Error> {
        // The order of keys is that of state, in which each comes once.
        let keys = keys.iter().collect::<BTreeSet<_>>().into_iter();
        let node = |key: &StateKey| nodes[key.scope()? as usize].as_ref();
        let keys: Vec<(&Node, &StateKey)> =
            keys.filter_map(|key| Some((node(key)?, key))).collect();
        let sql = "SELECT n.place, s.value, s.version
            FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[])
                WITH ORDINALITY AS n (app_name, user_id, incarnation, name, place)
            JOIN state s ON s.app_name = n.app_name AND s.user_id = n.user_id
                AND s.incarnation = n.incarnation AND s.name = n.name
            WHERE s.value IS NOT NULL";
        let rows = Columns::new(sql)
            .nodes(keys.iter().map(|(node, _)| *node))
            .texts(keys.iter().map(|(_, key)| key.name()))
            .all(self.connection)
            .await?;
        let mut entries = Vec::new();
        for row in rows {
            let Some((_, key)) = keys.get(place(&row)?) else { continue };
            let (value, version) = (row::value(&row, 1)?, number(&row, 2)?);
            entries.push(StateEntry { key: (*key).clone(), value, version });
        }
        entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Ok(State(entries))
    }

    /// Everything that is visible from a session now.
    pub(super) async fn merged(&self, session: &Node) -> Result<State, Error> {
        let states = self.states(&visible(session)).await?;
        Ok(State(states.into_iter().flatten().collect()))
    }

    /// Everything that was visible from a session right after an event, which left these versions. `newest` is the session's.
    pub(super) async fn merged_as_of(
        &self,
        session: &Node,
        (at, newest): (Sequence, Sequence),
        wide: ScopeVersions,
    ) -> Result<State, Error> {
        let user = Some(&session.user_id);
        let (now, Bases(bases)) = self.versions(&session.app_name, user).await?;
        let nodes = visible(session);
        let versions = [
            (wide.application, now.application, bases.application),
            (wide.user, now.user, bases.user),
            (at, newest, 0),
        ];
        let parts = nodes.iter().zip(versions).map(async |(node, (at, newest, base))| {
            // An earlier life ended empty.
            if at <= base && node.kind() != ScopeKind::Session {
                return Ok(Vec::new());
            }
            if at >= newest {
                match self.states(std::slice::from_ref(node)).await {
                    // The log has it as well.
                    Err(Error::Damaged(..)) => {}
                    now => return Ok(now?.into_iter().flatten().collect()),
                }
            }
            let past = past(self.connection, node, at).await?.into_iter();
            let entry = |(name, (value, version)): (Box<str>, (Option<_>, _))| {
                let key = StateKey::in_scope(node.kind(), &name);
                Some(StateEntry { key, value: value?, version })
            };
            Ok::<Vec<_>, Error>(past.filter_map(entry).collect())
        });
        Ok(State(try_join_all(parts).await?.into_iter().flatten().collect()))
    }
}

/// The nodes that are visible from a session.
pub(super) fn visible(session: &Node) -> [Node; ScopeKind::ALL.len()] {
    let Node { app_name, user_id, .. } = session;
    [Node::application(app_name), Node::user(app_name, user_id), session.clone()]
}

/// The place of a row's node or key in the list that was asked for.
fn place(row: &Row) -> Result<usize, Error> {
    Ok(usize::try_from(row.try_get::<i64>(0)? - 1).unwrap_or(usize::MAX))
}
