//! The nodes that a change set changes, under the names by which rows know them.

use std::{collections::HashMap, convert::Infallible};

use super::{
    super::{prelude::*, row::Snapshots},
    stored::Stored,
};
use sessiond_core::commit::{ChangeSet, EventRow, ScopeChange, ScopeKey};
use sessiond_store::past::{is_due, is_step};

/// The changes of a node, and what its row will say of snapshots.
pub(super) struct NodeChange<'a> {
    pub(super) node: Node,
    pub(super) change: &'a ScopeChange,
    pub(super) snapshots: Snapshots,
    /// Whether a snapshot is taken.
    pub(super) due: bool,
}

pub(super) struct Changed<'a> {
    /// Of every session that the change set names.
    sessions: HashMap<Incarnation, Node>,
    /// In the order of their nodes.
    pub(super) nodes: Vec<NodeChange<'a>>,
    snapshots: HashMap<Incarnation, Snapshots>,
}

impl<'a> Changed<'a> {
    pub(super) fn of(changes: &'a ChangeSet, stored: &Stored) -> Result<Self, Error> {
        let new = changes.sessions.values().map(|row| &row.info).chain(&changes.removed);
        let infos = stored.sessions.values().map(|found| &found.record.info).chain(new);
        let infos = infos.map(|info| (info.incarnation, &info.key));
        let begun = changes.begun_forks.iter().map(|(fork, key)| (*fork, key));
        let sessions = infos.chain(begun).map(|(it, key)| (it, Node::session(key, it))).collect();
        let snapshots = stored.sessions.iter().map(|(it, found)| (*it, found.snapshots)).collect();
        let mut changed = Self { sessions, nodes: Vec::new(), snapshots };
        changed.add(changes, stored)?;
        changed.nodes.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(changed)
    }

    fn add(&mut self, changes: &'a ChangeSet, stored: &Stored) -> Result<(), Error> {
        let mut own_bytes: HashMap<Incarnation, usize> = HashMap::new();
        for EventRow { incarnation, event, .. } in &changes.events {
            *own_bytes.entry(*incarnation).or_default() += event.changes.text_len();
        }
        for (key, change) in &changes.scopes {
            let (node, before, bytes) = match key {
                ScopeKey::Session(incarnation) => {
                    let bytes = own_bytes.get(incarnation).copied().unwrap_or(0);
                    let node = self.session(*incarnation)?.clone();
                    (node, self.snapshots_of(*incarnation), bytes)
                }
                shared => {
                    let locked = Node::shared(shared).zip(stored.scopes.get(shared).copied());
                    // Written without a lock it could overwrite what others wrote.
                    let unlocked = || Error::internal("a scope was changed that is not locked");
                    let (node, before) = locked.ok_or_else(unlocked)?;
                    (node, before, change.log.iter().map(|row| row.changes.text_len()).sum())
                }
            };
            let (snapshots, due) = after(before, change, bytes);
            if let ScopeKey::Session(incarnation) = key {
                self.snapshots.insert(*incarnation, snapshots);
            }
            self.nodes.push(NodeChange { node, change, snapshots, due });
        }
        Ok(())
    }

    /// The node of a session.
    pub(super) fn session(&self, incarnation: Incarnation) -> Result<&Node, Error> {
        self.sessions.get(&incarnation).ok_or_else(|| Error::internal("a session was not loaded"))
    }

    /// The node of a scope, if it has one.
    pub(super) fn scope(&self, key: &ScopeKey) -> Result<Node, Error> {
        match key {
            ScopeKey::Session(incarnation) => self.session(*incarnation).cloned(),
            shared => Node::shared(shared).ok_or_else(|| Error::internal("a scope without a node")),
        }
    }

    /// What a session's row will say of snapshots.
    pub(super) fn snapshots_of(&self, incarnation: Incarnation) -> Snapshots {
        self.snapshots.get(&incarnation).copied().unwrap_or_default()
    }

    /// Changes of applications and users.
    pub(super) fn shared(&self) -> impl Iterator<Item = &NodeChange<'a>> + Clone {
        self.nodes.iter().filter(|it| it.node.kind() != ScopeKind::Session)
    }
}

/// What a node's row says of snapshots after changes of this many bytes, and whether one is taken now.
fn after(before: Snapshots, change: &ScopeChange, bytes: usize) -> (Snapshots, bool) {
    let changed_bytes = before.changed_bytes.saturating_add(bytes as u64);
    let versions = change.version - before.newest;
    let worth = is_due(versions, change.state_bytes, || Ok::<_, Infallible>(changed_bytes));
    let due = is_step(change.before.max(change.base), change.version) && worth.is_ok_and(|due| due);
    match due {
        true => (Snapshots { newest: change.version, changed_bytes: 0 }, true),
        false => (Snapshots { changed_bytes, ..before }, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: Version, version: Version, state_bytes: usize) -> ScopeChange {
        ScopeChange { before, version, state_bytes, ..ScopeChange::default() }
    }

    #[test]
    fn a_small_state_is_taken_at_every_step() {
        let (snapshots, due) = after(Snapshots::default(), &change(62, 63, 10), 5);
        assert!(!due && snapshots.changed_bytes == 5 && snapshots.newest == 0);
        let (snapshots, due) = after(snapshots, &change(63, 64, 10), 5);
        assert!(due && snapshots.changed_bytes == 0 && snapshots.newest == 64);
    }

    #[test]
    fn a_large_state_is_taken_when_an_eighth_changed_or_after_many_versions() {
        let before = Snapshots { newest: 64, changed_bytes: 0 };
        assert!(!after(before, &change(127, 128, 80_000), 9_999).1);
        assert!(after(before, &change(127, 128, 80_000), 10_000).1);
        assert!(after(before, &change(4159, 4160, 80_000), 1).1);
        assert!(!after(before, &change(4160, 4161, 80_000), 80_000).1);
    }
}
