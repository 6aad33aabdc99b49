//! All lanes of a store: a request goes into the queue of one, and waits for its answer.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    thread,
};

use tokio::{
    runtime,
    sync::{Notify, oneshot},
};
use tracing::error;

use super::{
    super::{prelude::*, shared::Shared},
    lane::{Inbox, Lane},
    routes::Routes,
    writer::Writer,
};
use sessiond_core::commit::{Answer, Request};
use sessiond_store::{
    RequestContext,
    group::{Submission, abandoned},
    queue::{Queue, WRITE_BYTES, WRITES_FULL},
};

/// Dropping it completes what was accepted, without waiting for that. [`Lanes::close`] waits.
pub(in super::super) struct Lanes {
    inboxes: Vec<Arc<Inbox>>,
    routes: Arc<Routes>,
    /// Each receives when the thread of a lane has ended, and nothing if the lane panicked.
    ends: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Lanes {
    /// Starts the threads. They connect when the first request comes.
    ///
    /// Not to be called by a task: where a thread cannot be started, its runtime is dropped, which panics there.
    pub(in super::super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let count = shared.options.settings.writers.max(1);
        let max_requests = shared.options.queue_requests.div_ceil(count);
        let waits = &shared.options.metrics.writes.queue_wait;
        let inbox = || {
            let queue = Queue::new(max_requests, WRITE_BYTES / count, WRITES_FULL, waits.clone());
            Arc::new(Inbox { queue, filled: Notify::new() })
        };
        let inboxes = std::iter::repeat_with(inbox).take(count).collect();
        let lanes = Self { inboxes, routes: Routes::new(count), ends: Mutex::default() };
        let commits = Arc::new(AtomicU64::new(0));
        let mut ends = Vec::with_capacity(count);
        for (at, inbox) in lanes.inboxes.iter().enumerate() {
            let writer = Writer::new(Arc::clone(shared), Arc::clone(&commits));
            let lane = Lane { shared: Arc::clone(shared), inbox: Arc::clone(inbox), writer };
            // A runtime of its own: in that of the server the next group would hold its locks while the lane waits behind the calls that
            // it has just answered.
            let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
            let (ended, end) = oneshot::channel();
            thread::Builder::new().name(format!("pg-lane-{at}")).spawn(move || {
                runtime.block_on(lane.run());
                // Does not wait for the look-up of an address.
                runtime.shutdown_background();
                ended.send(())
            })?;
            ends.push(end);
        }
        *lanes.ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
        Ok(lanes)
    }

    pub(in super::super) fn inboxes(&self) -> &[Arc<Inbox>] {
        &self.inboxes
    }

    /// Decides a request and commits what it changes.
    pub(in super::super) async fn commit(
        &self,
        context: &RequestContext,
        request: Request,
    ) -> Result<Answer, Error> {
        let (reply, answer) = oneshot::channel();
        let bytes = request.bytes();
        // Held until the answer, so that the user's later requests come into this lane.
        let (lane, _route) = self.routes.route(&request);
        let submission = Submission { context: context.clone(), request, reply };
        self.inboxes[lane].push(context.caller, submission, bytes)?;
        // A lane answers everything unless it ends in the middle of something.
        answer.await.unwrap_or_else(|_| Err(abandoned()))
    }

    /// Completes what was accepted. It is refused where the database cannot be reached.
    pub(in super::super) async fn close(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.close());
        let ends = std::mem::take(&mut *self.ends.lock().unwrap_or_else(PoisonError::into_inner));
        for end in ends {
            if end.await.is_err() {
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
