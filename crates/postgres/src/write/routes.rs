//! The lane of each request.
//!
//! The requests of a user stay in one lane as long as one of them is in flight, so that they take effect in the order in which they
//! came. Otherwise those that change or check an application's key go to the lane of the application, where they wait in a queue instead of
//! for each other's locks, and the rest to that of the user. The lane of either is that of its place: each lane has a range of places, so
//! that a group touches few partitions.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::super::prelude::*;
use sessiond_core::{
    commit::{Address, Mode, Request, read_set},
    domain::token::Digest,
};
use sessiond_store::place::{PLACES, place_of};

/// The lanes of users that have requests in flight, by the hash of their names: those of the same hash share a lane.
pub(super) struct Routes {
    lanes: usize,
    held: Mutex<HashMap<Digest, InLane>>,
}

struct InLane {
    lane: usize,
    requests: usize,
}

/// Keeps a user in its lane until it is dropped.
pub(in super::super) struct Route {
    routes: Arc<Routes>,
    user: Option<Digest>,
}

impl Routes {
    /// `lanes` is at least 1.
    pub(super) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { lanes, held: Mutex::default() })
    }

    /// The lane of a request, in which its user is kept.
    pub(super) fn route(self: &Arc<Self>, request: &Request) -> (usize, Route) {
        let needs = read_set(request);
        let (app, user) = match needs.address {
            // A sweep.
            None => (None, None),
            Some(Address::Shared(scope)) => (Some(scope.app_name()), scope.user_id()),
            Some(Address::Session(key)) => (Some(&key.app_name), Some(&key.user_id)),
        };
        let app = app.map_or("", AppName::as_str);
        let is_of_user = needs.mode(ScopeKind::Application) == Mode::Observe;
        let of = user.filter(|_| is_of_user).map_or("", UserId::as_str);
        let mut lane = self.lane([app, of]);
        let user = user.map(|user| Digest::of_texts(&[app, user.as_str()]));
        if let Some(user) = user {
            let mut held = self.lock();
            let in_lane = held.entry(user).or_insert(InLane { lane, requests: 0 });
            in_lane.requests += 1;
            lane = in_lane.lane;
        }
        (lane, Route { routes: Arc::clone(self), user })
    }

    fn lane(&self, name: [&str; 2]) -> usize {
        usize::try_from(place_of(&name)).unwrap_or(0) * self.lanes / usize::from(PLACES)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, InLane>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut held = self.routes.lock();
        if let Some(user) = self.user
            && let Some(in_lane) = held.get_mut(&user)
        {
            in_lane.requests -= 1;
            if in_lane.requests == 0 {
                held.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::needed::Needed;
    use sessiond_core::domain::{delta::Delta, precondition::Condition};
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
        assert_eq!(routes.lock().len(), 1);
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
            let needs = read_set(request);
            assert_eq!(needs.mode(ScopeKind::Application), Mode::Check, "{request:?}");
            let routes = Routes::new(1 << 16);
            assert_eq!(routes.route(request).0, routes.lane(["a", ""]), "{request:?}");
            let needed = Needed::of(&[needs]);
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
    fn users_are_spread_and_sweeps_are_in_one_lane() {
        let routes = Routes::new(4);
        let lane = |at: usize| routes.route(&Request::Delete(key(&at.to_string()).into())).0;
        let lanes: std::collections::BTreeSet<usize> = (0..100).map(lane).collect();
        assert_eq!(lanes.len(), 4);
        assert_eq!(routes.route(&Request::Sweep).0, routes.lane(["", ""]));
    }
}
