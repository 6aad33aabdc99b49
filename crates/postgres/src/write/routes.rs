//! The lane of each request.
//!
//! The requests of a user stay in one lane as long as one of them is in flight, so that they take effect in the order in which they
//! came. A bare id does not say whose session it is, so it follows the requests of every session of this id, and they follow it.
//! Otherwise those that change or check an application's key go to the lane of the application, where they wait in a queue instead of
//! for each other's locks, and the rest are spread by user.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use xxhash_rust::xxh3::xxh3_64;

use super::super::prelude::*;
use sessiond_core::commit::{Address, Mode, Request, needs};

/// The lanes of what has requests in flight: a user, an id that addresses name, or a bare id. By the hash of its name: whatever else
/// has the same hash shares its lane.
pub(super) struct Routes {
    lanes: usize,
    held: Mutex<HashMap<u64, InLane>>,
}

struct InLane {
    lane: usize,
    requests: usize,
}

/// Keeps what a request names in its lane until it is dropped.
pub(in super::super) struct Route {
    routes: Arc<Routes>,
    names: Vec<u64>,
}

impl Routes {
    /// `lanes` is at least 1.
    pub(super) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { lanes, held: Mutex::default() })
    }

    /// The lane of a request, in which what it names is kept.
    pub(super) fn route(self: &Arc<Self>, request: &Request) -> (usize, Route) {
        let needs = needs(request);
        let id = |id: &SessionId| hash(&["id", id.as_str()]);
        let bare = |id: &SessionId| hash(&["bare", id.as_str()]);
        let user = |app: &AppName, user: &UserId| hash(&["user", app.as_str(), user.as_str()]);
        let is_of_user = needs.mode(ScopeKind::Application) == Mode::Observe;
        let spread = |app: &AppName, user: Option<u64>| {
            user.filter(|_| is_of_user).unwrap_or_else(|| hash(&["app", app.as_str()]))
        };
        // What is kept, what is followed, and what decides if nothing is in flight. Other users may have sessions of the same id: an
        // address follows only what may mean them all.
        let (names, follows, free) = match needs.address {
            // A sweep.
            None => (vec![], vec![], 0),
            Some(Address::Bare(session, _)) => {
                (vec![bare(session)], vec![bare(session), id(session)], bare(session))
            }
            Some(Address::Wide(scope)) => {
                let user = scope.user_id().map(|it| user(scope.app_name(), it));
                (Vec::from_iter(user), Vec::from_iter(user), spread(scope.app_name(), user))
            }
            Some(Address::Session(key)) => {
                let (app, session) = (&key.app_name, &key.session_id);
                let user = user(app, &key.user_id);
                (vec![user, id(session)], vec![user, bare(session)], spread(app, Some(user)))
            }
        };
        let mut held = self.lock();
        let in_lane = follows.iter().find_map(|name| held.get(name));
        let lane = in_lane.map_or(self.lane(free), |in_lane| in_lane.lane);
        for name in &names {
            held.entry(*name).or_insert(InLane { lane, requests: 0 }).requests += 1;
        }
        (lane, Route { routes: Arc::clone(self), names })
    }

    fn lane(&self, hash: u64) -> usize {
        usize::try_from(hash % self.lanes as u64).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, InLane>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(names: &[&str]) -> u64 {
    // No name has a NUL.
    xxh3_64(names.join("\0").as_bytes())
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut held = self.routes.lock();
        for name in &self.names {
            if let Some(in_lane) = held.get_mut(name) {
                in_lane.requests -= 1;
                if in_lane.requests == 0 {
                    held.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bare::Bare, write::needed::Needed};
    use sessiond_core::{
        commit::Append,
        domain::{delta::Delta, permission::Visibility, precondition::Condition},
    };
    use sessiond_store::tests::{change, one, rewind, user_scope};

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
        assert_eq!(routes.lock().len(), 2);
        drop(second);
        assert!(routes.lock().is_empty());
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
            assert_eq!(routes.route(request).0, routes.lane(hash(&["app", "a"])), "{request:?}");
            let needed = Needed::of(&[needs], &Bare::default());
            assert!(needed.scopes.contains(&Node::application(&AppName::new("a").unwrap())));
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
