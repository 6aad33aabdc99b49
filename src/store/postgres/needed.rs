//! What the requests of a group need, each thing once and in the order in which it is locked or read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{node::Node, prelude::*};
use crate::{
    commit::{Address, Loaded, Mode, Needs},
    domain::scope::Scope,
};

/// The sessions that bare ids may mean.
pub(super) type Bare = HashMap<SessionId, Vec<SessionKey>>;

/// The rows that a group locks.
#[derive(Default)]
pub(super) struct Locks {
    /// Addressed sessions.
    pub(super) sessions: BTreeSet<SessionKey>,
    /// Applications and users that are written to or checked.
    pub(super) scopes: BTreeSet<Node>,
}

impl Locks {
    pub(super) fn of(needs: &[Needs<'_>], bare: &Bare) -> Self {
        let mut locks = Self::default();
        for needs in needs {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => locks.add_session(key, needs),
                Some(Address::Bare(id)) => {
                    bare.get(id)
                        .into_iter()
                        .flatten()
                        .for_each(|key| locks.add_session(key, needs));
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

    fn add_session(&mut self, key: &SessionKey, needs: &Needs<'_>) {
        self.add_scopes(&key.app_name, Some(&key.user_id), needs);
        self.sessions.insert(key.clone());
        if let Some(target) = needs.target {
            self.sessions.insert(SessionKey { session_id: target.clone(), ..key.clone() });
        }
    }

    fn add_scopes(&mut self, app: &AppName, user: Option<&UserId>, needs: &Needs<'_>) {
        if needs.mode(ScopeKind::Application) != Mode::Observe {
            self.scopes.insert(Node::application(app));
        }
        if let Some(user) = user.filter(|_| needs.mode(ScopeKind::User) != Mode::Observe) {
            self.scopes.insert(Node::user(app, user));
        }
    }
}

fn narrowest(app: &AppName, user: Option<&UserId>) -> Node {
    user.map_or_else(|| Node::application(app), |user| Node::user(app, user))
}

/// What a group reads once its sessions are locked.
#[derive(Default)]
pub(super) struct Reads<'r> {
    /// Applications and users that are visible from what is addressed.
    pub(super) scopes: BTreeSet<Node>,
    /// Nodes of which every key is read.
    pub(super) whole: BTreeSet<Node>,
    /// Names of single keys.
    pub(super) keys: BTreeMap<Node, BTreeSet<&'r str>>,
    pub(super) events: BTreeSet<(Node, &'r EventId)>,
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
    pub(super) fn of(needs: &[Needs<'r>], loaded: &Loaded) -> Self {
        let mut reads = Self::default();
        for needs in needs {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => reads.add_session(key, needs, loaded),
                Some(Address::Bare(id)) => {
                    let keys = loaded.bare.get(id).into_iter().flatten();
                    let mut live = keys.filter(|key| loaded.live(key).is_some());
                    if let (Some(key), None) = (live.next(), live.next()) {
                        reads.add_session(key, needs, loaded);
                    }
                }
                Some(Address::Wide(scope)) => reads.add_wide(scope, needs),
            }
        }
        reads
    }

    fn add_wide(&mut self, scope: &Scope, needs: &Needs<'r>) {
        self.add_scopes(scope.app_name(), scope.user_id(), needs);
        let node = narrowest(scope.app_name(), scope.user_id());
        self.requests.extend(needs.request_id.map(|id| (node, id)));
    }

    fn add_scopes(&mut self, app: &AppName, user: Option<&UserId>, needs: &Needs<'r>) {
        for node in [Some(Node::application(app)), user.map(|user| Node::user(app, user))] {
            let Some(node) = node else { continue };
            self.add_keys(&node, needs);
            self.scopes.insert(node);
        }
    }

    fn add_session(&mut self, key: &SessionKey, needs: &Needs<'r>, loaded: &Loaded) {
        self.add_scopes(&key.app_name, Some(&key.user_id), needs);
        let Some(incarnation) = loaded.addresses.get(key).copied().flatten() else { return };
        let Some(session) = loaded.sessions.get(&incarnation) else { return };
        let node = Node::session(key, incarnation);
        if !session.own.complete {
            self.add_keys(&node, needs);
        }
        self.events.extend(needs.event_ids.iter().map(|id| (node.clone(), *id)));
        self.requests.extend(needs.request_id.map(|id| (node.clone(), id)));
        let past = needs.past.filter(|at| *at <= session.info.last_sequence);
        self.past.extend(past.map(|at| (node.clone(), at)));
        let copy = needs.copy.map(|(from, after, up_to)| (Node::session(key, from), after, up_to));
        self.pieces.extend(copy);
        self.forks.extend(needs.fork.map(|fork| Node::session(key, fork)));
    }

    fn add_keys(&mut self, node: &Node, needs: &Needs<'r>) {
        if needs.all_state {
            self.whole.insert(node.clone());
            return;
        }
        let names = needs.keys().filter(|key| key.scope() == Some(node.kind()));
        let names: Vec<&str> = names.map(StateKey::name).collect();
        if !names.is_empty() {
            self.keys.entry(node.clone()).or_default().extend(names);
        }
    }
}
