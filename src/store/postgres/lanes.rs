//! All lanes of a store: a request goes into the queue of one, and waits for its answer.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicU64};

use tokio::{sync::oneshot, task::JoinHandle};
use tracing::error;

use super::{
    inbox::Inbox,
    lane::{Lane, Queued},
    prelude::*,
    routes::Routes,
    shared::Shared,
};
use crate::{
    commit::{Answer, Request},
    domain::error::Bounded,
    store::{
        RequestContext,
        group::{Submission, abandoned},
    },
};

/// Milliseconds after which a retry makes sense when a queue is full: the time that a full queue takes.
const RETRY_AFTER_MILLIS: u64 = 200;

/// Bytes of bodies and deltas of all writes that wait: some twenty of the largest batches.
const QUEUE_BYTES: usize = 64 << 20;

/// Dropping it completes what was accepted, without waiting for that. [`Lanes::close`] waits.
pub(super) struct Lanes {
    inboxes: Vec<Arc<Inbox<Queued>>>,
    routes: Arc<Routes>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Lanes {
    /// Starts the tasks. They connect when the first request comes.
    pub(super) fn start(shared: &Arc<Shared>) -> Self {
        let count = shared.options.settings.writers.max(1);
        let max_requests = shared.options.queue_requests.div_ceil(count);
        let full =
            Error::Overloaded { what: Bounded::WriteQueue, retry_after_millis: RETRY_AFTER_MILLIS };
        let waits = &shared.options.metrics.writes.queue_wait;
        let inbox = || {
            let bytes = QUEUE_BYTES / count;
            Arc::new(Inbox::new(max_requests, bytes, full.clone(), waits.clone()))
        };
        let inboxes: Vec<_> = std::iter::repeat_with(inbox).take(count).collect();
        let commits = Arc::new(AtomicU64::new(0));
        let lane = |inbox: &Arc<Inbox<Queued>>| {
            let lane = Lane::new(Arc::clone(shared), Arc::clone(inbox), Arc::clone(&commits));
            tokio::spawn(lane.run())
        };
        let tasks = Mutex::new(inboxes.iter().map(lane).collect());
        Self { inboxes, routes: Routes::new(count), tasks }
    }

    pub(super) fn inboxes(&self) -> &[Arc<Inbox<Queued>>] {
        &self.inboxes
    }

    /// Decides a request and commits what it changes.
    pub(super) async fn commit(
        &self,
        context: &RequestContext,
        request: Request,
    ) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let bytes = request.bytes();
        let (lane, route) = self.routes.route(&request);
        let submission = Submission { context: context.clone(), request, reply };
        self.inboxes[lane].push((submission, route), bytes)?;
        // A lane answers everything unless it ends in the middle of something.
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    /// Completes what was accepted. It is refused where the database cannot be reached.
    pub(super) async fn close(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.close());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if task.await.is_err() {
                error!("a lane panicked");
            }
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.inboxes.iter().for_each(|inbox| inbox.close());
    }
}
