//! What the writer knows without asking the database: the process has the file for itself, so it stays true.

use std::collections::HashMap;

use super::{
    head::LastRows,
    history::TailEntry,
    lookup::Found,
    node::{Node, Trio},
    schema::NodeId,
    statements::Reads,
};
use crate::domain::{
    Version,
    id::{AppName, UserId},
    scope::{Scope, SessionKey},
};

/// A session that was used lately.
pub(super) struct Live {
    /// As the newest event left it.
    pub(super) found: Found,
    pub(super) own: Node,
    /// No event has a greater id; `None` where there is no event.
    pub(super) greatest_id: Option<Box<str>>,
    /// Whether it stands among those that lists sort by themselves.
    pub(super) moved: bool,
    used: u64,
    counted: usize,
}

impl Live {
    /// Where an event of this id lies, if it is among those that are not indexed yet.
    pub(super) fn in_tail(&self, event_id: &str) -> Option<Version> {
        let tail = self.own.tail.iter();
        tail.rev().find(|entry| entry.event_id.as_deref() == Some(event_id)).map(|it| it.version)
    }

    /// Whether every event of the session certainly has another id. Ids that grow with time make this the rule.
    pub(super) fn is_beyond(&self, event_id: &str) -> bool {
        self.greatest_id.as_deref().is_none_or(|greatest| greatest < event_id)
    }

    pub(super) fn count_id(&mut self, event_id: &str) {
        if self.is_beyond(event_id) {
            self.greatest_id = Some(event_id.into());
        }
    }
}

struct Kept {
    node: Node,
    used: u64,
    counted: usize,
}

/// Sessions and scopes, those not used for the longest time given up first.
pub(super) struct Cache {
    live: HashMap<NodeId, Live>,
    addresses: HashMap<SessionKey, NodeId>,
    scopes: HashMap<NodeId, Kept>,
    names: HashMap<AppName, Names>,
    /// What was put in or handed out since the weights were last counted: whoever had it may have read more of it.
    opened: Vec<NodeId>,
    weight: usize,
    max_weight: usize,
    clock: u64,
}

#[derive(Default)]
struct Names {
    app: Option<NodeId>,
    users: HashMap<UserId, NodeId>,
}

impl Cache {
    pub(super) fn new(max_weight: usize) -> Self {
        Self {
            live: HashMap::new(),
            addresses: HashMap::new(),
            scopes: HashMap::new(),
            names: HashMap::new(),
            opened: Vec::new(),
            weight: 0,
            max_weight,
            clock: 0,
        }
    }

    /// The session of an address, if it is known here.
    pub(super) fn find(&self, key: &SessionKey) -> Option<&Live> {
        self.addresses.get(key).and_then(|id| self.live.get(id))
    }

    /// A life of a session, if it is known here.
    pub(super) fn live(&mut self, id: NodeId) -> Option<&mut Live> {
        self.live.get_mut(&id)
    }

    /// A scope, if it is known here.
    pub(super) fn scope(&mut self, id: NodeId) -> Option<&mut Node> {
        self.scopes.get_mut(&id).map(|kept| &mut kept.node)
    }

    /// The number of a scope, if it is known here.
    pub(super) fn scope_id(&self, app: &AppName, user: Option<&UserId>) -> Option<NodeId> {
        let names = self.names.get(app)?;
        user.map_or(names.app, |user| names.users.get(user).copied())
    }

    /// How many sessions and scopes are known here.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.live.len() + self.scopes.len()
    }

    /// Whether everything that is known here counts with what it takes.
    #[cfg(test)]
    pub(super) fn is_counted(&self) -> bool {
        self.live.values().all(|live| live.counted == live.own.weight)
            && self.scopes.values().all(|kept| kept.counted == kept.node.weight)
    }

    /// Keeps a session with an end of its log.
    pub(super) fn keep_session(&mut self, found: Found, own: Node, moved: bool) {
        let id = found.id();
        self.addresses.insert(found.info.key.clone(), id);
        let live = Live { found, own, greatest_id: None, moved, used: self.clock, counted: 0 };
        self.live.insert(id, live);
        self.opened.push(id);
    }

    pub(super) fn keep_scope(&mut self, node: Node) {
        let names = self.names.entry(node.scope.app_name().clone()).or_default();
        match node.scope.user_id() {
            None => names.app = Some(node.id),
            Some(user) => drop(names.users.insert(user.clone(), node.id)),
        }
        self.opened.push(node.id);
        self.scopes.insert(node.id, Kept { node, used: self.clock, counted: 0 });
    }

    /// Forgets a session that is gone.
    pub(super) fn forget(&mut self, id: NodeId) {
        if let Some(live) = self.live.remove(&id) {
            self.addresses.remove(&live.found.info.key);
            self.weight = self.weight.saturating_sub(live.counted);
        }
    }

    /// A session with its scopes, all of them to be kept for a while. Its scopes must be known here.
    pub(super) fn open(&mut self, id: NodeId) -> Option<(&mut Live, &mut Node, &mut Node)> {
        self.clock += 1;
        let live = self.live.get_mut(&id)?;
        live.used = self.clock;
        let [app, user] = self.scopes.get_disjoint_mut([&live.found.app, &live.found.user]);
        let (app, user) = (app?, user?);
        self.opened.extend([id, app.node.id, user.node.id]);
        app.used = self.clock;
        user.used = self.clock;
        Some((live, &mut app.node, &mut user.node))
    }

    /// An application, with one of its users. They must be known here.
    pub(super) fn open_scopes(&mut self, app: NodeId, user: Option<NodeId>) -> Option<Trio<'_>> {
        self.clock += 1;
        self.opened.extend([Some(app), user].into_iter().flatten());
        let Some(user) = user else {
            let kept = self.scopes.get_mut(&app)?;
            kept.used = self.clock;
            return Some(Trio { app: &mut kept.node, user: None, own: None });
        };
        let [app, user] = self.scopes.get_disjoint_mut([&app, &user]);
        let (app, user) = (app?, user?);
        app.used = self.clock;
        user.used = self.clock;
        Some(Trio { app: &mut app.node, user: Some(&mut user.node), own: None })
    }

    /// Counts what a session and its scopes take by now.
    fn count(&mut self, id: NodeId) {
        let (weight, counted) = if let Some(live) = self.live.get_mut(&id) {
            (live.own.weight, &mut live.counted)
        } else if let Some(kept) = self.scopes.get_mut(&id) {
            (kept.node.weight, &mut kept.counted)
        } else {
            return;
        };
        self.weight = (self.weight + weight).saturating_sub(*counted);
        *counted = weight;
    }

    /// Gives up what was not used for the longest time, down to three quarters, where there is too much. Nothing may be unwritten.
    pub(super) fn shrink(&mut self) {
        let mut opened = std::mem::take(&mut self.opened);
        opened.sort_unstable();
        opened.dedup();
        for id in opened.drain(..) {
            self.count(id);
        }
        self.opened = opened;
        if self.weight <= self.max_weight {
            return;
        }
        let live = self.live.iter().map(|(&id, live)| (live.used, id));
        let scopes = self.scopes.iter().map(|(&id, kept)| (kept.used, id));
        let mut oldest: Vec<_> = live.chain(scopes).collect();
        oldest.sort_unstable();
        for (_, id) in oldest {
            if self.weight <= self.max_weight / 4 * 3 {
                break;
            }
            self.forget(id);
            if let Some(kept) = self.scopes.remove(&id) {
                self.weight = self.weight.saturating_sub(kept.counted);
                let scope = kept.node.scope;
                if let Some(names) = self.names.get_mut(scope.app_name()) {
                    match scope.user_id() {
                        None => names.app = None,
                        Some(user) => drop(names.users.remove(user)),
                    }
                    if names.app.is_none() && names.users.is_empty() {
                        self.names.remove(scope.app_name());
                    }
                }
            }
        }
    }
}

impl Reads<'_> {
    /// A scope's node as the database has it.
    pub(super) fn scope_node(&mut self, id: NodeId, scope: Scope) -> rusqlite::Result<Node> {
        let (last_rows, bytes) = self.head(id)?.unwrap_or_default();
        self.node(Node::new(id, scope, bytes, false), last_rows)
    }

    /// A session's own node as the database has it.
    pub(super) fn session_node(&mut self, found: &Found) -> rusqlite::Result<Node> {
        let scope = Scope::Session(found.info.key.clone());
        let last_rows = self.last_rows(found.id())?;
        self.node(Node::new(found.id(), scope, found.bytes, false), last_rows)
    }

    /// The node whose log ends with these rows.
    fn node(&mut self, mut node: Node, last_rows: LastRows) -> rusqlite::Result<Node> {
        (node.version, node.stored_version) = (last_rows.version(), last_rows.version());
        node.tail = self.tail(node.log(), &last_rows, Version::MAX)?;
        node.weight += node.tail.iter().map(TailEntry::weight).sum::<usize>();
        node.last_rows = last_rows;
        Ok(node)
    }
}

/// The greatest of the ids of a log's end.
pub(super) fn greatest_of(tail: &[TailEntry]) -> Option<&str> {
    tail.iter().filter_map(|entry| entry.event_id.as_deref()).max()
}
