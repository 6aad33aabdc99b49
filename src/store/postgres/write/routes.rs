//! The lane of each request.
//!
//! The requests of a user stay in one lane as long as one of them is in flight, so that they take effect in the order in which they
//! came. A bare id does not say whose session it is, so it follows the requests of every session of this id, and they follow it.
//! Otherwise those that change or check an application's key go to the lane of the application, where they wait in a queue instead of
//! for each other's locks, and the rest are spread by user.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use xxhash_rust::xxh3::xxh3_64;

use super::super::prelude::*;
use crate::{
    commit::{Address, Mode, Request, needs},
    store::group::Submission,
};

type User = (AppName, UserId);

/// The users and the session ids with requests in flight.
pub(super) struct Routes {
    lanes: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    users: HashMap<User, InLane>,
    sessions: HashMap<SessionId, InLane>,
}

#[derive(Clone, Copy)]
struct InLane {
    lane: usize,
    requests: usize,
    /// Those of them that name a session by its id alone.
    bare: usize,
}

/// Keeps the user and the session id of a request in its lane until it is dropped.
pub(in super::super) struct Route {
    routes: Arc<Routes>,
    user: Option<User>,
    session: Option<SessionId>,
}

impl Routes {
    /// `lanes` is at least 1.
    pub(super) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { lanes, held: Mutex::default() })
    }

    /// The lane of a request, in which its user and its session id are kept.
    pub(super) fn route(self: &Arc<Self>, request: &Request) -> (usize, Route) {
        let needs = needs(request);
        let (app, user, session) = match needs.address {
            // A sweep.
            None => (None, None, None),
            Some(Address::Bare(id, _)) => (None, None, Some(id)),
            Some(Address::Wide(scope)) => (Some(scope.app_name()), scope.user_id(), None),
            Some(Address::Session(key)) => {
                (Some(&key.app_name), Some(&key.user_id), Some(&key.session_id))
            }
        };
        let is_of_user = needs.mode(ScopeKind::Application) == Mode::Observe;
        let free = match (app, user, session) {
            (Some(app), Some(user), _) if is_of_user => self.lane(&[app.as_str(), user.as_str()]),
            (Some(app), ..) => self.lane(&[app.as_str()]),
            (None, _, Some(session)) => self.lane(&[session.as_str()]),
            (None, _, None) => 0,
        };
        let user = app.zip(user).map(|(app, user)| (app.clone(), user.clone()));
        let session = session.cloned();
        let mut held = self.lock();
        let in_lane = user.as_ref().and_then(|user| held.users.get(user));
        // Other users may have sessions of the same id: an address follows only what may mean them all.
        let of_id = || held.sessions.get(session.as_ref()?);
        let in_lane = in_lane.or_else(|| of_id().filter(|it| user.is_none() || it.bare > 0));
        let lane = in_lane.map_or(free, |in_lane| in_lane.lane);
        let new = InLane { lane, requests: 0, bare: 0 };
        let bare = usize::from(user.is_none());
        if let Some(user) = &user {
            held.users.entry(user.clone()).or_insert(new).requests += 1;
        }
        if let Some(session) = &session {
            let held = held.sessions.entry(session.clone()).or_insert(new);
            held.requests += 1;
            held.bare += bare;
        }
        (lane, Route { routes: Arc::clone(self), user, session })
    }

    fn lane(&self, names: &[&str]) -> usize {
        // No name has a NUL.
        let hash = xxh3_64(names.join("\0").as_bytes());
        usize::try_from(hash % self.lanes as u64).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Route {
    /// The routes of the requests of a group that are left, among those of all its requests.
    pub(super) fn renew(of_group: &[Self], left: &[Submission]) -> Vec<Self> {
        let Some(Self { routes, .. }) = of_group.first() else { return Vec::new() };
        left.iter().map(|submission| routes.route(&submission.request).1).collect()
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut held = self.routes.lock();
        let bare = usize::from(self.user.is_none());
        if let Some(user) = self.user.take() {
            leave(held.users.entry(user), 0);
        }
        if let Some(session) = self.session.take() {
            leave(held.sessions.entry(session), bare);
        }
    }
}

/// One request less, which may have been a bare one.
fn leave<K>(entry: Entry<'_, K, InLane>, bare: usize) {
    if let Entry::Occupied(mut held) = entry {
        held.get_mut().requests -= 1;
        held.get_mut().bare -= bare;
        if held.get().requests == 0 {
            held.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        commit::Append,
        domain::{delta::Delta, permission::Visibility, precondition::Condition},
        metrics::Metrics,
        store::{
            postgres::{
                bare::Bare,
                node::Node,
                write::{cache::Cache, needed::Locks},
            },
            tests::{change, one, rewind, user_scope},
        },
    };

    fn key(user: &str) -> SessionKey {
        SessionKey {
            app_name: AppName::new("app").unwrap(),
            user_id: UserId::new(user).unwrap(),
            session_id: SessionId::new("s").unwrap(),
        }
    }

    #[test]
    fn a_user_stays_in_one_lane_while_requests_are_in_flight() {
        let routes = Routes::new(4);
        let request = Request::Delete(key("u").into());
        let (lane, first) = routes.route(&request);
        let (again, second) = routes.route(&request);
        assert_eq!(lane, again);
        drop(first);
        assert_eq!(routes.lock().users.len(), 1);
        drop(second);
        assert!(routes.lock().users.is_empty() && routes.lock().sessions.is_empty());
    }

    /// Nobody else changes a key between the check and the commit.
    #[test]
    fn what_checks_a_key_of_the_application_goes_to_its_lane_and_locks_it() {
        let checked = Precondition {
            keys: vec![(StateKey::new("app:k").unwrap(), Condition::Exists(true))],
            ..Precondition::default()
        };
        let mut appends = one("s", "1", &[]);
        let mut rewinds = rewind("s", 0);
        let mut changes = change(user_scope("u"), Delta::default());
        for precondition in
            [&mut appends.precondition, &mut rewinds.precondition, &mut changes.precondition]
        {
            *precondition = checked.clone();
        }
        let requests =
            [Request::Append(appends), Request::Rewind(rewinds), Request::UpdateState(changes)];
        for request in &requests {
            let needs = needs(request);
            assert_eq!(needs.mode(ScopeKind::Application), Mode::Check, "{request:?}");
            let routes = Routes::new(1 << 16);
            assert_eq!(routes.route(request).0, routes.lane(&["a"]), "{request:?}");
            let locks =
                Locks::of(&[needs], &Bare::default(), &Cache::new(0, Metrics::default().reads));
            assert!(locks.scopes.contains(&Node::application(&AppName::new("a").unwrap())));
        }
    }

    #[test]
    fn users_with_the_same_session_id_are_spread() {
        let routes = Routes::new(4);
        let requests =
            (0..100).map(|at| routes.route(&Request::Delete(key(&at.to_string()).into())));
        let all: Vec<_> = requests.collect();
        let lanes: std::collections::BTreeSet<usize> = all.iter().map(|(lane, _)| *lane).collect();
        assert_eq!(lanes.len(), 4);
    }

    #[test]
    fn a_bare_id_follows_the_requests_of_its_session_and_holds_them() {
        let routes = Routes::new(1 << 16);
        let bare = |id: &str| {
            let session = SessionRef::Bare(SessionId::new(id).unwrap(), Visibility::EVERYTHING);
            Request::Append(Append { session, ..one("s", "1", &[]) })
        };
        let full = Request::Append(one("s", "2", &[]));
        for (first, second) in [(&full, bare("s")), (&bare("s"), full.clone())] {
            let (lane, _first) = routes.route(first);
            assert_eq!(routes.route(&second).0, lane);
            assert_ne!(routes.route(&bare("t")).0, lane);
        }
        let (of_user, _) = routes.route(&full);
        assert_ne!(routes.route(&bare("s")).0, of_user, "none is in flight");
    }

    #[test]
    fn users_are_spread_and_sweeps_are_not() {
        let routes = Routes::new(4);
        let lane = |at: usize| routes.route(&Request::Delete(key(&at.to_string()).into())).0;
        let lanes: std::collections::BTreeSet<usize> = (0..100).map(lane).collect();
        assert_eq!(lanes.len(), 4);
        assert_eq!(routes.route(&Request::Sweep).0, 0);
    }
}
