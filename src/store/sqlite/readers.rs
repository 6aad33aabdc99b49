//! Threads that read, each with a connection of its own. A read sees one snapshot, and never waits for the writer.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;
use tracing::error;

use super::{connection::Tables, prelude::*};
use crate::store::queue::Queue;

/// Milliseconds after which a retry makes sense when too many reads wait: what a few hundred of them take.
const RETRY_AFTER_MILLIS: u64 = 50;

/// Reads that may wait for a reader.
const QUEUE_READS: usize = 4096;

/// Work for a reader: it reads and answers the caller. Returns whether the connection is still good.
type Job = Box<dyn FnOnce(&Tables) -> bool + Send>;

/// The pool.
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
}

impl Readers {
    /// Starts the threads. They end when [`Self::close`] has been called and nothing is left to do.
    pub(super) fn start(path: &Path, threads: usize) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let full =
            Error::Overloaded { what: Bounded::ReadQueue, retry_after_millis: RETRY_AFTER_MILLIS };
        let queue = Arc::new(Queue::<Job>::new(QUEUE_READS, usize::MAX, full));
        let start = |at| {
            let (path, queue) = (path.to_path_buf(), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("sqlite-read-{at}"));
            thread.spawn(move || {
                let mut connection = None;
                while let Some(job) = queue.pop() {
                    // A job without a connection is dropped, so that its caller gets an answer.
                    connection = connection.or_else(|| connect(&path)).filter(|it| job(it));
                }
            })
        };
        let handles = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok((Self { queue }, handles))
    }

    /// Reads in one snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tables) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |tables: &Tables| {
            if reply.is_closed() {
                return true;
            }
            let result = catch_unwind(AssertUnwindSafe(|| in_snapshot(tables, work)))
                .unwrap_or_else(|_| Err(Error::internal("a read panicked")));
            let failed = matches!(result, Err(Error::StoreUnavailable(_) | Error::Internal(_)));
            if failed && let Err(error) = &result {
                error!(?error, "a read failed, replacing its connection");
            }
            // The caller may have gone, which is fine.
            let _ = reply.send(result);
            !failed
        });
        self.queue.push(job, 0)?;
        let gone = || Error::StoreUnavailable(Cause::new("the reader ended before it answered"));
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) fn close(&self) {
        self.queue.close();
    }
}

fn connect(path: &Path) -> Option<Tables> {
    let opened = Tables::reader(path);
    opened.inspect_err(|error| error!(%error, "opening a connection for reading failed")).ok()
}

fn in_snapshot<T>(
    tables: &Tables,
    work: impl FnOnce(&Tables) -> Result<T, Error>,
) -> Result<T, Error> {
    tables.run("BEGIN DEFERRED", ())?;
    let result = work(tables);
    let ended = tables.run("COMMIT", ());
    let value = result?;
    ended?;
    Ok(value)
}
