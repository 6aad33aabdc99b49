//! How far watches are behind what has been committed since they began, in wakes of their scopes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use futures_util::FutureExt as _;

use crate::{
    metrics::{GaugeShare, IntGauge, Metrics},
    store::Subscription,
};

pub struct Lags {
    /// By their addresses.
    watches: Mutex<HashMap<usize, Arc<Progress>>>,
    open: IntGauge,
}

struct Progress {
    subscriptions: Vec<Subscription>,
    /// The wakes of all of its scopes together, up to those whose commits have been delivered.
    delivered: AtomicU64,
}

pub struct LagShare {
    lags: Arc<Lags>,
    progress: Arc<Progress>,
    _open: GaugeShare,
}

fn wakes(subscriptions: &[Subscription]) -> u64 {
    subscriptions.iter().map(|it| *it.borrow()).sum()
}

impl Lags {
    /// Their number and the lag of the slowest are gauges.
    pub fn measured(metrics: &Metrics) -> Arc<Self> {
        let (open, lag_commits) =
            (metrics.watches.open.clone(), metrics.watches.lag_commits.clone());
        let lags = Arc::new(Self { watches: Mutex::default(), open });
        let weak = Arc::downgrade(&lags);
        metrics.probe("watches", move || {
            let slowest = weak.upgrade().map_or(0, |lags| lags.slowest());
            lag_commits.set(i64::try_from(slowest).unwrap_or(i64::MAX));
            async {}.boxed()
        });
        lags
    }

    pub fn begin(self: &Arc<Self>, subscriptions: &[Subscription]) -> LagShare {
        let delivered = AtomicU64::new(wakes(subscriptions));
        let progress = Arc::new(Progress { subscriptions: subscriptions.to_vec(), delivered });
        self.lock().insert(Arc::as_ptr(&progress).addr(), Arc::clone(&progress));
        LagShare { lags: Arc::clone(self), progress, _open: GaugeShare::new(&self.open, 1) }
    }

    fn slowest(&self) -> u64 {
        let lag = |it: &Arc<Progress>| {
            wakes(&it.subscriptions).saturating_sub(it.delivered.load(Relaxed))
        };
        self.lock().values().map(lag).max().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Arc<Progress>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LagShare {
    /// Everything up to this number of wakes has been delivered.
    pub fn delivered(&self, wakes: u64) {
        self.progress.delivered.store(wakes, Relaxed);
    }
}

impl Drop for LagShare {
    fn drop(&mut self) {
        self.lags.lock().remove(&Arc::as_ptr(&self.progress).addr());
    }
}
