//! The lane of each request.
//!
//! The requests of a user stay in one lane as long as one of them is in flight, so that they take effect in the order in which they
//! came. Otherwise those that change or check an application's key go to the lane of the application, where they wait in a queue instead
//! of for each other's locks, and the rest are spread by user.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use xxhash_rust::xxh3::xxh3_64;

use super::prelude::*;
use crate::{
    commit::{Address, Mode, Request, needs},
    store::group::Submission,
};

type User = (AppName, UserId);

/// The users with requests in flight.
pub(super) struct Routes {
    lanes: usize,
    held: Mutex<HashMap<User, Held>>,
}

struct Held {
    lane: usize,
    requests: usize,
}

/// Keeps the user of a request in its lane until it is dropped.
pub(super) struct Route {
    routes: Arc<Routes>,
    user: Option<User>,
}

impl Routes {
    /// `lanes` is at least 1.
    pub(super) fn new(lanes: usize) -> Arc<Self> {
        Arc::new(Self { lanes, held: Mutex::default() })
    }

    /// The lane of a request, in which its user is kept.
    pub(super) fn route(self: &Arc<Self>, request: &Request) -> (usize, Route) {
        let needs = needs(request);
        let (app, user) = match needs.address {
            // A sweep.
            None => return self.unkept(0),
            Some(Address::Bare(id, _)) => return self.unkept(self.lane(&[id.as_str()])),
            Some(Address::Wide(scope)) => (scope.app_name(), scope.user_id()),
            Some(Address::Session(key)) => (&key.app_name, Some(&key.user_id)),
        };
        let of_app = self.lane(&[app.as_str()]);
        let Some(user) = user else { return self.unkept(of_app) };
        let free = match needs.mode(ScopeKind::Application) {
            Mode::Write | Mode::Check => of_app,
            Mode::Observe => self.lane(&[app.as_str(), user.as_str()]),
        };
        let user = (app.clone(), user.clone());
        let mut all = self.lock();
        let held = all.entry(user.clone()).or_insert(Held { lane: free, requests: 0 });
        held.requests += 1;
        (held.lane, Route { routes: Arc::clone(self), user: Some(user) })
    }

    fn unkept(self: &Arc<Self>, lane: usize) -> (usize, Route) {
        (lane, Route { routes: Arc::clone(self), user: None })
    }

    fn lane(&self, names: &[&str]) -> usize {
        // No name has a NUL.
        let hash = xxh3_64(names.join("\0").as_bytes());
        usize::try_from(hash % self.lanes as u64).unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<User, Held>> {
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
        let Some(user) = &self.user else { return };
        let mut all = self.routes.lock();
        if let Some(held) = all.get_mut(user) {
            held.requests -= 1;
            if held.requests == 0 {
                all.remove(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let request = Request::Delete(key("u"));
        let (lane, first) = routes.route(&request);
        let (again, second) = routes.route(&request);
        assert_eq!(lane, again);
        drop(first);
        assert_eq!(routes.lock().len(), 1);
        drop(second);
        assert!(routes.lock().is_empty());
    }

    #[test]
    fn users_are_spread_and_sweeps_are_not() {
        let routes = Routes::new(4);
        let lane = |at: usize| routes.route(&Request::Delete(key(&at.to_string()))).0;
        let lanes: std::collections::BTreeSet<usize> = (0..100).map(lane).collect();
        assert_eq!(lanes.len(), 4);
        assert_eq!(routes.route(&Request::Sweep).0, 0);
    }
}
