//! Limits of each caller and of each application, so that the flood of one does not hold up the others.

mod rate;

use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::{Arc, Mutex},
};

use rate::{Appends, lock};
use sessiond_access::Principal;
use sessiond_core::domain::{
    error::{Error, Limited},
    id::AppName,
};

/// Limits of one replica; `None`: as many as there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitOptions {
    /// Events a second that each caller may append.
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

/// The limits in force, by caller and by application.
pub(super) struct Limits {
    principal_appends: Option<Appends>,
    application_appends: Option<Appends>,
    principal_watches: Option<Watches>,
    application_watches: Option<Watches>,
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

    /// Whether appends are limited.
    pub(super) fn count_appends(&self) -> bool {
        self.principal_appends.is_some() || self.application_appends.is_some()
    }

    /// Counts a write of some events. Errors: [`Error::RateLimited`].
    pub(super) fn write(
        &self,
        principal: &Principal,
        application: &AppName,
        events: usize,
    ) -> Result<(), Error> {
        // In this order, so that the refused flood of one caller takes nothing from the others of its application.
        self.principal_write(principal, events)?;
        self.application_write(application, events)
    }

    /// Counts a write against its caller alone.
    pub(super) fn principal_write(
        &self,
        principal: &Principal,
        events: usize,
    ) -> Result<(), Error> {
        self.principal_appends.as_ref().map_or(Ok(()), |it| it.take(principal.name(), events))
    }

    /// Counts a write against its application alone.
    pub(super) fn application_write(
        &self,
        application: &AppName,
        events: usize,
    ) -> Result<(), Error> {
        self.application_appends.as_ref().map_or(Ok(()), |it| it.take(application.as_str(), events))
    }

    /// Counts further events of a write that has passed. What follows waits longer.
    pub(super) fn charge(&self, principal: &Principal, application: &AppName, events: usize) {
        self.principal_appends.iter().for_each(|it| it.charge(principal.name(), events));
        self.application_appends.iter().for_each(|it| it.charge(application.as_str(), events));
    }

    /// Counts an open watch. Errors: [`Error::RateLimited`].
    pub(super) fn watch(
        &self,
        principal: &Principal,
        application: &AppName,
    ) -> Result<WatchPermit, Error> {
        let principals = self.principal_watches.as_ref();
        let applications = self.application_watches.as_ref();
        Ok(WatchPermit {
            _principal: principals.map(|it| it.open(principal.name())).transpose()?,
            _application: applications.map(|it| it.open(application.as_str())).transpose()?,
        })
    }

    /// Forgets those that have been quiet for long enough that nothing counts against them.
    pub(super) fn sweep(&self) {
        for appends in [&self.principal_appends, &self.application_appends].into_iter().flatten() {
            appends.sweep();
        }
    }
}

/// The number of open watches of each key. Keys without any are not kept.
type Open = Mutex<HashMap<String, u32>>;

/// The bound of open watches of each key.
struct Watches {
    what: Limited,
    limit: NonZeroU32,
    open: Arc<Open>,
}

impl Watches {
    fn new(what: Limited, limit: NonZeroU32) -> Self {
        Self { what, limit, open: Arc::default() }
    }

    fn open(&self, key: &str) -> Result<Permit, Error> {
        let mut open = lock(&self.open);
        let count = open.get(key).copied().unwrap_or_default();
        if count >= self.limit.get() {
            let (what, limit) = (self.what, self.limit.get());
            return Err(Error::RateLimited { what, limit, retry_after_millis: WATCH_RETRY_MILLIS });
        }
        open.insert(key.to_owned(), count + 1);
        drop(open);
        Ok(Permit { key: key.to_owned(), open: Arc::clone(&self.open) })
    }
}

/// The permits of an open watch. Dropping it releases them.
pub struct WatchPermit {
    _principal: Option<Permit>,
    _application: Option<Permit>,
}

struct Permit {
    key: String,
    open: Arc<Open>,
}

impl Drop for Permit {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::{rate::SECOND, *};

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

    /// Milliseconds that a refusal asks to wait; 0: it was not refused.
    fn wait(limits: &Limits, name: &str, events: usize) -> u64 {
        match limits.write(&Principal::Local, &app(name), events) {
            Ok(()) => 0,
            Err(Error::RateLimited { what, retry_after_millis, .. }) => {
                assert_eq!(what, Limited::ApplicationAppends);
                retry_after_millis
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_as_long_as_told_passes_and_not_before() {
        let limits = limits(3, 1);
        for _ in 0..3 {
            assert_eq!(wait(&limits, "a", 1), 0, "a burst of a second's");
        }
        assert_eq!(wait(&limits, "a", 1), 334, "a third of a second, rounded up");
        assert_eq!(wait(&limits, "b", 1), 0, "the flood of one leaves the others alone");
        advance(Duration::from_millis(333)).await;
        assert_eq!(wait(&limits, "a", 1), 1);
        advance(Duration::from_millis(1)).await;
        assert_eq!(wait(&limits, "a", 1), 0);
        assert!(wait(&limits, "a", 1) > 300, "refusals and waits do not add up to more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_counts_its_events_however_many() {
        let limits = limits(10, 1);
        assert_eq!(wait(&limits, "a", 4), 0);
        assert_eq!(wait(&limits, "a", 7), 100);
        assert_eq!(wait(&limits, "a", 6), 0);
        // One of more than a second's begins when the second is whole, and those behind it wait for all of it.
        assert_eq!(wait(&limits, "a", 1000), 1000);
        advance(SECOND).await;
        assert_eq!(wait(&limits, "a", 1000), 0);
        assert_eq!(wait(&limits, "a", 1), 99_100);
        advance(Duration::from_millis(99_100)).await;
        assert_eq!(wait(&limits, "a", 1), 0);
        assert_eq!(wait(&limits, "a", 1), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_a_high_limit_is_short() {
        for (limit, burst) in [(100, 100), (101, 100), (1_000, 100), (20_000, 2_000)] {
            let limits = limits(limit, 1);
            let pass = || (0..=limit).take_while(|_| wait(&limits, "a", 1) == 0).count();
            assert_eq!(pass(), burst, "of {limit} a second");
            advance(SECOND / 20).await;
            assert_eq!(pass(), limit as usize / 20, "of {limit} a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_passes_beside_single_appends() {
        let limits = limits(1_000, 1);
        while wait(&limits, "a", 1) == 0 {}
        assert_eq!(wait(&limits, "a", 100), 100, "a batch of a burst's waits for all of it");
        assert_eq!(wait(&limits, "a", 900), 0, "a larger one may take the limit of a second");
        assert_eq!(wait(&limits, "a", 1), 901);
        assert_eq!(wait(&limits, "a", 1000), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_quiet_are_forgotten() {
        let limits = limits(1, 1);
        let known = || lock(&limits.application_appends.as_ref().unwrap().used).len();
        wait(&limits, "a", 1);
        wait(&limits, "b", 5);
        limits.sweep();
        assert_eq!(known(), 2);
        advance(SECOND).await;
        limits.sweep();
        assert_eq!((known(), wait(&limits, "b", 1)), (1, 4000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_beyond_its_limit_takes_nothing_from_its_application() {
        let limits = Limits::new(LimitOptions {
            principal_appends: NonZeroU32::new(1),
            application_appends: NonZeroU32::new(2),
            ..LimitOptions::default()
        });
        limits.write(&Principal::Local, &app("a"), 1).unwrap();
        for _ in 0..10 {
            let refused = limits.write(&Principal::Local, &app("a"), 1);
            let what = Limited::PrincipalAppends;
            assert_eq!(
                refused,
                Err(Error::RateLimited { what, limit: 1, retry_after_millis: 1000 })
            );
        }
        limits.application_write(&app("a"), 1).unwrap();
        assert!(limits.application_write(&app("a"), 1).is_err());
    }

    #[test]
    fn a_watch_gives_its_permit_back() {
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
        assert!(open("a").is_err());
    }
}
