//! The bound of open connections. It leaves file descriptors for the store, which cannot do without. At the bound, connections that have
//! shown nothing are closed, so that strangers who connect and wait do not keep clients away.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
    time::{Instant, timeout},
};

use crate::{
    metrics::{ConnectionMetrics, GaugeShare},
    store::instant,
};

/// File descriptors for everything that is no connection and not of the store: files that are read again, the admin listener, traces, the
/// log.
const OTHER_DESCRIPTORS: u64 = 256;

/// The fewest connections that a server takes, also where that leaves too few file descriptors for the store.
const FEWEST: u64 = 16;

/// Refusals are logged this often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long a connection that was ended may take to give its place away.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// Whether a connection has had a whole request, with a credential where the server asks for one.
pub type IsKnown = Arc<AtomicBool>;

pub struct ConnectionLimit {
    most: usize,
    /// The open ones, the oldest first, and some that have ended.
    open: VecDeque<(AbortHandle, IsKnown)>,
    permits: Arc<Semaphore>,
    metrics: ConnectionMetrics,
    logged: Option<Instant>,
}

pub struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    _open: GaugeShare,
}

impl ConnectionLimit {
    pub fn new(most: usize, metrics: ConnectionMetrics) -> Self {
        let (open, permits) = (VecDeque::new(), Arc::new(Semaphore::new(most)));
        Self { most, open, permits, metrics, logged: None }
    }

    /// A permit for a connection that was accepted, if one is free or can be made free.
    pub async fn permit(&mut self) -> Option<ConnectionPermit> {
        let mut permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        if permit.is_none() && self.end_stranger() {
            let freed = timeout(END_TIMEOUT, Arc::clone(&self.permits).acquire_owned());
            permit = freed.await.ok().and_then(Result::ok);
        }
        if let Some(permit) = permit {
            let open = GaugeShare::new(&self.metrics.open, 1);
            return Some(ConnectionPermit { _permit: permit, _open: open });
        }
        self.metrics.refused.inc();
        let now = instant();
        if self.logged.is_none_or(|logged| now >= logged + LOG_INTERVAL) {
            self.logged = Some(now);
            tracing::warn!(
                connections = self.most,
                "refusing connections: as many are open as --max-connections or the limit of open files allows"
            );
        }
        None
    }

    /// Notes a connection that has a permit.
    pub fn opened(&mut self, task: AbortHandle, is_known: IsKnown) {
        if self.open.len() >= 2 * self.most {
            self.open.retain(|(task, _)| !task.is_finished());
        }
        self.open.push_back((task, is_known));
    }

    /// Ends the oldest connection that has shown nothing. Whether there was one.
    fn end_stranger(&mut self) -> bool {
        self.open.retain(|(task, _)| !task.is_finished());
        let oldest = self.open.iter().position(|(_, is_known)| !is_known.load(Relaxed));
        let ended = oldest.and_then(|at| self.open.remove(at));
        ended.inspect(|(task, _)| task.abort()).is_some()
    }
}

/// As many of the wanted connections as file descriptors are left for, beside those of the store. Raises the limit of the process as far
/// as it may.
pub fn within_descriptors(wanted: u32, store: u64) -> usize {
    let kept = OTHER_DESCRIPTORS + store;
    let needed = u64::from(wanted) + kept;
    let limit = raised(getrlimit(Resource::Nofile), needed);
    let connections = connections(wanted, kept, limit);
    if connections < u64::from(wanted) {
        tracing::warn!(
            connections,
            max_connections = wanted,
            open_files = limit,
            "the limit of open files allows fewer connections than --max-connections: raise it (ulimit -n, LimitNOFILE) to {needed}",
        );
    }
    usize::try_from(connections).unwrap_or(usize::MAX)
}

/// Raises the limit of open files if that is needed and allowed. Returns the limit; `None`: there is no limit.
fn raised(limit: Rlimit, needed: u64) -> Option<u64> {
    let current = limit.current?;
    if current >= needed {
        return Some(current);
    }
    let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    // A limit that may not be raised stays as it was.
    let done = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
    Some(if done.is_ok() { raised } else { current })
}

fn connections(wanted: u32, kept: u64, limit: Option<u64>) -> u64 {
    let wanted = u64::from(wanted);
    limit.map_or(wanted, |limit| limit.saturating_sub(kept).max(FEWEST).min(wanted))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn a_permit_is_given_back() {
        let metrics = Metrics::default().connections.clone();
        let mut limit = ConnectionLimit::new(2, metrics.clone());
        let first = limit.permit().await.unwrap();
        let _second = limit.permit().await.unwrap();
        assert!(limit.permit().await.is_none());
        assert_eq!((metrics.open.get(), metrics.refused.get()), (2, 1));
        drop(first);
        let _third = limit.permit().await.unwrap();
        assert!(limit.permit().await.is_none());
        assert_eq!((metrics.open.get(), metrics.refused.get()), (2, 2));
    }

    #[tokio::test]
    async fn the_oldest_connection_that_has_shown_nothing_makes_place() {
        let mut limit = ConnectionLimit::new(3, Metrics::default().connections.clone());
        let mut tasks = Vec::new();
        for is_known in [true, false, false] {
            let permit = limit.permit().await.unwrap();
            let task = tokio::spawn(async move {
                let _permit = permit;
                std::future::pending::<()>().await;
            });
            limit.opened(task.abort_handle(), Arc::new(AtomicBool::new(is_known)));
            tasks.push(task);
        }
        let permit = limit.permit().await.unwrap();
        assert!(tasks.remove(1).await.unwrap_err().is_cancelled());
        let _further = limit.permit().await.unwrap();
        assert!(tasks.remove(1).await.unwrap_err().is_cancelled());
        assert!(limit.permit().await.is_none());
        assert!(!tasks[0].is_finished());
        drop(permit);
        assert!(limit.permit().await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_logged_once_a_minute() {
        let mut limit = ConnectionLimit::new(0, Metrics::default().connections.clone());
        let mut logged = Vec::new();
        for _ in 0..5 {
            let before = limit.logged;
            assert!(limit.permit().await.is_none());
            logged.push(limit.logged != before);
            advance(LOG_INTERVAL / 2).await;
        }
        assert_eq!(logged, [true, false, true, false, true]);
    }

    #[test]
    fn the_store_keeps_its_descriptors() {
        assert_eq!(connections(10_000, 264, Some(20_000)), 10_000);
        assert_eq!(connections(10_000, 264, Some(1_024)), 760);
        assert_eq!(connections(10_000, 264, Some(256)), FEWEST);
        assert_eq!(connections(3, 264, Some(256)), 3);
        assert_eq!(connections(10_000, 264, None), 10_000);
    }

    #[test]
    fn the_limit_of_the_process_is_raised_as_far_as_needed() {
        let before = getrlimit(Resource::Nofile);
        let (current, maximum) = (before.current.unwrap(), before.maximum);
        assert_eq!(raised(before, current), Some(current));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(current), "it is enough");
        let more = maximum.map_or(current + 1, |maximum| maximum.min(current + 1));
        assert_eq!(raised(before, more), Some(more));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(more));
        let most = raised(getrlimit(Resource::Nofile), u64::MAX);
        assert!(most >= Some(more) && getrlimit(Resource::Nofile).current == most);
    }
}
