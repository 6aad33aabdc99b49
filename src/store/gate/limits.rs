//! Limits of each caller and of each application, so that the flood of one leaves room for the others.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use governor::{
    DefaultKeyedRateLimiter, Quota, RateLimiter,
    clock::{Clock as _, DefaultClock},
};

use crate::{
    access::Principal,
    domain::{
        error::{Error, Limited},
        id::AppName,
    },
};

/// Limits of one replica; `None`: as many as there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitOptions {
    /// Events a second that each caller may append, in bursts of as many.
    pub principal_appends: Option<NonZeroU32>,
    /// The same for each application.
    pub application_appends: Option<NonZeroU32>,
    /// Watches that each caller may have open.
    pub principal_watches: Option<NonZeroU32>,
    /// The same for each application.
    pub application_watches: Option<NonZeroU32>,
}

/// Milliseconds after which it makes sense to try again to open a watch: somebody has to close one.
const WATCH_RETRY_MILLIS: u64 = 10_000;

/// What is limited, by caller and by application.
pub(super) struct Limits {
    principal_appends: Option<Appends<String>>,
    application_appends: Option<Appends<AppName>>,
    principal_watches: Option<Watches<String>>,
    application_watches: Option<Watches<AppName>>,
}

impl Limits {
    pub(super) fn new(options: LimitOptions) -> Self {
        let LimitOptions {
            principal_appends,
            application_appends,
            principal_watches,
            application_watches,
        } = options;
        Self {
            principal_appends: principal_appends
                .map(|limit| Appends::new(Limited::PrincipalAppends, limit)),
            application_appends: application_appends
                .map(|limit| Appends::new(Limited::ApplicationAppends, limit)),
            principal_watches: principal_watches
                .map(|limit| Watches::new(Limited::PrincipalWatches, limit)),
            application_watches: application_watches
                .map(|limit| Watches::new(Limited::ApplicationWatches, limit)),
        }
    }

    /// Whether it has to be known of which application a write is.
    pub(super) fn ask_application(&self) -> bool {
        self.application_appends.is_some()
    }

    /// Counts a write of some events. Errors: [`Error::RateLimited`].
    pub(super) fn write(
        &self,
        principal: &Principal,
        application: Option<&AppName>,
        events: usize,
    ) -> Result<(), Error> {
        if let Some(appends) = &self.principal_appends {
            appends.take(&principal.to_string(), events)?;
        }
        if let (Some(appends), Some(application)) = (&self.application_appends, application) {
            appends.take(application, events)?;
        }
        Ok(())
    }

    /// Counts an open watch. Errors: [`Error::RateLimited`].
    pub(super) fn watch(
        &self,
        principal: &Principal,
        application: &AppName,
    ) -> Result<WatchPlace, Error> {
        let principals = self.principal_watches.as_ref();
        let applications = self.application_watches.as_ref();
        Ok(WatchPlace {
            _principal: principals.map(|it| it.open(principal.to_string())).transpose()?,
            _application: applications.map(|it| it.open(application.clone())).transpose()?,
        })
    }

    /// Forgets those that have been quiet for long enough that nothing counts against them.
    pub(super) fn sweep(&self) {
        if let Some(appends) = &self.principal_appends {
            appends.sweep();
        }
        if let Some(appends) = &self.application_appends {
            appends.sweep();
        }
    }
}

/// Appends a second of each key.
struct Appends<K: Hash + Eq + Clone> {
    what: Limited,
    limit: NonZeroU32,
    limiter: DefaultKeyedRateLimiter<K>,
}

impl<K: Hash + Eq + Clone> Appends<K> {
    fn new(what: Limited, limit: NonZeroU32) -> Self {
        Self { what, limit, limiter: RateLimiter::keyed(Quota::per_second(limit)) }
    }

    /// More events than a second has take all of that second.
    fn take(&self, key: &K, events: usize) -> Result<(), Error> {
        let events = u32::try_from(events).unwrap_or(u32::MAX).min(self.limit.get());
        let events = NonZeroU32::new(events).unwrap_or(NonZeroU32::MIN);
        let Ok(Err(not_until)) = self.limiter.check_key_n(key, events) else { return Ok(()) };
        let wait = not_until.wait_time_from(DefaultClock::default().now());
        Err(Error::RateLimited {
            what: self.what,
            limit: self.limit.get(),
            retry_after_millis: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1),
        })
    }

    fn sweep(&self) {
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

/// Open watches of each key. Keys without any are not kept.
struct Watches<K> {
    what: Limited,
    limit: NonZeroU32,
    open: Arc<Mutex<HashMap<K, u32>>>,
}

impl<K: Hash + Eq + Clone> Watches<K> {
    fn new(what: Limited, limit: NonZeroU32) -> Self {
        Self { what, limit, open: Arc::default() }
    }

    fn open(&self, key: K) -> Result<Place<K>, Error> {
        let mut open = lock(&self.open);
        let count = open.entry(key.clone()).or_default();
        if *count >= self.limit.get() {
            let (what, limit) = (self.what, self.limit.get());
            return Err(Error::RateLimited { what, limit, retry_after_millis: WATCH_RETRY_MILLIS });
        }
        *count += 1;
        drop(open);
        Ok(Place { key, open: Arc::clone(&self.open) })
    }
}

/// The places of an open watch. Dropping it gives them back.
pub struct WatchPlace {
    _principal: Option<Place<String>>,
    _application: Option<Place<AppName>>,
}

struct Place<K: Hash + Eq> {
    key: K,
    open: Arc<Mutex<HashMap<K, u32>>>,
}

impl<K: Hash + Eq> Drop for Place<K> {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.key);
            }
        }
    }
}

fn lock<K>(open: &Mutex<HashMap<K, u32>>) -> MutexGuard<'_, HashMap<K, u32>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str) -> AppName {
        AppName::new(name).unwrap()
    }

    fn limits(appends: u32, watches: u32) -> Limits {
        Limits::new(LimitOptions {
            principal_appends: None,
            application_appends: NonZeroU32::new(appends),
            principal_watches: None,
            application_watches: NonZeroU32::new(watches),
        })
    }

    #[test]
    fn one_applications_flood_leaves_the_others_alone() {
        let limits = limits(1, 1);
        let write = |name, events| limits.write(&Principal::Local, Some(&app(name)), events);
        write("a", 1).unwrap();
        let Err(Error::RateLimited { what, limit, retry_after_millis }) = write("a", 1) else {
            panic!("not limited");
        };
        assert_eq!((what, limit), (Limited::ApplicationAppends, 1));
        assert!((1..=1000).contains(&retry_after_millis), "{retry_after_millis}");
        // A batch of more than a second's is taken when the second is whole.
        write("b", 1000).unwrap();
        assert!(write("b", 1).is_err());
        // Nobody is limited by what is not known.
        limits.write(&Principal::Local, None, 1).unwrap();
    }

    #[test]
    fn a_watch_gives_its_place_back() {
        let limits = limits(1, 2);
        let open = |name| limits.watch(&Principal::Local, &app(name));
        let first = open("a").unwrap();
        let _second = open("a").unwrap();
        assert!(matches!(
            open("a").map(drop),
            Err(Error::RateLimited { what: Limited::ApplicationWatches, limit: 2, .. })
        ));
        let _other = open("b").unwrap();
        drop(first);
        let _third = open("a").unwrap();
    }
}
