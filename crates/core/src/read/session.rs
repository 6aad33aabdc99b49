//! Reading a session and state, now or as of an event.

use std::collections::BTreeSet;

use futures_util::future::{try_join, try_join_all};

use super::{Bases, Node, Read, Rows, ScopeHead, StateQuery, StateView, past::past};
use crate::domain::prelude::*;

/// The live session at an address. Errors: [`Error::SessionNotFound`].
pub async fn live<R: Rows>(rows: &R, key: &SessionKey) -> Result<SessionInfo, Error> {
    let found = rows.session(key).await?;
    let now = rows.now().await;
    let live = found.map(|found| found.info).filter(|info| !info.expired(now));
    live.ok_or_else(|| Error::not_found(key))
}

/// The scopes that are visible from one, and the session, if it is one. Errors: [`Error::SessionNotFound`].
pub async fn visible_from<R: Rows>(
    rows: &R,
    scope: &Scope,
) -> Result<(Vec<Node>, Option<SessionInfo>), Error> {
    let info = match scope {
        Scope::Session(key) => Some(live(rows, key).await?),
        Scope::Application(_) | Scope::User(..) => None,
    };
    Ok((Node::visible(scope, info.as_ref().map(|info| info.incarnation)), info))
}

/// The rows of the application and the user of some visible scopes.
pub async fn shared<R: Rows>(rows: &R, nodes: &[Node]) -> Result<[ScopeHead; 2], Error> {
    let shared = &nodes[..nodes.len().min(2)];
    let mut heads = rows.heads(shared).await?.into_iter();
    Ok([heads.next().unwrap_or_default(), heads.next().unwrap_or_default()])
}

impl Bases {
    pub(super) fn of_heads(heads: [ScopeHead; 2]) -> Self {
        let [application, user] = heads.map(|head| Self::of(head.version, head.base));
        Self(ScopeVersions { application, user })
    }
}

/// Errors: [`Error::Damaged`] of a session's own value. Damage of what others share is part of an answer.
pub fn undamaged<'s>(
    states: impl IntoIterator<Item = (&'s Node, &'s [StateEntry])>,
) -> Result<(), Error> {
    let own = states.into_iter().filter(|(node, _)| node.kind() == ScopeKind::Session);
    match own.flat_map(|(_, state)| state).find(|entry| entry.value.is_damaged()) {
        Some(entry) => Err(Error::damaged_key(&entry.key)),
        None => Ok(()),
    }
}

/// Everything that is visible from some scopes now. Errors: [`Error::Damaged`] of a session's own value.
pub async fn merged<R: Rows>(rows: &R, nodes: &[Node]) -> Result<State, Error> {
    let states = rows.states(nodes).await?;
    undamaged(nodes.iter().zip(states.iter().map(Vec::as_slice)))?;
    Ok(State(states.into_iter().flatten().collect()))
}

/// Everything that was visible from a session right after an event, which left these versions. `newest` is the session's.
pub async fn merged_as_of<R: Rows>(
    rows: &R,
    nodes: &[Node],
    (at, newest): (Sequence, Sequence),
    after_event: ScopeVersions,
) -> Result<State, Error> {
    let heads = shared(rows, nodes).await?;
    let Bases(bases) = Bases::of_heads(heads);
    let versions = [
        (after_event.application, heads[0].version, bases.application),
        (after_event.user, heads[1].version, bases.user),
        (at, newest, 0),
    ];
    let parts = nodes.iter().zip(versions).map(async |(node, (at, newest, base))| {
        // An earlier life ended empty.
        if at <= base && node.kind() != ScopeKind::Session {
            return Ok(Vec::new());
        }
        if at < newest {
            return entries_as_of(rows, node, base, at).await;
        }
        match merged(rows, std::slice::from_ref(node)).await {
            // The log has it as well. If that cannot be read, perhaps because of the damage, the damage is the error.
            Err(damage @ Error::Damaged(..)) => match entries_as_of(rows, node, base, at).await {
                Err(Error::Damaged(..)) => Err(damage),
                past => past,
            },
            now => Ok(now?.0),
        }
    });
    Ok(State(try_join_all(parts).await?.into_iter().flatten().collect()))
}

/// A scope's state as of a version, from its log.
async fn entries_as_of<R: Rows>(
    rows: &R,
    node: &Node,
    base: Version,
    at: Version,
) -> Result<Vec<StateEntry>, Error> {
    let past = past(rows, node, base, at).await?;
    let entry = |(name, (value, version)): (Box<str>, (Option<_>, _))| {
        let key = StateKey::in_scope(node.kind(), &name);
        Some(StateEntry { key, value: value?, version })
    };
    Ok(past.into_iter().filter_map(entry).collect())
}

/// Some keys, as far as they are visible from some scopes and have a value.
pub async fn some_keys<R: Rows>(
    rows: &R,
    nodes: &[Node],
    keys: &[StateKey],
) -> Result<State, Error> {
    let keys: BTreeSet<&StateKey> = keys.iter().collect();
    let node = |key: &StateKey| nodes.get(key.scope()? as usize);
    let keys: Vec<(&Node, &StateKey)> =
        keys.into_iter().filter_map(|key| Some((node(key)?, key))).collect();
    let mut entries = rows.keys(&keys).await?;
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    Ok(State(entries))
}

impl Read for StateQuery {
    type Answer = StateView;

    async fn read<R: Rows>(&self, rows: &R) -> Result<StateView, Error> {
        let (nodes, info) = visible_from(rows, &self.scope).await?;
        let state = async {
            match &self.keys {
                None => merged(rows, &nodes).await,
                Some(keys) => some_keys(rows, &nodes, keys).await,
            }
        };
        let (state, heads) = try_join(state, shared(rows, &nodes)).await?;
        let [application, user] = heads.map(|head| head.version);
        let position = Position {
            incarnation: info.as_ref().map_or(Incarnation(0), |info| info.incarnation),
            sequence: info.as_ref().map_or(0, |info| info.last_sequence),
            versions: ScopeVersions { application, user },
        };
        Ok(StateView { state, position, info, bases: Bases::of_heads(heads) })
    }
}
