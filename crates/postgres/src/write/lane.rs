//! A lane: a thread that takes the requests that wait and executes them as one group.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tracing::error;

use super::{
    super::{prelude::*, shared::Shared},
    disk,
    writer::Writer,
};
use sessiond_store::{
    CallerId,
    group::{GROUP_BYTES, Submission, execute, put_back, refuse},
    queue::Queue,
};

/// The bounded queue of a lane.
pub(in super::super) struct Inbox {
    pub(in super::super) queue: Queue<Submission>,
    /// Keeps one permit, so that what is pushed before the lane waits is not missed.
    pub(super) filled: Notify,
}

impl Inbox {
    /// Accepts or refuses a request of this size.
    pub(super) fn push(
        &self,
        caller: CallerId,
        request: Submission,
        bytes: usize,
    ) -> Result<(), Error> {
        self.queue.push(caller, request, bytes)?;
        self.filled.notify_one();
        Ok(())
    }

    /// Moves what is there into an empty group, and waits for a request if nothing is. Returns false once the queue is closed and empty.
    async fn take(&self, group: &mut Vec<Submission>, max_requests: usize) -> bool {
        loop {
            let more = self.queue.take(group, max_requests, GROUP_BYTES, false);
            if !more || !group.is_empty() {
                return more;
            }
            self.filled.notified().await;
        }
    }

    pub(super) fn close(&self) {
        self.queue.close();
        self.filled.notify_one();
    }
}

pub(super) struct Lane {
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) writer: Writer,
}

impl Lane {
    /// Serves until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let max = self.shared.options.group_requests.max(1);
        let mut group = Vec::new();
        while self.inbox.take(&mut group, max).await || !group.is_empty() {
            self.serve(&mut group).await;
            put_back(&self.inbox.queue, &mut group);
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
        let charge = |caller, bytes| self.inbox.queue.charge(caller, bytes);
        let work = execute(&mut self.writer, group, &self.shared.notifier, metrics, &charge);
        let executed = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| {
            self.writer.disconnect();
            Err(Error::internal("a lane panicked"))
        });
        let Err(failure) = executed else { return };
        if failure == Error::DiskFull {
            disk::became_full(&self.shared);
            return;
        }
        let is_outage = matches!(failure, Error::StoreUnavailable(_) | Error::StoreBehind);
        if !is_outage || self.shared.logs_outage() {
            error!(error = %failure, "a group of writes failed");
        }
        if !self.writer.is_connected() {
            // Those who wait have waited as well. The next attempt is made for the next request.
            self.inbox.queue.take(group, usize::MAX, usize::MAX, false);
            refuse(metrics, group.drain(..), &Fault::from(failure).not_connected());
        }
    }
}
