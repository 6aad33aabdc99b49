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
    writer::Writer,
};
use sessiond_store::group::{GROUP_BYTES, Submission, execute, refuse};

pub(super) struct Lane {
    shared: Arc<Shared>,
    inbox: Arc<Inbox<Submission>>,
    writer: Writer,
}

impl Lane {
    /// `commits` counts those of all lanes.
    pub(super) fn new(
        shared: Arc<Shared>,
        inbox: Arc<Inbox<Submission>>,
        commits: Arc<AtomicU64>,
    ) -> Self {
        let writer = Writer::new(Arc::clone(&shared), commits);
        Self { shared, inbox, writer }
    }

    /// Serves until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let max = self.shared.options.group_requests.max(1);
        let mut group = Vec::new();
        // Requests that are left, to be loaded again, are the first of the next group.
        while self.inbox.take(&mut group, max, GROUP_BYTES).await || !group.is_empty() {
            self.serve(&mut group).await;
        }
        self.writer.close().await;
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
            self.inbox.queue.take(group, usize::MAX, usize::MAX, false);
            refuse(metrics, group.drain(..), &Error::StoreUnavailable(Cause::new(failure)));
        }
    }
}
