//! A lane: a thread that takes the requests that wait and executes them as one group.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicU64},
};

use futures_util::FutureExt as _;
use tracing::error;

use super::{
    super::{prelude::*, shared::Shared},
    disk,
    inbox::Inbox,
    routes::Route,
    writer::Writer,
};
use crate::store::group::{GROUP_BYTES, Submission, execute, refuse};

/// A request in a lane's queue, with what keeps its user's later requests in this lane.
pub(in super::super) type Queued = (Submission, Route);

pub(super) struct Lane {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<Queued>>,
    writer: Writer,
}

impl Lane {
    /// `commits` counts those of all lanes.
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox<Queued>>,
        commits: Arc<AtomicU64>,
    ) -> Self {
        let writer = Writer::new(Arc::clone(&shared), commits);
        Self { shared, inbox, writer }
    }

    /// Serves until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let max = self.shared.options.group_requests.max(1);
        let (mut group, mut routes, mut queued) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let (wait, vacant) = (group.is_empty(), max.saturating_sub(group.len()));
            let more = self.inbox.take(&mut queued, vacant, GROUP_BYTES, wait).await;
            for (submission, route) in queued.drain(..) {
                group.push(submission);
                routes.push(route);
            }
            if !group.is_empty() {
                self.serve(&mut group).await;
                // Requests that are left, to be loaded again, hold their users here. The others let go of theirs.
                routes = Route::renew(&routes, &group);
            } else if !more {
                return self.writer.close().await;
            }
        }
    }

    async fn serve(&mut self, group: &mut Vec<Submission>) {
        disk::admit(&self.shared, group);
        if group.is_empty() {
            return;
        }
        self.writer.begin_group();
        let metrics = &self.shared.options.metrics.writes;
        let work = execute(&mut self.writer, group, &self.shared.notifier, metrics);
        let executed = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            self.writer.disconnect();
            Err(Error::internal("a lane panicked"))
        });
        let Err(failure) = executed else { return };
        if failure == Error::DiskFull {
            disk::became_full(&self.shared);
            return;
        }
        error!(error = %failure, "a group of writes failed");
        if !self.writer.is_connected() {
            // Those who wait have waited as well. The next attempt is made for the next request.
            let mut queued = Vec::new();
            self.inbox.take(&mut queued, usize::MAX, usize::MAX, false).await;
            let waiting = queued.into_iter().map(|(submission, _)| submission);
            let unreachable = Error::StoreUnavailable(Cause::new(failure));
            refuse(metrics, group.drain(..).chain(waiting), &unreachable);
        }
    }
}
