//! What the requests of a group need, each thing once and in the order in which it is locked or read.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::{bare::Bare, node::Node, prelude::*},
    cache::Cache,
};
use crate::{
    commit::{Address, Loaded, Mode, Needs},
    domain::scope::Scope,
};

/// What the first round trip of a group locks and reads.
#[derive(Default)]
pub(super) struct Locks<'r> {
    /// Addressed sessions.
    pub(super) sessions: BTreeSet<SessionKey>,
    /// Applications and users that are written to or checked.
    pub(super) scopes: BTreeSet<Node>,
    /// Applications and users that are visible from what is addressed, the locked ones included.
    pub(super) visible: BTreeSet<Node>,
    /// Events of the sessions that were at the addresses, as far as that is known. A session that has taken the place of one is not
    /// among them.
    pub(super) events: BTreeSet<(Incarnation, &'r EventId)>,
}

impl<'r> Locks<'r> {
    pub(super) fn of(needs: &[Needs<'r>], bare: &Bare, cache: &Cache) -> Self {
        let mut locks = Self::default();
        for needs in needs {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => locks.add_session(key, needs, cache),
                Some(Address::Bare(id, sight)) => {
                    let keys = bare.get(id).into_iter().flatten();
                    keys.filter(|key| key.is_seen(sight))
                        .for_each(|key| locks.add_session(key, needs, cache));
                }
                Some(Address::Wide(scope)) => {
                    locks.add_scopes(scope.app_name(), scope.user_id(), needs);
                    // A precondition or a request id may concern it without any key.
                    locks.scopes.insert(narrowest(scope.app_name(), scope.user_id()));
                }
            }
        }
        locks
    }

    fn add_session(&mut self, key: &SessionKey, needs: &Needs<'r>, cache: &Cache) {
        self.add_scopes(&key.app_name, Some(&key.user_id), needs);
        self.sessions.insert(key.clone());
        if let Some(target) = needs.target {
            self.sessions.insert(SessionKey { session_id: target.clone(), ..key.clone() });
        }
        if let Some(incarnation) = cache.incarnation(key) {
            self.events.extend(needs.event_ids.iter().map(|id| (incarnation, *id)));
        }
    }

    fn add_scopes(&mut self, app: &AppName, user: Option<&UserId>, needs: &Needs<'_>) {
        let application = (ScopeKind::Application, Node::application(app));
        let user = user.map(|user| (ScopeKind::User, Node::user(app, user)));
        for (kind, node) in [application].into_iter().chain(user) {
            if needs.mode(kind) != Mode::Observe {
                self.scopes.insert(node.clone());
            }
            self.visible.insert(node);
        }
    }
}

fn narrowest(app: &AppName, user: Option<&UserId>) -> Node {
    user.map_or_else(|| Node::application(app), |user| Node::user(app, user))
}

/// What the second round trip of a group reads: what no earlier group has left in the cache.
#[derive(Default)]
pub(super) struct Reads<'r> {
    /// Sessions whose markers are read.
    pub(super) markers: Vec<Node>,
    /// Nodes of which every key is read.
    pub(super) whole: BTreeSet<Node>,
    /// Names of single keys.
    pub(super) keys: BTreeMap<Node, BTreeSet<&'r str>>,
    pub(super) events: BTreeSet<(Incarnation, &'r EventId)>,
    pub(super) requests: BTreeSet<(Node, &'r RequestId)>,
    /// Own states as of events.
    pub(super) past: BTreeSet<(Node, Sequence)>,
    /// Pieces of events to copy: behind an event, up to another.
    pub(super) pieces: BTreeSet<(Node, Sequence, Sequence)>,
    /// Targets of forks.
    pub(super) forks: BTreeSet<Node>,
}

impl<'r> Reads<'r> {
    /// Of a group whose addresses are in `loaded`.
    /// `markers` are of the sessions that the cache does not have.
    pub(super) fn of(needs: &[Needs<'r>], markers: Vec<Node>, loaded: &Loaded) -> Self {
        let mut reads = Self { markers, ..Self::default() };
        for needs in needs {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => reads.add_session(key, needs, loaded),
                Some(Address::Bare(id, sight)) => {
                    if let Some(key) = loaded.meant_by(id, sight) {
                        reads.add_session(key, needs, loaded);
                    }
                }
                Some(Address::Wide(scope)) => reads.add_wide(scope, needs, loaded),
            }
        }
        reads
    }

    fn add_wide(&mut self, scope: &Scope, needs: &Needs<'r>, loaded: &Loaded) {
        self.add_scopes(scope.app_name(), scope.user_id(), needs, loaded);
        let node = narrowest(scope.app_name(), scope.user_id());
        self.requests.extend(needs.request_id.map(|id| (node, id)));
    }

    fn add_scopes(
        &mut self,
        app: &AppName,
        user: Option<&UserId>,
        needs: &Needs<'r>,
        loaded: &Loaded,
    ) {
        self.add_keys(Node::application(app), needs, loaded);
        if let Some(user) = user {
            self.add_keys(Node::user(app, user), needs, loaded);
        }
    }

    fn add_session(&mut self, key: &SessionKey, needs: &Needs<'r>, loaded: &Loaded) {
        self.add_scopes(&key.app_name, Some(&key.user_id), needs, loaded);
        let Some(incarnation) = loaded.addresses.get(key).copied().flatten() else { return };
        let Some(session) = loaded.sessions.get(&incarnation) else { return };
        let node = Node::session(key, incarnation);
        self.add_keys(node.clone(), needs, loaded);
        let events = needs.event_ids.iter().map(|id| (incarnation, *id));
        let is_read = |(at, id): &(_, &EventId)| loaded.events.contains_key(&(*at, (*id).clone()));
        self.events.extend(events.filter(|event| !is_read(event)));
        self.requests.extend(needs.request_id.map(|id| (node.clone(), id)));
        let past = needs.past.filter(|at| *at <= session.info.last_sequence);
        self.past.extend(past.map(|at| (node.clone(), at)));
        let copy = needs.copy.map(|(from, after, up_to)| (Node::session(key, from), after, up_to));
        self.pieces.extend(copy);
        self.forks.extend(needs.fork.map(|fork| Node::session(key, fork)));
    }

    fn add_keys(&mut self, node: Node, needs: &Needs<'r>, loaded: &Loaded) {
        let known = loaded.scope(&node.key());
        if known.is_some_and(|known| known.complete) {
            return;
        }
        if needs.all_state {
            self.whole.insert(node);
            return;
        }
        let names = needs.keys().filter(|key| key.scope() == Some(node.kind()));
        let names = names.map(StateKey::name);
        let unknown = names.filter(|name| known.is_none_or(|known| !known.covers(name)));
        let names: Vec<&str> = unknown.collect();
        if !names.is_empty() {
            self.keys.entry(node).or_default().extend(names);
        }
    }
}
