//! What the requests of a group need, each thing once and in the order in which it is locked or read.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::super::prelude::*;
use sessiond_core::commit::{Address, Mode, ReadSet};

/// The address of what has state. That of an application has no user and no session id, that of a user no session id.
pub(super) type NodeAddress = SessionKey;

/// Everything that is read, with the position in the group of the first request that needs it, in that order.
pub(super) type Asked<T> = IndexMap<T, usize>;

/// What a group locks and reads.
#[derive(Default)]
pub(super) struct Needed<'r> {
    /// Addressed sessions, which are locked.
    pub(super) sessions: BTreeSet<SessionKey>,
    /// Applications and users that are written to or checked, which are locked.
    pub(super) scopes: BTreeSet<Node>,
    /// Applications and users that are visible from what is addressed, the locked ones included.
    pub(super) visible: BTreeSet<Node>,
    /// Those of which every key is read.
    pub(super) whole: Asked<NodeAddress>,
    /// Names of single keys of others.
    pub(super) keys: Asked<(NodeAddress, &'r str)>,
    pub(super) events: Asked<(SessionKey, &'r EventId, Fingerprint)>,
    pub(super) requests: BTreeSet<(NodeAddress, &'r RequestId)>,
}

impl<'r> Needed<'r> {
    pub(super) fn of(needs: &[ReadSet<'r>]) -> Self {
        let mut needed = Self::default();
        for (at, needs) in needs.iter().enumerate() {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => needed.add_session(at, key, needs),
                Some(Address::Shared(scope)) => {
                    let narrowest = needed.add_scopes(at, scope.app_name(), scope.user_id(), needs);
                    let request = needs.request_id.map(|id| (address_of(&narrowest), id));
                    needed.requests.extend(request);
                    // A precondition or a request id may concern it without any key.
                    needed.scopes.insert(narrowest);
                }
            }
        }
        let Self { whole, keys, .. } = &mut needed;
        keys.retain(|(address, _), at| match whole.get_mut(address) {
            Some(first) => {
                *first = *at.min(first);
                false
            }
            None => true,
        });
        whole.sort_by(|_, a, _, b| a.cmp(b));
        needed
    }

    fn add_session(&mut self, at: usize, key: &SessionKey, needs: &ReadSet<'r>) {
        self.add_scopes(at, &key.app_name, Some(&key.user_id), needs);
        self.add_keys(at, key, ScopeKind::Session, needs);
        self.sessions.insert(key.clone());
        let target = needs.target.cloned();
        self.sessions.extend(target.map(|session_id| SessionKey { session_id, ..key.clone() }));
        for (id, fingerprint) in &needs.events {
            self.events.entry((key.clone(), *id, *fingerprint)).or_insert(at);
        }
        self.requests.extend(needs.request_id.map(|id| (key.clone(), id)));
    }

    /// Adds an application and one of its users. Returns the narrower one.
    fn add_scopes(
        &mut self,
        at: usize,
        app: &AppName,
        user: Option<&UserId>,
        needs: &ReadSet<'r>,
    ) -> Node {
        let application = Node::application(app);
        let user = user.map(|user| Node::user(app, user));
        let narrowest = user.clone().unwrap_or_else(|| application.clone());
        for node in [application].into_iter().chain(user) {
            if needs.mode(node.kind()) != Mode::Observe {
                self.scopes.insert(node.clone());
            }
            self.add_keys(at, &address_of(&node), node.kind(), needs);
            self.visible.insert(node);
        }
        narrowest
    }

    fn add_keys(&mut self, at: usize, address: &NodeAddress, kind: ScopeKind, needs: &ReadSet<'r>) {
        if needs.all_state {
            self.whole.entry(address.clone()).or_insert(at);
            return;
        }
        for key in needs.keys().filter(|key| key.scope() == Some(kind)) {
            self.keys.entry((address.clone(), key.name())).or_insert(at);
        }
    }
}

/// The number of things that the first request of a group needs.
pub(super) fn of_first<T>(asked: &Asked<T>) -> u64 {
    asked.values().take_while(|at| **at == 0).count() as u64
}

/// The address of an application or a user.
fn address_of(node: &Node) -> NodeAddress {
    SessionKey {
        app_name: node.app_name.clone(),
        user_id: node.user_id.clone(),
        session_id: SessionId::from_stored(""),
    }
}
