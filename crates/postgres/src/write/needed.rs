//! What the requests of a group need, each thing once and in the order in which it is locked or read.

use std::collections::BTreeSet;

use super::super::prelude::*;
use sessiond_core::commit::{Address, Mode, ReadSet};

/// The address of what has state. That of an application has no user and no session id, that of a user no session id.
pub(super) type NodeAddress = SessionKey;

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
    pub(super) whole: BTreeSet<NodeAddress>,
    /// Names of single keys of others.
    pub(super) keys: BTreeSet<(NodeAddress, &'r str)>,
    pub(super) events: BTreeSet<(SessionKey, &'r EventId)>,
    pub(super) requests: BTreeSet<(NodeAddress, &'r RequestId)>,
}

impl<'r> Needed<'r> {
    pub(super) fn of(needs: &[ReadSet<'r>]) -> Self {
        let mut needed = Self::default();
        for needs in needs {
            match needs.address {
                None => {}
                Some(Address::Session(key)) => needed.add_session(key, needs),
                Some(Address::Shared(scope)) => {
                    let narrowest = needed.add_scopes(scope.app_name(), scope.user_id(), needs);
                    let request = needs.request_id.map(|id| (place(&narrowest), id));
                    needed.requests.extend(request);
                    // A precondition or a request id may concern it without any key.
                    needed.scopes.insert(narrowest);
                }
            }
        }
        let Self { whole, keys, .. } = &mut needed;
        keys.retain(|(place, _)| !whole.contains(place));
        needed
    }

    fn add_session(&mut self, key: &SessionKey, needs: &ReadSet<'r>) {
        self.add_scopes(&key.app_name, Some(&key.user_id), needs);
        self.add_keys(key, ScopeKind::Session, needs);
        self.sessions.insert(key.clone());
        let target = needs.target.cloned();
        self.sessions.extend(target.map(|session_id| SessionKey { session_id, ..key.clone() }));
        self.events.extend(needs.event_ids.iter().map(|id| (key.clone(), *id)));
        self.requests.extend(needs.request_id.map(|id| (key.clone(), id)));
    }

    /// Adds an application and one of its users. Returns the narrower one.
    fn add_scopes(&mut self, app: &AppName, user: Option<&UserId>, needs: &ReadSet<'r>) -> Node {
        let application = Node::application(app);
        let user = user.map(|user| Node::user(app, user));
        let narrowest = user.clone().unwrap_or_else(|| application.clone());
        for node in [application].into_iter().chain(user) {
            if needs.mode(node.kind()) != Mode::Observe {
                self.scopes.insert(node.clone());
            }
            self.add_keys(&place(&node), node.kind(), needs);
            self.visible.insert(node);
        }
        narrowest
    }

    fn add_keys(&mut self, place: &NodeAddress, kind: ScopeKind, needs: &ReadSet<'r>) {
        if needs.all_state {
            self.whole.insert(place.clone());
            return;
        }
        let own = needs.keys().filter(|key| key.scope() == Some(kind));
        self.keys.extend(own.map(|key| (place.clone(), key.name())));
    }
}

/// The address of an application or a user.
fn place(node: &Node) -> NodeAddress {
    SessionKey {
        app_name: node.app_name.clone(),
        user_id: node.user_id.clone(),
        session_id: SessionId::from_stored(""),
    }
}
