//! Threads that read, each with a connection of its own. A read sees one snapshot, and never waits for the writer.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::sync::oneshot;
use tracing::error;

use super::{lock::FileLock, prelude::*};
use sessiond_metrics::ReadMetrics;
use sessiond_store::{
    CallerId,
    queue::{QUEUE_READS, Queue, READS_FULL},
};

/// Work for a reader: it reads and answers the caller. Returns whether the connection is still good.
type Job = Box<dyn FnOnce(&Tables) -> bool + Send>;

#[derive(Clone)]
pub(super) struct Readers {
    queue: Arc<Queue<Job>>,
    /// A flush of the file failed. Readers do not hold the file's lock, because others keep them beyond the end of the store.
    flush_failed: Arc<AtomicBool>,
    pub(super) damaged: Arc<AtomicU64>,
}

impl Readers {
    /// Starts the threads. They end when [`Self::close`] has been called and nothing is left to do.
    pub(super) fn start(
        file: &Arc<FileLock>,
        threads: usize,
        metrics: &ReadMetrics,
    ) -> io::Result<(Self, Vec<JoinHandle<()>>)> {
        let waits = metrics.queue_wait.clone();
        let queue = Arc::new(Queue::<Job>::new(QUEUE_READS, usize::MAX, READS_FULL, waits));
        let start = |at| {
            let (file, queue) = (Arc::clone(file), Arc::clone(&queue));
            let thread = thread::Builder::new().name(format!("sqlite-read-{at}"));
            thread.spawn(move || {
                // At once, so that a file can still be read when it is removed.
                let mut connection = connect(&file);
                while let Some(job) = queue.pop() {
                    // A job without a connection is dropped, so that its caller gets an answer.
                    connection = connection.or_else(|| connect(&file)).filter(|it| job(it));
                }
            })
        };
        let handles = (0..threads.max(1)).map(start).collect::<io::Result<_>>()?;
        let flush_failed = Arc::clone(&file.flush_failed);
        Ok((Self { queue, flush_failed, damaged: Arc::default() }, handles))
    }

    /// Reads in one snapshot.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Tables) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (flush_failed, damaged) = (Arc::clone(&self.flush_failed), Arc::clone(&self.damaged));
        let job = Box::new(move |tables: &Tables| {
            if reply.is_closed() {
                return true;
            }
            let result = catch_unwind(AssertUnwindSafe(|| in_snapshot(tables, work)))
                .unwrap_or_else(|_| Err(Error::internal("a read panicked")));
            let result =
                if flush_failed.load(Ordering::Relaxed) { Err(Error::FileLost) } else { result };
            let failed = matches!(result, Err(Error::StoreUnavailable(_) | Error::Internal(_)));
            if failed && let Err(error) = &result {
                error!(%error, "a read failed, replacing its connection");
            }
            if let Err(error @ Error::Damaged(..)) = &result {
                let damaged_reads = damaged.fetch_add(1, Ordering::Relaxed) + 1;
                // Ever more rarely, because damage is read again and again.
                if damaged_reads.is_power_of_two() {
                    error!(%error, damaged_reads, "a read met damage: run `sessiond verify`");
                }
            }
            // The caller may have gone, which is fine.
            let _ = reply.send(result);
            !failed
        });
        self.queue.push(CallerId::INTERNAL, job, 0)?;
        let gone = || Error::StoreUnavailable(Cause::new("the reader ended before it answered"));
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.waiting().0
    }

    pub(super) fn close(&self) {
        self.queue.close();
    }
}

fn connect(file: &FileLock) -> Option<Tables> {
    let opened = Tables::reader(&file.path).map_err(driver);
    // Not another file that has come in its place.
    let opened = opened.and_then(|tables| file.check().map(|()| tables));
    opened.inspect_err(|error| error!(%error, "opening a connection for reading failed")).ok()
}

fn in_snapshot<T>(tables: &Tables, work: impl FnOnce(&Tables) -> Result<T>) -> Result<T> {
    tables.run("BEGIN DEFERRED", ())?;
    let result = work(tables);
    // COMMIT would fail after a damaged page, also where the read went on without it.
    let ended = tables.run("ROLLBACK", ());
    let value = result?;
    ended?;
    Ok(value)
}
